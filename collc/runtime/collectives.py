"""The collectives in terms of MSCCL: sizes of buffers, and which of them coincide in place.

nchunksperloop counts chunks of the total buffer (docs/msccl-contract.md, section 2): with n ranks and
k = nchunksperloop / n, an All-Gather has k input and n*k output chunks, a Reduce-Scatter n*k and
k, an All-to-All n*k and n*k; all others count the caller's own buffer, gather and scatter with n
times as much at the root.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

INPUT, OUTPUT, SCRATCH = 0, 1, 2
"""The buffers of a rank."""

TOTAL: Final = ("allgather", "reducescatter", "alltoall")
"""Collectives whose size is counted over all ranks."""
ROOTED: Final = ("broadcast", "reduce", "gather", "scatter")
REDUCING: Final = ("allreduce", "reducescatter", "reduce")

Int64Array = NDArray[np.int64]


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


def blocks_of(coll: str, ranks: int) -> tuple[int, int]:
    """Of how many blocks the input and the output of a rank (of the root) consist, which are padded each for itself."""
    blocks = {"allgather": (1, ranks), "gather": (1, ranks), "reducescatter": (ranks, 1), "scatter": (ranks, 1)}
    return (ranks, ranks) if coll == "alltoall" else blocks.get(coll, (1, 1))


def runtime_chunks(coll: str, chunks: Int64Array, total: int, root: int) -> Int64Array:
    """int64[gpus, 3]: chunks of the buffers during a call: as in the file, or as many as the collective has."""
    chunks, ranks = chunks.copy(), len(chunks)
    for buffer, size in enumerate(buffer_sizes(coll, ranks, total) or ()):
        only_root = coll == ("scatter", "gather")[buffer]
        grows = np.arange(ranks) == root if only_root else np.ones(ranks, np.bool_)
        chunks[grows, buffer] = np.maximum(chunks[grows, buffer], size)
    return chunks
