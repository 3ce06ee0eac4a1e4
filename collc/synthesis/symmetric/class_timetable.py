"""Timetables of classes of links: a class is one machine, since all translations of a transfer use it at once.

The translations of a transfer by all elements take every link of its class equally long, so two transfers of the
representative whose times on the class are disjoint never meet on a link, nor do their translations.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collc.synthesis.symmetric.routes import ClassTimes
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.translations import Translations


class ClassTimetable:
    """When each class of links is free, after all transfers so far. free: int64[classes], picoseconds."""

    def __init__(self, translations: Translations, times: ClassTimes) -> None:
        self._class, self._times = translations.class_row, times
        self.free = np.zeros(len(translations.class_links), np.int64)

    def append(self, routes: Int32Array, release: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Send a chunk over each route, int32[chunks, hops] with -1 after the end, as early as possible.

        A class serves chunks in order of arrival; of those that arrive together first what has the longest way to go,
        then in the order of rows. Returns (starts int64[chunks, hops], arrivals int64[chunks]).
        """
        used = routes >= 0
        row_class = np.where(used, self._class[routes], -1)
        window = np.where(used, self._times.window[routes], 0)
        to_go = np.cumsum(window[:, ::-1], axis=1)[:, ::-1]
        ready = release.copy()
        starts = np.zeros(routes.shape, np.int64)
        for visits in _visits(row_class):
            row, hop = np.divmod(visits, routes.shape[1])
            order = np.lexsort((row, -to_go[row, hop], ready[row]))
            row, hop = row[order], hop[order]
            number = int(row_class[row[0], hop[0]])
            start = self._served(number, int(self._times.taken[routes[row[0], hop[0]]]), ready[row])
            starts[row, hop] = start
            ready[row] = start + window[row, hop]
        return starts, ready

    def _served(self, number: int, taken: int, ready: Int64Array) -> Int64Array:
        """int64: the starts of transfers on a class, one after another. ready: ascending."""
        position = np.arange(len(ready), dtype=np.int64) * taken
        latest = np.maximum.accumulate(np.maximum(ready - position, self.free[number]))
        start = latest + position
        self.free[number] = start[-1] + taken
        return start


def _visits(row_class: Int32Array) -> Iterator[Int64Array]:
    """The positions in the flat table that are in each class, a class after those that come before it on routes.

    Where no such order exists, each hop of each class by itself.
    """
    before, after = row_class[:, :-1].reshape(-1), row_class[:, 1:].reshape(-1)
    both = after >= 0
    pairs = np.unique(np.stack([before[both], after[both]]), axis=1)
    flat = row_class.reshape(-1)
    order = np.argsort(flat, kind="stable")
    order = order[int(np.searchsorted(flat[order], 0)) :]
    classes, first = np.unique(flat[order], return_index=True)
    parts = dict(zip(classes.tolist(), np.split(order, first[1:]), strict=True))
    rank = _topological(classes.tolist(), pairs.T.tolist())
    if rank is not None:
        yield from (parts[number] for number in rank)
        return
    for hop in range(row_class.shape[1]):
        for number in classes.tolist():
            here = parts[number][parts[number] % row_class.shape[1] == hop]
            if len(here):
                yield here


def _topological(vertices: list[int], edges: list[list[int]]) -> list[int] | None:
    """Vertices, each after all from which edges lead to it; None where there is a cycle (Kahn, 1962)."""
    out: dict[int, list[int]] = {vertex: [] for vertex in vertices}
    waiting = dict.fromkeys(vertices, 0)
    for a, b in edges:
        out[a].append(b)
        waiting[b] += 1
    order = [vertex for vertex in vertices if not waiting[vertex]]
    for vertex in order:
        for after in out[vertex]:
            waiting[after] -= 1
            if not waiting[after]:
                order.append(after)
    return order if len(order) == len(vertices) else None
