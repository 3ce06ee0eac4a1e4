"""From the plan for one NPU of a Cayley graph to the schedule of all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collc.synthesis.symmetric.group import Group
from collc.synthesis.symmetric.plan import Plan
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Run, Standard
from collc.ten.schedule import LinkModel, RowSchedule, Schedule, StepSchedule, Transfers


def moved(group: Group, run: Run, standard: Standard, plan: Plan) -> Iterator[tuple[int, Int32Array, Int64Array]]:
    """Each row of a plan moved to all NPUs that it is for, as (its number, links, chunks of the run)."""
    rank = np.empty(group.count, np.int64)
    rank[run.group] = np.arange(group.count)
    halves = [np.flatnonzero(group.coordinates(plan.axis) % 2 == half) for half in range(2)]
    columns = zip(plan.generator.tolist(), plan.sender.tolist(), plan.chunk.tolist(), strict=True)
    known = -1, -1
    own = sender_of = rank
    for number, (generator, sender, chunk) in enumerate(columns):
        if chunk != known[0]:
            own = _numbers(group, standard, rank, chunk)
        if sender != known[1]:
            sender_of = group.translation(sender)
        known = chunk, sender
        half = -1 if plan.half is None else int(plan.half[number])
        if half < 0:
            yield number, group.link[generator, sender_of], own
        else:
            yield number, group.link[generator, sender_of[halves[half]]], own[halves[half]]


def _numbers(group: Group, standard: Standard, rank: Int64Array, chunk: int) -> Int64Array:
    """int64[npus]: what a chunk of NPU 0 is for each NPU, as the run numbers its chunks."""
    if standard.kind == "all_gather":
        return rank * standard.chunks + chunk
    target, copy = divmod(chunk, standard.chunks)
    return (rank * group.count + rank[group.translation(target)]) * standard.chunks + copy


def expanded(group: Group, run: Run, standard: Standard, plan: Plan, model: LinkModel, step: int | None) -> Schedule:
    """The schedule of all NPUs; a grid where the plan counts in steps of `step` picoseconds, else rows."""
    start: list[int] = plan.start.tolist()
    if step is None:
        parts: list[tuple[Int32Array, Int64Array, Int64Array]] = []
        for number, links, own in moved(group, run, standard, plan):
            parts.append((links, own, np.full(len(links), start[number], np.int64)))
        link, chunk, when = (np.concatenate(column) for column in zip(*parts, strict=True))
        return RowSchedule(model, Transfers.of(chunk, link, when))
    wide = len(run.pattern) >= np.iinfo(np.uint16).max
    shape = plan.end, group.link.size
    chunks = np.full(shape, 0xFFFFFFFF, np.uint32) if wide else np.full(shape, 0xFFFF, np.uint16)
    for number, links, own in moved(group, run, standard, plan):
        chunks[start[number], links] = own
    return StepSchedule(model, chunks, step)
