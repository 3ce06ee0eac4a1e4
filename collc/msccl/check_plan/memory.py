"""The memory of a plan's gpus as one flat row of chunks."""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.msccl.check.collectives import TOTAL, MemoryLayout, buffer_sizes, memory_layout
from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check_plan.model import Plan, SlotRange

_FAR: Final = {"broadcast": 0, "scatter": 0, "reduce": 1, "gather": 1}
"""Of collectives with a root, the buffer (0: input, 1: output) that only the root has."""


def total_chunks(plan: Plan, coll: str) -> int:
    """Chunks of the total buffer, as `collectives` counts them, by the buffer that all ranks have."""
    ranks = len(plan.chunks)
    inputs = max((chunks[0] for chunks in plan.chunks), default=0)
    outputs = max((chunks[1] for chunks in plan.chunks), default=0)
    if coll == "allgather":
        return inputs * ranks or outputs
    if coll == "reducescatter":
        return inputs or outputs * ranks
    if coll == "gather":
        return inputs or outputs // ranks
    if coll == "scatter":
        return outputs or inputs // ranks
    return outputs or inputs if coll == "broadcast" else inputs or outputs


def check_counts(plan: Plan, coll: str, root: int | None, findings: Findings) -> bool:
    """Whether all buffers have the chunks that a known collective demands; X0402 for those that have not.

    No chunks at all are right for a buffer that only the root has, and for one of two that are one in place.
    """
    total, ranks = total_chunks(plan, coll), len(plan.chunks)
    sizes = buffer_sizes(coll, ranks, total)
    if sizes is None:
        return True
    if total < 1 or (coll in TOTAL and total % ranks):
        text = f"{total} chunks are no size of {coll} among {ranks} gpus"
        findings.add(Finding("contract", "X0402", text, FileLocation(), "at least one chunk a gpu"), breaks=True)
        return False
    for rank, chunks in enumerate(plan.chunks):
        for buffer, name in enumerate(("input_chunks", "output_chunks")):
            have, asked = chunks[buffer], sizes[buffer]
            spare = buffer == _FAR.get(coll) and rank != root
            spare |= _joined(plan, coll) and chunks[1 - buffer] > 0
            if have != asked and (have or not spare):
                text, location = f"{name} is {have}", FileLocation(gpu=rank, attribute=name)
                wanted = f"{asked}, as {coll} of {total} chunks among {ranks} gpus wants"
                findings.add(Finding("contract", "X0402", text, location, wanted), breaks=True)
    if not findings.broken and not possible_roots(plan, coll):
        text = f"no gpu has the {('input', 'output')[_FAR[coll]]} chunks of a root of {coll}"
        findings.add(Finding("contract", "X0402", text, FileLocation(), f"{sizes[_FAR[coll]]} of them"), breaks=True)
    return not findings.broken


def possible_roots(plan: Plan, coll: str) -> list[int]:
    """Ranks that have the buffer that only the root has; all ranks where there is no such buffer."""
    far = _FAR.get(coll)
    return [
        rank
        for rank, chunks in enumerate(plan.chunks)
        if far is None or chunks[far] or (_joined(plan, coll) and chunks[1 - far])
    ]


def _joined(plan: Plan, coll: str) -> bool:
    """Whether input and output of every gpu are one buffer, or one is part of the other."""
    return plan.inplace and coll not in ("gather", "scatter")


def memory_of(plan: Plan, coll: str, root: int) -> tuple[MemoryLayout, int]:
    """Where the buffers lie, as long as the collective makes them, and the chunks of the total buffer."""
    total = total_chunks(plan, coll)
    chunks = np.array(plan.chunks, np.int64).reshape(-1, 3)
    sizes = buffer_sizes(coll, max(1, len(chunks)), total)
    if sizes is not None:
        chunks[:, 0], chunks[:, 1] = np.maximum(chunks[:, 0], sizes[0]), np.maximum(chunks[:, 1], sizes[1])
    return memory_layout(coll, chunks, total, inplace=plan.inplace, root=max(0, root)), total


def address(layout: MemoryLayout, slots: SlotRange) -> int:
    """The first of some slots in the memory of all gpus."""
    return int(layout.base[slots.gpu, slots.buffer]) + slots.index
