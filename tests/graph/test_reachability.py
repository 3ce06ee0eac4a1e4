from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collc.graph.digraph import Digraph, reachable_vertices, strongly_connected, weakly_connected
from tests.graph.graphs import as_networkx, digraphs


def plain(graph: Digraph) -> nx.DiGraph[int]:
    return as_networkx(graph, np.ones(graph.edge_count, np.int64))


def by_least(components: list[set[int]], count: int) -> list[int]:
    return [min(next(part for part in components if vertex in part)) for vertex in range(count)]


@given(digraphs(), st.data())
def test_reached_is_the_starts_and_their_descendants(graph: Digraph, data: st.DataObject) -> None:
    starts = data.draw(st.sets(st.integers(0, graph.vertex_count - 1)))
    known = plain(graph)
    assert set(np.flatnonzero(reachable_vertices(graph, starts)).tolist()) == starts.union(
        *(nx.descendants(known, start) for start in starts)
    )


@given(digraphs(14))
def test_strongly_connected_components_are_those_of_networkx(graph: Digraph) -> None:
    components = list(nx.strongly_connected_components(plain(graph)))
    assert strongly_connected(graph).tolist() == by_least(components, graph.vertex_count)


@given(digraphs(14))
def test_weakly_connected_components_are_those_of_networkx(graph: Digraph) -> None:
    components = list(nx.weakly_connected_components(plain(graph)))
    assert weakly_connected(graph).tolist() == by_least(components, graph.vertex_count)


def test_a_long_ring_is_one_component() -> None:
    around = np.arange(20_000, dtype=np.int32)
    assert not strongly_connected(Digraph(len(around), around, np.roll(around, 1))).any()


@given(digraphs(), st.data())
def test_edges_can_be_left_out_and_turned_round(graph: Digraph, data: st.DataObject) -> None:
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=graph.edge_count, max_size=graph.edge_count)), np.bool_)
    part, back = graph.with_edges(kept), graph.reverse()
    assert part.source.tolist() == graph.source[kept].tolist()
    assert part.target.tolist() == graph.target[kept].tolist()
    for vertex in range(graph.vertex_count):
        for offsets, edges, ends in ((*graph.out_edges, graph.source), (*back.in_edges, back.target)):
            own = edges[offsets[vertex] : offsets[vertex + 1]]
            assert own.tolist() == np.flatnonzero(ends == vertex).tolist()


def test_many_parallel_edges_connect_as_one() -> None:
    """256 edges each way, whose number has no place in a byte."""
    ends = np.repeat(np.array([0, 1], np.int32), 256)
    assert strongly_connected(Digraph(2, ends, 1 - ends)).tolist() == [0, 0]
