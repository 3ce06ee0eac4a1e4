"""How soon a set of links can deliver some chunks, if each link counts only while it can carry useful ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_from, two_nearest
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.network import Network
from collc.ten.schedule import LinkModel


class LinkClass(NamedTuple):
    """Links of one kind with equal lags, and their number.

    A lag is the time, in picoseconds, during which a link cannot carry a useful chunk: at the beginning, before any
    chunk can be at its source, and at the end, while the last chunk gets on from its target. long_lag: the
    lag of transfers that count for several NPUs (see `Delays`).
    """

    kind: int
    lag: int
    long_lag: int
    number: int


@dataclass(frozen=True, eq=False)
class TransferTimes:
    """Times by kind of link and chunk size.

    sizes: int64, bytes, ascending. busy, total: int64[kinds, sizes], picoseconds that a transfer occupies its link,
    and until it has arrived.
    """

    sizes: Int64Array
    busy: Int64Array
    total: Int64Array

    @staticmethod
    def of(network: Network, sizes: Int64Array, model: LinkModel) -> TransferTimes:
        """The times on a network. Raises ValueError if links have no bandwidth or latency."""
        occupancy = network.occupancy(sizes)
        total = occupancy + network.latencies[:, None]
        return TransferTimes(sizes, np.maximum(1, model.busy(occupancy, total)), total)

    def delivery(self, links: list[LinkClass], counts: list[int], known: int = 0) -> int:
        """A time before which some links cannot have delivered counts[s] chunks of each size s.

        For each size, all chunks that are at least as large count as chunks of that size. known: earlier times are not
        of interest; it is returned in their place.
        """
        best, larger = known, 0
        for size in range(len(counts) - 1, -1, -1):
            larger += counts[size]
            if counts[size]:
                best = self.delivery_of(links, size, larger, known=best)
        return max(best, self._delivery_by_bytes(links, counts))

    def delivery_of(self, links: list[LinkClass], size: int, chunks: int, copies: int = 1, known: int = 0) -> int:
        """The earliest time at which some links can have delivered `chunks` chunks of one size; `known` if they never
        can, or if that is not earlier.

        copies: how often a chunk must be delivered that does not arrive within the long lags.
        """
        rows = [
            (int(self.busy[kind, size]), int(self.total[kind, size]), lag, long_lag, count)
            for kind, lag, long_lag, count in links
            if lag < UNREACHABLE
        ]
        if not rows:
            return known
        if copies == 1 and len(rows) == 1:
            busy, total, lag, _, count = rows[0]
            return max(known, lag + total + (-(-chunks // count) - 1) * busy)
        low, high = known, min(lag + total + busy * chunks * copies for busy, total, lag, _, _ in rows)
        middle = known  # most sets of links are not the narrowest one
        while low < high:
            deliveries = early = 0
            for busy, total, lag, long_lag, count in rows:
                deliveries += count * max(0, (middle - lag - total + busy) // busy)
                early += count * max(0, (middle - long_lag - total + busy) // busy)
            early = min(chunks, early)
            if early + (chunks - early) * copies <= deliveries:
                high = middle
            else:
                low = middle + 1
            middle = (low + high) // 2
        return low

    def _delivery_by_bytes(self, links: list[LinkClass], counts: list[int]) -> int:
        """As `delivery`, from the bytes of all chunks and the best rate of each link over the sizes."""
        used = [size for size, count in enumerate(counts) if count]
        if len(used) < 2 or not links:
            return 0
        volume = sum(count * int(size) for count, size in zip(counts, self.sizes.tolist(), strict=True))
        rate = Fraction(0)
        least_lag = UNREACHABLE
        for kind, lag, _, count in links:
            rate += count * max(Fraction(int(self.sizes[s]), int(self.busy[kind, s])) for s in used)
            least_lag = min(least_lag, *(lag + int(self.total[kind, s] - self.busy[kind, s]) for s in used))
        return -(-volume // rate) + least_lag if rate and least_lag < UNREACHABLE else 0


@dataclass(frozen=True, eq=False)
class Delays:
    """When chunks can be at each device, and how long before the end they must leave it: heads and tails, as in
    scheduling theory. Each int64[devices], picoseconds; UNREACHABLE where no path leads.

    head: the distance from the nearest NPU that holds something at the start.
    sum_head: the head of a sum of contributions of two NPUs, which some device on the path must have added up.
    tail: the distance to the nearest NPU that wants something.
    fork_tail: the distance to the second nearest of them, for a chunk that two NPUs want.
    """

    head: Int64Array
    sum_head: Int64Array
    tail: Int64Array
    fork_tail: Int64Array

    @staticmethod
    def without_lags(network: Network) -> Delays:
        """No delay at any device."""
        zero = np.zeros(network.device_count, np.int64)
        return Delays(zero, zero, zero, zero)

    @staticmethod
    def of(network: Network, cost: Int64Array, holders: Int32Array, wanting: Int32Array) -> Delays:
        """cost: int64[kinds], picoseconds of the smallest chunk. holders, wanting: device numbers."""
        graph, length = Digraph.of(network), cost[network.kind]
        head, second_head = two_nearest(graph, length, holders)
        tail, fork_tail = two_nearest(graph.reverse(), length, wanting)
        adds = np.ones(network.device_count, np.bool_)
        adds[network.npu_count :] = network.reduces
        sum_head = distances_from(graph, length, np.where(adds, second_head, UNREACHABLE))
        return Delays(head, sum_head, tail, fork_tail)

    def link_classes(self, network: Network, summed: bool = False, forked: bool = False) -> LinkClasses:
        """The classes of links; long lags are those of chunks that are summed before, or fork behind, or both."""
        source, target = network.source, network.target
        lag = self.head[source] + self.tail[target]
        long_lag = (self.sum_head if summed else self.head)[source] + (self.fork_tail if forked else self.tail)[target]
        columns = [network.kind, np.minimum(lag, UNREACHABLE), np.minimum(long_lag, UNREACHABLE)]
        found, number = np.unique(np.stack(columns, axis=1).astype(np.int64), axis=0, return_inverse=True)
        keys: list[list[int]] = found.tolist()
        return LinkClasses([(kind, lag, long_lag) for kind, lag, long_lag in keys], number.reshape(-1))


@dataclass(frozen=True, eq=False)
class LinkClasses:
    """keys: (kind, lag, long lag) of each class. number: int64[links], the class of each link."""

    keys: list[tuple[int, int, int]]
    number: Int64Array

    def of(self, links: BoolArray) -> list[LinkClass]:
        """The classes of some links, bool[links]."""
        counts: list[int] = np.bincount(self.number[links], minlength=len(self.keys)).tolist()
        return [LinkClass(*key, count) for key, count in zip(self.keys, counts, strict=True) if count]
