"""Timetables of classes of links: a class is one machine, since all translations of a transfer use it at once.

The translations of a transfer by all elements take every link of its class equally long, so two transfers of the
representative whose times on the class are disjoint never meet on a link, nor do their translations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.kernels.compiled import compiled, numbers, zeros
from collc.kernels.first_gaps import first_gaps
from collc.synthesis.symmetric.routes import ClassTimes
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.translations import Translations

COMPILED = 500_000
"""Transfers on a class from which the search for gaps is compiled."""

Reserved = tuple[Int64Array, Int64Array]
"""Begins and ends of disjoint intervals, ascending, in picoseconds."""

NOTHING: Reserved = np.empty(0, np.int64), np.empty(0, np.int64)


class ClassTimetable:
    """The times at which each class of links is taken by all transfers so far."""

    def __init__(self, translations: Translations, times: ClassTimes) -> None:
        self._class, self._times = translations.class_row, times
        self._reserved: dict[int, Reserved] = {}

    def reserve(self, link: Int32Array, start: Int64Array) -> None:
        """Take the class of each link from a start on for as long as a transfer on it takes it."""
        number = self._class[link]
        order = np.lexsort((start, number))
        classes, first = np.unique(number[order], return_index=True)
        for one, rows in zip(classes.tolist(), np.split(order, first[1:]), strict=True):
            self._add(one, start[rows], start[rows] + self._times.taken[link[rows]])

    def append(self, routes: Int32Array, release: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Send a chunk over each route, int32[chunks, hops] with -1 after the end, so that it arrives early.

        A class serves chunks in order of arrival, in the gaps that earlier calls left; of chunks that arrive together,
        the one with the longest remaining route goes first, then the one with the lower row. Where a chunk would wait
        in a switch, it leaves later, so that gaps stay for what is sent next. Returns (starts int64[chunks, hops],
        arrivals int64[chunks]).
        """
        used = routes >= 0
        row_class = np.where(used, self._class[routes], -1)
        window = np.where(used, self._times.window[routes], 0)
        to_go = np.cumsum(window[:, ::-1], axis=1)[:, ::-1]
        ready = release.copy()
        starts = np.zeros(routes.shape, np.int64)
        served: list[_Service] = []
        parts, ordered = _visits(row_class)
        for visits in parts:
            row, hop = np.divmod(visits, routes.shape[1])
            order = np.lexsort((row, -to_go[row, hop], ready[row]))
            row, hop = row[order], hop[order]
            number = int(row_class[row[0], hop[0]])
            taken = int(self._times.taken[routes[row[0], hop[0]]])
            start = self._serve(number, taken, ready[row])
            starts[row, hop] = start
            ready[row] = start + window[row, hop]
            if ordered:
                served.append(_Service(number, row, hop, taken))
            else:
                self._add(number, start, start + taken)
        for one in reversed(served):
            self._postpone(one, starts, window, used)
        for one in served:
            start = starts[one.row, one.hop]
            self._add(one.number, start, start + one.taken)
        return starts, ready

    def _serve(self, number: int, taken: int, ready: Int64Array) -> Int64Array:
        """int64: the starts of transfers on a class, one after another, between those before. ready: ascending."""
        begins, ends = self._reserved.get(number, NOTHING)
        if len(ends) and int(ends[-1]) > int(ready[0]):
            return _gap_starts(ready, taken, begins, ends)
        position = np.arange(len(ready), dtype=np.int64) * taken
        return np.maximum.accumulate(ready - position) + position

    def _postpone(self, one: _Service, starts: Int64Array, window: Int64Array, used: BoolArray) -> None:
        """Move the starts of a service so late that the next hops stay where they are, and the order on the class."""
        after = np.minimum(one.hop + 1, starts.shape[1] - 1)
        goes_on = (one.hop + 1 < starts.shape[1]) & used[one.row, after]
        start = starts[one.row, one.hop]
        latest = np.where(goes_on, starts[one.row, after] - window[one.row, one.hop], start)
        begins, ends = self._reserved.get(one.number, NOTHING)
        if len(ends) and int(ends[-1]) > int(start[0]):
            # Backwards in time, the latest starts are the first gaps.
            end = max(int(ends[-1]), int(latest.max()) + one.taken)
            back = _gap_starts((end - latest - one.taken)[::-1], one.taken, (end - ends)[::-1], (end - begins)[::-1])
            starts[one.row, one.hop] = (end - back - one.taken)[::-1]
            return
        position = np.arange(len(start), dtype=np.int64) * one.taken
        starts[one.row, one.hop] = np.minimum.accumulate((latest - position)[::-1])[::-1] + position

    def _add(self, number: int, begins: Int64Array, ends: Int64Array) -> None:
        """Reserve a class for more intervals, ascending."""
        old = self._reserved.get(number, NOTHING)
        if len(old[0]) and int(old[0][-1]) > int(begins[0]):
            begins, ends = np.concatenate([old[0], begins]), np.concatenate([old[1], ends])
            order = np.argsort(begins, kind="stable")
            self._reserved[number] = begins[order], ends[order]
        else:
            self._reserved[number] = np.concatenate([old[0], begins]), np.concatenate([old[1], ends])


@dataclass(frozen=True, eq=False)
class _Service:
    """What a class carries in one call: rows and hops in order."""

    number: int
    row: Int64Array
    hop: Int64Array
    taken: int


def _gap_starts(ready: Int64Array, taken: int, begins: Int64Array, ends: Int64Array) -> Int64Array:
    """int64: the starts that the kernel `first_gaps` finds."""
    compile_it = len(ready) + len(ends) >= COMPILED
    found = zeros(len(ready), compile_it)
    kernel = compiled(first_gaps) if compile_it else first_gaps
    columns = [numbers(np.ascontiguousarray(column), compile_it) for column in (ready, begins, ends)]
    kernel(columns[0], taken, columns[1], columns[2], found)
    return np.asarray(found, np.int64)


def _visits(row_class: Int32Array) -> tuple[list[Int64Array], bool]:
    """The positions in the flat table that are in each class, a class after those that come before it on routes.

    Where no such order exists, each hop of each class by itself; the second result is whether it does.
    """
    before, after = row_class[:, :-1].reshape(-1), row_class[:, 1:].reshape(-1)
    both = after >= 0
    pairs = np.unique(np.stack([before[both], after[both]]), axis=1)
    flat = row_class.reshape(-1)
    order = np.argsort(flat, kind="stable")
    order = order[int(np.searchsorted(flat[order], 0)) :]
    classes, first = np.unique(flat[order], return_index=True)
    parts = dict(zip(classes.tolist(), np.split(order, first[1:]), strict=True))
    rank = _topological_order(classes.tolist(), pairs.T.tolist())
    if rank is not None:
        return [parts[number] for number in rank], True
    width = row_class.shape[1]
    each = [parts[number][parts[number] % width == hop] for hop in range(width) for number in classes.tolist()]
    return [part for part in each if len(part)], False


def _topological_order(vertices: list[int], edges: list[list[int]]) -> list[int] | None:
    """Vertices, each after all from which edges lead to it; None if there is a cycle (Kahn, 1962)."""
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
