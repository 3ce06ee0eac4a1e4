"""Routes over the switches of a network that load all classes of links alike, and timetables of these classes.

The translations of a transfer by all elements take every link of its class equally long, so a class is one machine:
two transfers of the representative whose times on the class are disjoint never meet on a link, nor do their
translations.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final, NamedTuple

import numpy as np

from collc.graph.distances import UNREACHABLE
from collc.kernels.compiled import numbers, runs_compiled, version_of, zeros
from collc.kernels.first_gaps import first_gaps
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.factored_schedule import Translations
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

MOST_ROUNDS: Final = 64
"""Parts in which routes are chosen at most, each by what the parts before it load."""


@dataclass(frozen=True, eq=False)
class ClassTimes:
    """How long a chunk takes on each link if all its translations go at once, in picoseconds, int64[links].

    taken: until the link is free for the next transfer. window: until the last translation has arrived. turn: between
    two translations on the same link; 0 if each has a link of its own.
    """

    taken: Int64Array
    window: Int64Array
    turn: Int64Array

    @staticmethod
    def of(network: Network, translations: Translations, model: LinkModel, size: int) -> ClassTimes:
        """The times of chunks of a size. Raises ValueError if links have no bandwidth or latency."""
        sent = network.occupancy(np.array([size], np.int64))[network.kind, 0]
        total = sent + network.latencies[network.kind]
        busy = model.busy(sent, total)
        share = translations.link_share.astype(np.int64)
        return ClassTimes(share * busy, (share - 1) * busy + total, np.where(share > 1, busy, 0))


class Routes:
    """Shortest routes from the representative NPU. through: whether other NPUs may pass chunks on, or only switches."""

    def __init__(self, network: Network, translations: Translations, times: ClassTimes, *, through: bool) -> None:
        origin = self._origin = int(translations.orbits[0, 0])
        self._network, self._class, self._times = network, translations.class_row, times
        self._load = np.zeros(len(translations.class_links), np.int64)
        usable = network.target != origin
        if not through:
            usable &= (network.source >= network.npu_count) | (network.source == origin)
        self.distance = np.full(network.device_count, UNREACHABLE, np.int64)
        self.distance[origin] = 0
        self._tight = self._relax(np.flatnonzero(usable))

    def _relax(self, links: Int64Array) -> Int64Array:
        """The links of all shortest routes. Sets the distances (Bellman and Ford; routes have few links)."""
        source, target, window = self._network.source[links], self._network.target[links], self._times.window[links]
        while True:
            before = self.distance.copy()
            np.minimum.at(self.distance, target, np.minimum(UNREACHABLE, before[source] + window))
            if np.array_equal(before, self.distance):
                break
        reached = self.distance[target] < UNREACHABLE
        return links[reached & (self.distance[source] + window == self.distance[target])]

    def to(self, targets: Int32Array, weight: int = 1) -> Int32Array:
        """int32[targets, hops]: the links of a route to each NPU, -1 after its end.

        weight: how often each route is used, for the loads that further routes avoid.
        """
        into = np.bincount(self._network.target[self._tight], minlength=self._network.device_count)
        rounds = min(MOST_ROUNDS, int(into.max(initial=1)) ** 2, max(1, len(targets)))
        parts: list[Int32Array] = []
        for number in range(rounds):
            part = self._follow(targets[number::rounds])
            used = part[part >= 0]
            self._load += np.bincount(
                self._class[used], weights=self._times.taken[used] * weight, minlength=len(self._load)
            ).astype(np.int64)
            parts.append(part)
        routes = np.full((len(targets), max(part.shape[1] for part in parts)), -1, np.int32)
        for number, part in enumerate(parts):
            routes[number::rounds, : part.shape[1]] = part
        return routes

    def _follow(self, targets: Int32Array) -> Int32Array:
        """The routes over the slowest last link (so that NPUs pass chunks on early), and the least loaded classes."""
        network, tight = self._network, self._tight
        load, slow = self._load[self._class[tight]], -self._times.window[tight]
        order = tight[np.lexsort((tight, load, slow, network.target[tight]))]
        before = np.full(network.device_count, -1, np.int32)
        before[network.target[order[::-1]]] = order[::-1]  # the first of each target stays
        hops: list[Int32Array] = []
        device = targets
        while bool((device != self._origin).any()):
            link = np.where(device != self._origin, before[device], -1).astype(np.int32)
            hops.append(link)
            device = np.where(link >= 0, network.source[link], self._origin).astype(np.int32)
        routes = np.stack(hops[::-1], axis=1) if hops else np.empty((len(targets), 0), np.int32)
        return np.take_along_axis(routes, np.argsort(routes < 0, axis=1, kind="stable"), axis=1)  # links first


Reserved = tuple[Int64Array, Int64Array]
"""Begins and ends of disjoint intervals, ascending, in picoseconds."""

NOTHING: Final[Reserved] = np.empty(0, np.int64), np.empty(0, np.int64)


class _Service(NamedTuple):
    """What a class carries in one call: rows and hops in order, and how long each takes it."""

    number: int
    row: Int64Array
    hop: Int64Array
    taken: int


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
        for link_class, rows in zip(classes.tolist(), np.split(order, first[1:]), strict=True):
            self._add(link_class, start[rows], start[rows] + self._times.taken[link[rows]])

    def append(self, routes: Int32Array, release: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Send a chunk over each route, int32[chunks, hops] with -1 after the end, so that it arrives early.

        A class serves chunks in order of arrival, in the gaps that earlier calls left; of chunks that arrive together,
        the one with the longest remaining route goes first, then the one with the lower row. If a chunk would wait in
        a switch, it leaves later, so that gaps stay for what is sent next. Returns (starts int64[chunks, hops],
        arrivals int64[chunks]).
        """
        used = routes >= 0
        row_class = np.where(used, self._class[routes], -1)
        window = np.where(used, self._times.window[routes], 0)
        to_go = np.cumsum(window[:, ::-1], axis=1)[:, ::-1]
        ready = release.copy()
        starts = np.zeros(routes.shape, np.int64)
        services: list[_Service] = []
        parts, ordered = _visits(row_class)
        for visits in parts:
            row, hop = np.divmod(visits, routes.shape[1])
            order = np.lexsort((row, -to_go[row, hop], ready[row]))
            row, hop = row[order], hop[order]
            number = int(row_class[row[0], hop[0]])
            taken = int(self._times.taken[routes[row[0], hop[0]]])
            start = _gap_starts(ready[row], taken, *self._reserved.get(number, NOTHING))
            starts[row, hop] = start
            ready[row] = start + window[row, hop]
            services.append(_Service(number, row, hop, taken))
            if not ordered:
                self._add(number, start, start + taken)
        if ordered:
            for service in reversed(services):
                self._postpone(service, starts, window, to_go)
            for number, row, hop, taken in services:
                self._add(number, starts[row, hop], starts[row, hop] + taken)
        return starts, ready

    def _postpone(self, service: _Service, starts: Int64Array, window: Int64Array, to_go: Int64Array) -> None:
        """Move the starts of a service so late that the next hops stay where they are, and the order on the class."""
        number, row, hop, taken = service
        after = np.minimum(hop + 1, starts.shape[1] - 1)
        goes_on = to_go[row, hop] > window[row, hop]
        latest = np.where(goes_on, starts[row, after] - window[row, hop], starts[row, hop])
        begins, ends = self._reserved.get(number, NOTHING)
        # Backwards in time, the latest starts are the first gaps.
        end = max(int(ends.max(initial=0)), int(latest.max()) + taken)
        back = _gap_starts((end - latest - taken)[::-1], taken, (end - ends)[::-1], (end - begins)[::-1])
        starts[row, hop] = (end - back - taken)[::-1]

    def _add(self, number: int, begins: Int64Array, ends: Int64Array) -> None:
        """Reserve a class for more intervals, ascending."""
        old = self._reserved.get(number, NOTHING)
        begins, ends = np.concatenate([old[0], begins]), np.concatenate([old[1], ends])
        order = np.argsort(begins, kind="stable")
        self._reserved[number] = begins[order], ends[order]


def _gap_starts(ready: Int64Array, taken: int, begins: Int64Array, ends: Int64Array) -> Int64Array:
    """int64: the starts of transfers on a class, one after another, between those before. ready: ascending."""
    if not len(ends) or int(ends[-1]) <= int(ready[0]):
        position = np.arange(len(ready), dtype=np.int64) * taken
        return np.maximum.accumulate(ready - position) + position
    compile_it = runs_compiled(first_gaps, len(ready) + len(ends))
    starts = zeros(len(ready), compile_it)
    columns = [numbers(np.ascontiguousarray(column), compile_it) for column in (ready, begins, ends)]
    version_of(first_gaps, compile_it)(columns[0], taken, columns[1], columns[2], starts)
    return np.asarray(starts, np.int64)


def _visits(row_class: Int32Array) -> tuple[list[Int64Array], bool]:
    """The positions in the flat table that are in each class, a class after those that come before it on routes.

    If there is no such order, each hop of each class by itself; the second result is whether there is one.
    """
    before, after = row_class[:, :-1].reshape(-1), row_class[:, 1:].reshape(-1)
    both = after >= 0
    pairs = np.unique(np.stack([before[both], after[both]]), axis=1)
    flat = row_class.reshape(-1)
    order = np.argsort(flat, kind="stable")
    order = order[int(np.searchsorted(flat[order], 0)) :]
    classes, first = np.unique(flat[order], return_index=True)
    parts = dict(zip(classes.tolist(), np.split(order, first[1:]), strict=True))
    sorter = TopologicalSorter[int](dict.fromkeys(parts, ()))
    for a, b in pairs.T.tolist():
        sorter.add(b, a)
    try:
        return [parts[number] for number in sorter.static_order()], True
    except CycleError:
        width = row_class.shape[1]
        each = [part[part % width == hop] for hop in range(width) for part in parts.values()]
        return [part for part in each if len(part)], False
