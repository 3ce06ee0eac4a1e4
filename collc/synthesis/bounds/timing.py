"""How soon links together can bring so many chunks, and from when until when a link can be of use at all."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from collc.graph.distances import UNREACHABLE
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

Alike = tuple[int, int, int, int]
"""Links that are alike: kind, lag, longer lag, and how many there are.

A lag is the picoseconds at the beginning and the end in which a link cannot carry a chunk of use; the longer one
holds for transfers that count for several NPUs.
"""


@dataclass(frozen=True, eq=False)
class Timing:
    """busy, total: int64[kinds, sizes], picoseconds. sizes: int64, bytes, ascending."""

    sizes: Int64Array
    busy: Int64Array
    total: Int64Array

    @staticmethod
    def of(network: Network, sizes: Int64Array, model: LinkModel) -> Timing:
        """Raises ValueError where links have no bandwidth or latency."""
        occupancy = network.occupancy(sizes)
        total = occupancy + network.latencies[:, None]
        return Timing(sizes, np.maximum(1, total if model is LinkModel.STORE else occupancy), total)

    def least(self, links: list[Alike], counts: list[int]) -> int:
        """When links can have brought so many chunks of each size at the earliest."""
        best = rest = 0
        for size in range(len(counts) - 1, -1, -1):
            rest += counts[size]
            if counts[size]:
                best = max(best, self.search(links, size, rest))
        return max(best, self._by_bytes(links, counts))

    def search(self, links: list[Alike], size: int, chunks: int, wanted: int = 1) -> int:
        """When links can have brought so many chunks of a size; 0 where they never can.

        A chunk that does not come within the longer lags must come `wanted` times.
        """
        rows = [(int(self.busy[k, size]), int(self.total[k, size]), a, b, n) for k, a, b, n in links if a < UNREACHABLE]
        if not rows:
            return 0
        if wanted == 1 and len(rows) == 1:
            busy, total, lag, _, count = rows[0]
            return lag + total + (-(-chunks // count) - 1) * busy
        low, high = 0, min(lag + total + busy * chunks * wanted for busy, total, lag, _, _ in rows)
        while low < high:
            middle = (low + high) // 2
            every = early = 0
            for busy, total, lag, longer, count in rows:
                every += count * max(0, (middle - lag - total + busy) // busy)
                early += count * max(0, (middle - longer - total + busy) // busy)
            early = min(chunks, early)
            if early + (chunks - early) * wanted <= every:
                high = middle
            else:
                low = middle + 1
        return low

    def _by_bytes(self, links: list[Alike], counts: list[int]) -> int:
        """As `least`, but in bytes over the best rates that the sizes reach."""
        used = [size for size, count in enumerate(counts) if count]
        if len(used) < 2 or not links:
            return 0
        volume = sum(count * int(size) for count, size in zip(counts, self.sizes.tolist(), strict=True))
        rate = Fraction(0)
        lag = UNREACHABLE
        for kind, own, _, count in links:
            rate += count * max(Fraction(int(self.sizes[s]), int(self.busy[kind, s])) for s in used)
            lag = min(lag, *(own + int(self.total[kind, s] - self.busy[kind, s]) for s in used))
        return -(-volume // rate) + lag if rate and lag < UNREACHABLE else 0


@dataclass(frozen=True, eq=False)
class Windows:
    """From when on a chunk can be at each device, and how long before the end it must leave; int64[devices], each.

    head: picoseconds from the nearest of all NPUs that hold something at the start. merged: the same for what
    combines contributions of two NPUs. tail: to the nearest of all NPUs that want something. forked: to the
    second nearest.
    """

    head: Int64Array
    merged: Int64Array
    tail: Int64Array
    forked: Int64Array

    @staticmethod
    def none(network: Network) -> Windows:
        """Without any delay."""
        zero = np.zeros(network.device_count, np.int64)
        return Windows(zero, zero, zero, zero)

    @staticmethod
    def of(network: Network, cost: Int64Array, holders: Int32Array, wanting: Int32Array) -> Windows:
        """cost: int64[kinds], picoseconds of the smallest chunk. holders, wanting: device numbers."""
        head, second = _two_nearest(network, cost, holders)
        back = network.reversed()
        tail, forked = _two_nearest(back, cost, wanting)
        merging = np.ones(network.device_count, np.bool_)
        merging[network.npu_count :] = network.reduces
        return Windows(head, _relaxed(network, cost, np.where(merging, second, UNREACHABLE)), tail, forked)

    def classes(self, network: Network, merged: bool = False, forked: bool = False) -> Classes:
        """Links by what counts; the longer lags are those of merged or forked chunks, or both."""
        source, target = network.source, network.target
        lag = self.head[source] + self.tail[target]
        longer = (self.merged if merged else self.head)[source] + (self.forked if forked else self.tail)[target]
        rows = np.stack(
            [network.kind.astype(np.int64), np.minimum(lag, UNREACHABLE), np.minimum(longer, UNREACHABLE)], axis=1
        )
        found, number = np.unique(rows, axis=0, return_inverse=True)
        return Classes([(kind, lag, longer) for kind, lag, longer in found.tolist()], number.reshape(-1))


@dataclass(frozen=True, eq=False)
class Classes:
    """alike: kind, lag and longer lag of each class of links. number: int64[links], the class of each link."""

    alike: list[tuple[int, int, int]]
    number: Int64Array

    def of(self, links: BoolArray) -> list[Alike]:
        """Some links, bool[links], by class."""
        return self.counted(np.bincount(self.number[links], minlength=len(self.alike)).tolist())

    def counted(self, counts: list[int]) -> list[Alike]:
        """So many links of each class."""
        return [(*key, count) for key, count in zip(self.alike, counts, strict=True) if count]


def farthest(network: Network, cost: Int64Array) -> int:
    """A time that no shortest path exceeds: to the first NPU from wherever, and from there to wherever.

    UNREACHABLE and more where that NPU does not reach all, or not all reach it. cost: int64[kinds], picoseconds.
    """
    start = np.full(network.device_count, UNREACHABLE, np.int64)
    start[network.npus[:1]] = 0
    ways = (_relaxed(one, cost, start)[network.present] for one in (network, network.reversed()))
    return sum(int(way.max(initial=0)) for way in ways)


def _two_nearest(network: Network, cost: Int64Array, sources: Int32Array) -> tuple[Int64Array, Int64Array]:
    """int64[devices], twice: the way from the nearest source, and from the nearest of all others."""
    start = np.full(network.device_count, UNREACHABLE, np.int64)
    start[sources] = 0
    first = _relaxed(network, cost, start)
    label = _labels(network, cost, sources, first)
    across = label[network.source] != label[network.target]
    price = cost[network.kind]
    second = np.full(network.device_count, UNREACHABLE, np.int64)
    np.minimum.at(second, network.target[across], first[network.source[across]] + price[across])
    return first, _relaxed(network, cost, np.minimum(second, UNREACHABLE), ~across)


def _labels(network: Network, cost: Int64Array, sources: Int32Array, near: Int64Array) -> Int32Array:
    """int32[devices]: a source that is nearest to each; -1 where none leads there."""
    label = np.full(network.device_count, -1, np.int32)
    label[sources] = sources
    tight = (near[network.source] + cost[network.kind] == near[network.target]) & (near[network.source] < UNREACHABLE)
    tight &= near[network.target] > 0
    source, target = network.source[tight], network.target[tight]
    while True:
        open_ = (label[target] < 0) & (label[source] >= 0)
        if not bool(open_.any()):
            return label
        label[target[open_]] = label[source[open_]]


def _relaxed(network: Network, cost: Int64Array, start: Int64Array, links: BoolArray | None = None) -> Int64Array:
    """int64[devices]: the cheapest way from any device, each with a start of its own (Bellman and Ford)."""
    source, target, kind = network.source, network.target, network.kind
    if links is not None:
        source, target, kind = source[links], target[links], kind[links]
    order = np.argsort(target, kind="stable")
    source, target, price = source[order], target[order], cost[kind[order]]
    found = start.copy()
    if not len(order):
        return found
    first = np.flatnonzero(np.concatenate([[True], target[1:] != target[:-1]]))
    ends = target[first]
    while True:
        best = np.minimum(found[ends], np.minimum.reduceat(np.minimum(found[source] + price, UNREACHABLE), first))
        if bool((best == found[ends]).all()):
            return found
        found[ends] = best
