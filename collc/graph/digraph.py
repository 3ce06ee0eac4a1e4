"""A directed graph with parallel edges, stored as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

from collc.ten.arrays import BoolArray, Int32Array, group_positions
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
