"""A directed graph with parallel edges, stored as arrays, and the vertices that its paths lead to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, distinct, group_positions, ranges
from collc.ten.network import Network


@dataclass(frozen=True, eq=False)
class Digraph:
    """Vertices 0 .. vertex_count - 1, and edges from source to target, int32[edges]."""

    vertex_count: int
    source: Int32Array
    target: Int32Array

    @staticmethod
    def of(network: Network) -> Digraph:
        """The graph whose vertices are the devices of a network, and whose edges are its links, by their numbers.

        The same object for the same network, so that what is known of it is found again.
        """
        graph = _GRAPHS.get(network)
        if graph is None:
            graph = _GRAPHS[network] = Digraph(network.device_count, network.source, network.target)
        return graph

    @property
    def edge_count(self) -> int:
        """Edges; parallel ones count."""
        return len(self.source)

    @cached_property
    def out_edges(self) -> tuple[Int32Array, Int32Array]:
        """Edges by source in CSR form: (offsets int32[vertices + 1], edges int32[edges])."""
        return group_positions(self.source, self.vertex_count)

    @cached_property
    def in_edges(self) -> tuple[Int32Array, Int32Array]:
        """Edges by target in CSR form: (offsets int32[vertices + 1], edges int32[edges])."""
        return group_positions(self.target, self.vertex_count)

    def reverse(self) -> Digraph:
        """The graph with every edge turned round; edge numbers stay."""
        return self._reversed_graph

    @cached_property
    def _reversed_graph(self) -> Digraph:
        return Digraph(self.vertex_count, self.target, self.source)

    def with_edges(self, kept: BoolArray) -> Digraph:
        """The graph with some of the edges, bool[edges], renumbered in order."""
        return Digraph(self.vertex_count, self.source[kept], self.target[kept])


_GRAPHS: Final = WeakKeyDictionary[Network, Digraph]()


def reachable_vertices(graph: Digraph, starts: Iterable[int]) -> BoolArray:
    """bool[vertices]: the vertices that paths from some vertices lead to, these included."""
    offsets, edges = graph.out_edges
    ends = graph.target[edges]
    seen = np.zeros(graph.vertex_count, np.bool_)
    front = distinct(np.fromiter(starts, np.int64))
    seen[front] = True
    while len(front):
        heads = ends[ranges(offsets[front].astype(np.int64), offsets[front + 1].astype(np.int64))]
        front = distinct(heads[~seen[heads]]).astype(np.int64)
        seen[front] = True
    return seen


def strongly_connected(graph: Digraph) -> Int32Array:
    """int32[vertices]: the lowest number in the strongly connected component of each vertex."""
    if not graph.edge_count:
        return np.arange(graph.vertex_count, dtype=np.int32)
    small = graph.edge_count < 1000  # small networks, most of which are one component, do not wait for SciPy
    if small and all(bool(reachable_vertices(some, [0]).all()) for some in (graph, graph.reverse())):
        return np.zeros(graph.vertex_count, np.int32)
    from scipy.sparse import coo_array, csgraph  # pyright: ignore[reportMissingTypeStubs]

    count, edges = graph.vertex_count, np.ones(graph.edge_count, np.int32)
    matrix = cast("Any", coo_array)((edges, (graph.source, graph.target)), shape=(count, count))
    component = cast("Any", csgraph).connected_components(matrix, connection="strong")[1]
    lowest = np.full(count, count, np.int32)
    np.minimum.at(lowest, component, np.arange(count, dtype=np.int32))
    return lowest[component]


def weakly_connected(graph: Digraph) -> Int32Array:
    """int32[vertices]: the lowest number among the vertices that edges, in either direction, join to each."""
    label = np.arange(graph.vertex_count, dtype=np.int32)
    while True:
        before = label.copy()
        np.minimum.at(label, graph.source, label[graph.target])
        np.minimum.at(label, graph.target, label[graph.source])
        label = label[label]
        if bool((label == before).all()):
            return label


def nodes_of(network: Network) -> list[list[int]]:
    """The NPUs of each node, if all nodes have as many; else all NPUs as one."""
    parts = parts_of(network)
    return parts if len({len(node) for node in parts}) == 1 else [network.npus.tolist()]


def parts_of(network: Network) -> list[list[int]]:
    """The NPUs of each node, as `node_labels` divides the devices."""
    label = node_labels(network)
    parts: dict[int, list[int]] = {}
    for npu in network.npus.tolist():
        parts.setdefault(int(label[npu]), []).append(npu)
    return list(parts.values())


def node_labels(network: Network) -> Int32Array:
    """int32[devices]: a number for the devices that stay together when the slowest classes of links are taken away.

    Classes of bandwidth are taken away, from the slowest on, until the NPUs fall apart (so a single slow link divides
    nothing). All devices are together if each NPU is then alone.
    """
    rates = [kind.bandwidth or 0 for kind in network.kinds]
    used: list[int] = np.unique(network.kind).tolist()
    for slowest in sorted({rates[row] for row in used}):
        fast = np.array([rate > slowest for rate in rates], np.bool_)
        label = weakly_connected(Digraph.of(network).with_edges(fast[network.kind]))
        parts = len(np.unique(label[network.npus]))
        if 1 < parts < len(network.npus):
            return label
        if parts > 1:
            break
    return np.zeros(network.device_count, np.int32)
