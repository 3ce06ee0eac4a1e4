"""When links are free beside the translations of a plan."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from itertools import pairwise

import numpy as np

from collc.synthesis.symmetric.class_timetable import ClassTimes
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.factored_schedule import Translations
from collc.ten.schedule import Transfers

Route = list[int]
"""The links of a move from one element."""


class Gaps:
    """When links are free: between the translations of rows that are not dropped, and what is added."""

    def __init__(self, translations: Translations, times: ClassTimes, rows: Transfers) -> None:
        self._class: list[int] = translations.class_row.tolist()
        self._taken: list[int] = times.taken.tolist()
        self._window: list[int] = times.window.tolist()
        self._starts: list[list[int]] = []
        self._until: list[list[int]] = []
        order = np.lexsort((rows.start, translations.class_row[rows.link]))
        classes, start = translations.class_row[rows.link][order], rows.start[order]
        taken = times.taken[rows.link][order]
        bounds: list[int] = np.searchsorted(classes, np.arange(len(translations.class_links) + 1)).tolist()
        for low, high in pairwise(bounds):
            self._starts.append(start[low:high].tolist())
            ends = start[low:high] + taken[low:high]
            last: BoolArray = np.append(start[low + 1 : high] - ends[:-1] >= taken[low + 1 : high], True)[: high - low]
            stops: Int64Array = np.flatnonzero(last)
            self._until.append(ends[stops[np.searchsorted(stops, np.arange(high - low))]].tolist())
        self._dropped: dict[int, list[int]] = {}
        self._added: dict[int, list[int]] = {}
        self._full: dict[int, tuple[int, int]] = {}  # from when until when a transfer cannot start

    def drop(self, link: Int32Array, start: Int64Array) -> None:
        """Free links of translations of rows."""
        for number, time in zip(link.tolist(), start.tolist(), strict=True):
            insort(self._dropped.setdefault(number, []), time)
            self._full.pop(number, None)

    def reserve(self, link: int, start: int) -> None:
        """Take a link for a transfer."""
        insort(self._added.setdefault(link, []), start)

    def has_added(self, link: int, start: int) -> bool:
        """Whether a transfer at that time would meet one that was added."""
        added = self._added.get(link, [])
        after = bisect_right(added, start - self._taken[link])
        return after < len(added) and added[after] < start + self._taken[link]

    def earliest(self, route: Route, ready: int) -> tuple[list[int], int]:
        """The earliest starts on the links of a route, one after another, and the arrival."""
        starts: list[int] = []
        for link in route:
            low, high = self._full.get(link, (0, 0))
            start = high if low <= ready < high else ready
            while (later := self._next_try(link, start)) > start:
                start = later
            if ready <= high and start >= low:
                self._full[link] = min(low, ready), max(high, start)
            elif start - ready > high - low:
                self._full[link] = ready, start
            starts.append(start)
            ready = start + self._window[link]
        return starts, ready

    def _next_try(self, link: int, start: int) -> int:
        """When to try again if a transfer cannot start; else `start`."""
        number, end = self._class[link], start + self._taken[link]
        starts, dropped = self._starts[number], self._dropped.get(link, ())
        after = start - self._taken[link]
        k = bisect_right(starts, after)
        while k < len(starts) and starts[k] < end:
            gone = bisect_left(dropped, starts[k])
            if gone == len(dropped) or dropped[gone] != starts[k]:
                until = self._until[number][k]
                return min(until, dropped[gone]) if gone < len(dropped) else until
            k += 1
        if self.has_added(link, start):
            added = self._added[link]
            return added[bisect_right(added, after)] + self._taken[link]
        return start
