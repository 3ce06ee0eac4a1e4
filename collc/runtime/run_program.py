"""The programs of all ranks of one collective, and the file that holds them (`emit run`): `NAME.run`."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, fields
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collc.runtime.collectives import SCRATCH, MemoryLayout, memory_layout, runtime_chunks
from collc.runtime.connections import Connections, waits_of
from collc.runtime.data import Operands
from collc.runtime.operations import StepKind
from collc.runtime.replay import StepWaits

MAGIC: Final = b"collc run\n"
"""The first bytes of a file."""
VERSION: Final = 1
"""The version of the bytes after it."""

_HEAD: Final = struct.Struct("<B32sI")
"""After the first bytes: the version, the SHA-256 of all that follows the head, and the bytes of the JSON in it."""
HEAD_BYTES: Final = len(MAGIC) + _HEAD.size
"""The bytes that say what all others of a file must be."""
_ARRAYS: Final = {"chunks": ("<i8", 3), "blocks": ("<i4", 4), "steps": ("<i4", 10), "when": ("<i8", 0)}
"""The arrays of a file: their types, and their columns; 0: one number in each row."""


@dataclass(frozen=True, eq=False)
class RunProgram:
    """What all ranks execute.

    coll: the collective, as MSCCL calls it. root: rank, or -1. op: the reduction that the schedule names, "" if it has
    none. chunks_per_loop: chunks of the buffer that a call counts. in_place, out_of_place: the placements that it
    serves. sizes: the smallest and the largest buffer in bytes; 0: no largest. chunk_bytes, time_ps: bytes of a chunk
    and picoseconds, as planned. npus, labels: the NPU of each rank, and what the machine calls it, "" if not known.
    chunks: int64[ranks, 3], of input, output and scratch. blocks: int32[threadblocks, 4]: rank, the ranks to which and
    from which it sends (-1: none), channel; in order of ranks. steps: int32[steps, 10]: threadblock, kind, buffer and
    offset of source and of target, count, threadblock of the rank and step of it that it waits for (-1: none), whether
    others wait for it. when: int64[steps], the moments of the schedule in picoseconds. dtype: of elements, as NumPy and
    torch call it; "": any.
    """

    name: str
    coll: str
    root: int
    op: str
    chunks_per_loop: int
    in_place: bool
    out_of_place: bool
    sizes: tuple[int, int]
    chunk_bytes: int
    time_ps: int
    npus: tuple[str, ...]
    labels: tuple[str, ...]
    chunks: NDArray[np.int64]
    blocks: NDArray[np.int32]
    steps: NDArray[np.int32]
    when: NDArray[np.int64]
    dtype: str = ""

    @property
    def ranks(self) -> int:
        """How many there are."""
        return len(self.chunks)

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """int64[threadblocks + 1]: the first step of each."""
        return np.searchsorted(self.steps[:, 0], np.arange(len(self.blocks) + 1))

    @cached_property
    def connections(self) -> Connections:
        """The connections between threadblocks."""
        return Connections.of(*self.blocks.T)

    @cached_property
    def waits(self) -> StepWaits:
        """The waits of all steps."""
        columns = self.steps.T
        return waits_of(self.connections, self.blocks[:, 0], self.first, (*columns[:2], *columns[7:10]))

    def layout(self, *, inplace: bool) -> tuple[NDArray[np.int64], MemoryLayout]:
        """The chunks of the buffers during a call, int64[ranks, 3], and their layout in the memory of all ranks."""
        chunks = runtime_chunks(self.coll, self.chunks, self.chunks_per_loop, self.root)
        root = max(0, self.root)
        return chunks, memory_layout(self.coll, chunks, self.chunks_per_loop, inplace=inplace, root=root)

    def operands(self, *, inplace: bool) -> Operands:
        """What all steps do; slots are counted in the memory of all ranks."""
        _, kind, source_buffer, source, target_buffer, target, count, *_ = self.steps.T
        base, rank = self.layout(inplace=inplace)[1].base, self.blocks[self.steps[:, 0], 0]
        slots = (base[rank, source_buffer] + source).tolist(), (base[rank, target_buffer] + target).tolist()
        return Operands(kind.tolist(), *slots, count.tolist(), self.waits.receives, self.waits.sends)

    def to_bytes(self) -> bytes:
        """The file."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays = {name: np.ascontiguousarray(values.pop(name), _ARRAYS[name][0]) for name in _ARRAYS}
        values["rows"] = {name: len(array) for name, array in arrays.items()}
        text = json.dumps(values).encode()
        content = text + b"".join(array.tobytes() for array in arrays.values())
        return MAGIC + _HEAD.pack(VERSION, hashlib.sha256(content).digest(), len(text)) + content

    @staticmethod
    def from_bytes(data: bytes) -> RunProgram:
        """The program of a file. Raises ValueError for bytes of another kind or version, and damaged ones."""
        if not data.startswith(MAGIC) or len(data) < HEAD_BYTES:
            raise ValueError("no run file of collc, or only its beginning")
        version, digest, length = _HEAD.unpack_from(data, len(MAGIC))
        if version != VERSION:
            raise ValueError(f"a run file of version {version}; this collc reads version {VERSION}")
        content = memoryview(data)[HEAD_BYTES:]
        if hashlib.sha256(content).digest() != digest:
            raise ValueError("a damaged run file: its SHA-256 differs")
        values: dict[str, Any] = json.loads(bytes(content[:length]))
        for name, count in values.pop("rows").items():
            kind, columns = _ARRAYS[name]
            shape = (count, columns) if columns else (count,)
            values[name] = np.frombuffer(content, kind, prod(shape), length).reshape(shape)
            length += values[name].nbytes
        values |= {name: tuple(values[name]) for name in ("sizes", "npus", "labels")}
        program = RunProgram(**values)
        program._check_tables()
        return program

    def _check_tables(self) -> None:
        """Raise ValueError if rows are not in order, or name kinds, buffers, ranks or threadblocks that are not."""
        owner, kind = self.steps[:, 0], self.steps[:, 1]
        ordered = all((np.diff(column) >= 0).all() for column in (self.blocks[:, 0], owner))
        ends = ((self.blocks[:, 0], self.ranks), (owner, len(self.blocks)), (kind, len(StepKind)))
        buffers = ((self.steps[:, column], SCRATCH + 1) for column in (2, 4))
        inside = all(((column >= 0) & (column < end)).all() for column, end in (*ends, *buffers))
        if not (ordered and inside and len(self.when) == len(self.steps) and self.ranks == len(self.npus)):
            raise ValueError("a run file whose tables are inconsistent")
