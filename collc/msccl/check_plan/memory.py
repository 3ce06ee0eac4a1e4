"""The memory of a plan's gpus as one flat row of chunks."""

from __future__ import annotations

import numpy as np

from collc.msccl.check.collectives import Layout, buffer_sizes, layout
from collc.msccl.check_plan.model import Plan, Slots


def total_chunks(plan: Plan, coll: str) -> int:
    """Chunks of the total buffer, as `collectives` counts them."""
    inputs = max((chunks[0] for chunks in plan.chunks), default=0)
    outputs = max((chunks[1] for chunks in plan.chunks), default=0)
    if coll == "allgather":
        return inputs * len(plan.chunks) or outputs
    if coll == "scatter":
        return outputs or inputs // len(plan.chunks)
    return inputs or outputs


def memory_of(plan: Plan, coll: str, root: int) -> tuple[Layout, int]:
    """Where the buffers lie, as long as the collective makes them, and the chunks of the total buffer."""
    total = total_chunks(plan, coll)
    chunks = np.array(plan.chunks, np.int64).reshape(-1, 3)
    sizes = buffer_sizes(coll, max(1, len(chunks)), total)
    if sizes is not None:
        chunks[:, 0], chunks[:, 1] = np.maximum(chunks[:, 0], sizes[0]), np.maximum(chunks[:, 1], sizes[1])
    return layout(coll, chunks, total, inplace=plan.inplace, root=max(0, root)), total


def place(where: Layout, slots: Slots) -> int:
    """The first of some slots in the memory of all gpus."""
    return int(where.base[slots.gpu, slots.buffer]) + slots.index
