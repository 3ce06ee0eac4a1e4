"""The channels that NCCL's topology search finds in the nodes of a network.

A channel goes through all NPUs of a node. It enters the node by one NIC and leaves it by a NIC; in a single node it
closes to a ring. As in `src/graph/search.cc` of NCCL 2.30, each channel takes equal bandwidth from all links on its
way, as many channels are found as the links allow, and of several bandwidths that one counts at which the channels
carry most. A channel comes in and goes out by one NIC if the last NPU reaches the NIC over switches; else NICs are
paired, and two channels cross from one to the other (NCCL_CROSS_NIC=2); else the NPU of the NIC passes on what the last
NPU sends (PXN).

Simplified: the bandwidths that are tried are the rates of the links and their halves, not a table for each generation
of GPUs; a channel that was found is not given up for others; paths between NPUs have the fewest hops over switches, and
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
"""Half of NCCL's MAXCHANNELS, since NCCL doubles the channels that it finds."""

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


def channels_of(network: Network, *, rings: bool) -> list[list[Channel]]:
    """For each channel its parts in all nodes, in the order of `parts_of`. There is at least one channel.

    rings: whether channels come back from their last NPU; else each is a chain below the NPU of its NIC, for a tree.
    If nodes find different numbers of channels, the least counts (`src/init.cc`); a node that finds none has one, of
    its NPUs in order.
    """
    label, parts = node_labels(network), parts_of(network)
    each = [_Node(network, npus, label == label[npus[0]]).channels(rings=rings) for npus in parts]
    return [[channels[number] for channels in each] for number in range(min(map(len, each)))]


def on_rails(channels: Sequence[Sequence[Channel]]) -> list[list[Channel]]:
    """Channels that cross between two NICs in one node, and back in the next one, so that they stay on their rails.

    As NCCL exchanges rings (ncclTopoPostset in `src/graph/connect.cc`): only if their number is even.
    """
    rows = [list(parts) for parts in channels]
    for there, back in zip(rows[::2], rows[1::2], strict=True) if len(rows) % 2 == 0 else ():
        for node in range(1, len(there), 2):
            if there[node].enter != there[node].leave:
                there[node], back[node] = back[node], there[node]
    return rows


@dataclass(frozen=True, slots=True)
class _Course:
    """Where a channel may go. enter, leave: NICs; None in a single node. last: its last NPU; None: any. goal: the
    device to which it comes back; None: it ends at its last NPU.
    """

    enter: Pair | None
    leave: Pair | None
    first: int
    last: int | None = None
    goal: int | None = None


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
            near = {nic[0]: ()} if nic[0] in self.place else self._paths_from(nic[0], Fraction(0))
            taken = list(self.npu_of.values())
            npus_near = [npu for npu in near if npu in self.place]
            if npus_near:
                self.npu_of[nic] = min(npus_near, key=lambda n: (len(near[n]), taken.count(n), self.place[n]))

    def channels(self, *, rings: bool) -> list[Channel]:
        """The channels at the bandwidth at which they carry most; of several those found first."""
        best, most = [Channel(tuple(self.npus))], Fraction(0)
        nics = list(self.npu_of)
        limit = sum((self.rate[nic] for nic in nics), Fraction(0)) or min(map(self._sends, self.npus))
        highest = max((self.rate[nic] for nic in nics), default=limit)
        for rate in sorted({rate / part for rate in self.rate.values() for part in (1, 2)}, reverse=True):
            if not 0 < rate <= highest:
                continue
            for courses in self._courses(nics) if rings else [self._chains(nics)]:
                self.free, self.steps = dict(self.rate), 0
                channels = self._channels_of(courses, rate)
                if len(channels) * rate > most:
                    best, most = channels, len(channels) * rate
                if most >= limit:
                    return best
        return best

    def _sends(self, npu: int) -> Fraction:
        return sum((self.rate[npu, other] for other in self.next.get(npu, ())), Fraction(0))

    def _chains(self, nics: Sequence[Pair]) -> list[tuple[_Course, ...]]:
        """The courses of trees: up and down by one NIC (NCCL_TOPO_PATTERN_TREE)."""
        return [(_Course(nic, nic, self.npu_of[nic]),) for nic in nics] or [(_Course(None, None, self.npus[0]),)]

    def _courses(self, nics: Sequence[Pair]) -> Iterator[list[tuple[_Course, ...]]]:
        """Lists of courses for rings, of which the best counts; a tuple of courses is taken together or not at all."""
        if not nics:
            yield [(_Course(None, None, self.npus[0], goal=self.npus[0]),)]
            return
        over_one = [(_Course(nic, nic, self.npu_of[nic], goal=nic[0]),) for nic in nics]
        yield [courses for courses in over_one if len(self.npus) == 1 or courses[0].goal not in self.place]
        crossing: list[tuple[_Course, ...]] = []
        for nic, other in zip(nics[::2], nics[1::2], strict=False):
            ends = self.npu_of[nic], self.npu_of[other]
            if ends[0] != ends[1]:
                back = _Course(other, nic, *ends[::-1], goal=nic[0])
                crossing.append((_Course(nic, other, *ends, goal=other[0]), back))
        yield crossing
        yield over_one

    def _channels_of(self, courses: list[tuple[_Course, ...]], rate: Fraction) -> list[Channel]:
        """All channels, one for each course in turn, until a turn gives none."""
        channels: list[Channel] = []
        before = -1
        while before < len(channels) < MOST_CHANNELS:
            before = len(channels)
            for together in courses:
                saved = dict(self.free)
                new = [channel for course in together if (channel := self._channel(course, rate)) is not None]
                if len(new) < len(together):
                    self.free = saved
                else:
                    channels += new
        return channels[:MOST_CHANNELS]

    def _channel(self, course: _Course, rate: Fraction) -> Channel | None:
        """A channel by a course, whose bandwidth is taken; None if there is none, with some of it taken."""
        if course.enter is not None and course.leave is not None:
            entry = () if course.enter[0] == course.first else self._paths_from(course.enter[0], rate).get(course.first)
            if entry is None or not self._take(((course.enter[1], course.enter[0]), *entry, course.leave), rate):
                return None
        order = self._order(course, rate)
        return None if order is None else Channel(order, course.enter, course.leave)

    def _order(self, course: _Course, rate: Fraction) -> tuple[int, ...] | None:
        """The NPUs of a channel: depth first, the nearest next, of equally near ones that with the most free bandwidth,
        then the next number.
        """
        order, taken = [course.first], list[tuple[Pair, ...]]()
        choices = [self._choices(course, order, rate)]
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
            choices.append(self._choices(course, order, rate))
        return None

    def _choices(self, course: _Course, order: list[int], rate: Fraction) -> Iterator[tuple[Pair, ...]]:
        """The paths on which a channel may go on; from its last NPU those to the device of the NIC."""
        here = order[-1]
        if len(order) == len(self.npus):
            if course.goal in (None, here):
                return iter([()])
            back = self._paths_from(here, rate).get(course.goal)
            return iter([] if back is None else [back])
        ahead: list[tuple[int, Fraction, int, tuple[Pair, ...]]] = []
        left = len(self.npus) - len(order)
        for npu, path in self._paths_from(here, rate).items():
            if npu in self.place and npu not in order and (npu != course.last or left == 1):
                offset = (self.place[npu] - self.place[here]) % len(self.npus)
                ahead.append((len(path), -min(self.free[pair] for pair in path), offset, path))
        return iter([path for _, _, _, path in sorted(ahead)])

    def _paths_from(self, start: int, rate: Fraction) -> dict[int, tuple[Pair, ...]]:
        """The devices that paths over switches lead to, with the fewest hops over links with so much free bandwidth."""
        path_to: dict[int, tuple[Pair, ...]] = {}
        front: list[tuple[int, tuple[Pair, ...]]] = [(start, ())]
        for device, path in front:
            for other in self.next.get(device, ()):
                self.steps += 1
                if other != start and other not in path_to and self.free[device, other] >= rate:
                    path_to[other] = (*path, (device, other))
                    if other not in self.place:
                        front.append((other, path_to[other]))
        return path_to

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
