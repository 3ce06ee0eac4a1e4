"""Data as a fluid: how soon links can deliver some bytes, for any number of chunks.

A link carries its bandwidth from the moment when data can be at its source until the last moment from which data can
still reach a device that wants it. Latencies delay data but do not occupy links, so these times are valid for both link
models. With the link model `store` latencies also occupy links, in total the less the larger the chunks are;
`Fluid.with_stored_chunks` assumes the largest possible chunks.

A switch with few slots limits all its links together. A chunk occupies a slot while it leaves, so the chunks that pass
through the switch have at most the bandwidth of as many links as it has slots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE
from collc.synthesis.bounds.timing import Delays, links_between, slots_for_each
from collc.synthesis.bounds.traffic import Traffic, stacks, traffic_of
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, unique_rows
from collc.ten.demand import Demand
from collc.ten.network import Network

T = TypeVar("T")

LARGEST_CAPACITY: Final = 1 << 28
"""Bandwidths are rounded up to whole numbers of at most this size, so that flows fit in 64 bits."""

COARSER: Final = 1 << 6
"""By how much larger a unit of capacities is if flows do not fit in 64 bits all the same."""

SECOND: Final = 10**12
"""Picoseconds."""


@dataclass(frozen=True, eq=False)
class Fluid:
    """Bytes that must move, and rates.

    sizes: int64, bytes of a chunk by the size numbers of `traffic`. rates: bytes a second by kind of link. waits:
    int64[kinds], picoseconds for which a link of a kind delays data but is not occupied. capacity: int64[links], whole
    multiples of `unit` bytes a second, rounded up.
    """

    network: Network
    sizes: Int64Array
    traffic: list[Traffic]
    rates: list[Fraction]
    waits: Int64Array
    capacity: Int64Array
    unit: Fraction

    @staticmethod
    def of(network: Network, sizes: Int64Array, traffic: list[Traffic]) -> Fluid:
        """Raises ValueError if links have no bandwidth or latency."""
        rates: list[Fraction] = []
        for kind in network.kinds:
            if kind.bandwidth is None:
                raise ValueError(f"links of {network.name} have no bandwidth")
            rates.append(kind.bandwidth)
        unit = _common_unit(rates)
        capacity = _capacities(network, rates, unit)
        return Fluid(network, sizes, traffic, rates, network.latencies, capacity, unit)

    def with_stored_chunks(self, largest: int) -> Fluid:
        """The problem on links that are occupied for latency + size / bandwidth, if no chunk has more bytes."""
        latencies: list[int] = self.network.latencies.tolist()
        rates = [
            largest / (Fraction(latency, SECOND) + largest / rate)
            for latency, rate in zip(latencies, self.rates, strict=True)
        ]
        unit = _common_unit(rates)
        waits = np.zeros_like(self.waits)
        return replace(self, rates=rates, waits=waits, unit=unit, capacity=_capacities(self.network, rates, unit))

    def coarser(self) -> Fluid:
        """The problem with smaller numbers for capacities, again rounded up."""
        unit = self.unit * COARSER
        return replace(self, unit=unit, capacity=_capacities(self.network, self.rates, unit))

    @cached_property
    def delays(self) -> Delays:
        """Latencies before and behind devices."""
        return Delays.of(self.network, self.network.latencies, self.traffic)

    @cached_property
    def graph(self) -> Digraph:
        """Devices and links."""
        return Digraph.of(self.network)

    def busiest(self, received: bool, count: int) -> list[int]:
        """The `count` NPUs with the most bytes to receive, or to send, for the bandwidth of their links."""
        network = self.network
        volume = np.zeros(network.device_count)
        for part in self.traffic:
            counts = part.received_chunks() if received else part.sent_chunks()
            volume[: counts.shape[1]] += self.sizes @ counts
        width = np.bincount(network.target if received else network.source, self.capacity, network.device_count)
        time = np.where(width > 0, volume / np.maximum(width, 1), 0)
        order = np.argsort(-time, kind="stable")
        return [int(npu) for npu in order[:count] if time[npu] > 0]

    def times_into(self, sets: Iterator[BoolArray]) -> Iterator[tuple[BoolArray, int]]:
        """Sets of devices, bool[devices], with the picoseconds until all bytes that must enter them can have done so:
        those that take longer than all before.
        """
        network, best = self.network, 0
        rates_hold = not network.has_limited_buffers and int(self._lag.max(initial=0)) < UNREACHABLE
        for some in stacks(sets, network.link_count):
            volume = sum((part.chunks_into(some).counts @ self.sizes for part in self.traffic), np.zeros(1, np.int64))
            links = ~some[:, network.source] & some[:, network.target]
            rate = links @ self._link_rates
            rows: Iterator[tuple[int, float]] = zip(volume.tolist(), rate.tolist(), strict=True)
            for row, (amount, width) in enumerate(rows):
                # As if no data came before the longest lag.
                if rates_hold and surely_takes_less(float(amount) * SECOND, best - self.longest_lag, width):
                    continue
                time = self.time_over(links[row], amount)
                if time > best:
                    best = time
                    yield some[row], time

    @cached_property
    def _link_rates(self) -> NDArray[np.float64]:
        """float64[links]: bytes a second."""
        return np.array([float(rate) for rate in self.rates])[self.network.kind]

    @cached_property
    def _lag(self) -> Int64Array:
        """int64[links]: picoseconds for which each link does not count."""
        network = self.network
        lag = self.delays.head[network.source] + self.delays.tail[network.target]
        return np.minimum(lag, UNREACHABLE) + self.waits[network.kind]

    def time_between(self, label: Int64Array, volume: int, backward: bool = False) -> int:
        """Picoseconds until all bytes that must enter some sets of devices can have done so; backward: leave them.

        label: int64[devices], the set of each device, -1 for none. volume: the sum over all sets.
        """
        crossing = links_between(self.network, label, backward)
        return self.time_over(crossing, volume, slots_for_each(self.network, backward))

    def time_of_work(self, price: Int64Array, work: int) -> int:
        """Picoseconds until all links can have carried `work` bytes, each times the price of the links that it crosses.

        price: int64[links].
        """
        if not work:
            return 0
        network, lag, used = self.network, self._lag, self._lag < UNREACHABLE
        keys, number = unique_rows([lag[used], network.kind[used]])
        total = np.zeros(len(keys), np.int64)
        np.add.at(total, number, price[used])
        pairs: list[tuple[int, int]] = keys.tolist()
        groups = [(wait, int(prices) * self.rates[kind]) for (wait, kind), prices in zip(pairs, total, strict=True)]
        return _time_to_deliver(work, sorted(groups))

    @cached_property
    def longest_lag(self) -> int:
        """The most picoseconds by which latencies delay what a link can be used for."""
        network = self.network
        lag = self.delays.head[network.source] + self.delays.tail[network.target]
        return int((lag + self.waits[network.kind])[lag < UNREACHABLE].max(initial=0))

    def time_over(self, links: BoolArray, volume: int, together: BoolArray | None = None) -> int:
        """Picoseconds until some links, bool[links], can have delivered `volume` bytes; 0 if they never can.

        together: bool[switches], those whose slots limit what these links carry, if they are few; None for all.
        """
        numbers = np.flatnonzero(links)
        if not volume or not len(numbers):
            return 0
        network = self.network
        kind, lag = network.kind[numbers], self._lag[numbers]
        everywhere = np.ones(network.switch_count, np.bool_)
        limited, groups = self._slot_limits(numbers, lag, everywhere if together is None else together)
        free = ~limited & (lag < UNREACHABLE)
        rows, number = unique_rows([lag[free], kind[free]])
        counts = np.bincount(number, minlength=len(rows))
        pairs: list[tuple[int, int]] = rows.tolist()
        groups += [(least, int(count) * self.rates[row]) for (least, row), count in zip(pairs, counts, strict=True)]
        return _time_to_deliver(volume, sorted(groups))

    def _slot_limits(
        self, links: Int64Array, lag: Int64Array, together: BoolArray
    ) -> tuple[BoolArray, list[tuple[int, Fraction]]]:
        """Links that the slots of a switch limit, and for each such switch (least lag, rate of its slots).

        Returns bool[links] of the given ones. Links to a limited switch wait less than those from it: data need not
        have left the switch when it has arrived.
        """
        network = self.network
        limited = np.zeros(len(links), np.bool_)
        groups: list[tuple[int, Fraction]] = []
        for switch in (network.npu_count + np.flatnonzero(together & (network.buffers >= 0))).tolist():
            width = int(network.buffers[switch - network.npu_count]) * max(self._rates_of(network.source == switch))
            for ends, early in ((network.source, False), (network.target, True)):
                mine = (ends[links] == switch) & ~limited & (lag < UNREACHABLE)
                if sum(self._rates_of(links[mine])) > width:
                    limited |= mine
                    start = self.delays.head[network.source[links[mine]]] if early else lag[mine]
                    groups.append((int(start.min()), width))
        return limited, groups

    def _rates_of(self, links: BoolArray | Int64Array) -> list[Fraction]:
        """0 and the bytes a second of some links."""
        kinds: list[int] = self.network.kind[links].tolist()
        return [Fraction(0), *(self.rates[kind] for kind in kinds)]


@lru_cache(maxsize=2)  # the bounds of given chunks and the ideal ask for the same one
def fluid_of(network: Network, demand: Demand) -> Fluid | None:
    """What must move for a demand; None if nothing can. Raises ValueError as `Fluid.of`."""
    return fluid_of_chunks(network, demand, None)


def fluid_of_chunks(network: Network, demand: Demand, chunks: Int32Array | None) -> Fluid | None:
    """What must move for some chunks of a demand; the rest as in `fluid_of`. chunks: as in `traffic_of`."""
    sizes, traffic = traffic_of(demand, chunks)
    return Fluid.of(network, sizes, traffic) if len(sizes) and network.link_count else None


def surely_takes_less(amount: float, time: int, rate: float) -> bool:
    """Whether an amount takes less than a time at a sum of rates, however the sum is rounded."""
    return amount < time * rate * (1 - 1e-9)


def exactly(fluid: Fluid, search: Callable[[Fluid], T]) -> tuple[T, Fraction] | None:
    """What a search finds, and the unit of its capacities; None if a path is missing, so that no schedule exists.

    If flows do not fit in 64 bits, capacities are rounded up to a larger unit, which keeps bounds valid.
    """
    while True:
        try:
            return search(fluid), fluid.unit
        except OverflowError:
            if int(fluid.capacity.max()) == 1:
                return None
            fluid = fluid.coarser()
        except ValueError:
            return None


def _time_to_deliver(volume: int, groups: list[tuple[int, Fraction]]) -> int:
    """The least T with the sum of rate x (T - lag) = volume over (lag, rate), ascending by lag; 0 without groups."""
    rate = used = time = Fraction(0)
    for lag, more in groups:
        if rate and time <= lag:
            break
        rate += more
        used += more * lag
        time = (volume * SECOND + used) / rate
    return math.ceil(time)


def _common_unit(rates: list[Fraction]) -> Fraction:
    """A rate of which all others are whole multiples, or nearly so if that would make large numbers."""
    scale = math.lcm(*(rate.denominator for rate in rates))
    unit = Fraction(math.gcd(*(int(rate * scale) for rate in rates)), scale)
    largest = max(rates)
    return unit if largest / unit <= LARGEST_CAPACITY else largest / LARGEST_CAPACITY


def _capacities(network: Network, rates: list[Fraction], unit: Fraction) -> Int64Array:
    return np.array([math.ceil(rate / unit) for rate in rates], np.int64)[network.kind]
