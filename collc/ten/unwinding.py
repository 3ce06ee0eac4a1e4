"""Direct links in the place of switches that are joined to switches."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from math import lcm
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

    Its latency is the latency of the fastest path, of equal ones with the fewest links. If several are equal, the path
    is laid, from its target back, over the links that fewest of the paths so far share, counted against their
    bandwidth. The new link has the bandwidth of the narrowest link of its path; the new links that pass a link share it
    evenly. kinds: numbers of kinds, which grows. Raises ValueError for too many pairs.
    """
    paths = _SwitchPaths(network, switches)
    if len(paths.senders) * len(paths.receivers) > MOST_PAIRS:
        raise ValueError(f"{len(paths.senders)} x {len(paths.receivers)} pairs of NPUs are more than {MOST_PAIRS:,}")
    laid = [(source, npu, path) for source in paths.senders for npu, path in paths.lay(source)]
    latencies = [network.kinds[kind].latency for kind in paths.kind]
    shares = [
        None if network.kinds[kind].bandwidth is None else users * weight
        for kind, users, weight in zip(paths.kind, paths.users, paths.weights, strict=True)
    ]
    rows: list[Row] = []
    numbers: dict[tuple[tuple[int | None, ...], tuple[int | None, ...]], int] = {}
    for source, target, path in laid:
        key = tuple(latencies[link] for link in path), tuple(shares[link] for link in path)
        number = numbers.get(key)
        if number is None:
            latency = None if None in key[0] else sum(filter(None, key[0]))
            bandwidth = None if None in key[1] else Fraction(paths.scale, max(filter(None, key[1])))
            kind = LinkKind(latency, bandwidth)
            number = numbers[key] = kinds.setdefault(kind, len(kinds))
        rows.append((source, target, number, path[-1]))
    return rows


class _SwitchPaths:
    """Paths over some switches.

    scale / weights[link] is the bandwidth of a link, all of them whole numbers. users: how many paths pass each link.
    """

    def __init__(self, network: Network, switches: Sequence[int]) -> None:
        n, inside = network.npu_count, set(switches)
        rates = [Fraction(kind.bandwidth or 1) for kind in network.kinds]
        self.scale: int = lcm(*(rate.numerator for rate in rates))
        self.kind: list[int] = network.kind.tolist()
        self.weights = [self.scale // rates[kind].numerator * rates[kind].denominator for kind in self.kind]
        self.users = [0] * network.link_count
        self._latency = [network.kinds[kind].latency or 0 for kind in self.kind]
        self._source: list[int] = network.source.tolist()
        self._target: list[int] = network.target.tolist()
        self._inside = inside
        self._into: dict[int, list[int]] = defaultdict(list)
        self._out: dict[int, list[int]] = defaultdict(list)
        for link, (a, b) in enumerate(zip(self._source, self._target, strict=True)):
            if (a in inside or b in inside) and (a < n or a in inside) and (b < n or b in inside):
                self._out[a].append(link)
                self._into[b].append(link)
        self.senders = sorted(device for device in self._out if device < n)
        self.receivers = sorted(device for device in self._into if device < n)
        self._known: dict[tuple[tuple[int, int], ...], tuple[dict[int, tuple[int, int]], dict[int, list[int]]]] = {}

    def lay(self, source: int) -> list[tuple[int, list[int]]]:
        """A path to each NPU that can be reached, as (NPU, links from there back); its links count one user more."""
        key = tuple((self._target[link], self._latency[link]) for link in self._out[source])
        if key not in self._known:  # senders with the same links to switches have these in common
            length = self._lengths(source)
            self._known[key] = length, self._last_links(length)
        length, before = self._known[key]
        first: dict[int, list[int]] = defaultdict(list)  # links of the source that are the first of a best path
        for link in self._out[source]:
            if length[self._target[link]] == (self._latency[link], 1):
                first[self._target[link]].append(link)
        users, weights = self.users, self.weights
        paths: list[tuple[int, list[int]]] = []
        for npu in self.receivers:
            if npu == source or npu not in length:
                continue
            path, device = list[int](), npu
            while device != source:
                best = first[device] + before[device] if device in first else before[device]
                link = (
                    best[0] if len(best) == 1 else min(best, key=lambda link: ((users[link] + 1) * weights[link], link))
                )
                users[link] += 1
                path.append(link)
                device = self._source[link]
            paths.append((npu, path))
        return paths

    def _last_links(self, length: dict[int, tuple[int, int]]) -> dict[int, list[int]]:
        """The last links of the best paths to each device that come from a switch."""
        return {
            device: [
                link
                for link in self._into[device]
                if self._source[link] in self._inside
                and length.get(self._source[link]) == (time - self._latency[link], hops - 1)
            ]
            for device, (time, hops) in length.items()
        }

    def _lengths(self, source: int) -> dict[int, tuple[int, int]]:
        """Latency and number of links of the best path to each device; paths pass switches only."""
        length: dict[int, tuple[int, int]] = {}
        queue = [(0, 0, source)]
        while queue:
            time, hops, device = heapq.heappop(queue)
            if device != source and ((time, hops) > length[device] or device not in self._inside):
                continue
            for link in self._out[device]:
                reached = (time + self._latency[link], hops + 1)
                other = self._target[link]
                if other not in length or reached < length[other]:
                    length[other] = reached
                    heapq.heappush(queue, (*reached, other))
        return length
