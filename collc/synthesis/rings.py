"""Rings of NPUs over the switches of any network, each next to the one before: what passes them in order loads all
links alike, whereas shortest paths from each NPU send a copy to each other one over the same link.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from collc.graph.digraph import Digraph
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network


@dataclass(frozen=True, eq=False)
class Ring:
    """NPUs in a circle: from npu[k] to npu[k + 1], and from the last to the first, over switches.

    ahead, back: the links of each step from npu[k] to npu[k + 1], and from there to npu[k] (CSR: offsets, links).
    """

    npu: Int32Array
    ahead: tuple[Int64Array, Int64Array]
    back: tuple[Int64Array, Int64Array]

    @staticmethod
    def of(network: Network, members: Int32Array) -> Ring | None:
        """The ring of some NPUs in which each is followed by the nearest one of the rest; None if those that follow
        each other are not joined by links, or by switches alone, in both directions.
        """
        if len(members) < 2:
            return None
        out, rest = _links_from(network), set(members.tolist())
        order, ahead = [int(members[0])], list[list[int]]()
        while rest:
            rest.discard(order[-1])
            npu, links = _nearest(network, out, order[-1], rest or {order[0]})
            if not links:
                return None
            order.append(npu)
            ahead.append(links)
        back = [_nearest(network, out, b, {a})[1] for a, b in pairwise(order)]
        if not all(back):
            return None
        return Ring(np.array(order[:-1], np.int32), _in_rows(ahead), _in_rows(back))


def _in_rows(paths: list[list[int]]) -> tuple[Int64Array, Int64Array]:
    """(offsets, links) of some paths."""
    links = [link for path in paths for link in path]
    return np.cumsum([0, *map(len, paths)]).astype(np.int64), np.array(links, np.int64)


def _links_from(network: Network) -> list[list[tuple[int, int]]]:
    """The links of each device, and where they lead."""
    offsets, edges = Digraph.of(network).out_edges
    ends = list(zip(edges.tolist(), network.target[edges].tolist(), strict=True))
    return [ends[low:high] for low, high in zip(offsets.tolist(), offsets[1:].tolist(), strict=False)]


def _nearest(network: Network, out: list[list[tuple[int, int]]], start: int, ends: set[int]) -> tuple[int, list[int]]:
    """The first of some NPUs that a breadth-first search over switches meets, and the links to it; no links if it meets
    none.
    """
    came: dict[int, tuple[int, int]] = {start: (-1, -1)}
    front = [start]
    for device in front:
        for link, target in out[device]:
            if target in ends:
                links, passed = [link], device
                while passed != start:
                    links.append(came[passed][0])
                    passed = came[passed][1]
                return target, links[::-1]
            if target >= network.npu_count and target not in came:
                came[target] = link, device
                front.append(target)
    return start, []
