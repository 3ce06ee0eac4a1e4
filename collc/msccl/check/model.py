"""The program of an MSCCL file as arrays: one row a threadblock, one row a step.

Built by `reader` alone. The numbers have the meaning that the runtimes give them (docs/msccl-contract.md, sections 2
and 3). Rows of gpus are in order of their ids, 0 .. gpus - 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np

from collc.msccl.check.findings import FileLocation
from collc.runtime.connections import Connections, waits_of
from collc.runtime.replay import UNLIMITED, Blocked, StepWaits, replay
from collc.ten.arrays import Int32Array, Int64Array

Profile = Literal["executor", "old", "rccl", "run"]
"""The runtime whose rules a file must keep; "run": collc's own, of run files alone."""

PROFILES: Final[tuple[Profile, ...]] = ("executor", "old", "rccl")


BUFFERS: Final = ("i", "o", "s")

CAPACITY: Final[dict[str, int]] = {"Simple": 2, "LL": 8, "LL128": 8}
"""Messages in flight on one connection."""
_MESSAGE_BYTES: Final[dict[str, int]] = {"Simple": 2 * 2**20, "LL": 32 * 2**10, "LL128": 576_000}
_RCCL_MESSAGE_BYTES: Final[dict[str, int]] = {"Simple": 2 * 2**20, "LL": 16 * 2**10, "LL128": 50_176}
_ONE_CHUNK_STEP: Final = ("reduce", "broadcast")
"""Collectives for which the runtimes set chunkSteps to 1 instead of 4:

with Simple, messages have a quarter of the bytes.
"""
MAX_COUNT: Final = 71


@dataclass(frozen=True, eq=False)
class Threadblocks:
    """One row a threadblock, by gpu and then by id. first: int64[rows + 1], its first step row."""

    gpu: Int32Array
    id: Int32Array
    send: Int32Array
    recv: Int32Array
    chan: Int32Array
    line: Int32Array
    column: Int32Array
    first: Int64Array

    def __len__(self) -> int:
        return len(self.gpu)


@dataclass(frozen=True, eq=False)
class Steps:
    """One row a step, by threadblock and then by position. kind: Kind values; srcbuf, dstbuf: rows of BUFFERS."""

    tb: Int32Array
    kind: Int32Array
    srcbuf: Int32Array
    srcoff: Int32Array
    dstbuf: Int32Array
    dstoff: Int32Array
    cnt: Int32Array
    depid: Int32Array
    deps: Int32Array
    hasdep: Int32Array
    s: Int32Array
    line: Int32Array
    column: Int32Array

    def __len__(self) -> int:
        return len(self.tb)


@dataclass(frozen=True, eq=False)
class FileProgram:
    """A whole file. chunks: int64[gpus, 3], i_chunks, o_chunks, s_chunks. lines, columns: of the gpu elements.

    redop: of reductions, as the file says it; "" if it does not.
    """

    name: str
    coll: str
    proto: str
    ngpus: int
    nchannels: int
    nchunksperloop: int
    min_bytes: int
    max_bytes: int
    inplace: bool
    outofplace: bool
    chunks: Int64Array
    gpu_lines: Int32Array
    gpu_columns: Int32Array
    algo_location: FileLocation
    tbs: Threadblocks
    steps: Steps
    profile: Profile
    redop: str = ""

    @property
    def old(self) -> bool:
        """Whether it is checked for the old runtime."""
        return self.profile == "old"

    @property
    def early_flags(self) -> bool:
        """Whether the counter of a send may move before its source is read: LL and LL128 of RCCL."""
        return self.profile == "rccl" and self.proto != "Simple"

    @cached_property
    def position(self) -> Int64Array:
        """int64[steps]: position of each step in its threadblock."""
        return np.arange(len(self.steps)) - self.tbs.first[self.steps.tb]

    @cached_property
    def step_gpu(self) -> Int32Array:
        """int32[steps]: gpu of each step."""
        return self.tbs.gpu[self.steps.tb]

    @cached_property
    def gpu_first(self) -> Int64Array:
        """int64[gpus + 1]: first threadblock row of each gpu."""
        return np.searchsorted(self.tbs.gpu, np.arange(self.ngpus + 1))

    @cached_property
    def connections(self) -> Connections:
        """The ends of every connection. If two threadblocks share an end, the first one counts."""
        return Connections.of(self.tbs.gpu, self.tbs.send, self.tbs.recv, self.tbs.chan)

    @cached_property
    def waits(self) -> StepWaits:
        """The waits of the steps, of a program whose contract is not broken."""
        steps = self.steps
        table = steps.tb, steps.kind, steps.depid, steps.deps, steps.hasdep
        return waits_of(self.connections, self.tbs.gpu, self.tbs.first, table)

    @cached_property
    def unlimited_run(self) -> tuple[list[int], list[Blocked]]:
        """The steps in one possible order if connections are never full, and the threadblocks that wait forever."""
        return replay(self.waits, [1] * len(self.steps), UNLIMITED)

    @cached_property
    def message_bytes(self) -> int:
        """Bytes of one message at most (docs/msccl-contract.md, section 5)."""
        quarter = self.proto == "Simple" and self.coll in _ONE_CHUNK_STEP
        sizes = _RCCL_MESSAGE_BYTES if self.profile == "rccl" else _MESSAGE_BYTES
        return sizes[self.proto] // (4 if quarter else 1)

    @cached_property
    def size_limit(self) -> int | None:
        """Largest size in bytes that the file is chosen for; None without limit."""
        if self.old:
            return self.max_bytes - 1
        return self.max_bytes or None

    def operand_slots(self, base: Int64Array) -> tuple[Int64Array, Int64Array]:
        """int64[steps] each: the first source and destination slot of every step. base: as in `MemoryLayout`."""
        steps, gpu = self.steps, self.step_gpu
        return base[gpu, steps.srcbuf] + steps.srcoff, base[gpu, steps.dstbuf] + steps.dstoff

    def algo_attribute(self, attribute: str) -> FileLocation:
        """The location of an attribute of the algo element."""
        return replace(self.algo_location, attribute=attribute)

    def gpu_location(self, gpu: int, attribute: str = "") -> FileLocation:
        """The location of a gpu element, or of an attribute of it."""
        return FileLocation(int(self.gpu_lines[gpu]), int(self.gpu_columns[gpu]), gpu, attribute=attribute)

    def tb_location(self, row: int, attribute: str = "") -> FileLocation:
        """The location of a threadblock, or of an attribute of it."""
        tbs = self.tbs
        return FileLocation(
            int(tbs.line[row]), int(tbs.column[row]), int(tbs.gpu[row]), int(tbs.id[row]), attribute=attribute
        )

    def step_location(self, row: int, attribute: str = "") -> FileLocation:
        """The location of a step, or of an attribute of it."""
        steps, tb = self.steps, int(self.steps.tb[row])
        position = int(self.position[row])
        line, column = int(steps.line[row]), int(steps.column[row])
        return FileLocation(line, column, int(self.tbs.gpu[tb]), int(self.tbs.id[tb]), position, attribute)
