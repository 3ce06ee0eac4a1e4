"""Threadblocks that make the partial sums of their GPU in turn, if switches add inside nodes and ports join these.

In threadblocks by chunk, many partial sums begin at once, and the totals wait behind all of them for the links to the
switch. In turn, and before everything else of their threadblock, sums and totals share these links.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from collc.msccl.program import Gpu, Op, Program, Slot, Step

_MOST_SUMS: Final = 9
"""Most partial sums of a threadblock: each takes five operations."""


def threadblocks_for_sums(program: Program) -> int:
    """How many threadblocks the partial sums of a GPU need at least; 0 if switches make none.

    program: after `select`.
    """
    most = max((sum(step.switch is not None for step in gpu.steps) for gpu in program.gpus), default=0)
    return -(-most // _MOST_SUMS)


def partial_sums_first(program: Program, blocks: int) -> Program:
    """The program, after threadblocks are formed, with the partial sums of a GPU in `blocks` of its threadblocks.

    These are the ones that store totals last. A sum reads the memory of all GPUs of the switch, so it is made only in a
    threadblock that stores to all of them, and thus knows when they have begun.
    """
    return replace(program, gpus=tuple(_sums_first(program, gpu, blocks) for gpu in program.gpus))


def _sums_first(program: Program, gpu: Gpu, blocks: int) -> Gpu:
    sums = _sums_with_sends(program, gpu)
    latest = {
        number: stored[-1]
        for number, tb in enumerate(gpu.threadblocks)
        if (stored := [step.when for step in tb.steps if _stores_total(program, step)])
    }
    hosts = sorted(latest, key=lambda number: latest[number], reverse=True)[:blocks]
    if not hosts:
        return gpu
    count = sum(map(len, sums))
    front: dict[int, list[Step]] = {host: [] for host in hosts}
    moved: set[int] = set()
    for number, group in enumerate(sums):
        for step in group:  # a time of its own, before all others
            front[hosts[number % len(hosts)]].append(replace(step, when=(len(moved) - count, *step.when[1:])))
            moved.add(id(step))
    made = [
        replace(tb, steps=(*front.get(number, ()), *(step for step in tb.steps if id(step) not in moved)))
        for number, tb in enumerate(gpu.threadblocks)
    ]
    return replace(gpu, threadblocks=tuple(tb for tb in made if tb.steps))


def _stores_total(program: Program, step: Step) -> bool:
    return step.op is Op.SEND and program.messages[step.send].switch is not None


def _sums_with_sends(program: Program, gpu: Gpu) -> list[list[Step]]:
    """The partial sums of a GPU in the order of the schedule, each with the sends of nothing but this sum."""
    found: list[list[Step]] = []
    unchanged: dict[Slot | None, list[Step]] = {}
    for step in sorted((step for tb in gpu.threadblocks for step in tb.steps), key=lambda step: step.when):
        if step.op is Op.COPY and step.switch is not None and step.dst is not None:
            found.append([step])
            unchanged[step.dst] = found[-1]
        elif step.op is Op.SEND and not _stores_total(program, step):
            unchanged.get(step.src, []).append(step)
        else:
            for slot in step.writes():
                unchanged.pop(slot, None)
    return found
