"""When links and places in switches are taken, in exact time. The compiled twin is collc/kernels/pccl_busy.py."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Busy:
    """When a link is taken: disjoint intervals, ascending; those that touch are one."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def next_free(self, time: int, length: int) -> int:
        """The first time from `time` on at which it is free for so long."""
        ends = self.ends
        if not ends or ends[-1] <= time:
            return time
        k = bisect_right(ends, time)
        while k < len(ends) and self.starts[k] < time + length:
            time = max(time, ends[k])
            k += 1
        return time

    def last_free(self, time: int, latest: int, length: int) -> int:
        """The last start from `time` to `latest` at which it is free for so long; `time` must be one."""
        while latest > time:
            k = bisect_left(self.starts, latest + length) - 1
            if k < 0 or self.ends[k] <= latest:
                return latest
            latest = self.starts[k] - length
        return time

    def take(self, start: int, end: int) -> None:
        """Takes an interval, which may overlap others."""
        low = bisect_left(self.ends, start)
        high = bisect_right(self.starts, end)
        if low < high:
            start, end = min(start, self.starts[low]), max(end, self.ends[high - 1])
        self.starts[low:high] = [start]
        self.ends[low:high] = [end]


class Buffer:
    """How many places of a switch are taken when: from times[k] on, held[k]; in the end none."""

    __slots__ = ("held", "size", "times")

    def __init__(self, size: int) -> None:
        self.size = size
        self.times: list[int] = [0]
        self.held: list[int] = [0]

    def refuses(self, start: int, end: int, least: int) -> int:
        """-1 where a place is free from start to end; else when, after it is full, one is free for `least`."""
        k = bisect_left(self.times, end) - 1
        while self.held[k] < self.size:
            if self.times[k] <= start:
                return -1
            k -= 1
        free = self.times[k + 1]
        while k + 1 < len(self.times) and self.times[k + 1] < free + least:
            k += 1
            if self.held[k] >= self.size:
                free = self.times[k + 1]
        return free

    def take(self, start: int, end: int) -> None:
        """Takes a place."""
        for time in (start, end):
            k = bisect_left(self.times, time)
            if k == len(self.times) or self.times[k] != time:
                self.times.insert(k, time)
                self.held.insert(k, self.held[k - 1])
        for k in range(bisect_left(self.times, start), bisect_left(self.times, end)):
            self.held[k] += 1
