"""Lower bounds on the time of a demand: what no schedule can beat, for both link models.

Each bound asks how soon some links together can bring what must go over them: the links into or out
of an NPU, those across a cut, or all. Chunks and links are counted whole, and a link counts only from when a
chunk can be at its source to when it can still get on from its target (collc/synthesis/bounds/timing.py, Windows).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from collc.synthesis.bounds.cuts import Cut, cuts_of, distances, hop_counts, tries_all
from collc.synthesis.bounds.flow import flow_cuts
from collc.synthesis.bounds.timing import Classes, Timing, Windows, farthest
from collc.synthesis.bounds.traffic import Crossing, Traffic, traffic_of
from collc.synthesis.task import Task
from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.demand import Demand
from collc.ten.module import Bound
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

HOPS = 2048
"""Devices up to which all shortest paths are counted, and delays before and behind links."""

WORK = 5_000_000
"""Link visits that the search for the longest path may take."""

CLASSES = 256
"""Kinds of links with their delays up to which these are counted at every NPU."""

CORNERS = 8
"""NPUs whose links are also looked at as cuts."""


def lower_bound(network: Network, demand: Demand, model: LinkModel, enough: int | None = None) -> Bound:
    """The largest bound found on the time of a demand, in picoseconds, with its name.

    enough: the time of a schedule that is there; no better bound than that is looked for. A reduced chunk counts once
    per cut and direction. Raises ValueError where links have no bandwidth.
    """
    return _largest(_bounds(network, demand, None, model, flows=True), enough)


def task_bound(task: Task) -> Bound:
    """The bound of the chunks of a task, all of them copied, as if nothing were reserved."""
    return _largest(_bounds(task.network, task.demand, task.chunks, task.model), None)


def _largest(bounds: Iterator[Bound], enough: int | None) -> Bound:
    best = Bound(0, "nothing moves")
    for bound in bounds:
        if bound.time > best.time:
            best = bound
        if enough is not None and best.time >= enough:
            break
    return best


def _bounds(
    network: Network, demand: Demand, chunks: Int32Array | None, model: LinkModel, flows: bool = False
) -> Iterator[Bound]:
    sizes, traffic = traffic_of(demand, chunks)
    if not len(sizes) or not network.link_count:
        return
    problem = _Problem.of(network, traffic, Timing.of(network, sizes, model))
    degrees = [_degree_bounds(problem, received) for received in (True, False)]
    for early, _ in degrees:
        yield from early
    yield from _path_bound(problem, max((bound.time for early, _ in degrees for bound in early), default=0))
    for _, late in degrees:
        yield from late
    yield from _load_bound(problem)
    for cut in cuts_of(network, problem.timing.total[:, -1]):
        yield from _cut_bounds(problem, cut)
    if flows and not tries_all(network):
        for cut in flow_cuts(network, traffic, problem.timing.busy[:, -1]):
            yield from _cut_bounds(problem, cut)


@dataclass(frozen=True, eq=False)
class _Problem:
    """What must move, how long that takes, and from when until when links are of use."""

    network: Network
    traffic: list[Traffic]
    timing: Timing
    windows: Windows
    _classes: dict[tuple[bool, bool], Classes] = field(default_factory=dict[tuple[bool, bool], Classes])

    @staticmethod
    def of(network: Network, traffic: list[Traffic], timing: Timing) -> _Problem:
        """Without windows where the network is large."""
        if network.device_count > HOPS:
            return _Problem(network, traffic, timing, Windows.none(network))
        ends = [part.ends() for part in traffic]
        holders, wanting = (np.unique(np.concatenate(column)) for column in zip(*ends, strict=True))
        return _Problem(network, traffic, timing, Windows.of(network, timing.total[:, 0], holders, wanting))

    def classes(self, merged: bool = False, forked: bool = False) -> Classes:
        """See Windows."""
        if (merged, forked) not in self._classes:
            self._classes[merged, forked] = self.windows.classes(self.network, merged, forked)
        return self._classes[merged, forked]


def _degree_bounds(problem: _Problem, received: bool) -> tuple[list[Bound], list[Bound]]:
    """What each NPU must receive over its incoming links, or send over its outgoing ones.

    First the bounds that come from the number of links alone, then those of links that are of use for a while only.
    """
    network, timing = problem.network, problem.timing
    name, ends = ("in-degree", network.target) if received else ("out-degree", network.source)
    chunks = np.zeros((len(timing.sizes), network.device_count), np.int64)
    for part in problem.traffic:
        counts = part.received() if received else part.sent()
        chunks[:, : counts.shape[1]] += counts
    classes = problem.classes()
    if len(classes.alike) > CLASSES:
        classes = Windows.none(network).classes(network)
    degrees = np.zeros((network.device_count, len(classes.alike)), np.int64)
    np.add.at(degrees, (ends, classes.number), 1)
    rows = np.flatnonzero(chunks.any(axis=0))
    alike, first = np.unique(np.concatenate([degrees, chunks.T], axis=1)[rows], axis=0, return_index=True)
    plain: list[tuple[Bound, int]] = []
    delayed: list[tuple[Bound, int]] = []
    for row, at in zip(alike.tolist(), rows[first].tolist(), strict=True):
        links = classes.counted(row[: len(classes.alike)])
        bound = Bound(timing.least(links, row[len(classes.alike) :]), f"{name} of {network.device_name(at)}")
        (delayed if any(lag for _, lag, _, _ in links) else plain).append((bound, at))
    corners = sorted((*plain, *delayed), key=_longest_first)[:CORNERS] if network.device_count <= HOPS else []
    return [bound for bound, _ in plain], [
        *(bound for bound, _ in delayed),
        *(replace(bound, time=_corner_time(problem, npu, received)) for bound, npu in corners),
    ]


def _longest_first(found: tuple[Bound, int]) -> int:
    return -found[0].time


def _corner_time(problem: _Problem, npu: int, received: bool) -> int:
    """As a cut: also what is combined before it comes, or spreads after it has gone."""
    inside = np.zeros(problem.network.device_count, np.bool_)
    inside[npu] = True
    return _crossing_time(problem, inside if received else ~inside)


def _load_bound(problem: _Problem) -> Iterator[Bound]:
    """All transfers that there must be, over all links."""
    network, traffic = problem.network, problem.traffic
    hops = hop_counts(network) if network.device_count <= HOPS and any(part.pairwise for part in traffic) else None
    counts = np.sum([part.transfers(hops) for part in traffic], axis=0).tolist()
    links = problem.classes().of(np.ones(network.link_count, np.bool_))
    yield Bound(problem.timing.least(links, counts), "total load")


def _path_bound(problem: _Problem, known: int) -> Iterator[Bound]:
    """The longest way that a chunk must go, where it can be longer than what is known already."""
    network, timing = problem.network, problem.timing
    if farthest(network, timing.total[:, -1]) <= known:
        return
    for size in sorted({0, len(timing.sizes) - 1}):
        sources, found = distances(network, timing.total[:, size], WORK)
        for part in problem.traffic:
            time, start, end = part.longest(found, sources, size)
            if 0 < time < 1 << 60:
                yield Bound(time, f"path from {network.device_name(start)} to {network.device_name(end)}")


def _cut_bounds(problem: _Problem, cut: Cut) -> Iterator[Bound]:
    """What must cross a cut, each way."""
    yield Bound(_crossing_time(problem, cut.inside), f"cut into {cut.name}")
    yield Bound(_crossing_time(problem, ~cut.inside), f"cut out of {cut.name}")


def _crossing_time(problem: _Problem, inside: BoolArray) -> int:
    """When all that must enter a set of devices can have done so.

    What several in the set want enters once, early enough to get on from the first of them to the next, or once for
    each of them; likewise backwards in time for what several outside contribute to.
    """
    network, timing = problem.network, problem.timing
    crossing = _crossing(problem.traffic, inside)
    counts = crossing.counts.tolist()
    chunks = sum(counts)
    if not chunks:
        return 0
    over = ~inside[network.source] & inside[network.target]
    time = timing.least(problem.classes().of(over), counts)
    size = next(number for number, count in enumerate(counts) if count)
    merged, forked = crossing.gather > 1, crossing.spread > 1
    both = min(crossing.gather, crossing.spread)
    ways = [(merged, False, crossing.gather), (False, forked, crossing.spread), (merged, forked, both)]
    for merges, forks, wanted in ways:
        if wanted > 1:
            links = problem.classes(merges, forks).of(over)
            time = max(time, timing.search(links, size, chunks, wanted))
    return time


def _crossing(traffic: list[Traffic], inside: BoolArray) -> Crossing:
    parts = [part.crossing(inside) for part in traffic]
    moving = [part for part in parts if part.counts.any()]
    counts = np.sum([part.counts for part in parts], axis=0)
    return Crossing(
        counts, min((part.spread for part in moving), default=1), min((part.gather for part in moving), default=1)
    )
