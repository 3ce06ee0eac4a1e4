"""Shortest distances from every vertex of a graph to each of many targets."""

from __future__ import annotations

import heapq

import numpy as np

from collc.kernels.cached_jit import jit
from collc.ten.arrays import Int32Array, Int64Array


@jit(nogil=True)
def all_distances(
    targets: Int32Array, offsets: Int32Array, edges: Int32Array, source: Int32Array, length: Int64Array, none: int
) -> Int64Array:
    """int64[targets, vertices]: by Dijkstra's algorithm; `none` where no path leads.

    offsets, edges: the edges into each vertex (CSR). source, length: of each edge.
    """
    vertices = len(offsets) - 1
    found = np.full((len(targets), vertices), none, np.int64)
    for k in range(len(targets)):
        row = found[k]
        row[targets[k]] = 0
        queue = [(np.int64(0), np.int64(targets[k]))]
        while len(queue) > 0:
            distance, v = heapq.heappop(queue)
            if distance > row[v]:
                continue
            for i in range(offsets[v], offsets[v + 1]):
                edge = edges[i]
                u = source[edge]
                if distance + length[edge] < row[u]:
                    row[u] = distance + length[edge]
                    heapq.heappush(queue, (row[u], np.int64(u)))
    return found


@jit(nogil=True)
def all_hops(
    targets: Int32Array, offsets: Int32Array, edges: Int32Array, source: Int32Array, length: int, none: int
) -> Int64Array:
    """int64[targets, vertices]: as `all_distances`, if all edges have one length; breadth first."""
    vertices = len(offsets) - 1
    found = np.full((len(targets), vertices), none, np.int64)
    queue = np.zeros(vertices, np.int32)
    for k in range(len(targets)):
        row = found[k]
        row[targets[k]] = 0
        queue[0] = targets[k]
        head, tail = 0, 1
        while head < tail:
            v = queue[head]
            head += 1
            for i in range(offsets[v], offsets[v + 1]):
                u = source[edges[i]]
                if row[u] == none:
                    row[u] = row[v] + length
                    queue[tail] = u
                    tail += 1
    return found
