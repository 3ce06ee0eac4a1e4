"""Lower bounds on the time of a demand: what no schedule can beat, for both link models.

Each bound asks how soon some links together can bring what must go over them: the links into or out
of an NPU, those across a cut, or all. Chunks and links are counted whole, so the bounds are those of
an exact schedule of that part alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from collc.synthesis.bounds_cuts import Cut, cuts_of, distances, hop_counts
from collc.synthesis.bounds_traffic import Crossing, Traffic, traffic_of
from collc.synthesis.task import Task
from collc.ten.demand import Demand
from collc.ten.module import Bound
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

Ints = NDArray[np.int32]
Times = NDArray[np.int64]

HOPS = 2048
"""Devices up to which all shortest paths are counted."""

WORK = 5_000_000
"""Link visits that the search for the longest path may take."""


def lower_bound(network: Network, demand: Demand, model: LinkModel) -> Bound:
    """The largest bound found on the time of a demand, in picoseconds, with its name.

    A reduced chunk counts once per cut and direction. Raises ValueError where links have no bandwidth.
    """
    return max(_bounds(network, demand, None, model), key=lambda bound: bound.time)


def task_bound(task: Task) -> Bound:
    """The bound of the chunks of a task, all of them copied, as if nothing were reserved."""
    return max(_bounds(task.network, task.demand, task.chunks, task.model), key=lambda bound: bound.time)


def _bounds(network: Network, demand: Demand, chunks: Ints | None, model: LinkModel) -> Iterator[Bound]:
    yield Bound(0, "nothing moves")
    sizes, traffic = traffic_of(demand, chunks)
    if not len(sizes) or not network.link_count:
        return
    timing = _Timing.of(network, sizes, model)
    yield from _degree_bounds(network, traffic, timing)
    yield from _load_bound(network, traffic, timing)
    yield from _path_bound(network, traffic, timing)
    for cut in cuts_of(network, timing.total[:, -1]):
        yield from _cut_bounds(network, traffic, timing, cut)


@dataclass(frozen=True, eq=False)
class _Timing:
    """busy, total: int64[kinds, sizes], picoseconds. sizes: int64, bytes, ascending."""

    sizes: Times
    busy: Times
    total: Times

    @staticmethod
    def of(network: Network, sizes: Times, model: LinkModel) -> _Timing:
        occupancy = network.occupancy(sizes)
        total = occupancy + network.latencies[:, None]
        return _Timing(sizes, np.maximum(1, total if model is LinkModel.STORE else occupancy), total)

    def capacity(self, links: list[tuple[int, int]], time: int, size: int) -> int:
        """Chunks of a size that links, as (kind, how many), can bring by a time."""
        found = 0
        for kind, count in links:
            busy, total = int(self.busy[kind, size]), int(self.total[kind, size])
            found += count * max(0, (time - total + busy) // busy)
        return found

    def least(self, links: list[tuple[int, int]], counts: list[int]) -> int:
        """When links can have brought so many chunks of each size at the earliest."""
        best = rest = 0
        for size in range(len(counts) - 1, -1, -1):
            rest += counts[size]
            if counts[size]:
                best = max(best, self.search(links, size, rest))
        return max(best, self._by_bytes(links, counts))

    def search(self, links: list[tuple[int, int]], size: int, chunks: int, wanted: int = 1, hop: int = 0) -> int:
        """When links can have brought so many chunks of a size.

        A chunk that has come less than `hop` before the end must have come to all of `wanted` devices directly.
        """
        if not links:
            return 0
        low, high = 0, max(int(self.total[k, size]) + int(self.busy[k, size]) * chunks * wanted for k, _ in links)
        while low < high:
            middle = (low + high) // 2
            early = min(chunks, self.capacity(links, middle - hop, size))
            if early + (chunks - early) * wanted <= self.capacity(links, middle, size):
                high = middle
            else:
                low = middle + 1
        return low

    def _by_bytes(self, links: list[tuple[int, int]], counts: list[int]) -> int:
        """As `least`, but in bytes over the best rates that the sizes reach."""
        used = [size for size, count in enumerate(counts) if count]
        if len(used) < 2 or not links:
            return 0
        volume = sum(count * int(size) for count, size in zip(counts, self.sizes.tolist(), strict=True))
        rate = Fraction(0)
        lag = 1 << 62
        for kind, count in links:
            rate += count * max(Fraction(int(self.sizes[s]), int(self.busy[kind, s])) for s in used)
            lag = min(lag, *(int(self.total[kind, s] - self.busy[kind, s]) for s in used))
        return -(-volume // rate) + lag if rate else 0


def _degree_bounds(network: Network, traffic: list[Traffic], timing: _Timing) -> Iterator[Bound]:
    """What each NPU must receive over its incoming links, and send over its outgoing ones."""
    for name, ends, received in (("in-degree", network.target, True), ("out-degree", network.source, False)):
        chunks = np.zeros((len(timing.sizes), network.device_count), np.int64)
        for part in traffic:
            counts = part.received() if received else part.sent()
            chunks[:, : counts.shape[1]] += counts
        degrees = np.zeros((network.device_count, len(network.kinds)), np.int64)
        np.add.at(degrees, (ends, network.kind), 1)
        rows = np.flatnonzero(chunks.any(axis=0))
        alike, first = np.unique(np.concatenate([degrees, chunks.T], axis=1)[rows], axis=0, return_index=True)
        best = Bound(0, name)
        for row, at in zip(alike.tolist(), first.tolist(), strict=True):
            kinds = len(network.kinds)
            time = timing.least([(k, n) for k, n in enumerate(row[:kinds]) if n], row[kinds:])
            device = int(rows[at])
            if time > best.time:
                best = Bound(time, f"{name} of {network.device_name(device)}")
        yield best


def _load_bound(network: Network, traffic: list[Traffic], timing: _Timing) -> Iterator[Bound]:
    """All transfers that there must be, over all links."""
    hops = hop_counts(network) if network.device_count <= HOPS and any(part.pairwise for part in traffic) else None
    counts = np.sum([part.transfers(hops) for part in traffic], axis=0).tolist()
    yield Bound(timing.least(_kinds(network.kind), counts), "total load")


def _path_bound(network: Network, traffic: list[Traffic], timing: _Timing) -> Iterator[Bound]:
    """The longest way that a chunk must go."""
    for size in sorted({0, len(timing.sizes) - 1}):
        sources, found = distances(network, timing.total[:, size], WORK)
        for part in traffic:
            time, start, end = part.longest(found, sources, size)
            if 0 < time < 1 << 60:
                yield Bound(time, f"path from {network.device_name(start)} to {network.device_name(end)}")


def _cut_bounds(network: Network, traffic: list[Traffic], timing: _Timing, cut: Cut) -> Iterator[Bound]:
    """What must cross a cut, each way.

    What enters last must still spread to all inside who want it, over a link inside, or enter once for each of
    them; likewise backwards in time for contributions gathered outside.
    """
    within, beyond = cut.inside[network.source], cut.inside[network.target]
    for enters, inside in ((True, cut.inside), (False, ~cut.inside)):
        crossing = _crossing(traffic, inside)
        counts = crossing.counts.tolist()
        chunks = sum(counts)
        if not chunks:
            continue
        over = (beyond & ~within) if enters else (within & ~beyond)
        links = _kinds(network.kind[over])
        time = timing.least(links, counts)
        size = next(number for number, count in enumerate(counts) if count)
        behind, before = (beyond & within, ~beyond & ~within) if enters else (~beyond & ~within, beyond & within)
        for wanted, inner in ((crossing.spread, behind), (crossing.gather, before)):
            if wanted > 1:
                hop = int(timing.total[np.unique(network.kind[inner]), size].min(initial=1 << 60))
                time = max(time, timing.search(links, size, chunks, wanted, hop))
        yield Bound(time, f"cut {'into' if enters else 'out of'} {cut.name}")


def _crossing(traffic: list[Traffic], inside: NDArray[np.bool_]) -> Crossing:
    parts = [part.crossing(inside) for part in traffic]
    moving = [part for part in parts if part.counts.any()]
    counts = np.sum([part.counts for part in parts], axis=0)
    return Crossing(
        counts, min((part.spread for part in moving), default=1), min((part.gather for part in moving), default=1)
    )


def _kinds(kinds: Ints) -> list[tuple[int, int]]:
    """Links as (kind, how many)."""
    number, count = np.unique(kinds, return_counts=True)
    return list(zip(number.tolist(), count.tolist(), strict=True))
