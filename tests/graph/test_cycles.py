"""Cycles through all nodes: patterns on meshes and tori, and the search elsewhere."""

from __future__ import annotations

from itertools import pairwise, permutations, product

import pytest

from collc.graph.cycles import cycle_through_all


def box(shape: tuple[int, ...], wraps: bool) -> tuple[dict[tuple[int, int], int], list[tuple[int, ...]]]:
    """Edges of a mesh or torus, of which those along the last dimension cost 2, and the places of its nodes."""
    places = list(product(*(range(size) for size in shape)))
    edges: dict[tuple[int, int], int] = {}
    for (u, a), (v, b) in permutations(enumerate(places), 2):
        apart = [(abs(i - j), size, axis) for axis, (i, j, size) in enumerate(zip(a, b, shape, strict=True)) if i != j]
        if len(apart) == 1 and (apart[0][0] == 1 or (wraps and apart[0][0] == apart[0][1] - 1)):
            edges[u, v] = 2 if apart[0][2] == len(shape) - 1 else 1
    return edges, places


def right(cycle: list[int], edges: dict[tuple[int, int], int], nodes: int) -> bool:
    ends = pairwise([*cycle, cycle[0]])
    return sorted(cycle) == list(range(nodes)) and all(pair in edges for pair in ends) and cycle[0] == 0


@pytest.mark.parametrize("shape", [(4,), (2, 3), (4, 4), (3, 4), (5, 6), (2, 3, 3), (3, 3, 4), (4, 4, 4), (2, 2, 2, 2)])
def test_meshes_with_an_even_side(shape: tuple[int, ...]) -> None:
    edges, places = box(shape, wraps=len(shape) == 1)
    cycle = cycle_through_all(lambda u, v: edges.get((u, v)), places)
    assert cycle is not None
    assert right(cycle, edges, len(places))


@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (5, 3), (5, 7), (3, 3, 3), (4, 5)])
def test_tori(shape: tuple[int, ...]) -> None:
    edges, places = box(shape, wraps=True)
    cycle = cycle_through_all(lambda u, v: edges.get((u, v)), places)
    assert cycle is not None
    assert right(cycle, edges, len(places))


@pytest.mark.parametrize("shape", [(3, 3), (5, 5), (1, 4)])
def test_meshes_with_odd_sides_have_none(shape: tuple[int, ...]) -> None:
    edges, places = box(shape, wraps=False)
    assert cycle_through_all(lambda u, v: edges.get((u, v)), places) is None


def test_most_edges_of_the_cycle_are_cheap() -> None:
    edges, places = box((8, 4), wraps=True)
    cycle = cycle_through_all(lambda u, v: edges.get((u, v)), places)
    assert cycle is not None
    assert sum(edges[pair] for pair in pairwise([*cycle, 0])) == 32 + 4


def test_the_order_of_the_numbers_stays_where_it_is_a_cycle() -> None:
    assert cycle_through_all(lambda _u, _v: 1, [()] * 5) == [0, 1, 2, 3, 4]


def test_other_graphs_are_searched() -> None:
    """Two triangles that are joined by two edges."""
    pairs = [(0, 2), (2, 4), (4, 0), (1, 3), (3, 5), (5, 1), (0, 1), (2, 3)]
    edges = {pair: 1 for a, b in pairs for pair in ((a, b), (b, a))}
    cycle = cycle_through_all(lambda u, v: edges.get((u, v)), [()] * 6)
    assert cycle is not None
    assert right(cycle, edges, 6)
    del edges[2, 3], edges[3, 2]
    assert cycle_through_all(lambda u, v: edges.get((u, v)), [()] * 6) is None
