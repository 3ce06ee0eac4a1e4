"""Spanning trees that load links alike, grown one after another (Prim's algorithm).

Plain Python on plain arrays or lists; the caller compiles it (Numba) where that pays.
"""

from __future__ import annotations

import heapq
from collections.abc import MutableSequence, Sequence

import numpy as np


def grow(
    seeds: Sequence[int],
    wanted: MutableSequence[int],
    offsets: Sequence[int],
    links: Sequence[int],
    ends: Sequence[int],
    begins: Sequence[int],
    cost: Sequence[int],
    load: MutableSequence[int],
    weight: int,
    via: MutableSequence[int],
    order: MutableSequence[int],
) -> int:
    """Fills via: the link over which a tree from `seeds` gets to each device, below 0 for seeds and what nobody wants.

    What via held before is the tree that is replaced.

    offsets, links: links out of each device (CSR); ends, begins: devices of each link. cost, load: of each link; a
    link counts as longer by `weight` times its load, to which the tree is added. wanted: flags of devices that the
    tree must reach; on return, all that it uses. order: room for all devices. Returns how many are wanted in vain.
    """
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
