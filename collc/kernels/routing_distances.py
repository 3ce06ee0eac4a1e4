"""Cheapest paths from every device to each of many targets."""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

from collc.ten.arrays import Int32Array, Int64Array


@njit(cache=True, nogil=True)
def all_distances(
    targets: Int32Array, offsets: Int32Array, order: Int32Array, source: Int32Array, weight: Int64Array, far: int
) -> Int64Array:
    """int64[targets, devices]: Dijkstra on the links into each device (offsets, order: CSR of link numbers)."""
    devices = len(offsets) - 1
    found = np.full((len(targets), devices), far, np.int64)
    for k in range(len(targets)):
        row = found[k]
        row[targets[k]] = 0
        queue = [(np.int64(0), np.int64(targets[k]))]
        while len(queue) > 0:
            cost, v = heapq.heappop(queue)
            if cost > row[v]:
                continue
            for i in range(offsets[v], offsets[v + 1]):
                link = order[i]
                u = source[link]
                if cost + weight[link] < row[u]:
                    row[u] = cost + weight[link]
                    heapq.heappush(queue, (row[u], np.int64(u)))
    return found


@njit(cache=True, nogil=True)
def all_hops(
    targets: Int32Array, offsets: Int32Array, order: Int32Array, source: Int32Array, weight: int, far: int
) -> Int64Array:
    """int64[targets, devices]: as `all_distances`, where all links have the same weight; breadth first."""
    devices = len(offsets) - 1
    found = np.full((len(targets), devices), far, np.int64)
    queue = np.zeros(devices, np.int32)
    for k in range(len(targets)):
        row = found[k]
        row[targets[k]] = 0
        queue[0] = targets[k]
        head, tail = 0, 1
        while head < tail:
            v = queue[head]
            head += 1
            for i in range(offsets[v], offsets[v + 1]):
                u = source[order[i]]
                if row[u] == far:
                    row[u] = row[v] + weight
                    queue[tail] = u
                    tail += 1
    return found
