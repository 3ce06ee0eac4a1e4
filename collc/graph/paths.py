"""Shortest paths, one search at a time, on lists: for small graphs, and if the graph changes between searches.

Lengths are integers of any size. A length that has two parts, of which the first counts more, is one integer:
first * (more than any sum of seconds) + second.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE
from collc.ten.arrays import Int64Array

Edge = tuple[int, int, int]
"""An edge out of a vertex: its target, its length (0 or more), and its number."""

OutEdges = Callable[[int], Iterable[Edge]]
"""The edges out of a vertex; for a list of lists of edges its `__getitem__`."""


@dataclass(frozen=True, slots=True)
class PathTree:
    """Shortest paths from a set of vertices.

    distance: the vertices that were reached for good, in order of distance, then of number. before: for each but
    the starts, (the vertex before it on its path, the edge from there).
    """

    distance: dict[int, int]
    before: dict[int, tuple[int, int]]

    def vertices_to(self, vertex: int) -> list[int]:
        """The vertices of the path to a vertex, both ends included."""
        path = [vertex]
        while path[-1] in self.before:
            path.append(self.before[path[-1]][0])
        return path[::-1]


def shortest_path_tree(out_edges: OutEdges, starts: Mapping[int, int], targets: Collection[int] = ()) -> PathTree:
    """Shortest paths from the nearest of some vertices to all (Dijkstra), or to the first target that is reached.

    starts: vertices, each with the distance that it has already. Of paths of one length to a vertex the first
    found stays: vertices are expanded in order of distance and number, their edges in the order given. Where the
    search ends at a target, that is the last key of `distance`.
    """
    best = dict(starts)
    before: dict[int, tuple[int, int]] = {}
    distance: dict[int, int] = {}
    heap = [(length, vertex) for vertex, length in best.items()]
    heapq.heapify(heap)
    while heap:
        here, vertex = heapq.heappop(heap)
        if here > best[vertex]:
            continue
        distance[vertex] = here
        if vertex in targets:
            break
        for target, length, edge in out_edges(vertex):
            there = here + length
            if target not in best or there < best[target]:
                best[target], before[target] = there, (vertex, edge)
                heapq.heappush(heap, (there, target))
    return PathTree(distance, before)


def nearest_path(out_edges: OutEdges, starts: Iterable[int], targets: Collection[int]) -> list[int] | None:
    """The vertices of a shortest path from any start to the nearest target, both included; None if there is none.

    Of targets at one distance, the one with the lowest number.
    """
    tree = shortest_path_tree(out_edges, dict.fromkeys(starts, 0), targets)
    last = next(reversed(tree.distance), -1)
    return tree.vertices_to(last) if last in targets else None


def last_edges(out_edges: OutEdges, distance: Mapping[int, int]) -> dict[int, list[tuple[int, int]]]:
    """For each vertex, (the vertex before it, the edge from there) of all edges with which a shortest path to it ends.

    distance: as in a PathTree of the same edges.
    """
    edges_into: dict[int, list[tuple[int, int]]] = {}
    for vertex, here in distance.items():
        for target, length, edge in out_edges(vertex):
            if distance.get(target) == here + length:
                edges_into.setdefault(target, []).append((vertex, edge))
    return edges_into


class LexicographicPaths:
    """Shortest paths, found as they are asked for; of those of one length, the smallest sequence of vertices.

    length: int64[edges], each > 0.
    """

    def __init__(self, graph: Digraph, length: Int64Array) -> None:
        self._length: list[int] = length.tolist()
        self._in: list[list[Edge]] = [[] for _ in range(graph.vertex_count)]
        self._out: list[dict[int, list[int]]] = [{} for _ in range(graph.vertex_count)]
        sources: list[int] = graph.source.tolist()
        targets: list[int] = graph.target.tolist()
        for edge, (source, target) in enumerate(zip(sources, targets, strict=True)):
            self._in[target].append((source, self._length[edge], edge))
            self._out[source].setdefault(target, []).append(edge)
        for row in self._out:
            for edges in row.values():
                edges.sort(key=lambda edge: (self._length[edge], edge))
        self._to: dict[int, dict[int, int]] = {}

    def distance(self, source: int, target: int) -> int:
        """The length of the shortest path from one vertex to another, or UNREACHABLE."""
        return self._distances(target).get(source, UNREACHABLE)

    def edges(self, source: int, target: int) -> list[int]:
        """The parallel edges from one vertex to another, the shortest first, then by number."""
        return self._out[source].get(target, [])

    def path(self, source: int, target: int) -> list[int] | None:
        """The vertices of the path, both ends included; None where no path leads there."""
        left = self._distances(target)
        if source not in left:
            return None
        path = [source]
        while path[-1] != target:
            here = path[-1]
            path.append(
                min(
                    there
                    for there, edges in self._out[here].items()
                    if there in left and self._length[edges[0]] + left[there] == left[here]
                )
            )
        return path

    def _distances(self, target: int) -> dict[int, int]:
        if target not in self._to:
            self._to[target] = shortest_path_tree(self._in.__getitem__, {target: 0}).distance
        return self._to[target]
