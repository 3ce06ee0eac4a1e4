"""Data as a fluid: how soon links can deliver some bytes, whatever the number of chunks.

A link carries its bandwidth, from the moment at which data can be at its source to the last one from which data can get
on to where it is wanted. Latencies delay data, but occupy no link, so that times are valid for both link models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE
from collc.synthesis.bounds.timing import Delays
from collc.synthesis.bounds.traffic import Traffic
from collc.ten.arrays import BoolArray, Int64Array
from collc.ten.network import Network

LATENCY_DEVICES: Final = 2048
"""Devices up to which latencies before and behind links count."""

LARGEST_CAPACITY: Final = 1 << 28
"""Bandwidths are rounded up to whole numbers of at most this size, so that flows fit in 64 bits."""

COARSER: Final = 1 << 6
"""By how much larger a unit of capacities is where flows do not fit in 64 bits all the same."""

SECOND: Final = 10**12
"""Picoseconds."""


@dataclass(frozen=True, eq=False)
class Fluid:
    """Bytes that must move, and rates.

    sizes: int64, bytes of a chunk by the size numbers of `traffic`. rates: bytes a second by kind of link.
    capacity: int64[links], whole multiples of `unit` bytes a second, rounded up. delays: latencies before and behind
    devices.
    """

    network: Network
    sizes: Int64Array
    traffic: list[Traffic]
    rates: list[Fraction]
    capacity: Int64Array
    unit: Fraction
    delays: Delays

    @staticmethod
    def of(network: Network, sizes: Int64Array, traffic: list[Traffic]) -> Fluid:
        """Raises ValueError where links have no bandwidth or latency."""
        rates: list[Fraction] = []
        for kind in network.kinds:
            if kind.bandwidth is None:
                raise ValueError(f"links of {network.name} have no bandwidth")
            rates.append(kind.bandwidth)
        unit = _common_unit(rates)
        delays = Delays.none(network)
        if network.device_count <= LATENCY_DEVICES:
            ends = [part.holders_and_wanting() for part in traffic]
            holders, wanting = (np.unique(np.concatenate(column)) for column in zip(*ends, strict=True))
            delays = Delays.of(network, network.latencies, holders, wanting)
        return Fluid(network, sizes, traffic, rates, _capacities(network, rates, unit), unit, delays)

    def coarser(self) -> Fluid:
        """The same with smaller numbers for capacities, again rounded up."""
        unit = self.unit * COARSER
        return replace(self, unit=unit, capacity=_capacities(self.network, self.rates, unit))

    @cached_property
    def graph(self) -> Digraph:
        """Devices and links."""
        return Digraph.of(self.network)

    def busiest(self, received: bool, count: int) -> list[int]:
        """The `count` NPUs with the most bytes to receive, or to send, for the bandwidth of their links."""
        network = self.network
        volume = np.zeros(network.device_count)
        for part in self.traffic:
            counts = part.received() if received else part.sent()
            volume[: counts.shape[1]] += self.sizes @ counts
        width = np.zeros(network.device_count)
        np.add.at(width, network.target if received else network.source, self.capacity)
        time = np.where(width > 0, volume / np.maximum(width, 1), 0)
        order = np.argsort(-time, kind="stable")
        return [int(npu) for npu in order[:count] if time[npu] > 0]

    def time_into(self, inside: BoolArray) -> int:
        """Picoseconds until all bytes that must enter a set of devices can have done so; 0 where none must.

        inside: bool[devices].
        """
        volume = sum(int(self.sizes @ part.crossing(inside).counts) for part in self.traffic)
        return self.time_over(~inside[self.network.source] & inside[self.network.target], volume)

    def time_over(self, links: BoolArray, volume: int) -> int:
        """Picoseconds until some links, bool[links], can have delivered so many bytes; 0 if they never can."""
        if not volume:
            return 0
        network = self.network
        numbers = np.flatnonzero(links)
        kind = network.kind[numbers]
        lag = self.delays.head[network.source[numbers]] + self.delays.tail[network.target[numbers]]
        lag = np.minimum(lag, UNREACHABLE) + network.latencies[kind]
        rows, counts = np.unique(np.stack([lag, kind], axis=1), axis=0, return_counts=True)
        return self._filled(volume, [(*row, count) for row, count in zip(rows.tolist(), counts.tolist(), strict=True)])

    def _filled(self, volume: int, links: list[tuple[int, int, int]]) -> int:
        """The least T with the sum of count x rate x (T - lag) = volume over (lag, kind, count), ascending by lag."""
        rate = used = time = Fraction(0)
        for lag, kind, count in links:
            if lag >= UNREACHABLE or (rate and time <= lag):
                break
            rate += count * self.rates[kind]
            used += count * self.rates[kind] * lag
            time = (volume * SECOND + used) / rate
        return math.ceil(time)


def _common_unit(rates: list[Fraction]) -> Fraction:
    """A rate of which all others are whole multiples, or nearly so where that would make large numbers."""
    scale = math.lcm(*(rate.denominator for rate in rates))
    unit = Fraction(math.gcd(*(int(rate * scale) for rate in rates)), scale)
    largest = max(rates)
    return unit if largest / unit <= LARGEST_CAPACITY else largest / LARGEST_CAPACITY


def _capacities(network: Network, rates: list[Fraction], unit: Fraction) -> Int64Array:
    return np.array([math.ceil(rate / unit) for rate in rates], np.int64)[network.kind]
