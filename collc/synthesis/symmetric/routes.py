"""Routes from one NPU to others over the switches of a network, short ones that load all classes of links alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.graph.distances import UNREACHABLE
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network
from collc.ten.schedule import LinkModel
from collc.ten.translations import Translations

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
