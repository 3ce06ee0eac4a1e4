"""Trees of switches that reduce: contributions go up to a root switch, the sum comes down from it.

A single switch is such a tree; the leaf and spine switches of a network with in-network reductions (SHARP: Graham et
al., "Scalable Hierarchical Aggregation Protocol", COMHPC 2016) are others.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.network import Network


@dataclass(frozen=True, slots=True)
class SumTree:
    """The paths to a root switch, and from it, over switches that reduce. root: its number.

    up, down: by device, the link towards the root, and the one over which the sum comes; -1 for none.
    height: by device, links up to the root. depth: links from the root.
    """

    root: int
    up: list[int]
    down: list[int]
    height: list[int]
    depth: list[int]


def usable_switches(network: Network) -> BoolArray:
    """bool[devices]: the switches that reduce, have multicast and an unlimited buffer."""
    usable = np.zeros(network.device_count, np.bool_)
    usable[network.npu_count :] = network.reduces & network.multicast & (network.buffers < 0)
    return usable


def sum_trees(network: Network) -> list[SumTree]:
    """A tree for each usable switch that links lead to, in order of number."""
    usable = usable_switches(network)
    source: list[int] = network.source.tolist()
    target: list[int] = network.target.tolist()
    found: list[SumTree] = []
    for root in np.flatnonzero(usable).tolist():
        up, height = _links_on_paths(root, usable, network.in_links, source)
        down, depth = _links_on_paths(root, usable, network.out_links, target)
        if max(up) >= 0:
            found.append(SumTree(root, up, down, height, depth))
    return found


def _links_on_paths(
    root: int, usable: BoolArray, csr: tuple[Int32Array, Int32Array], other_end: list[int]
) -> tuple[list[int], list[int]]:
    """By device, the link of its shortest path to the root (or from it), and how many links that has."""
    offsets: list[int] = csr[0].tolist()
    links: list[int] = csr[1].tolist()
    link, hops = [-1] * len(usable), [0] * len(usable)
    queue = deque[int]([root])
    while queue:
        device = queue.popleft()
        for number in links[offsets[device] : offsets[device + 1]]:
            other = other_end[number]
            if link[other] < 0 and other != root:
                link[other], hops[other] = number, hops[device] + 1
                if usable[other]:
                    queue.append(other)
    return link, hops


class TreeTransfers:
    """Starts the transfers of chunks as early as the transfers before them allow.

    free: by link, when it is free. busy, total: by link and size, picoseconds.
    """

    def __init__(self, network: Network, busy: list[list[int]], total: list[list[int]]) -> None:
        self.free = [0] * network.link_count
        self._busy, self._total = busy, total
        self._source: list[int] = network.source.tolist()
        self._target: list[int] = network.target.tolist()

    def planned(
        self, tree: SumTree, holders: list[int], wanting: list[int], size: int
    ) -> tuple[int, list[tuple[int, int, bool]]] | None:
        """(end, (link, start, whether it carries a partial) of each transfer); None if a path is missing."""
        ups, downs = self._links(tree.up, holders, tree, up=True), self._links(tree.down, wanting, tree, up=False)
        if ups is None or downs is None:
            return None
        ready: dict[int, int] = {}
        rows: list[tuple[int, int, bool]] = []
        for link in sorted(ups, key=lambda one: -tree.height[self._source[one]]):
            start = max(ready.get(self._source[link], 0), self.free[link])
            head = self._target[link]
            ready[head] = max(ready.get(head, 0), start + self._total[link][size])
            rows.append((link, start, True))
        there, end = {tree.root: ready.get(tree.root, 0)}, 0
        for link in sorted(downs, key=lambda one: tree.depth[self._target[one]]):
            start = max(there[self._source[link]], self.free[link])
            there[self._target[link]] = start + self._total[link][size]
            end = max(end, start + self._total[link][size])
            rows.append((link, start, False))
        return end, rows

    def occupy(self, rows: list[tuple[int, int, bool]], size: int) -> None:
        """Keeps the links of planned transfers busy."""
        for link, start, _ in rows:
            self.free[link] = start + self._busy[link][size]

    def _links(self, next_link: list[int], npus: list[int], tree: SumTree, up: bool) -> set[int] | None:
        """The links of the paths of some NPUs; None if one has none."""
        ends = self._target if up else self._source
        found: set[int] = set()
        for npu in npus:
            device = npu
            while device != tree.root:
                link = next_link[device]
                if link < 0:
                    return None
                if link in found:
                    break
                found.add(link)
                device = ends[link]
        return found
