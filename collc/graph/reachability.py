"""Which vertices paths lead to, and which of them reach one another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from collc.graph.digraph import Digraph
from collc.ten.arrays import BoolArray, Int32Array


def reachable_vertices(graph: Digraph, starts: Iterable[int]) -> BoolArray:
    """bool[vertices]: the vertices that paths from some vertices lead to, these included."""
    offsets, edges = graph.out_edges
    ends = graph.target[edges]
    seen = np.zeros(graph.vertex_count, np.bool_)
    front = np.unique(np.fromiter(starts, np.int64))
    seen[front] = True
    while len(front):
        low = offsets[front].astype(np.int64)
        counts = offsets[front + 1] - low
        rows = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
        found = ends[rows + np.repeat(low, counts)]
        front = np.unique(found[~seen[found]]).astype(np.int64)
        seen[front] = True
    return seen


def strongly_connected(graph: Digraph) -> Int32Array:
    """int32[vertices]: the lowest number in the strongly connected component of each vertex."""
    if not graph.edge_count:
        return np.arange(graph.vertex_count, dtype=np.int32)
    small = graph.edge_count < 1000  # small networks, most of which are one component, do not wait for SciPy
    if small and all(bool(reachable_vertices(some, [0]).all()) for some in (graph, graph.reverse())):
        return np.zeros(graph.vertex_count, np.int32)
    from scipy.sparse import coo_array, csgraph  # pyright: ignore[reportMissingTypeStubs]

    count, edges = graph.vertex_count, np.ones(graph.edge_count, np.int32)
    matrix = cast("Any", coo_array)((edges, (graph.source, graph.target)), shape=(count, count))
    component = cast("Any", csgraph).connected_components(matrix, connection="strong")[1]
    lowest = np.full(count, count, np.int32)
    np.minimum.at(lowest, component, np.arange(count, dtype=np.int32))
    return lowest[component]


def weakly_connected(graph: Digraph) -> Int32Array:
    """int32[vertices]: the lowest number among the vertices that edges, in either direction, join to each."""
    label = np.arange(graph.vertex_count, dtype=np.int32)
    while True:
        before = label.copy()
        np.minimum.at(label, graph.source, label[graph.target])
        np.minimum.at(label, graph.target, label[graph.source])
        label = label[label]
        if bool((label == before).all()):
            return label
