"""The memory of all gpus of a plan as one flat array of chunks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check_plan.model import Operation, Plan, SlotRange
from collc.runtime.collectives import TOTAL, MemoryLayout, buffer_sizes, memory_layout


def total_chunks(plan: Plan, coll: str) -> int:
    """Chunks of the total buffer, as `collectives` counts them, from the longest input or output."""
    inputs = max((chunks[0] for chunks in plan.chunks), default=0)
    outputs = max((chunks[1] for chunks in plan.chunks), default=0)
    if coll == "allgather":
        return inputs * len(plan.chunks)
    return outputs if coll in ("scatter", "broadcast") else inputs


def check_counts(plan: Plan, coll: str, findings: Findings) -> bool:
    """Whether the buffers of all gpus have the chunks that a known collective requires; findings X0402 if not.

    The runtime derives the size of a chunk from both, so that gpus which do not use a buffer declare it too.
    """
    total, ranks = total_chunks(plan, coll), len(plan.chunks)
    sizes = buffer_sizes(coll, ranks, total)
    if sizes is None:
        return True
    if coll in TOTAL and total % ranks:
        text = f"{total} chunks are not a size of {coll} among {ranks} gpus"
        findings.add(Finding("contract", "X0402", text, FileLocation(), "a multiple of the gpus"), breaks=True)
        return False
    for rank, chunks in enumerate(plan.chunks):
        for count, size, name in zip(chunks, sizes, ("input_chunks", "output_chunks"), strict=False):
            if count != size:
                location = FileLocation(gpu=rank, attribute=name)
                rule = f"{size}, as {coll} of {total} chunks among {ranks} gpus wants"
                findings.add(Finding("contract", "X0402", f"{name} is {count}", location, rule), breaks=True)
    return not findings.broken


def memory_of(plan: Plan, coll: str, root: int) -> MemoryLayout:
    """The layout of the buffers, with the chunks that the collective has.

    A fourth buffer of each gpu holds its packets, as many as it has scratch chunks.
    """
    total = total_chunks(plan, coll)
    chunks = np.array(plan.chunks, np.int64).reshape(-1, 3)
    sizes = buffer_sizes(coll, max(1, len(chunks)), total)
    if sizes is not None:
        chunks[:, 0], chunks[:, 1] = np.maximum(chunks[:, 0], sizes[0]), np.maximum(chunks[:, 1], sizes[1])
    layout = memory_layout(coll, chunks, total, inplace=plan.inplace, root=max(0, root))
    packets = layout.size + np.cumsum(chunks[:, 2]) - chunks[:, 2]
    base, offset = np.column_stack([layout.base, packets]), np.column_stack([layout.offset, np.zeros_like(packets)])
    return replace(layout, base=base, size=layout.size + int(chunks[:, 2].sum()), offset=offset)


def address(layout: MemoryLayout, slots: SlotRange) -> int:
    """The position of the first of the slots in the memory of all gpus, as the runtime finds it.

    To the allocation of another gpu, a gpu adds where its own buffer begins in its own allocation
    (docs/msccl-contract.md, section 6.1).
    """
    begin = int(layout.base[slots.gpu, slots.buffer]) + slots.index
    return begin + _shift(layout, slots) if slots.remote and layout.inplace else begin


def _shift(layout: MemoryLayout, slots: SlotRange) -> int:
    return int(layout.offset[slots.caller, slots.buffer] - layout.offset[slots.gpu, slots.buffer])


def check_addresses(plan: Plan, layout: MemoryLayout, findings: Findings) -> bool:
    """Whether all operations stay in the buffers that they name.

    Adds to the findings X0404 for those that, in place, leave them, and one X0123 that warns of others which reach
    other chunks than they name.
    """
    if not layout.inplace:
        return True
    ends = layout.base + np.array([(*chunks, 0) for chunks in plan.chunks], np.int64).reshape(-1, 4)
    shifted: list[Operation] = []
    for op in plan.operations:
        for slots in (slots for move in op.moves for slots in move.sources + move.targets if slots.remote):
            shift = _shift(layout, slots)
            if not shift:
                continue
            first, last = layout.base[slots.gpu, :2], ends[slots.gpu, :2]
            own = slice(None) if bool(np.all(first < last[::-1])) else slice(slots.buffer, slots.buffer + 1)
            begin = address(layout, slots)
            if begin < int(first[own].min()) or begin + slots.size > int(last[own].max()):
                name = "io"[slots.buffer]
                text = f"reaches {name}[{slots.index + shift}] of gpu {slots.gpu}, outside of the buffer: a gpu adds "
                text += f"the offset of its own {name} in the buffer that input and output share in place"
                findings.add(Finding("contract", "X0404", text, op.location, "scratch"), breaks=True)
                return False
            shifted.append(op)
    if shifted:
        text = f"{len(shifted)} operations reach chunks of other gpus beside those that they name: in place, a gpu "
        text += "adds the offset of its own buffer in the one that input and output share"
        findings.add(Finding("contract", "X0123", text, shifted[0].location, "scratch", warning=True))
    return True
