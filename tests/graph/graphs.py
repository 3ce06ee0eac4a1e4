"""Random directed graphs for tests, with parallel edges, loops and unreachable vertices."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from collc.graph.digraph import Digraph
from collc.ten.arrays import Int64Array


@st.composite
def digraphs(draw: st.DrawFn, most: int = 9) -> Digraph:
    """A graph of 1 to `most` vertices."""
    count = draw(st.integers(1, most))
    vertex = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(vertex, vertex), max_size=3 * count))
    return Digraph(count, np.array([a for a, _ in edges], np.int32), np.array([b for _, b in edges], np.int32))


@st.composite
def weighted_digraphs(draw: st.DrawFn, most: int = 9) -> tuple[Digraph, Int64Array]:
    """A graph, and a length from 1 to 4 for each edge; often one length for all."""
    graph = draw(digraphs(most))
    lengths = st.lists(st.integers(1, 4), min_size=graph.edge_count, max_size=graph.edge_count)
    equal = st.integers(1, 4).map(lambda length: [length] * graph.edge_count)
    return graph, np.array(draw(st.one_of(lengths, equal)), np.int64)


def as_networkx(graph: Digraph, length: Int64Array) -> nx.DiGraph[int]:
    """The same graph for NetworkX; of parallel edges the shortest."""
    found: nx.DiGraph[int] = nx.DiGraph()
    found.add_nodes_from(range(graph.vertex_count))
    for source, target, own in zip(graph.source.tolist(), graph.target.tolist(), length.tolist(), strict=True):
        known = found.get_edge_data(source, target)
        if known is None or own < known["weight"]:
            found.add_edge(source, target, weight=own)
    return found


def out_edges(graph: Digraph, length: Int64Array) -> list[list[tuple[int, int, int]]]:
    """For each vertex its (target, length, edge) rows."""
    rows: list[list[tuple[int, int, int]]] = [[] for _ in range(graph.vertex_count)]
    columns = zip(graph.source.tolist(), graph.target.tolist(), length.tolist(), strict=True)
    for edge, (source, target, own) in enumerate(columns):
        rows[source].append((target, own, edge))
    return rows
