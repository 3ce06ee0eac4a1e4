"""The collectives in terms of MSCCL: their names and results. Sizes of buffers: `collc.runtime.collectives`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collc.runtime.collectives import ROOTED, TOTAL

_NEWER: Final = (
    *("reduce", "broadcast", "allreduce", "reducescatter", "allgather", "send", "recv", "gather", "scatter"),
    *("alltoall", "alltoallv"),
)
NAMES: Final[dict[str, tuple[str, ...]]] = {
    "executor": _NEWER,
    "rccl": _NEWER,
    "run": tuple(name for name in _NEWER if name not in ("send", "recv", "alltoallv")),
    "old": ("allreduce", "allgather", "reduce", "broadcast", "alltoall", "reduce_scatter", "custom"),
}
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
