"""From the plan for what one NPU of a Cayley graph sends to the schedule of all."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from collc.base.memory import require_for_search
from collc.synthesis.symmetric.group import Group
from collc.synthesis.symmetric.representative_plan import RepresentativePlan
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Run, Standard
from collc.ten.schedule import LinkModel, RowSchedule, Schedule, StepSchedule, Transfers


def translate_plan(
    group: Group, run: Run, standard: Standard, plan: RepresentativePlan
) -> Iterator[tuple[int, Int32Array, Int64Array]]:
    """Each transfer of a plan translate_plan to all NPUs that it is for: (its row, links, chunks of the run)."""
    rank = np.empty(group.count, np.int64)
    rank[run.group] = np.arange(group.count)
    halves = [np.flatnonzero(group.coordinates.index[plan.axis] % 2 == half) for half in range(2)]
    columns = zip(plan.generator.tolist(), plan.sender.tolist(), plan.chunk.tolist(), strict=True)
    known = -1, -1
    chunks = senders = rank
    for row, (generator, sender, chunk) in enumerate(columns):
        if chunk != known[0]:
            chunks = _chunks(group, standard, rank, chunk)
        if sender != known[1]:
            senders = group.coordinates.translation(sender)
        known = chunk, sender
        half = -1 if plan.half is None else int(plan.half[row])
        if half < 0:
            yield row, group.link[generator, senders], chunks
        else:
            yield row, group.link[generator, senders[halves[half]]], chunks[halves[half]]


def _chunks(group: Group, standard: Standard, rank: Int64Array, chunk: int) -> Int64Array:
    """int64[npus]: the chunk of each NPU that corresponds to a chunk of NPU 0, as the run numbers chunks."""
    if standard.kind == "all_gather":
        return rank * standard.chunks + chunk
    target, copy = divmod(chunk, standard.chunks)
    return (rank * group.count + rank[group.coordinates.translation(target)]) * standard.chunks + copy


def expand_plan(
    group: Group, run: Run, standard: Standard, plan: RepresentativePlan, model: LinkModel, step: int | None
) -> Schedule:
    """The schedule of all NPUs: a step-by-link table where the plan counts in steps of `step` picoseconds."""
    start: list[int] = plan.start.tolist()
    if step is None:
        count = len(start) * group.count
        require_for_search(2 * 17 * count, f"{count:,} transfers")
        parts: list[tuple[Int32Array, Int64Array, Int64Array]] = []
        for row, links, chunks in translate_plan(group, run, standard, plan):
            parts.append((links, chunks, np.full(len(links), start[row], np.int64)))
        link, chunk, when = (np.concatenate(column) for column in zip(*parts, strict=True))
        return RowSchedule(model, Transfers.of(chunk, link, when))
    wide = len(run.pattern) >= np.iinfo(np.uint16).max
    shape = plan.end, group.link.size
    require_for_search((4 if wide else 2) * prod(shape), f"{plan.end:,} steps on {group.link.size:,} links")
    table = np.full(shape, 0xFFFFFFFF, np.uint32) if wide else np.full(shape, 0xFFFF, np.uint16)
    for row, links, chunks in translate_plan(group, run, standard, plan):
        table[start[row], links] = chunks
    return StepSchedule(model, table, step)
