"""The traces of all ranks, as arrays with one row per node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from collc.ten.arrays import Int32Array, Int64Array


@dataclass(frozen=True, eq=False)
class Traces:
    """Nodes of all ranks, by rank and then by id.

    prefix: the files are PREFIX.<rank>.et. first: int64[ranks + 1], the first node of each rank. id: int64[nodes].
    kind: int8[nodes], a NodeType. size: int64[nodes], bytes of a message. peer: int32[nodes], the rank at its other
    end. tag: int64[nodes]. duration: int64[nodes], microseconds. before, after: int32[dependencies], nodes of one
    rank; `after` waits for `before`. names: of all nodes.
    """

    prefix: Path
    first: Int64Array
    id: Int64Array
    kind: NDArray[np.int8]
    size: Int64Array
    peer: Int32Array
    tag: Int64Array
    duration: Int64Array
    before: Int32Array
    after: Int32Array
    names: tuple[str, ...]

    @property
    def ranks(self) -> int:
        """Ranks; each has a file."""
        return len(self.first) - 1

    def __len__(self) -> int:
        return len(self.id)

    def rank_of(self, node: int) -> int:
        """The rank of a node."""
        return int(np.searchsorted(self.first, node, "right")) - 1

    def label(self, node: int) -> str:
        """A node in messages: its file, id and name."""
        name = self.names[node]
        return f"{trace_path(self.prefix, self.rank_of(node))}: node {self.id[node]}" + (f" ({name})" if name else "")


def trace_path(prefix: Path, rank: int) -> Path:
    """The file of one rank."""
    return prefix.with_name(f"{prefix.name}.{rank}.et")
