"""Direct links in the place of switches that are joined to switches."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from collc.ten.network import LinkKind, Network

Row = tuple[int, int, int, int]
"""A new link: source, target, kind, and the first link of the path that it stands for."""

MOST_PAIRS = 1 << 22
"""Pairs of NPUs that are linked at most."""


def joined_switches(network: Network) -> list[list[int]]:
    """The switches, those that links between switches join together, each part in ascending order."""
    n = network.npu_count
    part = list(range(network.device_count))

    def root(device: int) -> int:
        while part[device] != device:
            part[device] = part[part[device]]
            device = part[device]
        return device

    for source, target in zip(network.source.tolist(), network.target.tolist(), strict=True):
        if source >= n and target >= n:
            part[max(root(source), root(target))] = min(root(source), root(target))
    found: dict[int, list[int]] = defaultdict(list)
    for switch in range(n, network.device_count):
        found[root(switch)].append(switch)
    return list(found.values())


def links_over(network: Network, switches: Sequence[int], kinds: dict[LinkKind, int]) -> list[Row]:
    """A link for each pair of NPUs that switches join, in order of source and target.

    Its latency is that of the path of the least latency, of equal ones with the fewest links. Where several are equal,
    the path is laid, from its target back, over the links that fewest of the paths so far share, counted against their
    bandwidth. The new link has the bandwidth of the narrowest link of its path, where each link is shared evenly by the
    new links that pass it. kinds: numbers of kinds, which grows. Raises ValueError for too many pairs.
    """
    paths = _Paths(network, switches)
    if len(paths.senders) * len(paths.receivers) > MOST_PAIRS:
        raise ValueError(f"{len(paths.senders)} x {len(paths.receivers)} pairs of NPUs are more than {MOST_PAIRS:,}")
    found = [(source, target, path) for source in paths.senders for target, path in paths.laid(source)]
    rows: list[Row] = []
    for source, target, path in found:
        kind = kinds.setdefault(paths.kind_of(path), len(kinds))
        rows.append((source, target, kind, path[0]))
    return rows


class _Paths:
    """Paths over some switches. users: how many paths pass each link. into, out: the links of each device."""

    def __init__(self, network: Network, switches: Sequence[int]) -> None:
        inside = set(switches)
        numbers: list[int] = network.kind.tolist()
        self.kinds: list[LinkKind] = [network.kinds[kind] for kind in numbers]
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

    def laid(self, source: int) -> list[tuple[int, list[int]]]:
        """The path to each NPU that can be reached."""
        length = self._lengths(source)
        return [(npu, self._path(source, npu, length)) for npu in self.receivers if npu in length and npu != source]

    def _lengths(self, source: int) -> dict[int, tuple[int, int]]:
        """Latency and number of links of the best path to each device; paths pass switches only."""
        length = {source: (0, 0)}
        queue = [(0, 0, source)]
        while queue:
            time, hops, device = heapq.heappop(queue)
            if (time, hops) > length[device] or (device != source and device not in self.inside):
                continue
            for link in self.out[device]:
                reached = (time + (self.kinds[link].latency or 0), hops + 1)
                other = self.target[link]
                if other not in length or reached < length[other]:
                    length[other] = reached
                    heapq.heappush(queue, (*reached, other))
        return length

    def _path(self, source: int, target: int, length: dict[int, tuple[int, int]]) -> list[int]:
        """One of the best paths; its links count one user more."""
        path: list[int] = []
        device = target
        while device != source:
            time, hops = length[device]
            best = [
                link
                for link in self.into[device]
                if (self.source[link] == source or self.source[link] in self.inside)
                and length.get(self.source[link]) == (time - (self.kinds[link].latency or 0), hops - 1)
            ]
            link = min(best, key=lambda one: (Fraction(self.users[one] + 1) / (self.kinds[one].bandwidth or 1), one))
            self.users[link] += 1
            path.append(link)
            device = self.source[link]
        return path[::-1]

    def kind_of(self, path: Sequence[int]) -> LinkKind:
        """Latency and bandwidth of the link that stands for a path."""
        latencies = [self.kinds[link].latency for link in path]
        shares = [None if (b := self.kinds[link].bandwidth) is None else b / self.users[link] for link in path]
        latency = None if None in latencies else sum(one for one in latencies if one is not None)
        return LinkKind(latency, None if None in shares else min(one for one in shares if one is not None))
