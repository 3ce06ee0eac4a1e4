"""Plans in picoseconds, for Cayley graphs whose generators take different times or whose links are pipelined.

The transfers of what NPU 0 sends still occupy each generator one at a time, so no two translations meet on a link. Two
kinds of plans are tried: plans in steps with each transfer as early as possible, and searches event by event.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.reachability import weakly_connected
from collc.kernels.compiled import compiled
from collc.kernels.symmetric_timed_gather import TimedGenerators, gather_by_times
from collc.synthesis.symmetric.all_gather import plan_all_gather
from collc.synthesis.symmetric.all_to_all import plan_all_to_all, short_paths
from collc.synthesis.symmetric.group import Group
from collc.synthesis.symmetric.representative_plan import RepresentativePlan
from collc.synthesis.symmetric.timed_gather import TimedGather
from collc.synthesis.task import Effort
from collc.ten.arrays import BoolArray, Int32Array, Int64Array

COMPILED = 500
"""Pairs of a chunk and an NPU from which the search for an All-Gather is compiled."""

SEARCHED = 20_000
"""Transfers of what NPU 0 sends, from which there is no search for an All-Gather."""

HOPS = 100_000
"""Hops up to which those of an All-to-All are planned event by event."""

TRANSFERS = 4_000
"""Transfers of all searches, from which there is only one round of them."""

WINDOWS = (4, 1, 16, 64)
"""Of how many pairs of holder and chunk a compiled search chooses one."""

SLACKS = (0, 3, 10, 20)
"""Deadlines of slow generators, in percent above the bound."""


@dataclass(frozen=True, eq=False)
class GeneratorTimes:
    """busy, total: int64[generators], picoseconds that a link is busy, and until the chunk arrives."""

    busy: Int64Array
    total: Int64Array

    @property
    def step(self) -> int | None:
        """The time of all transfers, where it is the same and links are busy until arrival; else None."""
        step = int(self.total[0])
        return step if bool((self.busy == step).all() and (self.total == step).all()) else None


def plan_timed(
    group: Group, kind: str, chunks: int, times: GeneratorTimes, goal: int, effort: Effort
) -> RepresentativePlan:
    """The best plan of an All-Gather or All-to-All in picoseconds; the search ends at `goal`.

    Raises SourceError where the generators do not lead to all NPUs.
    """
    best: RepresentativePlan | None = None
    for plan in (_all_gathers if kind == "all_gather" else _all_to_alls)(group, chunks, times, goal, effort):
        if best is None or plan.end < best.end:
            best = plan
            effort.progress(min(1.0, goal / max(1, best.end)), "symmetric")
        if best.end <= goal or effort.stop():
            break
    assert best is not None
    return best


def _all_gathers(
    group: Group, chunks: int, times: GeneratorTimes, goal: int, effort: Effort
) -> Iterator[RepresentativePlan]:
    yield _earliest(group, plan_all_gather(group, chunks, effort), times, True)
    transfers = (group.count - 1) * chunks
    if transfers >= SEARCHED:
        return
    faster = times.total[:, None] > times.total
    coset = np.stack([_cosets(group, np.flatnonzero(row)) for row in faster])
    deadlines = [goal + goal * slack // 100 for slack in (SLACKS if bool(faster.any()) else SLACKS[:1])]
    for number in range(max(1, effort.trials, TRANSFERS // (transfers * len(deadlines)))):
        seed = effort.seed * 1_000_003 + number
        for deadline in deadlines:
            if group.count * chunks < COMPILED:
                ties = random.Random(seed) if number else None
                end, found = TimedGather(group, chunks, times.busy, times.total, coset, deadline, ties).run()
                table = np.array(found, np.int64).reshape(-1, 4).T
                yield RepresentativePlan(end, table[0], *table[1:].astype(np.int32))
                continue
            order = np.random.default_rng(seed).permutation(len(coset)) if number else np.arange(len(coset))
            for window in WINDOWS:
                yield _by_window(group, chunks, times, (faster, coset), (deadline, window), order)


def _by_window(
    group: Group,
    chunks: int,
    times: GeneratorTimes,
    cosets: tuple[BoolArray, Int32Array],
    rule: tuple[int, int],
    order: Int64Array,
) -> RepresentativePlan:
    """By the compiled kernel, with the generators in some order. rule: deadline and window."""
    rows = np.zeros((5, (group.count - 1) * chunks), np.int64)
    faster, coset = np.ascontiguousarray(cosets[0][order][:, order]), np.ascontiguousarray(cosets[1][order])
    successors = np.ascontiguousarray(group.successors[order])
    generators = TimedGenerators(successors, times.busy[order], times.total[order], faster, coset, *rule)
    end = int(compiled(gather_by_times)(generators, chunks, rows))
    return RepresentativePlan(end, rows[0], order[rows[1]].astype(np.int32), *rows[2:4].astype(np.int32))


def _cosets(group: Group, generators: Int64Array) -> Int32Array:
    """int32[npus]: the lowest number of the NPUs that some generators join to each."""
    source = np.tile(np.arange(group.count, dtype=np.int32), len(generators))
    return weakly_connected(Digraph(group.count, source, group.successors[generators].reshape(-1)))


def _all_to_alls(
    group: Group, chunks: int, times: GeneratorTimes, _goal: int, effort: Effort
) -> Iterator[RepresentativePlan]:
    yield _earliest(group, plan_all_to_all(group, chunks, effort), times, False)
    hops = short_paths(group, chunks, effort)[1:].reshape(-1, len(group.successors))
    if int(hops.sum()) <= HOPS:
        yield _TimedOpenShop(group, hops, times).plan(chunks)


def _earliest(group: Group, plan: RepresentativePlan, times: GeneratorTimes, stays: bool) -> RepresentativePlan:
    """A plan in steps with each transfer as early as the order on its generator allows.

    Transfers of both halves of the NPUs on one generator in one step stay together. stays: whether a chunk stays with
    those that pass it on.
    """
    order = np.lexsort((plan.generator, plan.start))
    half = np.full(len(order), -1, np.int32) if plan.half is None else plan.half
    target = group.successors[plan.generator, plan.sender]
    columns = (plan.start, plan.generator, plan.sender if stays else half, plan.chunk, target if stays else half)
    rows: list[tuple[int, ...]] = np.stack([column[order].astype(np.int64) for column in columns], axis=1).tolist()
    busy: list[int] = times.busy.tolist()
    total: list[int] = times.total.tolist()
    free = [0] * len(busy)
    there: dict[tuple[int, int], int] = {}
    start: list[int] = []
    end = 0
    for (_, generator), transfers in groupby(rows, key=lambda row: (row[0], row[1])):
        together = list(transfers)
        now = max(free[generator], *(there.get((at, chunk), 0) for _, _, at, chunk, _ in together))
        free[generator] = now + busy[generator]
        end = max(end, now + total[generator])
        for _, _, _, chunk, to in together:
            there[to, chunk] = now + total[generator]
            start.append(now)
    when = np.empty(len(order), np.int64)
    when[order] = start
    return replace(plan, end=end, start=when)


class _TimedOpenShop:
    """An open shop of different times: a generator takes, of the messages at rest, one with the most time to go."""

    def __init__(self, group: Group, hops: Int64Array, times: GeneratorTimes) -> None:
        """hops: int64[messages, generators]."""
        self._successors: list[list[int]] = group.successors.tolist()
        self._hops: list[list[int]] = hops.tolist()
        self._busy: list[int] = times.busy.tolist()
        self._total: list[int] = times.total.tolist()
        self._to_go: list[int] = (hops @ times.total).tolist()
        self._at = [0] * len(self._hops)
        self._queue: list[list[tuple[int, int]]] = [[] for _ in self._busy]
        self._load: list[int] = (hops.sum(axis=0) * times.busy).tolist()
        self._rows: list[tuple[int, int, int, int]] = []

    def plan(self, chunks: int) -> RepresentativePlan:
        """The plan, in picoseconds."""
        for message in range(len(self._hops)):
            self._queue_up(message)
        free = [0] * len(self._busy)
        events = [(0, -1)]
        end = 0
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                _, message = heapq.heappop(events)
                if message >= 0:
                    self._queue_up(message)
            for generator in sorted(range(len(free)), key=lambda g: -self._load[g]):
                message = self._next(generator) if free[generator] <= now else -1
                if message >= 0:
                    self._send(generator, message, now)
                    free[generator] = now + self._busy[generator]
                    end = max(end, now + self._total[generator])
                    heapq.heappush(events, (now + self._total[generator], message))
                    heapq.heappush(events, (free[generator], -1))
        table = np.array(self._rows, np.int64).reshape(-1, 4)
        rest = table[:, 1:].astype(np.int32)
        return RepresentativePlan(end, table[:, 0], rest[:, 0], rest[:, 1], rest[:, 2] + np.int32(chunks))

    def _queue_up(self, message: int) -> None:
        """A message rests at an NPU, and waits for any generator that it needs."""
        for generator, hops in enumerate(self._hops[message]):
            if hops:
                heapq.heappush(self._queue[generator], (-self._to_go[message], message))

    def _next(self, generator: int) -> int:
        """The message that a generator takes, -1 for none. Messages that moved since they were queued are dropped."""
        queue = self._queue[generator]
        while queue:
            to_go, message = heapq.heappop(queue)
            if -to_go == self._to_go[message] and self._hops[message][generator]:
                return message
        return -1

    def _send(self, generator: int, message: int, now: int) -> None:
        self._rows.append((now, generator, self._at[message], message))
        self._at[message] = self._successors[generator][self._at[message]]
        self._hops[message][generator] -= 1
        self._to_go[message] -= self._total[generator]
        self._load[generator] -= self._busy[generator]
