"""The part of an MSCCL program that one rank executes, as bytes that a worker reads."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.runtime.data import Operands
from collc.runtime.replay import StepWaits

VERSION: Final = 1
"""The version of the bytes."""

OPS: Final[dict[str, np.ufunc]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
"""The reductions, by name."""

_MAGIC: Final = b"collc rank program\n"
_DIGEST: Final = hashlib.sha256().digest_size


@dataclass(frozen=True, eq=False)
class RankProgram:
    """What one rank executes.

    slots: rows of its memory. elements: of a slot. dtype, op: of the numbers, and their reduction. capacity: messages
    on a connection that have not left the sender. merge: slots in one message at most.
    first: int64[threadblocks + 1], the first step of each. steps: int64[steps, 11], the columns of `waits`, of
    `operands`, and the number of messages. connections: int64[connections, 3], of each its number in the whole program,
    its sender and its receiver; steps name them by their row.
    """

    rank: int
    slots: int
    elements: int
    dtype: str
    op: str
    capacity: int
    merge: int
    first: NDArray[np.int64]
    steps: NDArray[np.int64]
    connections: NDArray[np.int64]

    @property
    def waits(self) -> StepWaits:
        """What steps wait for; the ends of connections are ranks."""
        tb, sends, receives, needs_tb, needs_step, sets = self.steps[:, :6].T.tolist()
        sender, receiver = self.connections[:, 1:].T.tolist()
        moved = list(map(bool, sets))
        return StepWaits(self.first.tolist(), tb, sends, receives, needs_tb, needs_step, moved, sender, receiver)

    @property
    def operands(self) -> Operands:
        """What steps do; slots are counted from the first one of the rank."""
        _, sends, receives = self.steps[:, :3].T.tolist()
        kind, source, target, count = self.steps[:, 6:10].T.tolist()
        return Operands(kind, source, target, count, receives, sends)

    @property
    def messages(self) -> list[int]:
        """How many messages each step sends or receives."""
        return self.steps[:, 10].tolist()

    def to_bytes(self) -> bytes:
        """The program with its version and its SHA-256."""
        arrays = {"first": self.first, "steps": self.steps, "connections": self.connections}
        numbers = {name: value for name, value in vars(self).items() if name not in arrays}
        packed = io.BytesIO()
        text = np.frombuffer(json.dumps(numbers).encode(), np.uint8)
        np.savez(packed, allow_pickle=False, numbers=text, **arrays)
        content = packed.getvalue()
        return _MAGIC + bytes([VERSION]) + hashlib.sha256(content).digest() + content

    @staticmethod
    def from_bytes(data: bytes) -> RankProgram:
        """The program that `to_bytes` gave. Raises ValueError for bytes of another kind or version, or damaged ones."""
        if not data.startswith(_MAGIC):
            raise ValueError("no rank program of collc")
        version, digest = data[len(_MAGIC)], data[len(_MAGIC) + 1 : len(_MAGIC) + 1 + _DIGEST]
        if version != VERSION:
            raise ValueError(f"a rank program of version {version}; this is version {VERSION}")
        content = data[len(_MAGIC) + 1 + _DIGEST :]
        if hashlib.sha256(content).digest() != digest:
            raise ValueError("a damaged rank program: its SHA-256 differs")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            numbers = json.loads(arrays["numbers"].tobytes())
            return RankProgram(**numbers, **{name: arrays[name] for name in ("first", "steps", "connections")})
