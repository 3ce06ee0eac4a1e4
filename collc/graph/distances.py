"""Shortest distances, many at a time, on arrays.

Edges have positive integer lengths, int64[edges], so lengths are hops if all are 1 and times if they are
picoseconds.
"""

from __future__ import annotations

import heapq
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from collc.graph.digraph import Digraph
from collc.ten.arrays import Int32Array, Int64Array

UNREACHABLE: Final = 1 << 60
"""The distance where no path leads."""

_KERNEL_WORK: Final = 400_000
"""Targets x edges from which the compiled kernel is worth the import of Numba."""


_PIECE: Final = 20_000_000
"""Targets x edges in a call of the kernel, which a signal ends only when it returns: 0.1 to 0.5 s."""

_ROUNDS: Final = 100
"""Rounds over all edges, after which the rest is done vertex by vertex: where paths are long, that takes less time."""


def distances_to(graph: Digraph, length: Int64Array, targets: Int32Array) -> Int64Array:
    """int64[targets, vertices]: the length of the shortest path from every vertex to each target, or UNREACHABLE."""
    equal = graph.edge_count > 0 and bool((length == length[0]).all())
    if len(targets) * graph.edge_count >= _KERNEL_WORK:
        from collc.kernels.graph_distances import all_distances, all_hops

        offsets, edges = graph.in_edges
        found = np.empty((len(targets), graph.vertex_count), np.int64)
        piece = max(1, _PIECE // max(1, graph.edge_count))
        for low in range(0, len(targets), piece):
            some = targets[low : low + piece]
            if equal:
                found[low : low + piece] = all_hops(some, offsets, edges, graph.source, int(length[0]), UNREACHABLE)
            else:
                found[low : low + piece] = all_distances(some, offsets, edges, graph.source, length, UNREACHABLE)
        return found
    if equal:
        hops = _hops_to(graph, targets)
        return np.where(hops < UNREACHABLE, hops * int(length[0]), UNREACHABLE)
    return _relaxed_layers(graph, _by_rank(graph), length, targets)


_LAST_HOPS: Final = WeakKeyDictionary[Digraph, tuple[bytes, Int64Array]]()
"""For each graph the targets that were asked for last, and their distances in hops: bounds and searches ask for the
same ones.
"""


def _hops_to(graph: Digraph, targets: Int32Array) -> Int64Array:
    """`distances_to` in edges, for small graphs; not to be changed."""
    key = targets.tobytes()
    known = _LAST_HOPS.get(graph)
    if known is None or known[0] != key:
        known = key, _breadth_first(graph, _by_rank(graph), targets)
        _LAST_HOPS[graph] = known
    return known[1]


def distances_from(graph: Digraph, length: Int64Array, start: Int64Array) -> Int64Array:
    """int64[vertices]: the least of start[u] + the length of the shortest path from u, over all u; UNREACHABLE at most.

    start: int64[vertices], UNREACHABLE where no path begins. Relaxes all edges at once until nothing changes
    (Bellman and Ford), at most _ROUNDS times.
    """
    offsets, edges = graph.in_edges
    ends = np.flatnonzero(np.diff(offsets))
    found = np.minimum(start, UNREACHABLE)
    source, price = graph.source[edges], length[edges]
    for _ in range(_ROUNDS if len(ends) else 0):
        best = np.minimum(found[ends], np.minimum.reduceat(found[source] + price, offsets[ends]))
        if bool((best == found[ends]).all()):
            return found
        found[ends] = best
    return _nearest_first(graph, length, found)


def _nearest_first(graph: Digraph, length: Int64Array, start: Int64Array) -> Int64Array:
    """`distances_from`, in plain Python (Dijkstra)."""
    offsets, edges = graph.out_edges
    first: list[int] = offsets.tolist()
    ahead: list[tuple[int, int]] = list(zip(graph.target[edges].tolist(), length[edges].tolist(), strict=True))
    found: list[int] = start.tolist()
    queue = [(distance, vertex) for vertex, distance in enumerate(found) if distance < UNREACHABLE]
    heapq.heapify(queue)
    while queue:
        distance, vertex = heapq.heappop(queue)
        if distance > found[vertex]:
            continue
        for there, price in ahead[first[vertex] : first[vertex + 1]]:
            if distance + price < found[there]:
                found[there] = distance + price
                heapq.heappush(queue, (distance + price, there))
    return np.array(found, np.int64)


def two_nearest(graph: Digraph, length: Int64Array, sources: Int32Array) -> tuple[Int64Array, Int64Array]:
    """int64[vertices], twice: the distance from the nearest source, and from the nearest of all other sources."""
    start = np.full(graph.vertex_count, UNREACHABLE, np.int64)
    start[sources] = 0
    first = distances_from(graph, length, start)
    label = _nearest_source(graph, length, sources, first)
    # The path from the second nearest source crosses, once, from a vertex that is nearer to that source.
    crossing = label[graph.source] != label[graph.target]
    second = np.full(graph.vertex_count, UNREACHABLE, np.int64)
    np.minimum.at(second, graph.target[crossing], first[graph.source[crossing]] + length[crossing])
    return first, distances_from(graph.with_edges(~crossing), length[~crossing], second)


def _nearest_source(graph: Digraph, length: Int64Array, sources: Int32Array, distance: Int64Array) -> Int32Array:
    """int32[vertices]: a source that is nearest to each vertex; -1 where none leads there."""
    label = np.full(graph.vertex_count, -1, np.int32)
    label[sources] = sources
    ends = distance[graph.target]
    tight = (distance[graph.source] + length == ends) & (distance[graph.source] < UNREACHABLE) & (ends > 0)
    source, target = graph.source[tight], graph.target[tight]
    for _ in range(_ROUNDS):
        open_ = (label[target] < 0) & (label[source] >= 0)
        if not bool(open_.any()):
            return label
        label[target[open_]] = label[source[open_]]
    found: list[int] = label.tolist()
    order = np.argsort(distance[source], kind="stable")
    for a, b in zip(source[order].tolist(), target[order].tolist(), strict=True):
        if found[b] < 0:
            found[b] = found[a]
    return np.array(found, np.int32)


def hop_counts(graph: Digraph) -> Int32Array:
    """int32[vertices, vertices]: the fewest edges of a path to the row from the column; -1 if there is none."""
    hops = distances_to(graph, np.ones(graph.edge_count, np.int64), np.arange(graph.vertex_count, dtype=np.int32))
    return np.where(hops < UNREACHABLE, hops, -1).astype(np.int32)


def hops_from(graph: Digraph, start: int) -> Int64Array:
    """int64[vertices]: the fewest edges of a path from a vertex, or -1; in time linear in the graph (breadth first)."""
    offsets, edges = graph.out_edges
    first: list[int] = offsets.tolist()
    ahead: list[int] = graph.target[edges].tolist()
    found = [-1] * graph.vertex_count
    found[start] = 0
    queue = [start]
    for vertex in queue:
        hops = found[vertex] + 1
        for there in ahead[first[vertex] : first[vertex + 1]]:
            if found[there] < 0:
                found[there] = hops
                queue.append(there)
    return np.array(found, np.int64)


def _relaxed_layers(graph: Digraph, layers: list[Int32Array], length: Int64Array, targets: Int32Array) -> Int64Array:
    """`distances_to` by relaxing one layer of edges after another until nothing changes."""
    found = np.full((len(targets), graph.vertex_count), UNREACHABLE, np.int64)
    found[np.arange(len(targets)), targets] = 0
    for _ in range(_ROUNDS):
        changed = False
        for edges in layers:
            here = found[:, graph.source[edges]]
            there = found[:, graph.target[edges]] + length[edges]
            if bool((there < here).any()):
                found[:, graph.source[edges]] = np.minimum(here, there)
                changed = True
        if not changed:
            return found
    return _row_by_row(graph, length, found)


def _row_by_row(graph: Digraph, length: Int64Array, start: Int64Array) -> Int64Array:
    """`distances_to` vertex by vertex. start: int64[targets, vertices], lengths of paths to each target."""
    back = graph.reverse()
    return np.array([_nearest_first(back, length, row) for row in start], np.int64)


def _breadth_first(graph: Digraph, layers: list[Int32Array], targets: Int32Array) -> Int64Array:
    """`distances_to` in edges: from all targets at once, one edge a round."""
    found = np.full((graph.vertex_count, len(targets)), UNREACHABLE, np.int64)
    front = np.zeros(found.shape, np.bool_)
    front[targets, np.arange(len(targets))] = True
    ends = [(graph.source[edges], graph.target[edges]) for edges in layers]
    distance = 0
    while front.any():
        found[front] = distance
        if distance >= _ROUNDS:
            return _row_by_row(graph, np.ones(graph.edge_count, np.int64), np.ascontiguousarray(found.T))
        reached = np.zeros(front.shape, np.bool_)
        for source, target in ends:
            reached[source] |= front[target]
        front = reached & (found == UNREACHABLE)
        distance += 1
    return np.ascontiguousarray(found.T)


def _by_rank(graph: Digraph) -> list[Int32Array]:
    """The edges in layers; each vertex is the source of at most one edge of a layer."""
    offsets, edges = graph.out_edges
    rank = np.arange(len(edges), dtype=np.int32) - np.repeat(offsets[:-1], np.diff(offsets))
    return [edges[rank == k] for k in range(int(rank.max(initial=-1)) + 1)]
