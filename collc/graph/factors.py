"""The Cartesian factors of an undirected graph: a torus is a product of rings, a hypercube of edges.

Edges belong to one factor if they share a triangle, lie opposite to each other in a square, or meet without spanning
exactly one square (the relations of Feder, "Product graph representations", 1992, here for neighbouring edges only).
For products of rings, paths, cliques and trees this gives the factors; for other graphs it may give one factor if
there are more.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from collc.base.disjoint_sets import DisjointSets

Neighbours = Mapping[int, set[int]]
"""The vertices next to each vertex; symmetric."""


def cartesian_factors(near: Neighbours) -> list[dict[int, set[int]]]:
    """The graph of each factor: the edges of one class, on all vertices. In order of the least edge of each class."""
    classes = DisjointSets[tuple[int, int]]()

    def join(one_end: int, a: int, other_end: int, b: int) -> None:
        classes.join((min(one_end, a), max(one_end, a)), (min(other_end, b), max(other_end, b)))

    for v in sorted(near):
        for a, b in combinations(sorted(near[v]), 2):
            common = near[a] & near[b]
            if b in near[a] or len(common) != 2:
                join(v, a, v, b)
            else:
                (w,) = common - {v}
                join(v, a, b, w)
                join(v, b, a, w)
    factors: dict[tuple[int, int], dict[int, set[int]]] = {}
    for v in sorted(near):
        for a in sorted(near[v]):
            factors.setdefault(classes.root((min(v, a), max(v, a))), {u: set() for u in near})[v].add(a)
    return list(factors.values())


def components(graphs: list[dict[int, set[int]]]) -> list[tuple[int, ...]]:
    """The connected components of the union of some graphs on the same vertices, each ascending, by first vertex."""
    joined = DisjointSets[int]()
    for graph in graphs:
        for v, ends in graph.items():
            for a in ends:
                joined.join(v, a)
    parts: dict[int, list[int]] = {}
    for v in sorted(graphs[0]) if graphs else ():
        parts.setdefault(joined.root(v), []).append(v)
    return [tuple(part) for part in parts.values()]
