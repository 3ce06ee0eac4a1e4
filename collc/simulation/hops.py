"""The hops of messages: which links and which ports of NPUs they take, and how long they occupy them.

A message occupies the injection of an NPU with limits that sends or forwards it for overhead + size / rate, and enters
its link as soon as its turn has come: it may queue there. It occupies the ejection of the NPU that it reaches for
overhead + size / rate before it has arrived. If nothing else is on its way, a message takes as long as without limits.
Signals, which have no bytes, wait for no turn at an NPU without rates: the overhead of messages is for signals too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from collc.simulation.tasks import TaskGraph
from collc.simulation.timing import Timing
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.limited import Ports
from collc.ten.network import LinkKind, Network


@dataclass(frozen=True, eq=False)
class Hops:
    """The hops of all messages. Task k has the hops from offsets[k] to offsets[k + 1].

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
    def empty(tasks: int) -> Hops:
        """The hops of tasks that have none."""
        empty = np.zeros(0, np.int64)
        return Hops(np.zeros(tasks + 1, np.int64), np.zeros(0, np.int32), *[empty] * 6)

    @staticmethod
    def of(network: Network, graph: TaskGraph, timing: Timing) -> Hops:
        """The hops of the messages of a graph. Raises ValueError if a link that is used has no bandwidth or latency."""
        offsets, link = graph.routes.of_tasks(graph.route)
        size = np.repeat(graph.size, np.diff(offsets))
        busy, delay = _hop_times(network, link, size, timing)
        if timing.packet:
            last = np.zeros(len(link), np.bool_)
            last[offsets[1:][np.diff(offsets) > 0] - 1] = True
            first_packet = _hop_times(network, link, np.minimum(size, timing.packet), timing)[1]
            delay = np.where(last, _slowest_until(offsets, delay), first_packet)
        begin = np.zeros(len(link), np.int64)
        return Hops(offsets, link, size, busy, delay, begin, begin, begin)

    def link_totals(self, network: Network) -> tuple[Int64Array, Int64Array]:
        """(int64[links], int64[links]): bytes that each link carries, and how long it is occupied."""
        sent, busy = (np.zeros(network.link_count, np.int64) for _ in range(2))
        np.add.at(sent, self.link, self.size)
        np.add.at(busy, self.link, self.busy)
        return sent, busy


def _slowest_until(offsets: Int64Array, delay: Int64Array) -> Int64Array:
    """int64[hops]: the longest time that the message of a hop takes on a link up to there."""
    slowest = delay.copy()
    first = np.zeros(len(delay), np.bool_)
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    for hop in np.flatnonzero(~first).tolist():
        slowest[hop] = max(slowest[hop], slowest[hop - 1])
    return slowest


def _hop_times(network: Network, link: Int32Array, size: Int64Array, timing: Timing) -> tuple[Int64Array, Int64Array]:
    """(busy, delay), int64[hops]; computed once for each pair of kind of link and size."""
    sizes, size_of = np.unique(size, return_inverse=True)
    pair = network.kind[link].astype(np.int64) * max(1, len(sizes)) + size_of
    pairs, pair_of = np.unique(pair, return_inverse=True)
    rows: list[int] = pairs.tolist()
    given = [(int(sizes[row % len(sizes)]), network.kinds[row // len(sizes)]) for row in rows]
    pair_times = [timing.hop(size, _kind_for(size, kind)) for size, kind in given]
    times = np.array(pair_times, np.int64).reshape(len(pair_times), 2)[pair_of]
    return times[:, 0], times[:, 1]


def _kind_for(size: int, kind: LinkKind) -> LinkKind:
    """The link as messages of a size find it; signals have no overhead."""
    return kind if size else replace(kind, overhead=0)


def durations_alone(network: Network, graph: TaskGraph, timing: Timing) -> Int64Array:
    """int64[tasks]: durations without congestion; computed once for each pair of route and size."""
    sizes, size_of = np.unique(graph.size, return_inverse=True)
    pair = graph.route.astype(np.int64) * max(1, len(sizes)) + size_of
    messages = np.flatnonzero(graph.route >= 0)
    pairs, pair_of = np.unique(pair[messages], return_inverse=True)
    route_times: list[int] = []
    for number in pairs.tolist():
        route = number // len(sizes)
        links = graph.routes.links[graph.routes.offsets[route] : graph.routes.offsets[route + 1]]
        used: list[int] = network.kind[links].tolist()
        size = int(sizes[number % len(sizes)])
        route_times.append(timing.time_alone(size, [_kind_for(size, network.kinds[kind]) for kind in used]))
    duration = graph.duration.copy()
    duration[messages] = np.array(route_times, np.int64)[pair_of]
    return duration


@dataclass(frozen=True, eq=False)
class PortRows:
    """The places of hops among those over ports: int64[hops]. sent, received: the ports of sender and receiver,
    or the hop itself if there is none.
    """

    hop: Int64Array
    sent: Int64Array
    received: Int64Array

    @staticmethod
    def without_ports(hops: int) -> PortRows:
        """The rows of hops without ports."""
        every = np.arange(hops, dtype=np.int64)
        return PortRows(every, every, every)


def with_ports(network: Network, hops: Hops, timing: Timing) -> tuple[Hops, PortRows]:
    """The hops with those over ports, and the places of the given ones among them. Port p is number link_count + p."""
    link, busy, delay = hops.link, hops.busy, hops.delay
    ports = Ports.of(network)
    sizes, size_of = np.unique(hops.size, return_inverse=True)
    size_of = size_of.reshape(-1)
    table = ports.occupancy(sizes, lambda size, kind: timing.hop(size, kind)[0])
    table[:, sizes == 0] = 0
    out, into = ports.out[network.source[link]], ports.into[network.target[link]]
    taken = table[into, size_of]
    limited = np.array([rate is not None for rate in (*ports.rates, None)])
    before, behind = (((port >= 0) & (limited[port] | (hops.size > 0))).astype(np.int64) for port in (out, into))
    count = 1 + before + behind
    place = (np.cumsum(count) - count + before).astype(np.int64)
    total = int(count.sum())
    number = np.zeros(total, np.int32)
    times = np.zeros((2, total), np.int64)
    number[place] = link
    times[0, place], times[1, place] = busy, np.maximum(0, delay - taken)
    sends, receives = np.flatnonzero(before), np.flatnonzero(behind)
    number[place[sends] - 1] = network.link_count + out[sends]
    times[0, place[sends] - 1] = table[out[sends], size_of[sends]]
    number[place[receives] + 1] = network.link_count + into[receives]
    times[:, place[receives] + 1] = taken[receives]
    first = np.append(0, np.cumsum(count))
    begin = np.zeros(total, np.int64)
    every = Hops(first[hops.offsets], number, np.repeat(hops.size, count), times[0], times[1], begin, begin, begin)
    return every, PortRows(place, place - before, place + behind)
