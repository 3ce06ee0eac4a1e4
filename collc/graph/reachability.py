"""Which vertices paths lead to, and which of them reach one another."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from collc.graph.digraph import Digraph
from collc.ten.arrays import BoolArray, Int32Array


def reached(graph: Digraph, starts: Iterable[int]) -> BoolArray:
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
    """int32[vertices]: the lowest number in the strongly connected component of each vertex (Tarjan)."""
    offsets, edges = graph.out_edges
    first: list[int] = offsets.tolist()
    targets: list[int] = graph.target[edges].tolist()
    label = np.arange(graph.vertex_count, dtype=np.int32)
    done = bytearray(graph.vertex_count)
    index = [-1] * graph.vertex_count  # in order of discovery
    low = [0] * graph.vertex_count
    cursor = first[:-1]
    stack: list[int] = []
    found = 0
    for root in range(graph.vertex_count):
        if index[root] >= 0:
            continue
        path = [root]
        while path:
            vertex = path[-1]
            if index[vertex] < 0:
                index[vertex] = low[vertex] = found
                found += 1
                stack.append(vertex)
            place, last = cursor[vertex], first[vertex + 1]
            while place < last:
                there = targets[place]
                if index[there] < 0:
                    break
                if not done[there]:
                    low[vertex] = min(low[vertex], index[there])
                place += 1
            cursor[vertex] = place
            if place < last:
                path.append(targets[place])
                continue
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[vertex])
            if low[vertex] == index[vertex]:
                start = len(stack) - 1
                while stack[start] != vertex:
                    start -= 1
                component = stack[start:]
                del stack[start:]
                label[component] = min(component)
                for member in component:
                    done[member] = 1
    return label


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
