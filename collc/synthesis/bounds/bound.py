"""Lower bounds on the time of a demand: times that no schedule can beat, for both link models.

Each bound asks how soon a set of links can deliver all chunks that must cross it: the links into or out of an NPU,
those across a cut, or all links. Chunks are not divided among links. A link counts only from the earliest time at which
a chunk can be at its source to the latest time from which a chunk can still continue to its destination
(`collc/synthesis/bounds/timing.py`, Delays).

Bounds by what one NPU must send, and the distance to another NPU that needs all of it.

The last chunk that leaves an NPU still has to reach the farthest NPU, and the first chunk from the farthest NPU cannot
enter the last link at once. For an All-Reduce of n chunks on a line of n NPUs, the NPU at the end sends n chunks over
its link, and the last chunk then takes n - 2 more hops: 2 (n - 1) steps in all, which is the optimum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to, hop_counts
from collc.synthesis.bounds.cuts import cuts_of, narrowest_sets
from collc.synthesis.bounds.fluid import Fluid
from collc.synthesis.bounds.ideal import ideal_bounds
from collc.synthesis.bounds.longest_paths import longest_path
from collc.synthesis.bounds.set_names import name_of_links_into
from collc.synthesis.bounds.slots import parts_of, slot_classes
from collc.synthesis.bounds.timing import Delays, LinkClass, LinkClasses, TransferTimes, diameter_limit
from collc.synthesis.bounds.traffic import Crossing, Traffic, traffic_of
from collc.synthesis.task import Task
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.module import Bound
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

MOST_WORK: Final = 1_000_000
"""NPUs x links up to which these bounds are computed."""


def reach_bounds(network: Network, traffic: list[Traffic], times: TransferTimes) -> Iterator[Bound]:
    """For each NPU, what it sends and the farthest NPU that wants all of it; and the same backwards. Each bound is
    larger than those before.
    """
    if network.npu_count * network.link_count > MOST_WORK:
        return
    row = np.zeros(network.device_count, np.int64)
    row[network.npus] = np.arange(len(network.npus))
    largest = -1
    for backward, name in (
        (False, "the links out of {} and the path to {}"),
        (True, "the links into {} and the path from {}"),
    ):
        reach = _Reach(network, times, backward)
        for part in traffic:
            for holders, wanting, counts in part.shared():
                near, others = (wanting, holders) if backward else (holders, wanting)
                farthest = others[reach.distance[np.ix_(row[others], near)].argmax(axis=0)]
                for npu, other in zip(near.tolist(), farthest.tolist(), strict=True):
                    time = reach.time(npu, other, int(row[other]), counts) if npu != other else -1
                    if time > largest:
                        largest = time
                        yield Bound(time, name.format(network.shown_name(npu), network.shown_name(other)))


class _Reach:
    """Bounds of NPUs and the farthest ones. backward: what NPUs receive, from the farthest ones.

    distance: int64[NPUs, devices], picoseconds.
    """

    def __init__(self, network: Network, times: TransferTimes, backward: bool) -> None:
        self._times, self._kind = times, network.kind
        graph = Digraph.of(network.reverse() if backward else network)
        self.distance = distances_to(graph, times.total[:, 0][network.kind], network.npus)
        self._offsets, self._links = network.in_links if backward else network.out_links
        self._ends = network.source if backward else network.target
        self._classes: dict[tuple[int, int], tuple[tuple[tuple[int, int], int], ...]] = {}
        self._known: dict[tuple[object, ...], int] = {}

    def time(self, npu: int, farthest: int, row: int, counts: Int64Array) -> int:
        """See `TransferTimes.delivery`. row: of the farthest one. counts: int64[sizes], chunks."""
        classes = self._classes.get((npu, farthest))
        if classes is None:
            links = self._links[self._offsets[npu] : self._offsets[npu + 1]]
            lag = np.minimum(self.distance[row, self._ends[links]], UNREACHABLE)
            number = Counter(zip(self._kind[links].tolist(), lag.tolist(), strict=True))
            classes = self._classes[npu, farthest] = tuple(sorted(number.items()))
        key = classes, counts.tobytes()
        if key not in self._known:
            found = [LinkClass(kind, lag, lag, count) for (kind, lag), count in classes]
            self._known[key] = self._times.delivery(found, counts.tolist())
        return self._known[key]


DETAILED_DEVICES: Final = 2048
"""The most devices for which hops between all devices and delays before and behind links are computed."""

MOST_LINK_CLASSES: Final = 256
"""The most classes of links with equal delays for which the bounds of single NPUs consider delays."""

NPU_CUTS: Final = 8
"""NPUs with the largest bounds that are also tried as cuts."""


def lower_bound(
    network: Network, demand: Demand, model: LinkModel, known_time: int | None = None, ideal: Bound | None = None
) -> Bound:
    """The largest bound found on the time of a demand, in picoseconds, with its name; never below `ideal_bound`.

    known_time: the time of a schedule of the demand; the search ends if a bound reaches it. ideal: the ideal bound
    if it is known. A reduced chunk counts once per cut and direction. Raises ValueError if links have no bandwidth.
    """
    ideals = ideal_bounds(network, demand, model) if ideal is None else iter([ideal])
    return _largest(chain(_bounds(network, demand, None, model), ideals), known_time)


def task_bound(task: Task) -> Bound:
    """The bound of the chunks of a task, all taken as copies, on a network if nothing is reserved."""
    return _largest(_bounds(task.network, task.demand, task.chunks, task.model), None)


def _largest(bounds: Iterator[Bound], known_time: int | None) -> Bound:
    best = Bound(0, "nothing moves")
    for bound in bounds:
        if bound.time > best.time:
            best = bound
        if known_time is not None and best.time >= known_time:
            break
    return best


def _bounds(network: Network, demand: Demand, chunks: Int32Array | None, model: LinkModel) -> Iterator[Bound]:
    """All bounds, the quick ones first. chunks: as in `traffic_of`; None: the narrowest sets of runs are tried too."""
    sizes, traffic = traffic_of(demand, chunks)
    if not len(sizes) or not network.link_count:
        return
    problem = _BoundProblem.of(network, traffic, TransferTimes.of(network, sizes, model))
    degrees = [_degree_bounds(problem, received) for received in (True, False)]
    for simple, _ in degrees:
        yield from simple
    known = max((bound.time for simple, _ in degrees for bound in simple), default=0)
    yield from _path_bounds(problem, known)
    for _, delayed in degrees:
        yield from delayed
    yield from _load_bound(problem)
    yield from reach_bounds(network, traffic, problem.times)
    yield from _slot_bounds(problem)
    sets = [cuts_of(network, problem.times.total[:, -1])]
    if chunks is None:
        fluid = Fluid.of(network, sizes, traffic)
        sets += [narrowest_sets(fluid, run) for run in demand.runs]
    yield from _cut_bounds(problem, chain.from_iterable(sets), known)


@dataclass(frozen=True, eq=False)
class _BoundProblem:
    """The input of all bounds: what must move, how long transfers take, and when links can carry useful chunks."""

    network: Network
    traffic: list[Traffic]
    times: TransferTimes
    delays: Delays
    _link_classes: dict[tuple[bool, bool], LinkClasses] = field(default_factory=dict[tuple[bool, bool], LinkClasses])

    @staticmethod
    def of(network: Network, traffic: list[Traffic], times: TransferTimes) -> _BoundProblem:
        """The problem of a network. In a large network, delays are not computed."""
        if network.device_count > DETAILED_DEVICES:
            return _BoundProblem(network, traffic, times, Delays.none(network))
        ends = [part.holders_and_wanting() for part in traffic]
        holders, wanting = (np.unique(np.concatenate(column)) for column in zip(*ends, strict=True))
        return _BoundProblem(network, traffic, times, Delays.of(network, times.total[:, 0], holders, wanting))

    def link_classes(self, summed: bool = False, forked: bool = False) -> LinkClasses:
        """See `Delays.link_classes`."""
        if (summed, forked) not in self._link_classes:
            self._link_classes[summed, forked] = self.delays.link_classes(self.network, summed, forked)
        return self._link_classes[summed, forked]


def _degree_bounds(problem: _BoundProblem, received: bool) -> tuple[list[Bound], list[Bound]]:
    """Bounds by what each NPU must receive over its incoming links, or send over its outgoing ones.

    Returns (the bounds of NPUs whose links have no lag; those of the other NPUs, and of some NPUs as cuts).
    """
    network, times = problem.network, problem.times
    name, ends = ("into", network.target) if received else ("out of", network.source)
    chunks = np.zeros((len(times.sizes), network.device_count), np.int64)
    for part in problem.traffic:
        counts = part.received() if received else part.sent()
        chunks[:, : counts.shape[1]] += counts
    classes = problem.link_classes()
    if len(classes.keys) > MOST_LINK_CLASSES:
        classes = Delays.none(network).link_classes(network)
    degrees = np.zeros((network.device_count, len(classes.keys)), np.int64)
    np.add.at(degrees, (ends, classes.number), 1)
    active = np.flatnonzero(chunks.any(axis=0))
    unique, first = np.unique(np.concatenate([degrees, chunks.T], axis=1)[active], axis=0, return_index=True)
    simple: list[tuple[Bound, int]] = []
    delayed: list[tuple[Bound, int]] = []
    for row, npu in zip(unique.tolist(), active[first].tolist(), strict=True):
        links = classes.counted(row[: len(classes.keys)])
        bound = Bound(times.delivery(links, row[len(classes.keys) :]), f"the links {name} {network.shown_name(npu)}")
        (delayed if any(link.lag for link in links) else simple).append((bound, npu))
    largest = sorted((*simple, *delayed), key=_longest_first)[:NPU_CUTS]
    as_cuts = largest if network.device_count <= DETAILED_DEVICES else []
    return [bound for bound, _ in simple], [
        *(bound for bound, _ in delayed),
        *(replace(bound, time=_npu_cut_time(problem, npu, received)) for bound, npu in as_cuts),
    ]


def _longest_first(found: tuple[Bound, int]) -> int:
    return -found[0].time


def _npu_cut_time(problem: _BoundProblem, npu: int, received: bool) -> int:
    """The bound of an NPU as a cut, which also counts what is added up before it, or forks behind it."""
    inside = np.zeros(problem.network.device_count, np.bool_)
    inside[npu] = True
    return _crossing_time(problem, inside if received else ~inside)


def _load_bound(problem: _BoundProblem) -> Iterator[Bound]:
    """The least number of transfers, over all links."""
    network, traffic = problem.network, problem.traffic
    detailed = network.device_count <= DETAILED_DEVICES and any(part.pairwise for part in traffic)
    hops = hop_counts(Digraph.of(network)) if detailed else None
    counts = np.sum([part.transfers(hops) for part in traffic], axis=0).tolist()
    links = problem.link_classes().of(np.ones(network.link_count, np.bool_))
    yield Bound(problem.times.delivery(links, counts), "total load")


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


def _path_bounds(problem: _BoundProblem, known: int) -> Iterator[Bound]:
    """The longest shortest path of a chunk, if it can exceed `known`, the largest bound so far."""
    total = problem.times.total
    if diameter_limit(problem.network, total[:, -1]) <= known:
        return
    for size in sorted({0, total.shape[1] - 1}):
        path = longest_path(problem.network, problem.traffic, total[:, size], size, 0)
        if path is not None:
            yield path


def _cut_bounds(problem: _BoundProblem, cuts: Iterator[BoolArray], known: int) -> Iterator[Bound]:
    """What must cross each cut, in each direction, if that takes longer than across all before, and than `known`."""
    best = known
    for cut in cuts:
        for inside in (cut, ~cut):
            time = _crossing_time(problem, inside, best)
            if time > best:
                best = time
                yield Bound(time, name_of_links_into(problem.network, inside))


def _crossing_time(problem: _BoundProblem, inside: BoolArray, known: int = 0) -> int:
    """The earliest time at which all chunks that must enter a set of devices can have done so; at least `known`.

    A chunk that several devices of the set want enters either early enough to get on from the first of them to the
    next, or once for each of them. Likewise a chunk to which several devices outside contribute leaves either late
    enough for their contributions to have been added up, or once for each of them.
    """
    network, times = problem.network, problem.times
    crossing = _crossing(problem.traffic, inside)
    counts = crossing.counts.tolist()
    chunks = sum(counts)
    if not chunks:
        return known
    entering = ~inside[network.source] & inside[network.target]
    time = times.delivery(problem.link_classes().of(entering), counts, known)
    size = next(number for number, count in enumerate(counts) if count)
    summed, forked = crossing.gather > 1, crossing.spread > 1
    both = min(crossing.gather, crossing.spread)
    cases = [(summed, False, crossing.gather), (False, forked, crossing.spread), (summed, forked, both)]
    for sums, forks, copies in cases:
        if copies > 1:
            links = problem.link_classes(sums, forks).of(entering)
            time = times.delivery_of(links, size, chunks, copies, time)
    return time


def _crossing(traffic: list[Traffic], inside: BoolArray) -> Crossing:
    """What all runs together must bring into a set of devices."""
    parts = [part.crossing(inside) for part in traffic]
    moving = [part for part in parts if part.counts.any()]
    counts = np.sum([part.counts for part in parts], axis=0)
    return Crossing(
        counts, min((part.spread for part in moving), default=1), min((part.gather for part in moving), default=1)
    )
