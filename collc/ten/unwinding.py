"""Direct links in the place of switches that are joined to switches."""

from __future__ import annotations

import heapq
import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from collc.base.disjoint_sets import DisjointSets
from collc.ten.network import LinkKind, Network

Row = tuple[int, int, int, int]
"""A new link: source, target, kind, and the first link of the path that it stands for."""

MOST_PAIRS: Final = 1 << 20
"""Pairs of NPUs that are linked at most."""


def joined_switches(network: Network) -> list[list[int]]:
    """The switches, those that links between switches join together, each part in ascending order."""
    n = network.npu_count
    joined = DisjointSets[int]()
    for source, target in zip(network.source.tolist(), network.target.tolist(), strict=True):
        if source >= n and target >= n:
            joined.join(source, target)
    parts: dict[int, list[int]] = defaultdict(list)
    for switch in range(n, network.device_count):
        parts[joined.root(switch)].append(switch)
    return list(parts.values())


def links_over(network: Network, switches: Sequence[int], kinds: dict[LinkKind, int]) -> list[Row]:
    """A link for each pair of NPUs that switches join, in order of source and target.

    Its latency is that of the path of the least latency, of equal ones with the fewest links. If several are equal,
    the path is laid, from its target back, over the links that fewest of the paths so far share, counted against their
    bandwidth. The new link has the bandwidth of the narrowest link of its path, if each link is shared evenly by the
    new links that pass it. kinds: numbers of kinds, which grows. Raises ValueError for too many pairs.
    """
    paths = _Paths(network, switches)
    if len(paths.senders) * len(paths.receivers) > MOST_PAIRS:
        raise ValueError(f"{len(paths.senders)} x {len(paths.receivers)} pairs of NPUs are more than {MOST_PAIRS:,}")
    for source in paths.senders:
        paths.lay(source)
    rows: list[Row] = []
    known: dict[tuple[int | None, int | None], int] = {}
    for source, target, link, latency, share in paths.found():
        number = known.get((latency, share))
        if number is None:
            kind = LinkKind(latency, None if share is None else Fraction(paths.scale, share))
            number = known[latency, share] = kinds.setdefault(kind, len(kinds))
        rows.append((source, target, number, link))
    return rows


@dataclass(slots=True)
class _Reach:
    """What senders with the same links to switches have in common.

    length: latency and number of links of the best path to each device. before: the last links of the best paths to
    each device that come from a switch.
    """

    length: dict[int, tuple[int, int]]
    before: dict[int, list[int]]


class _Paths:
    """Paths over some switches.

    scale / weights[link] is the bandwidth of a link, all of them whole numbers. users: how many paths pass each link.
    into, out: the links of each device.
    """

    def __init__(self, network: Network, switches: Sequence[int]) -> None:
        inside = set(switches)
        kinds: list[LinkKind] = [network.kinds[kind] for kind in network.kind.tolist()]
        rates = [Fraction(kind.bandwidth or 1) for kind in network.kinds]
        self.scale: int = math.lcm(*(rate.numerator for rate in rates))
        weights: list[int] = [self.scale // rate.numerator * rate.denominator for rate in rates]
        self.kinds = kinds
        self.weights: list[int] = [weights[kind] for kind in network.kind.tolist()]
        self.latency = [kind.latency or 0 for kind in kinds]
        self.source: list[int] = network.source.tolist()
        self.target: list[int] = network.target.tolist()
        self.users = [0] * network.link_count
        self.into: dict[int, list[int]] = defaultdict(list)
        self.out: dict[int, list[int]] = defaultdict(list)
        n = network.npu_count
        for link, (a, b) in enumerate(zip(self.source, self.target, strict=True)):
            if (a in inside or b in inside) and (a < n or a in inside) and (b < n or b in inside):
                self.out[a].append(link)
                self.into[b].append(link)
        self.senders = sorted(device for device in self.out if device < n)
        self.receivers = sorted(device for device in self.into if device < n)
        self.inside = inside
        self._reach: dict[tuple[tuple[int, int], ...], _Reach] = {}
        self._ends = array("q")  # source, target and number of links of each path
        self._links = array("q")  # the links of all paths, each from its target back

    def lay(self, source: int) -> None:
        """Lay a path to each NPU that can be reached; its links count one user more."""
        key = tuple((self.target[link], self.latency[link]) for link in self.out[source])
        reach = self._reach.get(key)
        if reach is None:
            reach = self._reach[key] = self._reached(source)
        length, before = reach.length, reach.before
        first: dict[int, list[int]] = defaultdict(list)  # links of the source that are the first of a best path
        for link in self.out[source]:
            if length[self.target[link]] == (self.latency[link], 1):
                first[self.target[link]].append(link)
        users, weights, sources, laid = self.users, self.weights, self.source, self._links
        for npu in self.receivers:
            if npu == source or npu not in length:
                continue
            begin, device = len(laid), npu
            while device != source:
                best = first[device] + before[device] if device in first else before[device]
                link = best[0]
                if len(best) > 1:
                    least = (users[link] + 1) * weights[link]
                    for other in best:
                        share = (users[other] + 1) * weights[other]
                        if share < least or (share == least and other < link):
                            least, link = share, other
                users[link] += 1
                laid.append(link)
                device = sources[link]
            self._ends.extend((source, npu, len(laid) - begin))

    def _reached(self, source: int) -> _Reach:
        length = self._lengths(source)
        before: dict[int, list[int]] = {}
        for device, (time, hops) in length.items():
            before[device] = [
                link
                for link in self.into[device]
                if self.source[link] in self.inside
                and length.get(self.source[link]) == (time - self.latency[link], hops - 1)
            ]
        return _Reach(length, before)

    def _lengths(self, source: int) -> dict[int, tuple[int, int]]:
        """Latency and number of links of the best path to each device; paths pass switches only."""
        length: dict[int, tuple[int, int]] = {}
        queue = [(0, 0, source)]
        while queue:
            time, hops, device = heapq.heappop(queue)
            if device != source and ((time, hops) > length[device] or device not in self.inside):
                continue
            for link in self.out[device]:
                reached = (time + self.latency[link], hops + 1)
                other = self.target[link]
                if other not in length or reached < length[other]:
                    length[other] = reached
                    heapq.heappush(queue, (*reached, other))
        return length

    def found(self) -> Iterator[tuple[int, int, int, int | None, int | None]]:
        """Of each path: source, target, its first link, its latency, and `scale` over its part of the bandwidth.

        Latency and part are None if those of a link of the path are.
        """
        kinds = self.kinds
        latencies = [kind.latency for kind in kinds]
        shares = [
            None if kind.bandwidth is None else used * weight
            for kind, used, weight in zip(kinds, self.users, self.weights, strict=True)
        ]
        laid, begin = self._links, 0
        ends = iter(self._ends)
        for source, target, count in zip(ends, ends, ends, strict=True):
            path = laid[begin : begin + count]
            begin += count
            latency: int | None = 0
            share: int | None = 0
            for link in path:
                more, part = latencies[link], shares[link]
                latency = None if latency is None or more is None else latency + more
                share = None if share is None or part is None else max(share, part)
            yield source, target, path[-1], latency, share
