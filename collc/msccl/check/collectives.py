"""The collectives in terms of MSCCL: sizes of buffers, which buffers coincide in place, and results.

nchunksperloop counts chunks of the total buffer (docs/msccl-contract.md, section 2): with n ranks and
k = nchunksperloop / n, an All-Gather has k input and n*k output chunks, a Reduce-Scatter n*k and
k, an All-to-All n*k and n*k; all others count the caller's own buffer, gather and scatter with n
times as much at the root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.ten.arrays import Int64Array

_NEWER: Final = (
    *("reduce", "broadcast", "allreduce", "reducescatter", "allgather", "send", "recv", "gather", "scatter"),
    *("alltoall", "alltoallv"),
)
NAMES: Final[dict[str, tuple[str, ...]]] = {
    "executor": _NEWER,
    "rccl": _NEWER,
    "old": ("allreduce", "allgather", "reduce", "broadcast", "alltoall", "reduce_scatter", "custom"),
}
TOTAL: Final = ("allgather", "reducescatter", "alltoall")
"""Collectives whose size is counted over all ranks."""
ROOTED: Final = ("broadcast", "reduce", "gather", "scatter")
REDUCING: Final = ("allreduce", "reducescatter", "reduce")
KNOWN: Final = ("allreduce", *TOTAL, *ROOTED)
"""Collectives whose result follows from their name."""

Contribution = tuple[int, int]
"""(rank, input chunk)."""


@dataclass(frozen=True, slots=True)
class WantedChunk:
    """What one output chunk must hold: the sum of all `contributions` if `reduced`, else a copy of any of them."""

    contributions: frozenset[Contribution]
    reduced: bool = False


@dataclass(frozen=True, slots=True)
class ExpectedResult:
    """The result of a custom collective: (rank, output chunk) -> WantedChunk. Other chunks may hold anything."""

    outputs: Mapping[tuple[int, int], WantedChunk]

    def slots(self, rank: int) -> list[int]:
        """Output chunks of a rank that must hold something, ascending."""
        return sorted(slot for owner, slot in self.outputs if owner == rank)

    @property
    def width(self) -> int:
        """Chunks of the longest buffer of any rank that the result requires."""
        used = [slot for _, slot in self.outputs]
        used += [slot for want in self.outputs.values() for _, slot in want.contributions]
        return 1 + max(used, default=-1)


def canonical(coll: str) -> str:
    """The canonical name of a collective: `all_gather` and `AllGather` are `allgather`."""
    return coll.replace("_", "").replace("-", "").lower()


def buffer_sizes(coll: str, ranks: int, total: int) -> tuple[int, int] | None:
    """Chunks of the input and of the output of every rank at run time; None for collectives that do not determine them.

    For gather and scatter these are the sizes at the root.
    """
    share = total // ranks
    sizes = {
        "allreduce": (total, total),
        "allgather": (share, total),
        "reducescatter": (total, share),
        "alltoall": (total, total),
        "broadcast": (total, total),
        "reduce": (total, total),
        "gather": (total, total * ranks),
        "scatter": (total * ranks, total),
    }
    return sizes.get(coll)


@dataclass(frozen=True, eq=False)
class MemoryLayout:
    """The buffers of all gpus in one flat memory. base: int64[gpus, 3], first slots of i, o, s. size: slots in all.

    offset: int64[gpus, 3], where they begin in their allocations; not 0 if input and output share one.
    """

    base: Int64Array
    size: int
    inplace: bool
    offset: Int64Array


def memory_layout(coll: str, chunks: Int64Array, total: int, *, inplace: bool, root: int = 0) -> MemoryLayout:
    """Lay out the buffers one after another; in place, input and output coincide (docs/msccl-contract.md, section 5).

    chunks: int64[gpus, 3], chunks of i, o and s. total: nchunksperloop. root: matters for gather and scatter only.
    """
    gpus = len(chunks)
    ends = np.cumsum(chunks.reshape(-1))
    base = np.concatenate(([0], ends[:-1])).reshape(gpus, 3)
    offset = np.zeros_like(base)
    if inplace:
        rank = np.arange(gpus)
        share = total // gpus
        joined = coll not in ("gather", "scatter") or rank == root
        if coll in ("allgather", "gather"):
            step = share if coll == "allgather" else total
            base[:, 0] = np.where(joined, base[:, 1] + rank * step, base[:, 0])
        elif coll in ("reducescatter", "scatter"):
            step = share if coll == "reducescatter" else total
            base[:, 1] = np.where(joined, base[:, 0] + rank * step, base[:, 1])
        else:
            longer_input = chunks[:, 0] > chunks[:, 1]
            shared = np.where(longer_input, base[:, 0], base[:, 1])
            base[:, 0] = base[:, 1] = shared
        offset[:, :2] = np.where(np.reshape(joined, (-1, 1)), base[:, :2] - base[:, :2].min(axis=1, keepdims=True), 0)
    return MemoryLayout(base, int(ends[-1]) if gpus else 0, inplace, offset)


def wanted_output(coll: str, rank: int, ranks: int, total: int, root: int) -> tuple[Sequence[int], range] | None:
    """Whose input chunks the output of a rank must hold: ranks, and the chunks of each of them.

    Of a collective in `REDUCING` the output holds, for each chunk, its sum over these ranks; of others, copies of the
    chunks by rank and then by chunk. None: it may hold anything.
    """
    if coll in ("gather", "reduce") and rank != root:
        return None
    share = total // ranks
    whole, own, everyone = range(total), range(rank * share, (rank + 1) * share), range(ranks)
    wanted: dict[str, tuple[Sequence[int], range]] = {
        "allreduce": (everyone, whole),
        "reduce": (everyone, whole),
        "reducescatter": (everyone, own),
        "allgather": (everyone, range(share)),
        "gather": (everyone, whole),
        "alltoall": (everyone, own),
        "broadcast": ((root,), whole),
        "scatter": ((root,), range(rank * total, (rank + 1) * total)),
    }
    return wanted.get(coll)
