"""The plan for what one NPU of a Cayley graph sends, and the schedule of all NPUs by its translations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from collc.base.memory import require_for_search
from collc.kernels.compiled import numbers, runs_compiled, version_of, zeros
from collc.kernels.symmetric_gather import start_each_early
from collc.synthesis.symmetric.group import Group
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Run, Standard
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, RowSchedule, Schedule, StepSchedule, Transfers


@dataclass(frozen=True, eq=False)
class RepresentativePlan:
    """The transfers of what NPU 0 sends, one a row, in any order.

    end: steps in all, or picoseconds. start: when each transfer starts, in the same unit. generator: its link, as a
    generator. sender: the NPU that it leaves. chunk: which chunk of NPU 0: 0 .. chunks - 1 in an All-Gather,
    NPU * chunks + c for the chunks to an NPU in an All-to-All. half: -1 if the translations to all NPUs do it; 0 or 1
    if only those to NPUs of even or odd index along `axis` do. None: all do all.
    """

    end: int
    start: Int32Array | Int64Array
    generator: Int32Array
    sender: Int32Array
    chunk: Int32Array
    half: Int32Array | None = None
    axis: int = 0


@dataclass(frozen=True, eq=False)
class GeneratorTimes:
    """busy, total: int64[generators], picoseconds (or steps) that a link is busy, and until the chunk arrives."""

    busy: Int64Array
    total: Int64Array

    @staticmethod
    def steps(group: Group) -> GeneratorTimes:
        """One step for each transfer."""
        return GeneratorTimes(*np.ones((2, len(group.generators)), np.int64))

    @staticmethod
    def of(network: Network, model: LinkModel, group: Group, size: int) -> GeneratorTimes:
        """The times of chunks of a size. Raises ValueError if links have no bandwidth or latency."""
        sent = network.occupancy(np.array([size], np.int64))[group.kind, 0]
        total = sent + network.latencies[group.kind]
        return GeneratorTimes(model.busy(sent, total), total)

    @property
    def step(self) -> int | None:
        """The time of all transfers if it is the same and links are busy until arrival; else None."""
        step = int(self.total[0])
        return step if bool((self.busy == step).all() and (self.total == step).all()) else None


def start_early(group: Group, plan: RepresentativePlan, times: GeneratorTimes, *, stays: bool) -> RepresentativePlan:
    """A plan in steps with each transfer as early as the order on its generator allows.

    Transfers of both halves of the NPUs on one generator in one step stay together. stays: whether a chunk stays with
    those that pass it on.
    """
    order = np.lexsort((plan.generator, plan.start))
    generator, step = plan.generator[order], plan.start[order]
    half = np.full(len(order), -1, np.int32) if plan.half is None else plan.half
    target = group.successors[plan.generator, plan.sender]
    count = group.count if stays else 3
    at, to = ((column[order] if stays else half[order] + 1) for column in (plan.sender, target))
    chunk = plan.chunk[order].astype(np.int64) * count
    first = np.append(True, (np.diff(step) != 0) | (np.diff(generator) != 0))[: len(order)]
    compile_it = runs_compiled(start_each_early, 4 * len(order))
    groups = np.flatnonzero(np.append(first, True))
    moves = [numbers(column.astype(np.int64), compile_it) for column in (generator, chunk + at, chunk + to, groups)]
    busy, total = numbers(times.busy, compile_it), numbers(times.total, compile_it)
    there = zeros(int(chunk.max(initial=0)) + count, compile_it)
    start = zeros(len(order), compile_it)
    follow = version_of(start_each_early, compile_it)
    end = follow(moves[0], moves[1], moves[2], moves[3], busy, total, there, start)
    when = np.empty(len(order), np.int64)
    when[order] = np.asarray(start, np.int64)
    return replace(plan, end=end, start=when)


def expand_plan(
    group: Group, run: Run, standard: Standard, plan: RepresentativePlan, model: LinkModel, step: int | None
) -> Schedule:
    """The schedule of all NPUs: a step-by-link table if the plan counts in steps of `step` picoseconds."""
    start: list[int] = plan.start.tolist()
    if step is None:
        count = len(start) * group.count
        require_for_search(2 * 17 * count, f"{count:,} transfers")
        parts: list[tuple[Int32Array, Int64Array, Int64Array]] = []
        for row, links, chunks in _translate_plan(group, run, standard, plan):
            parts.append((links, chunks, np.full(len(links), start[row], np.int64)))
        link, chunk, when = (np.concatenate(column) for column in zip(*parts, strict=True))
        return RowSchedule(model, Transfers.of(chunk, link, when))
    wide = len(run.pattern) >= np.iinfo(np.uint16).max
    shape = plan.end, group.link.size
    require_for_search((4 if wide else 2) * prod(shape), f"{plan.end:,} steps on {group.link.size:,} links")
    table = np.full(shape, 0xFFFFFFFF, np.uint32) if wide else np.full(shape, 0xFFFF, np.uint16)
    for row, links, chunks in _translate_plan(group, run, standard, plan):
        table[start[row], links] = chunks
    return StepSchedule(model, table, step)


def _translate_plan(
    group: Group, run: Run, standard: Standard, plan: RepresentativePlan
) -> Iterator[tuple[int, Int32Array, Int64Array]]:
    """The translations of each transfer of a plan to all NPUs that it is for: (its row, links, chunks of the run)."""
    rank = np.empty(group.count, np.int64)
    rank[run.group] = np.arange(group.count)
    halves = [np.flatnonzero(group.coordinates.index[plan.axis] % 2 == half) for half in range(2)]
    columns = zip(plan.generator.tolist(), plan.sender.tolist(), plan.chunk.tolist(), strict=True)
    known = -1, -1
    chunks = senders = rank
    for row, (generator, sender, chunk) in enumerate(columns):
        if chunk != known[0]:
            chunks = _chunk_images(group, standard, rank, chunk)
        if sender != known[1]:
            senders = group.coordinates.translation(sender)
        known = chunk, sender
        half = -1 if plan.half is None else int(plan.half[row])
        if half < 0:
            yield row, group.link[generator, senders], chunks
        else:
            yield row, group.link[generator, senders[halves[half]]], chunks[halves[half]]


def _chunk_images(group: Group, standard: Standard, rank: Int64Array, chunk: int) -> Int64Array:
    """int64[npus]: the chunk of each NPU that corresponds to a chunk of NPU 0, as the run numbers chunks."""
    if standard.kind == "all_gather":
        return rank * standard.chunks + chunk
    target, copy = divmod(chunk, standard.chunks)
    return (rank * group.count + rank[group.coordinates.translation(target)]) * standard.chunks + copy
