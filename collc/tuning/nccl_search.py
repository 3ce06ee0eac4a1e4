"""The channels that NCCL's topology search finds in the nodes of a network.

A channel goes through all NPUs of a node. It enters the node by one NIC and leaves it by a NIC; in a single node it
closes to a ring. As in `src/graph/search.cc` of NCCL 2.30, each channel takes equal bandwidth from all links on its
way, as many channels are found as the links allow, and of several bandwidths that one counts at which the channels
carry most. A channel comes in and goes out by one NIC if the last NPU reaches the NIC over switches; else NICs are
paired, and two channels cross from one to the other (NCCL_CROSS_NIC=2); else the NPU of the NIC passes on what the last
NPU sends (PXN).

Simplified: the bandwidths that are tried are those of the links and their halves, not a table for each generation of
GPUs; a channel that was found is not given up for others; paths between NPUs have the fewest hops over switches, and
pass no other NPU; CPUs, and what GPUDirect allows, are not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from collc.graph.digraph import node_labels, parts_of
from collc.ten.arrays import BoolArray
from collc.ten.network import Network

MOST_CHANNELS: Final = 32
"""Most channels: half of NCCL's MAXCHANNELS, since NCCL doubles those that it finds."""

MOST_STEPS: Final = 2**16
"""Links that the search of a node looks at for one bandwidth; then it ends with what it has."""

Pair = tuple[int, int]
"""Two devices, for all links from the first one to the second."""


@dataclass(frozen=True, slots=True)
class Channel:
    """The part of a channel in one node: its NPUs in order, and the NICs by which it enters and leaves.

    A NIC is (device of the node, device outside); None in a single node, and if no channel was found.
    """

    order: tuple[int, ...]
    enter: Pair | None = None
    leave: Pair | None = None


def channels_of(network: Network) -> list[list[Channel]]:
    """For each channel its parts in all nodes, in the order of `parts_of`. There is at least one channel.

    If nodes find different numbers of channels, the least counts (`src/init.cc`); a node that finds none has one, of
    its NPUs in order.
    """
    label, parts = node_labels(network), parts_of(network)
    each = [_Node(network, npus, label == label[npus[0]]).channels() for npus in parts]
    return [[channels[number] for channels in each] for number in range(min(map(len, each)))]


def on_rails(channels: Sequence[Sequence[Channel]]) -> list[list[Channel]]:
    """Channels in which every other node goes the other way between two NICs, so that both channels stay on their rails.

    As NCCL exchanges rings (ncclTopoPostset in `src/graph/connect.cc`): only if their number is even.
    """
    rows = [list(parts) for parts in channels]
    for one, two in zip(rows[::2], rows[1::2], strict=True) if len(rows) % 2 == 0 else ():
        for node in range(1, len(one), 2):
            if one[node].enter != one[node].leave:
                one[node], two[node] = two[node], one[node]
    return rows


@dataclass(frozen=True, slots=True)
class _Way:
    """Where a channel may go. enter, leave: NICs; None: back to its first NPU. last: its last NPU; None: any.
    relayed: whether the device of the NIC may be another NPU than the last one.
    """

    enter: Pair | None
    leave: Pair | None
    first: int
    last: int | None = None
    relayed: bool = False


class _Node:
    """The devices of a node, and how much of the bandwidth of its links is free.

    inside: bool[devices]; which belong to the node.
    """

    def __init__(self, network: Network, npus: list[int], inside: BoolArray) -> None:
        rates = [kind.bandwidth or Fraction(0) for kind in network.kinds]
        self.npus = npus
        self.rate: dict[Pair, Fraction] = {}
        for link in np.flatnonzero(inside[network.source] | inside[network.target]).tolist():
            pair = (int(network.source[link]), int(network.target[link]))
            self.rate[pair] = self.rate.get(pair, Fraction(0)) + rates[int(network.kind[link])]
        self.next: dict[int, list[int]] = {}
        for source, target in self.rate:
            if inside[source] and inside[target]:
                self.next.setdefault(source, []).append(target)
        self.place = {npu: place for place, npu in enumerate(npus)}
        self.free = dict(self.rate)
        self.steps = 0
        nics = sorted((a, b) for a, b in self.rate if inside[a] and not inside[b] and (b, a) in self.rate)
        self.npu_of: dict[Pair, int] = {}  # of each NIC the nearest NPU, another one for each NIC if there are several
        for nic in nics:
            near = {nic[0]: ()} if nic[0] in self.place else self._reached(nic[0], Fraction(0))
            taken = list(self.npu_of.values())
            ends = [(len(path), taken.count(npu), self.place[npu], npu) for npu, path in near.items() if npu in self.place]
            if ends:
                self.npu_of[nic] = min(ends)[-1]

    def channels(self) -> list[Channel]:
        """The channels at the bandwidth at which they carry most; of several those found first."""
        best, most = [Channel(tuple(self.npus))], Fraction(0)
        nics = list(self.npu_of)
        limit = sum((self.rate[nic] for nic in nics), Fraction(0)) or min(map(self._sends, self.npus))
        highest = max((self.rate[nic] for nic in nics), default=limit)
        for rate in sorted({rate / part for rate in self.rate.values() for part in (1, 2)}, reverse=True):
            if not 0 < rate <= highest:
                continue
            for ways in self._ways(nics):
                self.free, self.steps = dict(self.rate), 0
                channels = self._found(ways, rate)
                if len(channels) * rate > most:
                    best, most = channels, len(channels) * rate
                if most >= limit:
                    return best
        return best

    def _sends(self, npu: int) -> Fraction:
        return sum((self.rate[npu, other] for other in self.next.get(npu, ())), Fraction(0))

    def _ways(self, nics: Sequence[Pair]) -> Iterator[list[tuple[_Way, ...]]]:
        """The ways that are tried, in turn as often as they give channels; ways of one tuple only together."""
        alone = len(self.npus) == 1
        if not nics:
            yield [(_Way(None, None, self.npus[0], relayed=True),)]
            return
        yield [(_Way(nic, nic, self.npu_of[nic]),) for nic in nics if alone or nic[0] not in self.place]
        crossing: list[tuple[_Way, ...]] = []
        for one, two in zip(nics[::2], nics[1::2], strict=False):
            ends = self.npu_of[one], self.npu_of[two]
            if ends[0] != ends[1]:
                crossing.append((_Way(one, two, *ends), _Way(two, one, *ends[::-1])))
        yield crossing
        yield [(_Way(nic, nic, self.npu_of[nic], relayed=True),) for nic in nics]

    def _found(self, ways: list[tuple[_Way, ...]], rate: Fraction) -> list[Channel]:
        """All channels, taking ways in turn; those of no NIC have none."""
        channels: list[Channel] = []
        while ways:
            before = len(channels)
            for together in ways:
                saved = dict(self.free)
                new = [channel for way in together if (channel := self._channel(way, rate)) is not None]
                if len(new) < len(together):
                    self.free = saved
                elif len(channels) + len(new) <= MOST_CHANNELS:
                    channels += new
            if len(channels) == before:
                break
        return channels

    def _channel(self, way: _Way, rate: Fraction) -> Channel | None:
        """A channel by a way, whose bandwidth is taken; None if there is none, with some of it taken."""
        if way.enter is not None and way.leave is not None:
            entry = () if way.enter[0] == way.first else self._reached(way.enter[0], rate).get(way.first)
            if entry is None or not self._take((way.enter[::-1], *entry, way.leave), rate):
                return None
        order = self._order(way, rate)
        return None if order is None else Channel(order, way.enter, way.leave)

    def _order(self, way: _Way, rate: Fraction) -> tuple[int, ...] | None:
        """The NPUs of a channel: depth first, the nearest next, of equally near ones that with the most free bandwidth,
        then the next number.
        """
        order, taken = [way.first], list[tuple[Pair, ...]]()
        choices = [self._choices(way, order, rate)]
        while choices:
            path = next(choices[-1], None)
            if path is None or self.steps > MOST_STEPS:
                choices.pop()
                if taken:
                    self._give(taken.pop(), rate)
                    order.pop()
                continue
            if not self._take(path, rate):
                continue
            if len(order) == len(self.npus):
                return tuple(order)
            taken.append(path)
            order.append(path[-1][1])
            choices.append(self._choices(way, order, rate))
        return None

    def _choices(self, way: _Way, order: list[int], rate: Fraction) -> Iterator[tuple[Pair, ...]]:
        """The paths on which a channel may go on; from its last NPU those to the device of the NIC."""
        here = order[-1]
        if len(order) == len(self.npus):
            goal = way.first if way.leave is None else way.leave[0]
            if way.last not in (None, here):
                return iter(())
            if goal == here:
                return iter([()])
            reached = self._reached(here, rate)
            return iter([reached[goal]] if goal in reached and (way.relayed or goal not in self.place) else [])
        ahead: list[tuple[int, Fraction, int, tuple[Pair, ...]]] = []
        left = len(self.npus) - len(order)
        for npu, path in self._reached(here, rate).items():
            if npu in self.place and npu not in order and (npu != way.last or left == 1):
                offset = (self.place[npu] - self.place[here]) % len(self.npus)
                ahead.append((len(path), -min(self.free[pair] for pair in path), offset, path))
        return iter([path for _, _, _, path in sorted(ahead)])

    def _reached(self, start: int, rate: Fraction) -> dict[int, tuple[Pair, ...]]:
        """The devices that paths over switches lead to, with the fewest hops over links with so much free bandwidth."""
        found: dict[int, tuple[Pair, ...]] = {}
        front = [(start, ())]
        for device, path in front:
            for other in self.next.get(device, ()):
                self.steps += 1
                if other != start and other not in found and self.free[device, other] >= rate:
                    found[other] = (*path, (device, other))
                    if other not in self.place:
                        front.append((other, found[other]))
        return found

    def _take(self, path: Sequence[Pair], rate: Fraction) -> bool:
        """Take bandwidth from all links of a path, or from none if one has too little."""
        for number, pair in enumerate(path):
            if self.free[pair] < rate:
                self._give(path[:number], rate)
                return False
            self.free[pair] -= rate
        return True

    def _give(self, path: Sequence[Pair], rate: Fraction) -> None:
        for pair in path:
            self.free[pair] += rate
