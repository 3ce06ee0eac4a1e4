"""The hops of messages: which links they take, and how long they occupy them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.simulation.tasks import TaskGraph
from collc.simulation.timing import Timing
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network


@dataclass(frozen=True, eq=False)
class Hops:
    """The hops of all messages: those of task k from offsets[k] to offsets[k + 1].

    link: int32[hops]. size: int64[hops], bytes. busy, delay: int64[hops], how long the message occupies the link and
    how long it takes to the other end. begin, injected: int64[hops], when it enters, and when the sender, an NPU with
    limits, began to send it, otherwise the same; 0 before a simulation. arrived: int64[hops], when it was at the other
    end, and received by an NPU with limits; 0 before a simulation.
    """

    offsets: Int64Array
    link: Int32Array
    size: Int64Array
    busy: Int64Array
    delay: Int64Array
    begin: Int64Array
    injected: Int64Array
    arrived: Int64Array

    @staticmethod
    def none(tasks: int) -> Hops:
        """Those of tasks without hops."""
        empty = np.zeros(0, np.int64)
        return Hops(np.zeros(tasks + 1, np.int64), np.zeros(0, np.int32), *[empty] * 6)

    @staticmethod
    def of(network: Network, graph: TaskGraph, timing: Timing) -> Hops:
        """Those of a graph. Raises ValueError where a link that is used has no bandwidth or latency."""
        offsets, link = graph.routes.of_tasks(graph.route)
        size = np.repeat(graph.size, np.diff(offsets))
        busy, delay = _hop_times(network, link, size, timing)
        begin = np.zeros(len(link), np.int64)
        return Hops(offsets, link, size, busy, delay, begin, begin, begin)

    def link_totals(self, network: Network) -> tuple[Int64Array, Int64Array]:
        """(int64[links], int64[links]): bytes that each link carries, and how long it is occupied."""
        sent, busy = (np.zeros(network.link_count, np.int64) for _ in range(2))
        np.add.at(sent, self.link, self.size)
        np.add.at(busy, self.link, self.busy)
        return sent, busy


def _hop_times(network: Network, link: Int32Array, size: Int64Array, timing: Timing) -> tuple[Int64Array, Int64Array]:
    """(busy, delay), int64[hops]; computed once for each pair of kind of link and size."""
    sizes, size_of = np.unique(size, return_inverse=True)
    pair = network.kind[link].astype(np.int64) * max(1, len(sizes)) + size_of
    pairs, pair_of = np.unique(pair, return_inverse=True)
    rows: list[int] = pairs.tolist()
    found = [timing.hop(int(sizes[row % len(sizes)]), network.kinds[row // len(sizes)]) for row in rows]
    times = np.array(found, np.int64).reshape(len(found), 2)[pair_of]
    return times[:, 0], times[:, 1]


def durations_alone(network: Network, graph: TaskGraph, timing: Timing) -> Int64Array:
    """int64[tasks]: durations without congestion; computed once for each pair of route and size."""
    sizes, size_of = np.unique(graph.size, return_inverse=True)
    pair = graph.route.astype(np.int64) * max(1, len(sizes)) + size_of
    messages = np.flatnonzero(graph.route >= 0)
    pairs, pair_of = np.unique(pair[messages], return_inverse=True)
    found: list[int] = []
    for number in pairs.tolist():
        route = number // len(sizes)
        links = graph.routes.links[graph.routes.offsets[route] : graph.routes.offsets[route + 1]]
        used: list[int] = network.kind[links].tolist()
        kinds = [network.kinds[kind] for kind in used]
        found.append(timing.alone(int(sizes[number % len(sizes)]), kinds))
    duration = graph.duration.copy()
    duration[messages] = np.array(found, np.int64)[pair_of]
    return duration
