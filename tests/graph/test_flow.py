from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collc.graph.flow import CutSearch, minimum_cut

VERTEX = st.integers(0, 4)
CAPACITY = st.one_of(st.integers(0, 4), st.integers(1 << 70, 1 << 71))
Edges = list[tuple[int, int, int]]


@given(st.lists(st.tuples(VERTEX, VERTEX, CAPACITY), max_size=12))
def test_the_cut_is_the_least_of_all(edges: Edges) -> None:
    """Source 0, sink 4; the expected cut is the smallest set with the sink that has the least capacity."""
    cuts: list[tuple[int, set[int]]] = []
    for size in range(4):
        for others in combinations(range(1, 4), size):
            side = {4, *others}
            cuts.append((sum(c for a, b, c in edges if a not in side and b in side), side))
    least = min(capacity for capacity, _ in cuts)
    found, side = minimum_cut(edges, 0, 4)
    assert found == least
    assert (found, side) in cuts
    assert side == set.intersection(*(one for capacity, one in cuts if capacity == least))


def test_edges_without_limit_are_never_cut() -> None:
    assert minimum_cut([("s", "a", 3), ("a", "t", None)], "s", "t") == (3, {"a", "t"})
    assert minimum_cut([("s", "a", None), ("s", "a", 1), ("a", "t", 4)], "s", "t") == (4, {"t"})
    with pytest.raises(ValueError, match="without limit"):
        minimum_cut([("s", "t", None)], "s", "t")


def test_one_graph_has_cuts_for_many_capacities() -> None:
    search = CutSearch(4, [(0, 1), (1, 3), (0, 2), (2, 3), (1, 3)], 0, 3)
    assert search.cut([5, 1, 2, 7, 1]) == (4, [2, 3])
    assert search.cut([1, None, None, 2, 0]) == (3, [1, 3])
    assert search.cut([0, 1, 0, 1, 1]) == (0, [1, 2, 3])
    with pytest.raises(ValueError, match="without limit"):
        search.cut([None, None, 1, 1, 1])
