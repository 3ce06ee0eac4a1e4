"""The simulator: messages with dependencies over routes of links, event by event.

Every task starts when all that it waits for has happened. A message takes its links one after another, whole
(store-and-forward); a link carries one message at a time, and the others queue in the order in which they come.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collc.kernels.compiled import STEP_TIME, compile_kernel, interruptible, numbers, runs_compiled, zeros
from collc.kernels.row_heap import clear_rows
from collc.kernels.task_events import COMPUTE, TaskProgress, TaskTable, run_tasks
from collc.simulation.hops import Hops, PortRows, durations_alone, with_ports
from collc.simulation.tasks import TaskGraph
from collc.simulation.timing import Timing
from collc.ten.arrays import Int64Array
from collc.ten.network import Network

MOST_SIMULATED: Final = 20_000
"""Messages of a schedule up to which its files are simulated when they are written."""


def expect_many() -> None:
    """Compile the kernel now, because many graphs will be simulated: then small ones use it too."""
    compile_kernel(run_tasks)


class Deadlock(Exception):
    """Tasks that never start. waiting: int64[tasks that are not done], their numbers."""

    def __init__(self, waiting: Int64Array) -> None:
        super().__init__(f"{len(waiting)} tasks never start")
        self.waiting: Int64Array = waiting


@dataclass(frozen=True, eq=False)
class Simulation:
    """What happened. All times are in units of `unit` picoseconds.

    start, end: int64[tasks]. hops: when messages entered links; none under a timing that is not aware of congestion.
    carried: all hops, also under such a timing. queued: int64[links], how long messages waited for each in all.
    """

    network: Network
    graph: TaskGraph
    unit: int
    start: Int64Array
    end: Int64Array
    hops: Hops
    carried: Hops
    queued: Int64Array

    @property
    def sent_bytes(self) -> Int64Array:
        """int64[links]: bytes that each link carried."""
        return self._totals[0]

    @property
    def busy(self) -> Int64Array:
        """int64[links]: how long each was occupied."""
        return self._totals[1]

    @cached_property
    def _totals(self) -> tuple[Int64Array, Int64Array]:
        return self.carried.link_totals(self.network)

    @cached_property
    def time(self) -> int:
        """Until all tasks are done."""
        return int(self.end.max(initial=0))

    @property
    def time_ps(self) -> int:
        """Picoseconds until all tasks are done, without the launch."""
        return self.time * self.unit

    @property
    def call_ps(self) -> int:
        """Picoseconds of a call, with the launch of the network."""
        return self.network.launch + self.time_ps

    @cached_property
    def rank_times(self) -> Int64Array:
        """int64[NPUs present]: until the last task of each is done; a message belongs to both of its ends."""
        last = np.zeros(self.network.device_count, np.int64)
        np.maximum.at(last, self.graph.source, self.end)
        np.maximum.at(last, self.graph.target, self.end)
        return last[self.network.npus]

    def utilisation(self, spans: int) -> NDArray[np.float64]:
        """float64[spans]: the mean share of all links that is occupied in each of equal parts of the time.

        Empty under a timing that is not aware of congestion, and if nothing takes time.
        """
        if not len(self.hops.begin) or not self.time:
            return np.zeros(0)
        ends = self.time * np.arange(spans + 1) / spans
        occupied = [np.clip(end - self.hops.begin, 0, self.hops.busy).sum() for end in ends]
        return np.diff(occupied) * spans / (self.time * self.network.link_count)


def simulate(network: Network, graph: TaskGraph, timing: Timing) -> Simulation:
    """Run all tasks of a graph on a network.

    Raises Deadlock if tasks wait for one another, ValueError if a link that is used has no bandwidth or latency,
    OverflowError if a time does not fit in 64 bits.
    """
    hops = passed = Hops.of(network, graph, timing)
    rows, duration = PortRows.without_ports(len(hops.link)), graph.duration
    if not timing.aware:
        duration, passed = durations_alone(network, graph, timing), Hops.empty(len(graph))
    elif network.has_endpoints:
        passed, rows = with_ports(network, hops, timing)
    _check_range(passed.busy, passed.delay, duration)
    links = max(network.link_count, int(passed.link.max(initial=-1)) + 1)
    large = runs_compiled(run_tasks, STEP_TIME * (len(graph) + len(passed.link)))
    table = _task_table(graph, duration, passed, _lanes(network, links, graph.any_lane), large)
    progress = _nothing_done(graph, len(passed.link), links, large)
    events: Any = np.empty((len(graph) + links + 1, 3), np.int64) if large else []
    if large:
        clear_rows(events)
    done = (interruptible(run_tasks) if large else run_tasks)(table, progress, events, not timing.issues_at_once)
    start, end, begin, queued = (
        np.asarray(column, np.int64) for column in (progress.start, progress.end, progress.begin, progress.waited)
    )
    if done < len(graph):
        raise Deadlock(np.flatnonzero(end < 0))
    if timing.aware:
        arrived = (begin + passed.delay)[rows.received]
        taken = np.asarray(progress.taken, np.int32)[rows.hop]
        hops = replace(hops, link=taken, begin=begin[rows.hop], injected=begin[rows.sent], arrived=arrived)
    shown = hops if timing.aware else passed
    return Simulation(network, graph, timing.unit, start, end, shown, hops, queued[: network.link_count])


def _lanes(network: Network, links: int, any_lane: bool) -> Int64Array:
    """int64[links]: for each link the next of the equal links between its ends, in a circle.

    If messages do not choose, each link itself.
    """
    following = np.arange(links, dtype=np.int64)
    if any_lane:
        same: dict[tuple[int, int, int], list[int]] = {}
        columns = network.source.tolist(), network.target.tolist(), network.kind.tolist()
        for link, key in enumerate(zip(*columns, strict=True)):
            same.setdefault(key, []).append(link)
        for lanes in same.values():
            following[lanes] = [*lanes[1:], lanes[0]]
    return following


def _check_range(*columns: Int64Array) -> None:
    """Raise OverflowError if the sum of all durations exceeds 64 bits, so that no time does."""
    if sum(float(column.sum(dtype=np.float64)) for column in columns) >= 2**62:
        raise OverflowError("the times of the simulation exceed 64 bits")


def _task_table(graph: TaskGraph, duration: Int64Array, hops: Hops, lanes: Int64Array, large: bool) -> TaskTable:
    edges = graph.edges
    key = 3 * edges.before.astype(np.int64) + edges.phase
    offsets = np.zeros(3 * len(graph) + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=3 * len(graph)), out=offsets[1:])
    followers = edges.after[np.argsort(key, kind="stable")]
    natural = np.arange(len(graph), dtype=np.int64)
    orders = (natural if order is None else order for order in (graph.order, graph.hop_order))
    issue, none = graph.issue, np.zeros(0, np.int64)
    first = np.flatnonzero(np.bincount(edges.after, minlength=len(graph)) == 0) if issue is None else issue.first
    rules = (none, none, none) if issue is None else (issue.id, issue.sender, issue.rank)
    of_hops = hops.offsets, hops.link, hops.busy, hops.delay
    columns = duration, *of_hops, offsets, followers, *orders, lanes, first, *rules
    return TaskTable(*(numbers(np.ascontiguousarray(column, np.int64), large) for column in columns))


def _nothing_done(graph: TaskGraph, hops: int, links: int, large: bool) -> TaskProgress:
    tasks = len(graph)

    def none_yet(count: int) -> MutableSequence[int]:
        return numbers(np.full(count, -1, np.int64), large)

    issue = graph.issue
    computes = 0 if issue is None else np.count_nonzero(issue.sender == COMPUTE)
    waits: Int64Array = np.bincount(graph.edges.after, minlength=tasks).astype(np.int64)
    return TaskProgress(
        waits=numbers(waits, large),
        ready=zeros(tasks, large),
        asked=zeros(tasks, large),
        start=none_yet(tasks),
        end=none_yet(tasks),
        begin=none_yet(hops),
        taken=none_yet(hops),
        hop=zeros(tasks, large),
        free=zeros(links, large),
        freed_order=none_yet(links),
        expected=zeros(links, large),
        first=none_yet(links),
        last=none_yet(links),
        behind=none_yet(tasks),
        waited=zeros(links, large),
        issued=zeros(tasks, large),
        counters=zeros(4, large),
        sizes=numbers(np.zeros(0, np.int64) if issue is None else issue.sizes.copy(), large),
        latest=none_yet(0 if issue is None else issue.most_buckets),
        together=none_yet(1 << int(computes).bit_length()),
    )
