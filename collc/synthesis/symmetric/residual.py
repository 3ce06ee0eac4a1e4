"""What a plan by translations leaves free on each link, after some of its transfers were dropped."""

from __future__ import annotations

from bisect import bisect_right, insort

import numpy as np

from collc.synthesis.symmetric.routes import ClassTimes
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.translations import Translations


class _LinkTimes:
    """The starts of transfers on one link, which take equal time."""

    def __init__(self, starts: list[int], taken: int) -> None:
        self._starts, self._taken = starts, taken
        self._full = 0, 0

    def first(self, ready: int) -> int:
        """The earliest free start from `ready` on."""
        at = self._full[1] if self._full[0] <= ready < self._full[1] else ready
        position = bisect_right(self._starts, at - self._taken)
        while position < len(self._starts) and self._starts[position] < at + self._taken:
            at = self._starts[position] + self._taken
            position += 1
        if at - ready > self._full[1] - self._full[0]:
            self._full = ready, at
        return at

    def take(self, start: int) -> None:
        """Occupy the link."""
        insort(self._starts, start)


class ResidualTimes:
    """The free times of all links; those of a link are found when it is first asked for.

    link, start: the transfers of the representative, of which no two translations use the same link.
    """

    def __init__(self, translations: Translations, times: ClassTimes, link: Int32Array, start: Int64Array) -> None:
        self._translations, self._times = translations, times
        number = translations.class_row[link]
        order = np.argsort(number, kind="stable")
        classes, first = np.unique(number[order], return_index=True)
        parts = np.split(start[order], first[1:])
        self._starts: dict[int, list[int]] = {
            int(one): np.sort(part).tolist() for one, part in zip(classes, parts, strict=True)
        }
        self._dropped: dict[int, set[int]] = {}
        self._known: dict[int, _LinkTimes] = {}

    def drop(self, link: Int32Array, start: Int64Array) -> None:
        """Free the times of transfers. Before any question."""
        for one, at in zip(link.tolist(), start.tolist(), strict=True):
            self._dropped.setdefault(one, set()).add(at)

    def earliest(self, links: list[int], ready: int) -> tuple[list[int], int]:
        """The earliest starts on the links of a route, one after another, and the arrival."""
        starts: list[int] = []
        for link in links:
            starts.append(self._of(link).first(ready))
            ready = starts[-1] + int(self._times.window[link])
        return starts, ready

    def take(self, links: list[int], starts: list[int]) -> None:
        """Occupy the links of a route."""
        for link, start in zip(links, starts, strict=True):
            self._of(link).take(start)

    def _of(self, link: int) -> _LinkTimes:
        found = self._known.get(link)
        if found is None:
            starts = self._starts.get(int(self._translations.class_row[link]), [])
            dropped = self._dropped.get(link)
            left = [start for start in starts if start not in dropped] if dropped else starts.copy()
            found = self._known[link] = _LinkTimes(left, int(self._times.taken[link]))
        return found
