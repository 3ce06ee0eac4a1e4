"""When links and buffer slots are occupied, in picoseconds. Intervals are half open: [start, end)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

import numpy as np

from collc.synthesis.task import Task
from collc.ten.arrays import Int64Array
from collc.ten.schedule import Clock, Transfers

Intervals = list[tuple[int, int]]
"""(start, end) in picoseconds; they may overlap."""


class Timeline:
    """The reserved intervals of one link: ascending and disjoint, and none touches another."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def __len__(self) -> int:
        return len(self.starts)

    def reserve(self, start: int, end: int) -> None:
        """Adds an interval, and merges it with those that it overlaps or touches."""
        low = bisect_left(self.ends, start)
        high = bisect_right(self.starts, end)
        if low < high:
            start, end = min(start, self.starts[low]), max(end, self.ends[high - 1])
        self.starts[low:high] = [start]
        self.ends[low:high] = [end]

    def next_free(self, time: int, length: int) -> int:
        """The first start from `time` on from which the link is free for `length`."""
        ends = self.ends
        if not ends or ends[-1] <= time:
            return time
        k = bisect_right(ends, time)
        while k < len(ends) and self.starts[k] < time + length:
            time = max(time, ends[k])
            k += 1
        return time

    def last_free(self, time: int, latest: int, length: int) -> int:
        """The last start from `time` to `latest` from which the link is free for `length`; `time` must be one."""
        while latest > time:
            k = bisect_left(self.starts, latest + length) - 1
            if k < 0 or self.ends[k] <= latest:
                return latest
            latest = self.starts[k] - length
        return time


class StepTimeline:
    """The reserved steps of one link, a Timeline if all transfers take one step."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free = bytearray()

    def reserve(self, start: int, end: int) -> None:
        """Takes a step, `start`, which is free."""
        if end > len(self._free):
            self._free += b"\1" * end
        self._free[start] = 0

    def next_free(self, time: int, _length: int) -> int:
        """The first free step from `time` on."""
        step = self._free.find(1, time)
        return step if step >= 0 else max(time, len(self._free))


class SlotTimeline:
    """How many slots of a buffer are occupied: occupied[k] from times[k] on; in the end none.

    scanned: how many of these times have been looked at one after another so far.
    """

    __slots__ = ("occupied", "scanned", "size", "times")

    def __init__(self, size: int) -> None:
        """size: how many slots there are."""
        self.size, self.scanned = size, 0
        self.times: list[int] = [0]
        self.occupied: list[int] = [0]

    def reserve(self, start: int, end: int) -> None:
        """Occupies one slot; 0 <= start < end."""
        for time in (start, end):
            k = bisect_left(self.times, time)
            if k == len(self.times) or self.times[k] != time:
                self.times.insert(k, time)
                self.occupied.insert(k, self.occupied[k - 1])
        first, after = bisect_left(self.times, start), bisect_left(self.times, end)
        self.scanned += after - first
        for k in range(first, after):
            self.occupied[k] += 1

    def full_until(self, start: int, end: int, least: int) -> int:
        """-1 where a slot is free from start to end; else when, after the buffer is full, one is free for `least`."""
        k = last = bisect_left(self.times, end) - 1
        while self.occupied[k] < self.size:
            if self.times[k] <= start:
                self.scanned += last - k
                return -1
            k -= 1
        free = self.times[k + 1]
        self.scanned += last - 2 * k
        while k + 1 < len(self.times) and self.times[k + 1] < free + least:
            k += 1
            if self.occupied[k] >= self.size:
                free = self.times[k + 1]
        self.scanned += k
        return free


def link_timelines(transfers: Transfers | None, clock: Clock) -> dict[int, Timeline]:
    """The timelines of the links that some transfers use."""
    timelines: dict[int, Timeline] = {}
    if transfers is not None:
        ends: list[int] = (transfers.start + clock.busy_of(transfers)).tolist()
        for link, start, end in zip(transfers.link.tolist(), transfers.start.tolist(), ends, strict=True):
            timelines.setdefault(link, Timeline()).reserve(start, end)
    return timelines


def interval_table(
    timelines: Mapping[int, Timeline], links: Iterable[int]
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """(first, starts, ends), each int64: the intervals of the k-th of some links are first[k] .. first[k + 1] - 1.

    A link without a timeline has no intervals.
    """
    empty = Timeline()
    rows = [timelines.get(link, empty) for link in links]
    first = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    starts = np.array([start for row in rows for start in row.starts], np.int64)
    return first, starts, np.array([end for row in rows for end in row.ends], np.int64)


def slots_used(task: Task, clock: Clock) -> dict[int, Intervals]:
    """By switch with a limited buffer, when transfers that are planned already occupy its slots, at most.

    Each arrival of a chunk counts as a slot from the start of the first transfer of this chunk into or out of the
    switch to the end of the last one, since the plan may run backwards.
    """
    planned, network = task.reserved, task.network
    visits: dict[tuple[int, int], list[int]] = {}
    used: dict[int, Intervals] = {}
    if planned is None:
        return used
    limited = {switch for switch, size in enumerate(network.buffers.tolist(), network.npu_count) if size >= 0}
    ends = (planned.start + clock.total_of(planned)).tolist()
    sources, targets = network.source[planned.link].tolist(), network.target[planned.link].tolist()
    columns = zip(planned.chunk.tolist(), sources, targets, planned.start.tolist(), ends, strict=True)
    for chunk, source, target, start, end in columns:
        for switch, arrivals in ((target, 1), (source, 0)):
            if switch in limited:
                visit = visits.setdefault((switch, chunk), [start, end, 0])
                visit[:] = min(visit[0], start), max(visit[1], end), visit[2] + arrivals
    for (switch, _), (first, last, arrivals) in visits.items():
        used.setdefault(switch, []).extend([(first, last)] * max(1, arrivals))
    return used
