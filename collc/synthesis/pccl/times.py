"""Earliest-arrival search in exact time, for links and chunks of any kind, and for switches that can refuse a chunk.

Of each link and switch it is kept when it is taken. A switch holds a place in its buffer from the
arrival of a chunk to the end of its last departure; where it cannot, the chunk waits where it comes from:
the search starts over with later arrivals at that switch. In plain Python, and by the compiled kernel; both take
the same steps and give the same result.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from collc.graph.distances import UNREACHABLE
from collc.synthesis.conditions import Conditions
from collc.synthesis.pccl.busy import Buffer, Busy
from collc.synthesis.pccl.reserved import reserved
from collc.synthesis.pccl.rows import Rows
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.schedule import Transfers

Hop = tuple[int, int]
"""Link and start."""


@dataclass(frozen=True, eq=False)
class TimesProblem:
    """What both searches take; times in picoseconds.

    column: int32[rows], which size each row has, of those that any has. length, total: int64[sizes, links], how long
    a link is taken, and until arrival. to: int64[sizes, targets, devices]. taken: (link, start, end) and
    held: (switch, start, end), what is reserved, int64[n, 3].
    """

    conditions: Conditions
    column: Int32Array
    length: Int64Array
    total: Int64Array
    to: Int64Array
    taken: Int64Array
    held: Int64Array

    @staticmethod
    def of(conditions: Conditions, to: dict[int, Int64Array]) -> TimesProblem:
        """to: distances to the targets by column of the clock."""
        clock, kind = conditions.clock, conditions.task.network.kind
        columns = sorted(to)
        number = np.zeros(clock.busy.shape[1], np.int32)
        number[columns] = np.arange(len(columns))
        taken, held = reserved(conditions)
        return TimesProblem(
            conditions,
            number[conditions.column],
            np.ascontiguousarray(clock.busy[kind][:, columns].T),
            np.ascontiguousarray(clock.total[kind][:, columns].T),
            np.stack([to[column] for column in columns]),
            taken,
            held,
        )


def search_plain(problem: TimesProblem, rows: Rows, detour: Int64Array, stop: Callable[[], bool]) -> Transfers | None:
    """Plans the rows one after another; None where stopped.

    detour: int64[sizes], how near a target must be that is reached by any hops; else only hops that come nearer
    are taken.
    """
    engine = _Engine(problem, rows, detour)
    if not rows.each(engine.plan, stop):
        return None
    row, link, start = engine.transfers
    chunk = problem.conditions.chunk[np.array(row, np.int64)]
    return Transfers.of(chunk, np.array(link, np.int32), np.array(start, np.int64))


def search_compiled(
    problem: TimesProblem, rows: Rows, detour: Int64Array, stop: Callable[[], bool]
) -> Transfers | None:
    """What `search_plain` finds, by the compiled kernel."""
    from collc.kernels.pccl_times import Net, Work, begin, search_times

    p, task = problem, problem.conditions.task
    network = task.network
    offsets, links = network.out_links
    keeps = np.ones(network.switch_count, np.bool_)
    if task.relays:
        keeps[:] = False
    elif task.inverted:
        keeps[:] = network.multicast
    net = Net(
        offsets, links, network.source, network.target, p.length, p.total, network.npu_count, network.multicast, keeps,
        task.inverted,
    )  # fmt: skip
    work: Work = begin(net, network.buffers, p.taken, p.held)
    for part in rows.batches():
        if stop():
            return None
        work = search_times(
            part, rows.salt, rows.holder_offsets, rows.holders, rows.wanting_offsets, rows.wanting,
            p.conditions.release, p.column, p.to, p.conditions.target_row, detour, net, work,
        )  # fmt: skip
    found = work.transfers[: work.count[0]]
    return Transfers.of(p.conditions.chunk[found[:, 0]], found[:, 1].astype(np.int32), found[:, 2])


class _Stay:
    """A chunk in a switch: until when its last visit and any visit last, and all departures."""

    __slots__ = ("departures", "last", "until")

    def __init__(self) -> None:
        self.until = self.last = 0
        self.departures: list[tuple[int, int]] = []


class _Engine:
    def __init__(self, problem: TimesProblem, rows: Rows, detour: Int64Array) -> None:
        task = problem.conditions.task
        network = task.network
        self.transfers: tuple[list[int], list[int], list[int]] = ([], [], [])
        self._rows, self._inverted, self._relays = rows, task.inverted, task.relays
        self._npus = network.npu_count
        self._to: list[list[list[int]]] = problem.to.tolist()
        self._row_of: list[int] = problem.conditions.target_row.tolist()
        self._release: list[int] = problem.conditions.release.tolist()
        self._column: list[int] = problem.column.tolist()
        self._detour: list[int] = detour.tolist()
        self._lengths: list[list[int]] = problem.length.tolist()
        self._totals: list[list[int]] = problem.total.tolist()
        self._source: list[int] = network.source.tolist()
        self._target: list[int] = network.target.tolist()
        self._out = [list[int]() for _ in range(network.device_count)]
        for link, u in enumerate(self._source):
            self._out[u].append(link)
        self._busy = [Busy() for _ in self._target]
        taken: list[list[int]] = problem.taken.tolist()
        for link, start, end in taken:
            self._busy[link].take(start, end)
        self._multicast: list[bool] = network.multicast.tolist()
        sizes: list[int] = network.buffers.tolist()
        self._buffers = {self._npus + k: Buffer(size) for k, size in enumerate(sizes) if size >= 0}
        held: list[list[int]] = problem.held.tolist()
        for switch, start, end in held:
            self._buffers[self._npus + switch].take(start, end)

    def plan(self, k: int) -> None:
        """Brings one row's chunk to all who want it, the nearest first."""
        holders, wanting = self._rows.of(k)
        tree = dict.fromkeys(holders, self._release[k])
        stays: dict[int, _Stay] = {}
        to = self._to[self._column[k]]
        near = [min(to[self._row_of[v]][h] for h in holders) for v in wanting]
        for _, target in sorted(zip(near, wanting, strict=True), key=lambda pair: pair[0]):
            if target not in tree:
                self._extend(k, tree, stays, target)

    def _extend(self, k: int, tree: dict[int, int], stays: dict[int, _Stay], target: int) -> None:
        column = self._column[k]
        mask = (1 << len(self._out).bit_length()) - 1
        salt = int(self._rows.salt[k]) & mask
        not_before: dict[int, int] = {}
        while True:
            found = self._search(column, tree, stays, target, salt, not_before)
            if not isinstance(found, tuple):
                break
            # Every path is blocked at a switch: give the chunk up there, or come to it when a place is free.
            switch, later = found
            if tree.pop(switch, None) is None:
                not_before[switch] = later
        self._book(k, tree, stays, self._late(column, found))

    def _late(self, column: int, path: list[Hop]) -> list[Hop]:
        """The path with every hop into a switch with a limit as late as the hop out of it allows."""
        result = [path[-1]]
        for link, start in reversed(path[:-1]):
            latest = result[-1][1] - self._totals[column][link]
            late = (
                self._busy[link].last_free(start, latest, self._lengths[column][link]) if self._waits(link) else start
            )
            result.append((link, late))
        return result[::-1]

    def _waits(self, link: int) -> bool:
        """Whether a hop may be put off: from an NPU into a switch with a limit."""
        return self._target[link] in self._buffers and self._source[link] < self._npus

    def _book(self, k: int, tree: dict[int, int], stays: dict[int, _Stay], path: list[Hop]) -> None:
        column = self._column[k]
        for hop, (link, start) in enumerate(path):
            end, arrival = start + self._lengths[column][link], start + self._totals[column][link]
            self._busy[link].take(start, end)
            for values, value in zip(self.transfers, (k, link, start), strict=True):
                values.append(value)
            u, v = self._source[link], self._target[link]
            if u >= self._npus:
                self._hold(u, stays[u], start, end, path[hop - 1] if hop else None, column)
            if v >= self._npus:
                stay = stays.setdefault(v, _Stay())
                stay.until, stay.last = arrival, max(arrival, stay.last)
            if v < self._npus or self._keeps(v):
                tree[v] = arrival

    def _keeps(self, switch: int) -> bool:
        """Whether a chunk that has come to a switch may leave it more than once."""
        if self._relays:
            return False
        return not self._inverted or self._multicast[switch - self._npus]

    def _hold(self, switch: int, stay: _Stay, start: int, end: int, came: Hop | None, column: int) -> None:
        # Run backwards, a departure is an arrival: the place is taken from when it begins.
        begin, finish = stay.until, max(stay.until, start if self._inverted else end)
        stay.until, stay.last = finish, max(finish, end, stay.last)
        stay.departures.append((start, end))
        if self._inverted and came is not None:
            # And it is free when the link of the arrival is.
            link, entered = came
            begin, finish = entered + self._totals[column][link] - self._lengths[column][link], start
        if switch in self._buffers and begin < finish:
            self._buffers[switch].take(begin, finish)

    def _search(
        self,
        column: int,
        tree: dict[int, int],
        stays: dict[int, _Stay],
        target: int,
        salt: int,
        not_before: dict[int, int],
    ) -> list[Hop] | Hop:
        """The path of earliest arrival; a switch that refuses, and until when, where all paths are blocked."""
        left = self._to[column][self._row_of[target]]
        roam = min(left[v] for v in tree) <= self._detour[column]
        found = dict(tree)
        via: dict[int, Hop] = {}
        heap = [(t + left[v], left[v], v ^ salt) for v, t in tree.items() if left[v] < UNREACHABLE]
        heapq.heapify(heap)
        blocked = -1, 0
        while heap:
            least, here, key = heapq.heappop(heap)
            u = key ^ salt
            if found[u] + here < least:
                continue
            if u == target:
                return self._path(via, tree, target)
            refused = UNREACHABLE
            for link in self._out[u]:
                v = self._target[link]
                there = left[v]
                if there >= (UNREACHABLE if roam else here) or v in tree:
                    continue
                total = self._totals[column][link]
                earliest = max(found[u], not_before[v] - total) if v in not_before else found[u]
                if v in stays and not self._keeps(v):
                    earliest = max(earliest, stays[v].last - total)  # after its other copies
                start, until = self._start(u, link, earliest, column, stays, u in tree, via.get(u))
                if until >= 0:
                    refused = min(refused, until)
                    continue
                if start + total >= found.get(v, UNREACHABLE):
                    continue
                found[v] = start + total
                via[v] = (link, start)
                heapq.heappush(heap, (start + total + there, there, v ^ salt))
            if refused < UNREACHABLE:
                blocked = u, refused
        return blocked

    def _start(
        self, u: int, link: int, time: int, column: int, stays: dict[int, _Stay], again: bool, came: Hop | None
    ) -> tuple[int, int]:
        """When a hop can start, and -1, or until when the chunk must not come, where the switch cannot keep it so long.

        again: whether the chunk is in the switch for another hop. came: the hop by which it comes there.
        """
        length = self._lengths[column][link]
        start = self._busy[link].next_free(time, length)
        if u < self._npus:
            return start, -1
        if u in stays and not self._multicast[u - self._npus]:
            start = self._between(link, start, length, stays[u])
        if u not in self._buffers:
            return start, -1
        begin, end, least, tail = stays[u].until if again else 0, start + (0 if self._inverted else length), length, 0
        if came is not None and not again:
            total, taken = self._totals[column][came[0]], self._lengths[column][came[0]]
            begin = came[1] + total
            if self._waits(came[0]):
                begin = self._busy[came[0]].last_free(came[1], start - total, taken) + total
            if self._inverted:
                begin, end, least, tail = begin - taken, start, taken, taken
        until = self._buffers[u].refuses(begin, end, least) if begin < end else -1
        return start, until + tail if until >= 0 else -1

    def _between(self, link: int, start: int, length: int, stay: _Stay) -> int:
        """The first start from `start` on at which the switch does not send the chunk over another link."""
        moved = True
        while moved:
            moved = False
            for begin, end in stay.departures:
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
