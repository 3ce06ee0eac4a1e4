"""List schedules of transfers that wait for one another, and how they get shorter by turning time round.

What is most urgent goes first on each link. Urgent is what starts first in the schedule that is made from the end
backwards, in which again what ends last goes first, and so on in turns (forward-backward improvement, as for
projects with limited resources: Li and Willis, "An iterative scheduling technique", EJOR 1992).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.schedule import Transfers

Taken = dict[int, list[tuple[int, int]]]

COMPILED = 20_000
"""Tasks from which compiled code does the work."""

TURNS = 4
"""How often time is turned round and back, at most."""

LONG = 1_000_000
"""Tasks from which time is turned round and back only once."""

BATCH = 1 << 20
"""Tasks between two questions whether to stop."""


@dataclass(frozen=True, eq=False)
class Tasks:
    """Transfers that wait for one another.

    link: int32[n], -1 for what takes no time and no link. busy, total: int64[n], picoseconds that the link is taken,
    and until the chunk is there. before, after: int32[edges], who waits: `after` for `before`.
    links: how many there are.
    """

    link: Int32Array
    busy: Int64Array
    total: Int64Array
    before: Int32Array
    after: Int32Array
    links: int

    def __len__(self) -> int:
        return len(self.link)

    def reversed(self) -> Tasks:
        """As time running backwards sees them."""
        return replace(self, before=self.after, after=self.before)


@dataclass(frozen=True, eq=False)
class _Side:
    """One direction of time.

    early, late: int64[n]; how long before it enters its link a task must be ready, and how long after that others
    may go on. offsets, followers: who waits for each (CSR). waits: for how many each waits.
    """

    tasks: Tasks
    early: Int64Array
    late: Int64Array
    offsets: Int64Array
    followers: Int32Array
    waits: Int32Array

    @staticmethod
    def of(tasks: Tasks, early: Int64Array, late: Int64Array) -> _Side:
        offsets = np.zeros(len(tasks) + 1, np.int64)
        np.cumsum(np.bincount(tasks.before, minlength=len(tasks)), out=offsets[1:])
        followers = tasks.after[np.argsort(tasks.before, kind="stable")]
        waits = np.bincount(tasks.after, minlength=len(tasks)).astype(np.int32)
        return _Side(tasks, early, late, offsets, followers, waits)


def taken_intervals(reserved: Transfers | None, busy: Int64Array | None) -> Taken:
    """When each link is taken by what is planned already, in order. busy: how long each transfer takes its link."""
    taken: Taken = {}
    if reserved is not None and busy is not None:
        order = np.lexsort((reserved.start, reserved.link))
        columns = zip(reserved.link[order].tolist(), reserved.start[order].tolist(), busy[order].tolist(), strict=True)
        for link, start, length in columns:
            taken.setdefault(link, []).append((start, start + length))
    return taken


def best_starts(tasks: Tasks, taken: Taken, stop: Callable[[], bool]) -> tuple[int, Int64Array] | None:
    """(picoseconds until all is there, int64[n], start of each task); None where stopped before there is any."""
    loads = np.zeros(tasks.links + 1, np.int64)  # the last is that of tasks without a link
    np.add.at(loads, tasks.link, tasks.busy)
    least = int(loads.max())
    ahead = _Side.of(tasks, np.zeros_like(tasks.total), tasks.total)
    back = _Side.of(tasks.reversed(), tasks.total - tasks.busy, tasks.busy)
    rank = np.arange(len(tasks), dtype=np.int32)
    best: tuple[int, Int64Array] | None = None
    for _ in range(1 + (TURNS if len(tasks) < LONG else 1)):
        start = _starts(ahead, rank, taken, stop)
        if start is None:
            break
        end = int((start + tasks.total).max(initial=0))
        if best is not None and end >= best[0]:
            break
        best = end, start
        if end <= least or stop():
            break
        mirrored = _starts(back, _ranked(-(start + tasks.total)), {}, stop)
        if mirrored is None:
            break
        whole = int((mirrored + tasks.busy).max(initial=0))
        start = whole - mirrored - tasks.busy
        if not taken and whole < best[0]:
            best = whole, start
        rank = _ranked(start)
    return best


def _ranked(key: Int64Array) -> Int32Array:
    """int32[n]: the place of each in ascending order of key."""
    rank = np.empty(len(key), np.int32)
    rank[np.argsort(key, kind="stable")] = np.arange(len(key), dtype=np.int32)
    return rank


def _starts(side: _Side, rank: Int32Array, taken: Taken, stop: Callable[[], bool]) -> Int64Array | None:
    return (_compiled if len(rank) >= COMPILED else starts_plain)(side, rank, taken, stop)


def starts_plain(side: _Side, rank: Int32Array, taken: Taken, stop: Callable[[], bool]) -> Int64Array | None:
    """int64[n]: when each task enters its link; None where stopped."""
    return None if stop() else np.array(_List(side, rank, taken).run(), np.int64)


class _List:
    """A list schedule in plain Python. Moments have numbers: task ends, n + task is ready, 2 n + link is free."""

    def __init__(self, side: _Side, rank: Int32Array, taken: Taken) -> None:
        self._n = len(side.tasks)
        self._link: list[int] = side.tasks.link.tolist()
        self._busy: list[int] = side.tasks.busy.tolist()
        self._early: list[int] = side.early.tolist()
        self._late: list[int] = side.late.tolist()
        self._offsets: list[int] = side.offsets.tolist()
        self._followers: list[int] = side.followers.tolist()
        self._waits: list[int] = side.waits.tolist()
        self._rank: list[int] = rank.tolist()
        self._by_rank: list[int] = np.argsort(rank).tolist()
        self._taken = {link: list(reversed(intervals)) for link, intervals in taken.items()}
        self._queue: list[list[int]] = [[] for _ in range(side.tasks.links)]
        self._free = [0] * side.tasks.links
        self._start = [0] * self._n
        self._moments: dict[int, list[int]] = {}
        self._times: list[int] = []

    def run(self) -> list[int]:
        """When each task starts."""
        for task, waits in enumerate(self._waits):
            if not waits:
                self._at(self._early[task], self._n + task)
        while self._times:
            now = heapq.heappop(self._times)
            touched: set[int] = set()
            for moment in self._moments.pop(now):
                if moment < self._n:
                    self._ended(moment, now, touched)
                elif moment < 2 * self._n:
                    self._ready(moment - self._n, now, touched)
                else:
                    touched.add(moment - 2 * self._n)
            for link in touched:
                if self._queue[link] and self._free[link] <= now:
                    self._enter(link, now)
        return self._start

    def _at(self, time: int, moment: int) -> None:
        if time in self._moments:
            self._moments[time].append(moment)
        else:
            self._moments[time] = [moment]
            heapq.heappush(self._times, time)

    def _ended(self, task: int, now: int, touched: set[int]) -> None:
        if self._link[task] >= 0:
            touched.add(self._link[task])
        for follower in self._followers[self._offsets[task] : self._offsets[task + 1]]:
            self._waits[follower] -= 1
            if not self._waits[follower]:
                if self._early[follower]:
                    self._at(now + self._early[follower], self._n + follower)
                else:
                    self._ready(follower, now, touched)

    def _ready(self, task: int, now: int, touched: set[int]) -> None:
        link = self._link[task]
        if link < 0:
            self._ended(task, now, touched)
        else:
            heapq.heappush(self._queue[link], self._rank[task])
            touched.add(link)

    def _enter(self, link: int, now: int) -> None:
        """The most urgent task enters a link, if that is free for long enough."""
        task = self._by_rank[self._queue[link][0]]
        busy, intervals = self._busy[task], self._taken.get(link, [])
        while intervals and intervals[-1][1] <= now:
            intervals.pop()
        if intervals and intervals[-1][0] < now + busy:
            self._free[link] = intervals[-1][1]
            self._at(self._free[link], 2 * self._n + link)
            return
        heapq.heappop(self._queue[link])
        self._start[task] = now
        self._free[link] = now + busy
        self._at(now + self._late[task], task)
        if self._late[task] != busy:
            self._at(now + busy, 2 * self._n + link)


def _compiled(side: _Side, rank: Int32Array, taken: Taken, stop: Callable[[], bool]) -> Int64Array | None:
    """As starts_plain, by the compiled kernel."""
    from collc.kernels.overlapped_lists import State, Work, list_schedule

    tasks, n, links = side.tasks, len(side.tasks), side.tasks.links
    first = np.zeros(links + 1, np.int64)
    np.cumsum(np.bincount(tasks.link[tasks.link >= 0], minlength=links), out=first[1:])
    bounds = np.cumsum([0] + [len(taken.get(link, ())) for link in range(links)])
    intervals = np.array([i for link in range(links) for i in taken.get(link, ())], np.int64).reshape(-1, 2)
    by_rank = np.empty(n, np.int32)
    by_rank[rank] = np.arange(n, dtype=np.int32)
    work = Work(
        tasks.link, tasks.busy, side.early, side.late, side.offsets, side.followers, rank, by_rank, first,
        intervals[:, 0].copy(), intervals[:, 1].copy(),
    )  # fmt: skip
    times, ids = np.empty(2 * n + links, np.int64), np.empty(2 * n + links, np.int64)
    ready = np.flatnonzero(side.waits == 0)
    ready = ready[np.argsort(side.early[ready], kind="stable")]
    times[: len(ready)], ids[: len(ready)] = side.early[ready], n + ready
    state = State(
        side.waits.copy(), np.empty(n, np.int32), np.zeros(links, np.int32), np.zeros(links, np.int64),
        np.stack([bounds[:-1], bounds[1:]], axis=1), times, ids, np.array([len(ready), 0, 0], np.int64),
        np.empty(links, np.int32), np.zeros(links, np.bool_), np.zeros(n, np.int64),
    )  # fmt: skip
    more = True
    while more:
        if stop():
            return None
        more = list_schedule(work, state, int(state.counters[2]) + BATCH)
    return state.start
