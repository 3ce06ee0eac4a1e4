"""The Cartesian factors of an undirected graph: a torus is a product of rings, a hypercube of edges.

Edges belong to one factor where they share a triangle, lie opposite to each other in a square, or meet without spanning
exactly one square (the relations of Feder, "Product graph representations", 1992, here for neighbouring edges only).
For products of rings, paths, cliques and trees this gives the factors; for other graphs it may give one factor where
there are more.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

Neighbours = Mapping[int, set[int]]
"""The vertices next to each vertex; symmetric."""


class _Classes:
    """A partition of edges, joined step by step."""

    def __init__(self) -> None:
        self.parent: dict[tuple[int, int], tuple[int, int]] = {}

    def find(self, a: int, b: int) -> tuple[int, int]:
        """The representative of an edge."""
        edge = (a, b) if a < b else (b, a)
        while (above := self.parent.setdefault(edge, edge)) != edge:
            self.parent[edge] = edge = self.parent[above]
        return edge

    def join(self, one: tuple[int, int], other: tuple[int, int]) -> None:
        """Put two edges into one class."""
        a, b = self.find(*one), self.find(*other)
        self.parent[max(a, b)] = min(a, b)


def cartesian_factors(near: Neighbours) -> list[dict[int, set[int]]]:
    """The graph of each factor: the edges of one class, on all vertices. In order of the least edge of each class."""
    classes = _Classes()
    for v in sorted(near):
        for a, b in combinations(sorted(near[v]), 2):
            common = near[a] & near[b]
            if b in near[a] or len(common) != 2:
                classes.join((v, a), (v, b))
            else:
                (w,) = common - {v}
                classes.join((v, a), (b, w))
                classes.join((v, b), (a, w))
    found: dict[tuple[int, int], dict[int, set[int]]] = {}
    for v in sorted(near):
        for a in sorted(near[v]):
            found.setdefault(classes.find(v, a), {u: set() for u in near})[v].add(a)
    return list(found.values())


def components(graphs: list[dict[int, set[int]]]) -> list[tuple[int, ...]]:
    """The connected components of the union of some graphs on the same vertices, each ascending, by first vertex."""
    found: list[tuple[int, ...]] = []
    seen: set[int] = set()
    for start in sorted(graphs[0]) if graphs else ():
        if start in seen:
            continue
        seen.add(start)
        queue = [start]
        for v in queue:
            for graph in graphs:
                fresh = sorted(graph[v] - seen)
                seen.update(fresh)
                queue += fresh
        found.append(tuple(sorted(queue)))
    return found
