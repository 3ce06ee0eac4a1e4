"""Lower bounds on the time of a demand: times that no schedule can beat, for both link models.

Each bound asks how soon a set of links can deliver all chunks that must cross it: the links into or out of an NPU,
those across a cut, or all links. Chunks are not divided among links. A link counts only from the earliest time at which
a chunk can be at its source to the latest time from which a chunk can still continue to its destination
(`collc/synthesis/bounds/timing.py`, Delays).

Other bounds add a distance to what one NPU must send: the last chunk that leaves an NPU still has to reach the farthest
NPU, and the first chunk from the farthest NPU cannot enter the last link at once. For an All-Reduce of n chunks on a
line of n NPUs, the NPU at the end sends n chunks over its link, and the last chunk then takes n - 2 more hops: 2 (n -
1) steps in all, which is the optimum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, hop_counts
from collc.synthesis.bounds.cuts import narrow_sets, npu_sets
from collc.synthesis.bounds.fluid import fluid_of, fluid_of_chunks, surely_takes_less
from collc.synthesis.bounds.ideal import (
    PATH_WORK,
    distances_from_npus,
    ideal_bound,
    longest_by_first,
    longest_path,
    port_bounds,
)
from collc.synthesis.bounds.set_names import name_of_links_into
from collc.synthesis.bounds.timing import (
    DETAILED_DEVICES,
    Delays,
    LinkClass,
    LinkClasses,
    TransferTimes,
    parts_of,
    slot_classes,
)
from collc.synthesis.bounds.traffic import Traffic, stacks
from collc.synthesis.task import Task
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, unique_rows
from collc.ten.demand import Demand
from collc.ten.module import Bound
from collc.ten.network import Network
from collc.ten.schedule import LinkModel


def reach_bounds(network: Network, traffic: list[Traffic], times: TransferTimes) -> Iterator[Bound]:
    """For each NPU, what it sends and the farthest NPU that wants all of it; and the same backwards. Each bound is
    larger than those before. On a large network, for some NPUs only: two that are far apart, and others.
    """
    if network.link_count > PATH_WORK:
        return
    largest, shared = -1, [*chain.from_iterable(part.shared_chunks() for part in traffic)]
    for backward, name in (
        (False, "the links out of {} and the path to {}"),
        (True, "the links into {} and the path from {}"),
    ):
        directed = network.reverse() if backward else network
        ends, distance = distances_from_npus(directed.reverse(), times.total[:, 0], traffic)
        row = np.full(network.device_count, -1)
        row[ends] = np.arange(len(ends))
        delivery = _ReachTimes(directed, times, distance)
        pairs: dict[bytes, tuple[Int64Array, list[tuple[Int32Array, Int32Array]]]] = {}
        for holders, wanting, counts in shared:
            if not bool((row[min(holders, wanting, key=len)] >= 0).any()):
                continue
            some = [npus[row[npus] >= 0] for npus in (holders, wanting)]
            near, others = reversed(some) if backward else some
            if len(others):
                farthest = others[distance[np.ix_(row[others], near)].argmax(axis=0)]
                pairs.setdefault(counts.tobytes(), (counts, []))[1].append((near, farthest))
        for counts, ends_apart in pairs.values():
            near, farthest = (np.concatenate(column) for column in zip(*ends_apart, strict=True))
            near, farthest = near[near != farthest], farthest[near != farthest]
            sent = delivery.times(near, row[farthest], counts, largest)
            if sent.max(initial=-1) > largest:
                first, largest = int(sent.argmax()), int(sent.max())
                ends = (int(npus[first]) for npus in (near, farthest))
                yield Bound(largest, name.format(*map(network.shown_name, ends)))


class _ReachTimes:
    """When NPUs can have sent chunks over all their links so that the last ones have come to another NPU.

    distance: int64[some NPUs, devices], picoseconds.
    """

    def __init__(self, network: Network, times: TransferTimes, distance: Int64Array) -> None:
        self._network, self._times, self._distance = network, times, distance
        self._known: dict[tuple[bytes, bytes], int] = {}

    def times(self, npus: Int32Array, rows: Int64Array, counts: Int64Array, known: int) -> Int64Array:
        """int64[n], see `TransferTimes.delivery`; if that is below the largest one, or `known`, only a time below it.

        rows: of the other NPUs. counts: int64[sizes], chunks.
        """
        offsets, links = self._network.out_links
        degrees = offsets[npus + 1] - offsets[npus]
        ends = np.full(len(npus), -1, np.int64)
        for degree in np.unique(degrees[degrees > 0]):
            alike = np.flatnonzero(degrees == degree)
            own = links[offsets[npus[alike], None] + np.arange(degree)]
            lag = self._distance[rows[alike, None], self._network.target[own]]
            traits = np.where(lag < UNREACHABLE, lag * len(self._network.kinds) + self._network.kind[own], -1)
            distinct, number = unique_rows([*np.sort(traits, axis=1).T])
            times: list[int] = []
            for each in distinct:
                times.append(self._time(each, counts, max(0, known - 1)))
                known = max(known, times[-1])
            ends[alike] = np.array(times)[number]
        return ends

    def _time(self, traits: Int64Array, counts: Int64Array, known: int) -> int:
        """See `times`. traits: int64[links], lag and kind of each as one number."""
        key = traits.tobytes(), counts.tobytes()
        if key not in self._known:
            number = Counter(divmod(each, len(self._network.kinds)) for each in traits[traits >= 0].tolist())
            links = [LinkClass(kind, lag, lag, count) for (lag, kind), count in sorted(number.items())]
            self._known[key] = self._times.delivery(links, counts.tolist(), known)
        return self._known[key]


def lower_bound(
    network: Network, demand: Demand, model: LinkModel, known_time: int | None = None, ideal: Bound | None = None
) -> Bound:
    """The largest bound found on the time of a demand, in picoseconds, with its name; never below `ideal_bound`.

    known_time: the time of a schedule of the demand; the search ends if a bound reaches it. ideal: the ideal bound
    if it is known. A reduced chunk counts once per cut and direction. Raises ValueError if links have no bandwidth.
    """
    best = _largest(_bounds(network, demand, None, model), known_time)
    if known_time is not None and best.time >= known_time:
        return best
    return max(best, ideal or ideal_bound(network, demand, model), key=lambda bound: bound.time)


def task_bound(task: Task) -> Bound:
    """The bound of the chunks of a task, all taken as copies, on a network if nothing is reserved."""
    return _largest(_bounds(task.network, task.demand, task.chunks, task.model), None)


_Bounds = Callable[[int], Iterable[Bound]]
"""Bounds of a sort; those need not be found that are no larger than the given one, in picoseconds."""


def _largest(sorts: Iterator[_Bounds], known_time: int | None) -> Bound:
    best = Bound(0, "nothing moves")
    for find in sorts:
        for bound in find(best.time):
            if bound.time > best.time:
                best = bound
            if known_time is not None and best.time >= known_time:
                return best
    return best


def _bounds(network: Network, demand: Demand, chunks: Int32Array | None, model: LinkModel) -> Iterator[_Bounds]:
    """All sorts of bounds, the quick ones first. chunks: as in `traffic_of`."""
    fluid = fluid_of(network, demand) if chunks is None else fluid_of_chunks(network, demand, chunks)
    if fluid is None:
        return
    sizes, traffic = fluid.sizes, fluid.traffic
    times = TransferTimes.of(network, sizes, model)
    problem = _BoundProblem(network, traffic, times, Delays.without_lags(network))
    yield partial(_crossing_bounds, problem, npu_sets(fluid))
    for size in sorted({0, len(sizes) - 1}):
        yield partial(_path_bound, problem, size)
    if network.device_count <= DETAILED_DEVICES:
        problem = _BoundProblem(network, traffic, times, Delays.of(network, times.total[:, 0], traffic))
        yield partial(_crossing_bounds, problem, npu_sets(fluid))
    yield lambda _: port_bounds(network, sizes, traffic)
    yield partial(_load_bound, problem)
    yield lambda _: reach_bounds(network, traffic, times)
    yield lambda _: _slot_bounds(problem)
    yield lambda known: _crossing_bounds(problem, iter(narrow_sets(fluid, demand)), known)


@dataclass(frozen=True, eq=False)
class _BoundProblem:
    """The input of all bounds: what must move, how long transfers take, and when links can carry useful chunks."""

    network: Network
    traffic: list[Traffic]
    times: TransferTimes
    delays: Delays
    _link_classes: dict[tuple[bool, bool], LinkClasses] = field(default_factory=dict[tuple[bool, bool], LinkClasses])

    def link_classes(self, summed: bool = False, forked: bool = False) -> LinkClasses:
        """See `Delays.link_classes`."""
        if self.delays.sum_head is self.delays.head and self.delays.fork_tail is self.delays.tail:
            summed = forked = False
        if (summed, forked) not in self._link_classes:
            self._link_classes[summed, forked] = self.delays.link_classes(self.network, summed, forked)
        return self._link_classes[summed, forked]

    @cached_property
    def largest_chunks(self) -> tuple[int, NDArray[np.float64]]:
        """The longest lag of a link with the time until a chunk of the largest size has arrived; and float64[links]:
        such chunks a picosecond.
        """
        network, delays, times = self.network, self.delays, self.times
        lag = delays.sum_head[network.source] + delays.fork_tail[network.target]
        return int(lag.max() + times.total[:, -1].max()), 1 / times.busy[network.kind, -1]


def _path_bound(problem: _BoundProblem, size: int, known: int) -> Iterator[Bound]:
    """The longest path of chunks of some size."""
    yield longest_path(problem.network, problem.traffic, problem.times.total[:, size], size, known)


def _load_bound(problem: _BoundProblem, known: int) -> Iterator[Bound]:
    """The least number of transfers, over all links."""
    network, traffic = problem.network, problem.traffic
    links = problem.link_classes().of(np.ones(network.link_count, np.bool_))

    def load(hops: Int32Array | None) -> int:
        counts = np.sum([part.transfers(hops) for part in traffic], axis=0).tolist()
        return problem.times.delivery(links, counts)

    if network.device_count > DETAILED_DEVICES or not any(part.pairwise for part in traffic):
        yield Bound(load(None), "total load")
        return
    most = longest_by_first(network, np.ones(len(network.kinds), np.int64))
    devices = network.device_count
    if most >= UNREACHABLE or load(np.full((devices, devices), most, np.int32)) > known:
        yield Bound(load(hop_counts(Digraph.of(network))), "total load")


def _slot_bounds(problem: _BoundProblem) -> Iterator[Bound]:
    """What all parts of a network must get, or send, over switches with few slots."""
    network, times = problem.network, problem.times
    if not network.has_limited_buffers:
        return
    for parts in parts_of(network, problem.traffic):
        for backward in (False, True):
            links = slot_classes(network, problem.link_classes(), times, parts, backward)
            if links is not None:
                counts = parts.leaving if backward else parts.entering
                yield Bound(times.delivery(links, counts.tolist()), parts.name)


def _crossing_bounds(problem: _BoundProblem, sets: Iterator[BoolArray], known: int) -> Iterator[Bound]:
    """What must enter each set of devices, if that takes longer than for all sets before."""
    best, network = known, problem.network
    longest, rates = problem.largest_chunks
    for some in stacks(sets, network.link_count):
        parts = [part.chunks_into(some) for part in problem.traffic]
        counts = np.sum([part.counts for part in parts], axis=0)
        spread, gather = (
            np.min([np.where(each.counts.any(axis=1), getattr(each, end), 1 << 60) for each in parts], axis=0)
            for end in ("spread", "gather")
        )
        entering = ~some[:, network.source] & some[:, network.target]
        rate = entering @ rates
        for row in np.flatnonzero(counts.any(axis=1)).tolist():
            chunks = counts[row].tolist()
            # As if no chunk came before the longest lag.
            if not surely_takes_less(sum(chunks), best - longest, rate[row]):
                time = _crossing_time(problem, entering[row], chunks, int(spread[row]), int(gather[row]), best)
                if time > best:
                    best = time
                    yield Bound(time, name_of_links_into(network, some[row]))


def _crossing_time(
    problem: _BoundProblem, entering: BoolArray, counts: list[int], spread: int, gather: int, known: int
) -> int:
    """The earliest time at which all chunks that must enter a set of devices can have done so; at least `known`.

    A chunk that several devices of the set want enters either early enough to get on from the first of them to the
    next, or once for each of them. Likewise a chunk to which several devices outside contribute leaves either late
    enough for their contributions to have been added up, or once for each of them. The rest as in Crossing.
    """
    time = problem.times.delivery(problem.link_classes().of(entering), counts, known)
    size = next(number for number, count in enumerate(counts) if count)
    for sums, forks, copies in ((True, False, gather), (False, True, spread), (True, True, min(gather, spread))):
        if copies > 1:
            links = problem.link_classes(sums, forks).of(entering)
            time = problem.times.delivery_of(links, size, sum(counts), copies, time)
    return time
