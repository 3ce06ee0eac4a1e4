"""Cayley graphs whose generators take unlike times, or whose links are pipelined: plans in picoseconds.

What one NPU sends still takes each generator once at a time, and so all translations keep clear of each other.
Two kinds of plans are tried: those for steps, each transfer as early as it can be, and searches event by event.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from collc.synthesis.symmetric.events import Events
from collc.synthesis.symmetric.exchange import exchange, short_ways
from collc.synthesis.symmetric.gather import gather
from collc.synthesis.symmetric.group import Group
from collc.synthesis.symmetric.plan import Plan
from collc.synthesis.task import Effort
from collc.ten.arrays import BoolArray, Int32Array, Int64Array

COMPILED = 500
"""Pairs of a chunk and an NPU from which the search is compiled."""

SEARCHED = 20_000
"""The same up to which there is a search."""

HOPS = 100_000
"""Hops up to which those of an All-to-All are planned event by event."""

RUNS = 4_000
"""Transfers of all searches, from which there is only one round of them."""

WINDOWS = (4, 1, 16, 64)
"""Of how many chunks a search picks one."""

SLACKS = (0, 3, 10, 20)
"""Deadlines for slow generators, in percent above the bound."""


@dataclass(frozen=True, eq=False)
class Pace:
    """busy, total: int64[generators], picoseconds that a link is taken, and until the chunk is there."""

    busy: Int64Array
    total: Int64Array

    @property
    def step(self) -> int | None:
        """What all transfers take, where that is the same and they follow each other; else None."""
        step = int(self.total[0])
        return step if bool((self.busy == step).all() and (self.total == step).all()) else None


def paced(group: Group, kind: str, chunks: int, pace: Pace, goal: int, effort: Effort) -> Plan:
    """The best plan of an All-Gather or All-to-All in picoseconds; the search ends at `goal`.

    Raises SourceError where the generators do not lead to all NPUs.
    """
    best: Plan | None = None
    for plan in (_gathers if kind == "all_gather" else _exchanges)(group, chunks, pace, goal, effort):
        if best is None or plan.end < best.end:
            best = plan
        if best.end <= goal or effort.stop():
            break
    assert best is not None
    return best


def _gathers(group: Group, chunks: int, pace: Pace, goal: int, effort: Effort) -> Iterator[Plan]:
    yield _early(group, gather(group, chunks, effort), pace, True)
    moves = (group.count - 1) * chunks
    if moves >= SEARCHED:
        return
    cheaper = pace.total[:, None] > pace.total
    coset = np.stack([_cosets(group, np.flatnonzero(row)) for row in cheaper])
    deadlines = [goal + goal * slack // 100 for slack in (SLACKS if bool(cheaper.any()) else SLACKS[:1])]
    for number in range(max(1, effort.trials, RUNS // (moves * len(deadlines)))):
        seed = effort.seed * 1_000_003 + number
        for deadline in deadlines:
            if group.count * chunks < COMPILED:
                ties = random.Random(seed) if number else None
                end, found = Events(group, chunks, pace.busy, pace.total, coset, deadline, ties).run()
                table = np.array(found, np.int64).reshape(-1, 4).T
                yield Plan(end, table[0], *table[1:].astype(np.int32))
                continue
            order = np.random.default_rng(seed).permutation(len(coset)) if number else np.arange(len(coset))
            for window in WINDOWS:
                yield _spread(group, chunks, pace, (cheaper, coset), (deadline, window), order)


def _spread(
    group: Group, chunks: int, pace: Pace, cheap: tuple[BoolArray, Int32Array], rule: tuple[int, int], order: Int64Array
) -> Plan:
    """By the compiled kernel, the generators in some order. rule: deadline and window."""
    from collc.kernels.symmetric_paced import Pacing, spread_paced

    rows = np.zeros((5, (group.count - 1) * chunks), np.int64)
    cheaper, coset = np.ascontiguousarray(cheap[0][order][:, order]), np.ascontiguousarray(cheap[1][order])
    ahead = np.ascontiguousarray(group.ahead[order])
    end = int(spread_paced(Pacing(ahead, pace.busy[order], pace.total[order], cheaper, coset, *rule), chunks, rows))
    generator = order[rows[1]].astype(np.int32)
    return Plan(end, rows[0], generator, *rows[2:4].astype(np.int32))


def _cosets(group: Group, generators: Int64Array) -> Int32Array:
    """int32[npus]: the first NPU of those that some generators join to each."""
    label = np.arange(group.count, dtype=np.int32)
    while True:
        before = label
        for generator in generators.tolist():
            label = np.minimum(label, label[group.ahead[generator]])
            label = np.minimum(label, label[group.behind[generator]])
        if np.array_equal(label, before):
            return label


def _exchanges(group: Group, chunks: int, pace: Pace, _goal: int, effort: Effort) -> Iterator[Plan]:
    yield _early(group, exchange(group, chunks, effort), pace, False)
    counts = short_ways(group, chunks, effort)[1:].reshape(-1, len(group.ahead))
    if int(counts.sum()) <= HOPS:
        yield _Shop(group, counts, pace).plan(chunks)


def _early(group: Group, plan: Plan, pace: Pace, stays: bool) -> Plan:
    """A plan whose transfers begin as early as the order on each generator allows.

    What a generator does in one step for both halves of the NPUs stays together. stays: whether a chunk stays with
    those that pass it on.
    """
    order = np.lexsort((plan.generator, plan.start))
    half = np.full(len(order), -1, np.int32) if plan.half is None else plan.half
    target = group.ahead[plan.generator, plan.sender]
    columns = (plan.start, plan.generator, plan.sender if stays else half, plan.chunk, target if stays else half)
    rows: list[tuple[int, ...]] = np.stack([column[order].astype(np.int64) for column in columns], axis=1).tolist()
    busy: list[int] = pace.busy.tolist()
    total: list[int] = pace.total.tolist()
    free = [0] * len(busy)
    there: dict[tuple[int, int], int] = {}
    start: list[int] = []
    end = 0
    for (_, generator), slot in groupby(rows, key=lambda row: (row[0], row[1])):
        together = list(slot)
        now = max(free[generator], *(there.get((at, chunk), 0) for _, _, at, chunk, _ in together))
        free[generator] = now + busy[generator]
        end = max(end, now + total[generator])
        for _, _, _, chunk, to in together:
            there[to, chunk] = now + total[generator]
            start.append(now)
    when = np.empty(len(order), np.int64)
    when[order] = start
    return replace(plan, end=end, start=when)


class _Shop:
    """An open shop of unlike times: of the messages at rest, a generator takes the one with most ahead of it."""

    def __init__(self, group: Group, counts: Int64Array, pace: Pace) -> None:
        self._ahead: list[list[int]] = group.ahead.tolist()
        self._counts: list[list[int]] = counts.tolist()
        self._busy: list[int] = pace.busy.tolist()
        self._total: list[int] = pace.total.tolist()
        self._left: list[int] = (counts @ pace.total).tolist()
        self._at = [0] * len(self._counts)
        self._queue: list[list[tuple[int, int]]] = [[] for _ in self._busy]
        self._load: list[int] = (counts.sum(axis=0) * pace.busy).tolist()
        self._rows: list[tuple[int, int, int, int]] = []

    def plan(self, chunks: int) -> Plan:
        """The plan, in picoseconds."""
        for message in range(len(self._counts)):
            self._rest(message)
        free = [0] * len(self._busy)
        moments = [(0, -1)]
        end = 0
        while moments:
            now = moments[0][0]
            while moments and moments[0][0] == now:
                _, message = heapq.heappop(moments)
                if message >= 0:
                    self._rest(message)
            for generator in sorted(range(len(free)), key=lambda g: -self._load[g]):
                message = self._next(generator) if free[generator] <= now else -1
                if message >= 0:
                    self._send(generator, message, now)
                    free[generator] = now + self._busy[generator]
                    end = max(end, now + self._total[generator])
                    heapq.heappush(moments, (now + self._total[generator], message))
                    heapq.heappush(moments, (free[generator], -1))
        table = np.array(self._rows, np.int64).reshape(-1, 4)
        rest = table[:, 1:].astype(np.int32)
        return Plan(end, table[:, 0], rest[:, 0], rest[:, 1], rest[:, 2] + np.int32(chunks))

    def _rest(self, message: int) -> None:
        """A message waits at an NPU for any generator that it needs."""
        for generator, hops in enumerate(self._counts[message]):
            if hops:
                heapq.heappush(self._queue[generator], (-self._left[message], message))

    def _next(self, generator: int) -> int:
        """The message that a generator takes, -1 for none. What has gone on since it was queued is left out."""
        queue = self._queue[generator]
        while queue:
            left, message = heapq.heappop(queue)
            if -left == self._left[message] and self._counts[message][generator]:
                return message
        return -1

    def _send(self, generator: int, message: int, now: int) -> None:
        self._rows.append((now, generator, self._at[message], message))
        self._at[message] = self._ahead[generator][self._at[message]]
        self._counts[message][generator] -= 1
        self._left[message] -= self._total[generator]
        self._load[generator] -= self._busy[generator]
