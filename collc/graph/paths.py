"""Shortest paths, one search at a time, on lists: for small graphs, and if the graph changes between searches.

Lengths are integers of any size. A length that has two parts, of which the first counts more, is one integer:
first * (more than any sum of seconds) + second.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

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

    A path is searched from both ends, so that one over few vertices takes little in any graph. A target for which this
    has looked at as many edges as the graph has gets one search to it from everywhere.
    length: int64[edges], each > 0. looked_at: edges that all searches have looked at.
    """

    def __init__(self, graph: Digraph, length: Int64Array) -> None:
        self._graph, self._length = graph, length
        self._edges_at: tuple[dict[int, list[Edge]], dict[int, list[Edge]]] = ({}, {})
        self._parallel = dict[int, dict[int, list[int]]]()
        self._looked_for, self._to = Counter[int](), dict[int, _Search]()
        self.looked_at = 0

    def edges(self, source: int, target: int) -> list[int]:
        """The parallel edges from one vertex to another, the shortest first, then by number."""
        if source not in self._parallel:
            to = self._parallel[source] = dict[int, list[int]]()
            for other, _, edge in sorted(self._edges(0, source), key=itemgetter(1)):
                to.setdefault(other, []).append(edge)
        return self._parallel[source].get(target, [])

    def path(self, source: int, target: int) -> list[int] | None:
        """The vertices of the path, both ends included; None where no path leads there."""
        if target not in self._to and self._looked_for[target] < self._graph.edge_count:
            return self._from_both_ends(source, target)
        if target not in self._to:
            search = self._to[target] = _Search.at(target)
            while search.heap:
                self._expand(search, 1)
        after = self._to[target].before
        return _walk(after, source, target) if source in after else None

    def _from_both_ends(self, source: int, target: int) -> list[int] | None:
        searches, begun, best = (_Search.at(source), _Search.at(target)), self.looked_at, UNREACHABLE
        if source == target:
            return [source]
        while all(search.heap for search in searches) and sum(search.heap[0][0] for search in searches) < best:
            side = int(len(self._edges(0, searches[0].heap[0][1])) > len(self._edges(1, searches[1].heap[0][1])))
            here, there = searches[side].distance, searches[1 - side].distance
            for vertex in self._expand(searches[side], side):
                best = min(best, here[vertex] + there.get(vertex, UNREACHABLE))
        self._looked_for[target] += self.looked_at - begun
        forth, back = (search.distance for search in searches)
        front = [vertex for vertex in forth.keys() & back.keys() if forth[vertex] + back[vertex] == best]
        after = {vertex: list(searches[1].before[vertex]) for vertex in front}
        for vertex in front:  # it grows
            for before in searches[0].before[vertex]:
                if before not in after:
                    front.append(before)
                after.setdefault(before, []).append(vertex)
        for vertex in front:
            for other in after[vertex]:
                if other not in after:
                    front.append(other)
                    after[other] = searches[1].before[other]
        return _walk(after, source, target) if front else None

    def _expand(self, search: _Search, side: int) -> list[int]:
        """The neighbours that the nearest vertex of a search makes nearer. side: 0 from a source, 1 from a target."""
        here, vertex = heapq.heappop(search.heap)
        if here > search.distance[vertex]:
            return []
        nearer: list[int] = []
        edges = self._edges(side, vertex)
        self.looked_at += len(edges)
        for other, length, _ in edges:
            there, known = here + length, search.distance.get(other, UNREACHABLE)
            if there < known:
                search.distance[other], search.before[other] = there, [vertex]
                heapq.heappush(search.heap, (there, other))
                nearer.append(other)
            elif there == known:
                search.before[other].append(vertex)
        return nearer

    def _edges(self, side: int, vertex: int) -> list[Edge]:
        """The edges out of a vertex, or into it, each with its other end."""
        known = self._edges_at[side]
        if vertex not in known:
            offsets, edges = self._graph.in_edges if side else self._graph.out_edges
            own = edges[offsets[vertex] : offsets[vertex + 1]]
            ends = self._graph.source if side else self._graph.target
            known[vertex] = list(zip(ends[own].tolist(), self._length[own].tolist(), own.tolist(), strict=True))
        return known[vertex]


@dataclass(frozen=True, slots=True)
class _Search:
    """A search from one vertex. distance: of the vertices that it has seen; final for those not above the first of the
    heap. before: for each, the vertices before it on the shortest paths to it.
    """

    distance: dict[int, int]
    before: dict[int, list[int]]
    heap: list[tuple[int, int]]

    @staticmethod
    def at(vertex: int) -> _Search:
        """The search before its first step."""
        return _Search({vertex: 0}, {vertex: []}, [(0, vertex)])


def _walk(after: Mapping[int, list[int]], source: int, target: int) -> list[int]:
    """The smallest sequence of vertices. after: those that follow each one on the shortest paths to the target."""
    path = [source]
    while path[-1] != target:
        path.append(min(after[path[-1]]))
    return path
