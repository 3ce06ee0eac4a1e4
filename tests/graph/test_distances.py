from __future__ import annotations

from unittest.mock import patch

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collc.graph import distances as module
from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_from, distances_to, hop_counts, hops_from, two_nearest
from collc.ten.arrays import Int64Array
from tests.cpu_time import at_most
from tests.graph.graphs import as_networkx, digraphs, weighted_digraphs

LINE = Digraph(3, np.array([0, 1], np.int32), np.array([1, 2], np.int32))


def expected(graph: Digraph, length: Int64Array) -> list[list[int]]:
    """[target][vertex], by NetworkX."""
    known = dict(nx.all_pairs_dijkstra_path_length(as_networkx(graph, length)))
    vertices = range(graph.vertex_count)
    return [[known[v].get(target, UNREACHABLE) for v in vertices] for target in vertices]


@pytest.fixture(params=["plain", "SciPy"], autouse=True)
def searches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All searches by one of the two."""
    monkeypatch.setattr(module, "is_long", lambda work: request.param == "SciPy")


def test_long_times_are_exact() -> None:
    graph = Digraph(4, np.arange(3, dtype=np.int32), np.arange(1, 4, dtype=np.int32))
    length = np.full(3, 10_001 * 10**12 + 333_333)
    (found,) = distances_to(graph, length, np.array([3], np.int32))
    assert found.tolist() == [n * int(length[0]) for n in (3, 2, 1, 0)]


@given(weighted_digraphs())
def test_distances_to_are_those_of_networkx(case: tuple[Digraph, Int64Array]) -> None:
    graph, length = case
    every = np.arange(graph.vertex_count, dtype=np.int32)
    assert distances_to(graph, length, every).tolist() == expected(graph, length)


@pytest.mark.parametrize(("longest", "together"), [(8, 4), (1, 1)])
def test_pieces_are_put_together(longest: int, together: int) -> None:
    chance = np.random.default_rng(5)
    source, target = (chance.integers(0, 30, 70).astype(np.int32) for _ in range(2))
    graph, every = Digraph(31, source, target), np.arange(31, dtype=np.int32)
    length = chance.integers(1, longest + 1, 70)
    whole = distances_to(graph, length, every)
    with patch.object(module, "BATCH", together * 70):
        assert distances_to(graph, length, every).tolist() == whole.tolist()


@pytest.mark.parametrize("equal", [True, False])
def test_long_paths_take_linear_time(equal: bool) -> None:
    """A line of 50,000 vertices, for which rounds over all edges would take minutes."""
    count = 50_000
    source, target = np.arange(count - 1, dtype=np.int32), np.arange(1, count, dtype=np.int32)
    graph = Digraph(count, source, target)
    length = np.ones(count - 1, np.int64) if equal else 1 + np.arange(count - 1) % 3
    with at_most(2):
        (found,) = distances_to(graph, length, np.array([count - 1], np.int32))
        first, second = two_nearest(graph, length, np.array([0, 7], np.int32))
    along = np.concatenate([[0], np.cumsum(length)])
    assert np.array_equal(found, along[-1] - along)
    assert np.array_equal(first[7:], along[7:] - along[7])
    assert np.array_equal(second[7:], along[7:])


@given(weighted_digraphs(), st.data())
def test_distances_from_are_the_least_over_all_starts(case: tuple[Digraph, Int64Array], data: st.DataObject) -> None:
    graph, length = case
    count = graph.vertex_count
    one = st.one_of(st.integers(0, 5), st.just(UNREACHABLE))
    start = data.draw(st.lists(one, min_size=count, max_size=count))
    to = expected(graph, length)
    least = [min(UNREACHABLE, *(start[u] + to[v][u] for u in range(count))) for v in range(count)]
    assert distances_from(graph, length, np.array(start, np.int64)).tolist() == least


@given(weighted_digraphs(), st.data())
def test_the_two_nearest_are_those_of_all_sources(case: tuple[Digraph, Int64Array], data: st.DataObject) -> None:
    graph, length = case
    vertex = st.integers(0, graph.vertex_count - 1)
    sources = sorted(data.draw(st.sets(vertex, min_size=1)))
    first, second = two_nearest(graph, length, np.array(sources, np.int32))
    for found, row in zip(zip(first, second, strict=True), expected(graph, length), strict=True):
        assert found == tuple(sorted([*(row[u] for u in sources), UNREACHABLE])[:2])


@given(digraphs())
def test_hop_counts_are_distances_over_edges_of_length_one(graph: Digraph) -> None:
    one = np.ones(graph.edge_count, np.int64)
    found = [[-1 if d == UNREACHABLE else d for d in row] for row in expected(graph, one)]
    assert hop_counts(graph).tolist() == found


def test_a_line_is_one_way() -> None:
    assert hop_counts(LINE).tolist() == [[0, -1, -1], [1, 0, -1], [2, 1, 0]]


def test_a_graph_without_edges() -> None:
    none = np.empty(0, np.int32)
    graph, length = Digraph(2, none, none), np.empty(0, np.int64)
    assert distances_to(graph, length, np.array([1], np.int32)).tolist() == [[UNREACHABLE, 0]]
    assert distances_from(graph, length, np.array([4, UNREACHABLE])).tolist() == [4, UNREACHABLE]


def test_an_edge_that_reaches_a_vertex_late_is_not_taken() -> None:
    graph = Digraph(3, np.array([0, 0, 1], np.int32), np.array([2, 1, 2], np.int32))
    start = np.array([0, UNREACHABLE, UNREACHABLE])
    assert distances_from(graph, np.array([5, 1, 1]), start).tolist() == [0, 1, 2]


@given(digraphs())
def test_hops_from_a_vertex_are_those_of_networkx(graph: Digraph) -> None:
    known = nx.single_source_shortest_path_length(as_networkx(graph, np.ones(graph.edge_count, np.int64)), 0)
    assert hops_from(graph, 0).tolist() == [known.get(vertex, -1) for vertex in range(graph.vertex_count)]
