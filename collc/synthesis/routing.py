"""Shortest paths between devices, by hops or by time."""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np

from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network

FAR: Final = 1 << 60
"""The distance where no path leads to the target."""

_KERNEL_WORK: Final = 400_000
"""Targets x links from which the compiled kernel is worth its start-up."""


class Router:
    """Shortest paths where link l costs weight[l] > 0, found as they are asked for.

    Of paths with equal cost the lexicographically smallest sequence of devices is taken.
    """

    def __init__(self, network: Network, weight: Int64Array) -> None:
        self._weight: list[int] = weight.tolist()
        self._in: list[list[tuple[int, int]]] = []
        self._next: list[dict[int, list[int]]] = []
        for _ in range(network.device_count):
            self._in.append([])
            self._next.append({})
        sources: list[int] = network.source.tolist()
        targets: list[int] = network.target.tolist()
        for link, (u, v) in enumerate(zip(sources, targets, strict=True)):
            self._in[v].append((u, self._weight[link]))
            self._next[u].setdefault(v, []).append(link)
        for row in self._next:
            for links in row.values():
                links.sort(key=lambda link: (self._weight[link], link))
        self._to: dict[int, list[int]] = {}

    def distances(self, target: int) -> list[int]:
        """Cost of the cheapest path from every device to the target; FAR where there is none."""
        if target not in self._to:
            found = [FAR] * len(self._in)
            found[target] = 0
            queue = [(0, target)]
            while queue:
                cost, v = heapq.heappop(queue)
                if cost > found[v]:
                    continue
                for u, weight in self._in[v]:
                    if cost + weight < found[u]:
                        found[u] = cost + weight
                        heapq.heappush(queue, (found[u], u))
            self._to[target] = found
        return self._to[target]

    def links(self, source: int, target: int) -> list[int]:
        """The parallel links from one device to a neighbour, cheapest first; [] where there is none."""
        return self._next[source].get(target, [])

    def path(self, source: int, target: int) -> list[int] | None:
        """The devices on the way, both ends included; None where no path leads there."""
        left = self.distances(target)
        if left[source] >= FAR:
            return None
        path = [source]
        while path[-1] != target:
            u = path[-1]
            path.append(min(v for v, links in self._next[u].items() if self._weight[links[0]] + left[v] == left[u]))
        return path


def distances(network: Network, weight: Int64Array, targets: Int32Array) -> Int64Array:
    """int64[targets, devices]: cost of the cheapest path from every device to each target, FAR for none.

    weight: int64[links], each > 0.
    """
    if len(targets) * network.link_count >= _KERNEL_WORK:
        from collc.kernels.routing_distances import all_distances, all_hops

        offsets, order = network.in_links
        if bool((weight == weight[0]).all()):
            return all_hops(targets, offsets, order, network.source, int(weight[0]), FAR)
        return all_distances(targets, offsets, order, network.source, weight, FAR)
    layers = _by_rank(network)
    if len(weight) and bool((weight == weight[0]).all()):
        return _breadth_first(network, layers, int(weight[0]), targets)
    found = np.full((len(targets), network.device_count), FAR, np.int64)
    found[np.arange(len(targets)), targets] = 0
    changed = True
    while changed:
        changed = False
        for links in layers:
            here = found[:, network.source[links]]
            there = found[:, network.target[links]] + weight[links]
            if bool((there < here).any()):
                found[:, network.source[links]] = np.minimum(here, there)
                changed = True
    return found


def _breadth_first(network: Network, layers: list[Int32Array], weight: int, targets: Int32Array) -> Int64Array:
    """The same where all links cost `weight`: from all targets at once, a hop a round."""
    found = np.full((network.device_count, len(targets)), FAR, np.int64)
    front = np.zeros(found.shape, np.bool_)
    front[targets, np.arange(len(targets))] = True
    ends = [(network.source[links], network.target[links]) for links in layers]
    cost = 0
    while front.any():
        found[front] = cost
        reached = np.zeros(front.shape, np.bool_)
        for source, target in ends:
            reached[source] |= front[target]
        front = reached & (found == FAR)
        cost += weight
    return np.ascontiguousarray(found.T)


def _by_rank(network: Network) -> list[Int32Array]:
    """The links in groups; each device is the source of at most one link of a group."""
    offsets, order = network.out_links
    rank = np.arange(len(order), dtype=np.int32) - np.repeat(offsets[:-1], np.diff(offsets))
    return [order[rank == k] for k in range(int(rank.max(initial=-1)) + 1)]
