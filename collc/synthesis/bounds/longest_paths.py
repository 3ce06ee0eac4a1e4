"""The longest of the shortest paths that chunks must take."""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to
from collc.synthesis.bounds.timing import diameter_limit
from collc.synthesis.bounds.traffic import Traffic
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.module import Bound
from collc.ten.network import Network

PATH_WORK: Final = 1_000_000
"""Sources x links that the search for the longest path may visit."""


def longest_path(network: Network, traffic: list[Traffic], cost: Int64Array, size: int, known: int) -> Bound | None:
    """The longest shortest path of a chunk of size number `size` or more; None if none can exceed `known`.

    cost: int64[kinds], picoseconds. known: picoseconds.
    """
    if diameter_limit(network, cost) <= known:
        return None
    best = None
    sources, distance = distances_from_npus(network, cost)
    for part in traffic:
        time, start, end = part.longest(distance, sources, size)
        if (0 if best is None else best.time) < time < UNREACHABLE:
            best = Bound(time, f"path from {network.shown_name(start)} to {network.shown_name(end)}")
    return best


def distances_from_npus(network: Network, cost: Int64Array) -> tuple[Int32Array, Int64Array]:
    """(sources int32; distances int64[sources, devices], picoseconds), from all NPUs or as many as PATH_WORK allows.

    cost: int64[kinds], picoseconds.
    """
    npus, length = network.npus, cost[network.kind]
    backward = Digraph.of(network).reverse()
    most = max(1, PATH_WORK // max(1, network.link_count))
    if most < len(npus):
        first = distances_to(backward, length, npus[:1])[0, : network.npu_count]
        farthest = int(np.where(first < UNREACHABLE, first, -1).argmax())
        even = npus[np.linspace(0, len(npus) - 1, max(1, most - 1)).astype(np.int64)]
        npus = np.unique(np.append(even, farthest)).astype(np.int32)
    return npus, distances_to(backward, length, npus)
