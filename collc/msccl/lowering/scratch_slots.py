"""Fourth stage of lowering: scratch slots by liveness. Chunks that pass through a GPU at different times share slots.

A block of neighbouring slots is live from its first write until its last reader is done. Blocks are allocated first-fit
in order of time (linear scan register allocation, Poletto and Sarkar 1999).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.msccl.options import Profile
from collc.msccl.program import Gpu, Moment, Program, Slot, Step


@dataclass(slots=True)
class ScratchBlock:
    """Scratch slots first .. first + count - 1, written and read together, live from begin to free (picoseconds)."""

    first: int
    count: int
    begin: Moment
    free: int


def allocate_scratch(program: Program) -> Program:
    """The program with scratch slots shared by blocks that are not live at the same time."""
    return replace(program, gpus=tuple(_allocate(program, gpu) if gpu.scratch_chunks else gpu for gpu in program.gpus))


def _allocate(program: Program, gpu: Gpu) -> Gpu:
    # Sums of RCCL are received in scratch: messages of one time would wait for the additions of others.
    allocated, used = allocate_blocks(_blocks(program, gpu), at_once=program.profile is not Profile.RCCL)
    threadblocks = tuple(
        replace(tb, steps=tuple(_move_slots(step, allocated) for step in tb.steps)) for tb in gpu.threadblocks
    )
    return replace(gpu, scratch_chunks=used, threadblocks=threadblocks)


def _blocks(program: Program, gpu: Gpu) -> list[ScratchBlock]:
    """All blocks in order of their first write. Raises CheckFailed M0108 if one is read that no step writes."""
    found: dict[int, ScratchBlock] = {}
    for step in sorted((step for tb in gpu.threadblocks for step in tb.steps), key=lambda step: step.when):
        if step.dst is not None and step.dst.buffer == "s" and step.dst.offset not in found:
            block = ScratchBlock(step.dst.offset, step.count, step.when, 0)
            found.update({step.dst.offset + k: block for k in range(step.count)})
        done = program.messages[step.send].leave if step.send >= 0 else step.when[0]
        for slot in (step.src, step.dst):
            if slot is not None and slot.buffer == "s":
                block = found.get(slot.offset)
                if block is None:
                    message = f"rank {gpu.rank} forwards or reduces what it has not received"
                    raise CheckFailed(Diagnostic("M0108", message, hint="verify the schedule first"))
                block.free = max(block.free, done, step.when[0])
    unique = {id(block): block for block in found.values()}
    return sorted(unique.values(), key=lambda block: block.begin)


def allocate_blocks(blocks: list[ScratchBlock], *, at_once: bool) -> tuple[dict[int, int], int]:
    """The new number of each slot, and how many there are. blocks: in order of their first write.

    at_once: whether a slot can be written at the time at which its last use ends.
    """
    allocated: dict[int, int] = {}
    busy = np.full(max(16, sum(block.count for block in blocks)), -1, np.int64)  # by slot, when its last use ends
    used = 0
    for block in blocks:
        free = busy[: used + block.count] < block.begin[0] + at_once
        if block.count > 1:  # slots from which on `count` are free
            before = np.concatenate([[0], np.cumsum(free)])
            free = before[block.count :] - before[: -block.count] == block.count
        start = int(free.argmax())
        used = max(used, start + block.count)
        busy[start : start + block.count] = max(block.free, block.begin[0])
        allocated.update({block.first + k: start + k for k in range(block.count)})
    return allocated, used


def _move_slots(step: Step, allocated: dict[int, int]) -> Step:
    src, dst = step.src, step.dst
    if src is not None and src.buffer == "s":
        src = Slot("s", allocated[src.offset])
    if dst is not None and dst.buffer == "s":
        dst = Slot("s", allocated[dst.offset])
    return step if src == step.src and dst == step.dst else replace(step, src=src, dst=dst)
