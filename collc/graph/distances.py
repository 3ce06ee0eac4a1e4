"""Shortest distances, many at a time: by SciPy on large graphs, which small ones do not wait for.

Edges have integer lengths, int64[edges], so lengths are hops if all are 1 and times if they are picoseconds. All
distances are exact.
"""

from __future__ import annotations

import sys
from heapq import heappop, heappush
from typing import Any, Final, cast

import numpy as np

from collc.graph.digraph import Digraph
from collc.kernels.compiled import BATCH, STEP_TIME, is_long
from collc.ten.arrays import Int32Array, Int64Array

UNREACHABLE: Final = 1 << 60
"""The distance where no path leads."""

_EXACT: Final = 2**53
"""SciPy adds lengths as floats, which are exact below this number: 2.5 hours in picoseconds."""


def distances_to(graph: Digraph, length: Int64Array, targets: Int32Array, calls: int = 1) -> Int64Array:
    """int64[targets, vertices]: the length of the shortest path from every vertex to each target, or UNREACHABLE.

    calls: how many such calls the caller has made, with this one.
    """
    piece = max(1, BATCH // max(1, graph.edge_count))
    pieces = [targets[low : low + piece] for low in range(0, len(targets), piece)]
    rows = [_dijkstra(graph.reverse(), length, some, calls=calls)[0] for some in pieces]
    return np.concatenate([np.empty((0, graph.vertex_count), np.int64), *rows])


def distances_from(graph: Digraph, length: Int64Array, start: Int64Array) -> Int64Array:
    """int64[vertices]: the least of start[u] + the length of the shortest path from u, over all u; UNREACHABLE at most.

    start: int64[vertices], UNREACHABLE where no path begins.
    """
    begins = np.flatnonzero(start < UNREACHABLE).astype(np.int32)
    root = np.full(len(begins), graph.vertex_count, np.int32)
    source, target = np.concatenate([graph.source, root]), np.concatenate([graph.target, begins])
    wider = Digraph(graph.vertex_count + 1, source, target)
    return _dijkstra(wider, np.concatenate([length, start[begins]]), np.array([graph.vertex_count], np.int32))[0][
        0, :-1
    ]


def two_nearest(graph: Digraph, length: Int64Array, sources: Int32Array) -> tuple[Int64Array, Int64Array]:
    """int64[vertices], twice: the distance from the nearest source, and from the nearest of all other sources."""
    first, nearest = _dijkstra(graph, length, sources, together=True)
    # The path from the second nearest source crosses, once, from a vertex that is nearer to that source.
    crossing = nearest[graph.source] != nearest[graph.target]
    second = np.full(graph.vertex_count, UNREACHABLE, np.int64)
    np.minimum.at(second, graph.target[crossing], first[graph.source[crossing]] + length[crossing])
    return first, distances_from(graph.with_edges(~crossing), length[~crossing], second)


def hop_counts(graph: Digraph) -> Int32Array:
    """int32[vertices, vertices]: the fewest edges of a path to the row from the column; -1 if there is none."""
    count, (offsets, edges) = graph.vertex_count, graph.in_edges
    into = np.flatnonzero(np.diff(offsets))
    hops, step = np.full((count, count), -1, np.int32), 0
    new = reached = np.packbits(np.eye(count, dtype=np.bool_), axis=1)  # of each vertex, from which others
    while new.any():
        hops[np.unpackbits(new, axis=1, count=count).view(np.bool_)] = step
        near = np.zeros_like(reached)
        near[into] = np.bitwise_or.reduceat(new[graph.source[edges]], offsets[into], axis=0) if len(into) else 0
        new, step = near & ~reached, step + 1
        reached = reached | new
    return hops


def hops_from(graph: Digraph, start: int) -> Int64Array:
    """int64[vertices]: the fewest edges of a path from a vertex, or -1."""
    (hops,) = distances_to(graph.reverse(), np.ones(graph.edge_count, np.int64), np.array([start], np.int32))
    return np.where(hops < UNREACHABLE, hops, -1)


def _dijkstra(
    graph: Digraph, length: Int64Array, starts: Int32Array, *, together: bool = False, calls: int = 1
) -> tuple[Int64Array, Int32Array]:
    """(int64[starts, vertices] distances; nothing).

    together: (int64[vertices], distances from the nearest start; int32[vertices], which start that is, < 0 for none).
    """
    are_equal = not together and bool((length == length[:1]).all())
    longest = int(length.max(initial=0)) * graph.vertex_count
    steps = len(starts) * graph.edge_count * calls
    work = steps // 10 if are_equal else STEP_TIME * steps  # by levels, ten edges take a microsecond
    if "scipy.sparse.csgraph" in sys.modules:  # most of its time is for loading it
        work *= 100
    if longest < _EXACT and is_long(work):
        return _by_scipy(graph, length, starts, together=together)
    if are_equal:
        return _by_levels(graph, int(length.max(initial=0)), starts.tolist()), starts[:0]
    searches = [starts] if together else [starts[row : row + 1] for row in range(len(starts))]
    searched = [_by_heap(graph, length.tolist(), some.tolist()) for some in searches]
    if together:
        return np.array(searched[0][0], np.int64), np.array(searched[0][1], np.int32)
    return np.array([row for row, _ in searched], np.int64).reshape(-1, graph.vertex_count), starts[:0]


def _by_levels(graph: Digraph, length: int, starts: list[int]) -> Int64Array:
    """int64[starts, vertices]: the distance from each start if all edges are as long."""
    offsets, edges = graph.out_edges
    bounds, near = offsets.tolist(), graph.target[edges].tolist()
    rows = np.empty((len(starts), graph.vertex_count), np.int64)
    for row, start in enumerate(starts):
        distance, reached, path = [UNREACHABLE] * graph.vertex_count, [start], 0
        distance[start] = 0
        while reached:
            path += length
            further: list[int] = []
            for vertex in reached:
                for other in near[bounds[vertex] : bounds[vertex + 1]]:
                    if distance[other] == UNREACHABLE:
                        distance[other] = path
                        further.append(other)
            reached = further
        rows[row] = distance
    return rows


def _by_heap(graph: Digraph, length: list[int], starts: list[int]) -> tuple[list[int], list[int]]:
    """For each vertex the distance from the nearest start, and which start that is."""
    columns = (*graph.out_edges, graph.target)
    offsets, edges, target = (cast("list[int]", column.tolist()) for column in columns)
    distance, nearest = [UNREACHABLE] * graph.vertex_count, [-1] * graph.vertex_count
    heap: list[tuple[int, int, int]] = []
    for start in starts:
        heappush(heap, (0, start, start))
    while heap:
        path, vertex, start = heappop(heap)
        if path >= distance[vertex]:
            continue
        distance[vertex], nearest[vertex] = path, start
        for edge in edges[offsets[vertex] : offsets[vertex + 1]]:
            if path + length[edge] < distance[target[edge]]:
                heappush(heap, (path + length[edge], target[edge], start))
    return distance, nearest


def _by_scipy(
    graph: Digraph, length: Int64Array, starts: Int32Array, *, together: bool
) -> tuple[Int64Array, Int32Array]:
    """See _dijkstra."""
    from scipy.sparse import csgraph, csr_array  # pyright: ignore[reportMissingTypeStubs]

    shape = graph.vertex_count, graph.vertex_count
    order = np.lexsort((length, graph.target, graph.source))
    source, target = graph.source[order], graph.target[order]
    shortest = np.ones(len(order), np.bool_)  # of parallel edges, whose lengths SciPy would add
    shortest[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
    entries = length[order][shortest].astype(np.float64), (source[shortest], target[shortest])
    matrix = cast("Any", csr_array)(entries, shape=shape)
    answer = cast("Any", csgraph).dijkstra(matrix, indices=starts, min_only=together, return_predecessors=together)
    distance, _, nearest = answer if together else (answer, None, starts[:0])
    return np.minimum(distance, UNREACHABLE).astype(np.int64), nearest
