"""Spanning trees with balanced link loads, grown one after another (Prim's algorithm).

Written for plain Python on lists and for Numba on arrays (collc/kernels/compiled.py).
"""

from __future__ import annotations

import heapq
from collections import namedtuple
from collections.abc import MutableSequence, Sequence

import numpy as np

LinksFromRoot = namedtuple("LinksFromRoot", "offsets links ends begins")
"""The links of a network in the direction in which trees grow.

offsets: [devices + 1], links: the links out of each device (CSR). ends, begins: [links], the devices of each link.
"""


def grow(
    network: LinksFromRoot,
    seeds: Sequence[int],
    wanted: MutableSequence[int],
    cost: Sequence[int],
    load: MutableSequence[int],
    weight: int,
    via: MutableSequence[int],
    order: MutableSequence[int],
) -> int:
    """Grows one tree and returns how many wanted devices no path leads to.

    A link counts as longer by `weight` times its load.

    seeds: the devices that the tree starts from. wanted: [devices], 1 for those that it must reach; on return, for all
    that it uses. cost, load: [links], picoseconds; the cost of each link of the tree is added to its load. via:
    [devices], on return the link over which the tree enters each device; below 0 for seeds and devices outside the
    tree. If it holds a tree before, that tree is replaced. order: [devices], scratch space.
    """
    offsets, links, ends, begins = network
    count = 0
    heap = [(np.int64(0), np.int64(-1), np.int64(0))]
    heap.pop()
    lost = 0
    for device in range(len(via)):
        lost += wanted[device]
        if via[device] >= 0:
            load[via[device]] -= cost[via[device]]
        via[device] = -2
    for seed in seeds:
        via[seed] = -1
        lost -= wanted[seed]
        for place in range(offsets[seed], offsets[seed + 1]):
            link = links[place]
            heapq.heappush(heap, (load[link] * weight + cost[link], link, cost[link]))
    while len(heap) > 0:
        _, link, reach = heapq.heappop(heap)
        device = ends[link]
        if via[device] != -2:
            continue
        via[device] = link
        lost -= wanted[device]
        order[count] = device
        count += 1
        for place in range(offsets[device], offsets[device + 1]):
            link = links[place]
            if via[ends[link]] == -2:
                further = reach + cost[link]
                heapq.heappush(heap, (load[link] * weight + further, link, further))
    for place in range(count - 1, -1, -1):
        device = order[place]
        if wanted[device]:
            load[via[device]] += cost[via[device]]
            wanted[begins[via[device]]] = 1
        else:
            via[device] = -1
    return lost
