"""The simulator: messages with dependencies over routes of links, event by event.

Every task starts when all that it waits for has happened. A message takes its links one after another, whole
(store-and-forward); a link carries one message at a time, and the others queue in the order in which they come.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.kernels.compiled import compiled, is_compiled, numbers, zeros
from collc.kernels.task_events import TaskProgress, TaskTable, run_tasks
from collc.simulation.ports import PortHops, with_ports
from collc.simulation.tasks import TaskGraph
from collc.simulation.timing import Timing
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network

COMPILED: Final = 400_000
"""Tasks and hops from which the kernel is compiled: plain Python takes 0.6 s for them, compilation 3 s."""


def expect_many() -> None:
    """Compile the kernel now, because many graphs will be simulated: then small ones use it too."""
    compiled(run_tasks)


class Deadlock(Exception):
    """Tasks that never start. waiting: int64[tasks that are not done], their numbers."""

    def __init__(self, waiting: Int64Array) -> None:
        super().__init__(f"{len(waiting)} tasks never start")
        self.waiting: Int64Array = waiting


@dataclass(frozen=True, eq=False)
class Hops:
    """The hops of all messages: those of task k from offsets[k] to offsets[k + 1].

    link: int32[hops]. busy, delay: int64[hops], how long the message occupies the link and how long it takes to the
    other end. begin: int64[hops], when it enters. Empty under a timing that is not aware of congestion.
    """

    offsets: Int64Array
    link: Int32Array
    busy: Int64Array
    delay: Int64Array
    begin: Int64Array


@dataclass(frozen=True, eq=False)
class Simulation:
    """What happened. All times are in units of `unit` picoseconds.

    start, end: int64[tasks]. hops: when messages entered links. sent: int64[links], bytes that each link carried.
    busy: int64[links], how long it was occupied. queued: int64[links], how long messages waited for it, summed up.
    """

    network: Network
    graph: TaskGraph
    unit: int
    start: Int64Array
    end: Int64Array
    hops: Hops
    sent: Int64Array
    busy: Int64Array
    queued: Int64Array

    @cached_property
    def time(self) -> int:
        """Until all tasks are done."""
        return int(self.end.max(initial=0))

    @property
    def time_ps(self) -> int:
        """Picoseconds until all tasks are done."""
        return self.time * self.unit

    @cached_property
    def rank_times(self) -> Int64Array:
        """int64[NPUs present]: until the last task of each is done; a message belongs to both of its ends."""
        last = np.zeros(self.network.device_count, np.int64)
        np.maximum.at(last, self.graph.source, self.end)
        np.maximum.at(last, self.graph.target, self.end)
        return last[self.network.npus]

    def utilisation(self, spans: int) -> NDArray[np.float64]:
        """float64[spans]: the mean share of all links that is occupied in each of equal parts of the time.

        Empty under a timing that is not aware of congestion, and where nothing takes time.
        """
        if not len(self.hops.begin) or not self.time:
            return np.zeros(0)
        ends = self.time * np.arange(spans + 1) / spans
        occupied = [np.clip(end - self.hops.begin, 0, self.hops.busy).sum() for end in ends]
        return np.diff(occupied) * spans / (self.time * self.network.link_count)


def simulate(network: Network, graph: TaskGraph, timing: Timing) -> Simulation:
    """Run all tasks of a graph on a network.

    Raises Deadlock where tasks wait for one another, ValueError where a link that is used has no bandwidth or latency,
    OverflowError where a time does not fit in 64 bits.
    """
    offsets, link = graph.routes.of_tasks(graph.route)
    task_of_hop = np.repeat(np.arange(len(graph), dtype=np.int32), np.diff(offsets))
    busy, delay = _hop_times(network, link, graph.size[task_of_hop], timing)
    sent, occupied = (np.zeros(network.link_count, np.int64) for _ in range(2))
    np.add.at(sent, link, graph.size[task_of_hop])
    np.add.at(occupied, link, busy)
    duration = graph.duration
    if not timing.aware:
        duration = _durations_alone(network, graph, timing)
        offsets, link, busy, delay = np.zeros(len(graph) + 1, np.int64), link[:0], busy[:0], delay[:0]
    hops = Hops(offsets, link, busy, delay, np.zeros(len(link), np.int64))
    limits = _ports(network, graph, hops, timing) if network.has_endpoints and timing.aware else None
    if limits is not None:
        offsets, link, busy, delay = limits.offsets, limits.link, limits.busy, limits.delay
    _check_range(busy, delay, duration)
    large = len(graph) + len(link) >= COMPILED or is_compiled(run_tasks)
    table = _table(graph, duration, Hops(offsets, link, busy, delay, np.zeros(len(link), np.int64)), large)
    progress = _nothing_done(graph, len(link), max(network.link_count, int(link.max(initial=-1)) + 1), large)
    done = (compiled(run_tasks) if large else run_tasks)(table, progress, not timing.issues_at_once)
    start, end, begin, queued = (
        np.asarray(column, np.int64) for column in (progress.start, progress.end, progress.begin, progress.waited)
    )
    if done < len(graph):
        raise Deadlock(np.flatnonzero(end < 0))
    if limits is not None:
        begin, queued = begin[limits.on_link], queued[: network.link_count]
    return Simulation(network, graph, timing.unit, start, end, replace(hops, begin=begin), sent, occupied, queued)


def _ports(network: Network, graph: TaskGraph, hops: Hops, timing: Timing) -> PortHops:
    """The hops of messages, with those over the ports of NPUs."""
    task_of_hop = np.repeat(np.arange(len(graph), dtype=np.int32), np.diff(hops.offsets))
    columns = hops.link, hops.busy, hops.delay
    return with_ports(network, hops.offsets, columns, graph.size[task_of_hop], timing)


def _hop_times(network: Network, link: Int32Array, size: Int64Array, timing: Timing) -> tuple[Int64Array, Int64Array]:
    """(busy, delay), int64[hops]; computed once for each pair of kind of link and size."""
    sizes, size_of = np.unique(size, return_inverse=True)
    pair = network.kind[link].astype(np.int64) * max(1, len(sizes)) + size_of
    pairs, pair_of = np.unique(pair, return_inverse=True)
    rows: list[int] = pairs.tolist()
    found = [timing.hop(int(sizes[row % len(sizes)]), network.kinds[row // len(sizes)]) for row in rows]
    times = np.array(found, np.int64).reshape(len(found), 2)[pair_of]
    return times[:, 0], times[:, 1]


def _durations_alone(network: Network, graph: TaskGraph, timing: Timing) -> Int64Array:
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


def _check_range(*columns: Int64Array) -> None:
    """Raise OverflowError where the sum of all durations exceeds 64 bits, so that no time does."""
    if sum(float(column.sum(dtype=np.float64)) for column in columns) >= 2**62:
        raise OverflowError("the times of the simulation exceed 64 bits")


def _table(graph: TaskGraph, duration: Int64Array, hops: Hops, large: bool) -> TaskTable:
    edges = graph.edges
    key = 3 * edges.before.astype(np.int64) + edges.phase
    offsets = np.zeros(3 * len(graph) + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=3 * len(graph)), out=offsets[1:])
    followers = edges.after[np.argsort(key, kind="stable")]
    natural = np.arange(len(graph), dtype=np.int64)
    order = natural if graph.order is None else graph.order
    hop_order = natural if graph.hop_order is None else graph.hop_order
    columns = (duration, hops.offsets, hops.link, hops.busy, hops.delay, offsets, followers, order, hop_order)
    return TaskTable(*(numbers(np.ascontiguousarray(column, np.int64), large) for column in columns))


def _nothing_done(graph: TaskGraph, hops: int, links: int, large: bool) -> TaskProgress:
    tasks = len(graph)

    def none(count: int) -> MutableSequence[int]:
        return numbers(np.full(count, -1, np.int64), large)

    waits: Int64Array = np.bincount(graph.edges.after, minlength=tasks).astype(np.int64)
    return TaskProgress(
        waits=numbers(waits, large),
        ready=zeros(tasks, large),
        asked=zeros(tasks, large),
        start=none(tasks),
        end=none(tasks),
        begin=none(hops),
        hop=zeros(tasks, large),
        free=zeros(links, large),
        freed_order=none(links),
        first=none(links),
        last=none(links),
        behind=none(tasks),
        waited=zeros(links, large),
        issued=zeros(tasks, large),
        counters=zeros(3, large),
    )
