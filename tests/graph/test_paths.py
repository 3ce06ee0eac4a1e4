from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collc.graph.digraph import Digraph
from collc.graph.paths import LexicographicPaths, last_edges, nearest_path, shortest_path_tree
from collc.ten.arrays import Int64Array
from tests.graph.graphs import as_networkx, out_edges, weighted_digraphs


@given(weighted_digraphs(), st.data())
def test_a_path_tree_has_the_distances_of_networkx(case: tuple[Digraph, Int64Array], data: st.DataObject) -> None:
    graph, length = case
    starts = data.draw(st.sets(st.integers(0, graph.vertex_count - 1), min_size=1))
    tree = shortest_path_tree(out_edges(graph, length).__getitem__, dict.fromkeys(starts, 0))
    assert tree.distance == nx.multi_source_dijkstra_path_length(as_networkx(graph, length), starts)
    assert list(tree.distance.items()) == sorted(tree.distance.items(), key=lambda item: (item[1], item[0]))
    assert tree.before.keys() == tree.distance.keys() - starts
    for vertex, (before, edge) in tree.before.items():
        assert (graph.source[edge], graph.target[edge]) == (before, vertex)
        assert tree.distance[vertex] == tree.distance[before] + length[edge]


@given(weighted_digraphs(), st.data())
def test_the_nearest_path_is_a_shortest_one(case: tuple[Digraph, Int64Array], data: st.DataObject) -> None:
    graph, length = case
    vertices = st.sets(st.integers(0, graph.vertex_count - 1), min_size=1)
    starts, targets = data.draw(vertices), data.draw(vertices)
    known = as_networkx(graph, length)
    distance = nx.multi_source_dijkstra_path_length(known, starts)
    reached = [(distance[v], v) for v in targets if v in distance]
    path = nearest_path(out_edges(graph, length).__getitem__, sorted(starts), targets)
    if path is None:
        assert not reached
        return
    assert path[0] in starts
    assert path[-1] == min(reached)[1]
    assert sum(known[a][b]["weight"] for a, b in pairwise(path)) == min(reached)[0]


@given(weighted_digraphs())
def test_last_edges_are_those_on_any_shortest_path(case: tuple[Digraph, Int64Array]) -> None:
    graph, length = case
    rows = out_edges(graph, length)
    distance = shortest_path_tree(rows.__getitem__, {0: 0}).distance
    found = {edge for ends in last_edges(rows.__getitem__, distance).values() for _, edge in ends}
    away = distance.get
    columns = enumerate(zip(graph.source.tolist(), graph.target.tolist(), length.tolist(), strict=True))
    assert found == {e for e, (a, b, own) in columns if a in distance and away(b) == distance[a] + own}


@given(weighted_digraphs(6))
def test_lexicographic_paths_are_the_smallest_of_the_shortest(case: tuple[Digraph, Int64Array]) -> None:
    graph, length = case
    known, paths = as_networkx(graph, length), LexicographicPaths(graph, length)
    for source in range(graph.vertex_count):
        for target in range(graph.vertex_count):
            by_both = LexicographicPaths(graph, length).path(source, target)
            found = paths.path(source, target)  # the last ones to a target by one search from everywhere
            assert found == by_both
            if not nx.has_path(known, source, target):
                assert found is None
                continue
            assert found == min(nx.all_shortest_paths(known, source, target, weight="weight"))


def test_paths_over_a_wide_switch_look_at_no_others() -> None:
    width = 1_000
    ends = np.arange(width, dtype=np.int32)
    switch = np.full(width, width, np.int32)
    graph = Digraph(width + 1, np.concatenate([ends, switch]), np.concatenate([switch, ends]))
    paths = LexicographicPaths(graph, np.ones(2 * width, np.int64))
    assert [paths.path(k, (k + 7) % width) for k in range(width)] == [[k, width, (k + 7) % width] for k in range(width)]
    assert paths.looked_at <= 2 * width


@given(weighted_digraphs(4))
def test_parallel_edges_come_in_order_of_length_and_number(case: tuple[Digraph, Int64Array]) -> None:
    graph, length = case
    paths, ends = LexicographicPaths(graph, length), list(zip(graph.source, graph.target, strict=True))
    for source in range(graph.vertex_count):
        for target in range(graph.vertex_count):
            parallel = [edge for edge, pair in enumerate(ends) if pair == (source, target)]
            assert paths.edges(source, target) == sorted(parallel, key=lambda edge: (length[edge], edge))


def test_the_first_edge_found_stays_among_equals() -> None:
    rows = [[(1, 2, 7), (1, 2, 8)], []]
    assert shortest_path_tree(rows.__getitem__, {0: 0}).before == {1: (0, 7)}


def test_starts_may_have_distances_of_their_own() -> None:
    rows = [[(2, 1, 0)], [(2, 1, 1)], []]
    tree = shortest_path_tree(rows.__getitem__, {0: 5, 1: 3})
    assert tree.distance == {1: 3, 2: 4, 0: 5}
    assert tree.vertices_to(2) == [1, 2]
