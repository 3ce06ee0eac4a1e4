"""Earliest-arrival search in exact time, for chunks of any sizes, and for switches that can refuse a chunk.

Of each link and switch it is kept when it is taken. A switch holds a place in its buffer from the
arrival of a chunk to the end of its last departure; where it cannot, the chunk waits where it comes from:
the search starts over with later arrivals at that switch.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from collc.synthesis.conditions import Conditions
from collc.ten.schedule import Transfers

Times = NDArray[np.int64]
Hop = tuple[int, int]
"""Link and start."""

BATCH = 64
"""Rows between two questions whether to stop."""


class Busy:
    """When a link is taken: disjoint intervals, ascending; those that touch are one."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def next_free(self, time: int, length: int) -> int:
        """The first time from `time` on at which it is free for so long."""
        k = bisect_right(self._ends, time)
        while k < len(self._starts) and self._starts[k] < time + length:
            time = max(time, self._ends[k])
            k += 1
        return time

    def last_free(self, time: int, latest: int, length: int) -> int:
        """The last start from `time` to `latest` at which it is free for so long; `time` must be one."""
        while latest > time:
            k = bisect_left(self._starts, latest + length) - 1
            if k < 0 or self._ends[k] <= latest:
                return latest
            latest = self._starts[k] - length
        return time

    def take(self, start: int, end: int) -> None:
        """Takes an interval, which may overlap others."""
        low = bisect_left(self._ends, start)
        high = bisect_right(self._starts, end)
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high] = [start]
        self._ends[low:high] = [end]


class Buffer:
    """How many places of a switch are taken when."""

    __slots__ = ("_held", "_size", "_times")

    def __init__(self, size: int) -> None:
        self._size = size
        self._times: list[int] = [0]
        self._held: list[int] = [0]

    def room(self, start: int, end: int) -> bool:
        """Whether a place is free all the time from start to end."""
        k = bisect_right(self._times, start) - 1
        while k < len(self._times) and self._times[k] < end:
            if self._held[k] >= self._size:
                return False
            k += 1
        return True

    def take(self, start: int, end: int) -> None:
        """Takes a place."""
        for time in (start, end):
            k = bisect_left(self._times, time)
            if k == len(self._times) or self._times[k] != time:
                self._times.insert(k, time)
                self._held.insert(k, self._held[k - 1])
        for k in range(bisect_left(self._times, start), bisect_left(self._times, end)):
            self._held[k] += 1


class _Visit:
    """A chunk in a switch: since when, until when its last departure ends, and all departures."""

    __slots__ = ("departures", "since", "until")

    def __init__(self, since: int) -> None:
        self.since = self.until = since
        self.departures: list[tuple[int, int]] = []


def search_times(
    conditions: Conditions,
    to: dict[int, Times],
    order: NDArray[np.int32],
    salt: Times,
    nearer: bool,
    stop: Callable[[], bool],
) -> Transfers | None:
    """Plans the rows one after another in the order given; None where stopped.

    to: distances to the targets by column of the clock. nearer: whether only hops that come nearer are taken.
    """
    engine = _Engine(conditions, to, nearer)
    ties: list[int] = salt.tolist()
    numbers: list[int] = order.tolist()
    for number, k in enumerate(numbers):
        if number % BATCH == 0 and stop():
            return None
        engine.plan(k, ties[k])
    rows = np.array(engine.rows, np.int64).reshape(-1, 3)
    return Transfers.of(rows[:, 0].astype(np.int32), rows[:, 1].astype(np.int32), rows[:, 2])


class _Engine:
    def __init__(self, conditions: Conditions, to: dict[int, Times], nearer: bool) -> None:
        task, clock = conditions.task, conditions.clock
        network = task.network
        self.rows: list[tuple[int, int, int]] = []
        self._conditions, self._nearer, self._inverted = conditions, nearer, task.inverted
        self._npus, self._relays = network.npu_count, task.relays
        self._to: dict[int, list[list[int]]] = {column: table.tolist() for column, table in to.items()}
        self._row_of: list[int] = conditions.target_row.tolist()
        self._column: list[int] = conditions.column.tolist()
        self._lengths: list[list[int]] = clock.busy[network.kind].tolist()
        self._totals: list[list[int]] = clock.total[network.kind].tolist()
        self._source: list[int] = network.source.tolist()
        self._target: list[int] = network.target.tolist()
        self._out = [list[int]() for _ in range(network.device_count)]
        for link, u in enumerate(self._source):
            self._out[u].append(link)
        self._busy = [Busy() for _ in self._target]
        self._multicast: list[bool] = network.multicast.tolist()
        sizes: list[int] = network.buffers.tolist()
        self._buffers = {self._npus + k: Buffer(size) for k, size in enumerate(sizes) if size >= 0}
        if task.reserved is not None:
            self._reserve(task.reserved)

    def _reserve(self, reserved: Transfers) -> None:
        """Takes links and places of what is planned already; each departure of a chunk is for its last arrival."""
        inside: dict[tuple[int, int], list[int]] = {}
        until: dict[tuple[int, int], dict[int, int]] = {}
        table = np.stack([reserved.chunk, reserved.link, reserved.start], axis=1)
        rows: list[list[int]] = table.tolist()
        columns: list[int] = self._conditions.clock.size_of.tolist()
        for chunk, link, start in rows:
            self._busy[link].take(start, start + self._lengths[link][columns[chunk]])
            if self._target[link] in self._buffers:
                insort(inside.setdefault((chunk, self._target[link]), []), start + self._totals[link][columns[chunk]])
        for chunk, link, start in rows:
            place = (chunk, self._source[link])
            if place in inside:
                arrivals = inside[place]
                since = arrivals[max(0, bisect_right(arrivals, start) - 1)]
                end = start + self._lengths[link][columns[chunk]]
                ends = until.setdefault(place, {})
                ends[since] = max(end, ends.get(since, 0))
        for (_, switch), visits in until.items():
            for since, end in visits.items():
                if since < end:
                    self._buffers[switch].take(max(0, since), max(1, end))

    def plan(self, k: int, salt: int) -> None:
        """Brings one row's chunk to all who want it, the nearest first."""
        rows = self._conditions.row(k)
        holders: list[int] = rows[0].tolist()
        wanting: list[int] = rows[1].tolist()
        tree: dict[int, int] = dict.fromkeys(holders, int(self._conditions.release[k]))
        visits: dict[int, list[_Visit]] = {}
        to = self._to[self._column[k]]
        near = [min(to[self._row_of[v]][h] for h in holders) for v in wanting]
        for _, target in sorted(zip(near, wanting, strict=True)):
            if target not in tree:
                self._extend(k, tree, visits, target, salt)

    def _extend(self, k: int, tree: dict[int, int], visits: dict[int, list[_Visit]], target: int, salt: int) -> None:
        column = self._column[k]
        not_before: dict[int, int] = {}
        while True:
            found = self._search(column, tree, visits, target, salt, not_before)
            if not isinstance(found, int):
                break
            # Every path is blocked at a switch: give the chunk up there, or come to it later.
            if tree.pop(found, None) is not None:
                continue
            later = not_before.get(found, 0)
            step = max(row[column] for row in self._lengths)
            not_before[found] = later + step if later else self._earliest(tree) + step
        self._book(k, tree, visits, self._late(column, found))

    @staticmethod
    def _earliest(tree: dict[int, int]) -> int:
        return min(tree.values())

    def _late(self, column: int, path: list[Hop]) -> list[Hop]:
        """The path with every hop into a switch with a limit as late as the hop out of it allows."""
        result = [path[-1]]
        for link, start in reversed(path[:-1]):
            latest = result[-1][1] - self._totals[link][column]
            limited = self._target[link] in self._buffers
            late = self._busy[link].last_free(start, latest, self._lengths[link][column]) if limited else start
            result.append((link, late))
        return result[::-1]

    def _book(self, k: int, tree: dict[int, int], visits: dict[int, list[_Visit]], path: list[Hop]) -> None:
        column = self._column[k]
        chunk = int(self._conditions.chunk[k])
        for hop, (link, start) in enumerate(path):
            length, total = self._lengths[link][column], self._totals[link][column]
            self._busy[link].take(start, start + length)
            self.rows.append((chunk, link, start))
            u, v = self._source[link], self._target[link]
            if u >= self._npus:
                visit = visits[u][-1]
                self._hold(u, visit, start, start + length, path[hop - 1] if hop else None, column)
                visit.departures.append((start, start + length))
            if v >= self._npus:
                visits.setdefault(v, []).append(_Visit(start + total))
                if self._keeps(v):
                    tree[v] = start + total
            else:
                tree[v] = start + total

    def _keeps(self, switch: int) -> bool:
        """Whether a chunk that has come to a switch may leave it more than once."""
        if self._relays:
            return False
        return not self._inverted or self._multicast[switch - self._npus]

    def _hold(self, switch: int, visit: _Visit, start: int, end: int, came: Hop | None, column: int) -> None:
        begin = visit.until
        visit.until = max(visit.until, end)
        if switch not in self._buffers:
            return
        if self._inverted and came is not None:
            # Run backwards, the departure is the arrival, and the place is free when the arrival's link is.
            begin, visit_end = came[1] + self._totals[came[0]][column] - self._lengths[came[0]][column], start
            if begin < visit_end:
                self._buffers[switch].take(begin, visit_end)
            return
        if begin < visit.until:
            self._buffers[switch].take(begin, visit.until)

    def _search(
        self,
        column: int,
        tree: dict[int, int],
        visits: dict[int, list[_Visit]],
        target: int,
        salt: int,
        not_before: dict[int, int],
    ) -> list[Hop] | int:
        """The path of earliest arrival; the number of a switch that refuses where all paths are blocked."""
        left = self._to[column][self._row_of[target]]
        mask = (1 << len(self._out).bit_length()) - 1
        salt &= mask
        found = dict(tree)
        via: dict[int, Hop] = {}
        heap = [(t + left[v], left[v], v ^ salt) for v, t in tree.items() if left[v] < 1 << 60]
        heapq.heapify(heap)
        blocked = -1
        while heap:
            least, here, key = heapq.heappop(heap)
            u = key ^ salt
            if found[u] + here < least:
                continue
            if u == target:
                return self._path(via, tree, target)
            for link in self._out[u]:
                v = self._target[link]
                there = left[v]
                if there >= here and (self._nearer or there >= 1 << 60):
                    continue
                if v in tree:
                    continue
                total, length = self._totals[link][column], self._lengths[link][column]
                earliest = max(found[u], not_before.get(v, 0) - total) if v in not_before else found[u]
                start = self._start(u, link, earliest, length, visits, u in tree, via.get(u), column)
                if start < 0:
                    blocked = u
                    continue
                arrival = start + total
                if v >= self._npus and not self._keeps(v):
                    arrival = self._after_visits(v, visits, link, start, total, length)
                    start = arrival - total
                if arrival >= found.get(v, 1 << 62):
                    continue
                found[v] = arrival
                via[v] = (link, start)
                heapq.heappush(heap, (arrival + there, there, v ^ salt))
        return blocked

    def _after_visits(
        self, switch: int, visits: dict[int, list[_Visit]], link: int, start: int, total: int, length: int
    ) -> int:
        """The first arrival at a switch when no other copy of the chunk is there."""
        for visit in visits.get(switch, ()):
            if start + total < visit.until:
                start = self._busy[link].next_free(visit.until - total, length)
        return start + total

    def _start(
        self,
        u: int,
        link: int,
        time: int,
        length: int,
        visits: dict[int, list[_Visit]],
        again: bool,
        came: Hop | None,
        column: int,
    ) -> int:
        """When a hop can start; -1 where a switch cannot keep the chunk so long."""
        start = self._busy[link].next_free(time, length)
        if u < self._npus:
            return start
        if not self._multicast[u - self._npus]:
            start = self._between(u, link, start, length, visits)
        if u not in self._buffers:
            return start
        if again:
            begin, end = visits[u][-1].until, start + length
        elif came is None:
            return start
        elif self._inverted:
            begin, end = self._latest_entry(came, start, column) - self._lengths[came[0]][column], start
        else:
            begin, end = self._latest_entry(came, start, column), start + length
        return start if begin >= end or self._buffers[u].room(begin, end) else -1

    def _latest_entry(self, came: Hop, start: int, column: int) -> int:
        """The last arrival over the link by which the chunk came that is in time for a departure."""
        link, entered = came
        total = self._totals[link][column]
        return self._busy[link].last_free(entered, start - total, self._lengths[link][column]) + total

    def _between(self, switch: int, link: int, start: int, length: int, visits: dict[int, list[_Visit]]) -> int:
        """The first start from `start` on at which the switch does not send the chunk over another link."""
        moved = True
        while moved:
            moved = False
            for visit in visits.get(switch, ()):
                for begin, end in visit.departures:
                    if start < end and begin < start + length:
                        start = self._busy[link].next_free(end, length)
                        moved = True
        return start

    def _path(self, via: dict[int, Hop], tree: dict[int, int], target: int) -> list[Hop]:
        path: list[Hop] = []
        v = target
        while v not in tree:
            path.append(via[v])
            v = self._source[via[v][0]]
        return path[::-1]
