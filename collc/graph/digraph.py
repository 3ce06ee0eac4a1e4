"""A directed graph with parallel edges, stored as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from collc.ten.arrays import BoolArray, Int32Array, grouped


@dataclass(frozen=True, eq=False)
class Digraph:
    """Vertices 0 .. vertex_count - 1, and edges from source to target, int32[edges]."""

    vertex_count: int
    source: Int32Array
    target: Int32Array

    @property
    def edge_count(self) -> int:
        """Edges; parallel ones count."""
        return len(self.source)

    @cached_property
    def out_edges(self) -> tuple[Int32Array, Int32Array]:
        """Edges by source in CSR form: (offsets int32[vertices + 1], edges int32[edges])."""
        return grouped(self.source, self.vertex_count)

    @cached_property
    def in_edges(self) -> tuple[Int32Array, Int32Array]:
        """Edges by target in CSR form: (offsets int32[vertices + 1], edges int32[edges])."""
        return grouped(self.target, self.vertex_count)

    def reversed(self) -> Digraph:
        """The graph with every edge turned round; edge numbers stay."""
        return Digraph(self.vertex_count, self.target, self.source)

    def with_edges(self, kept: BoolArray) -> Digraph:
        """The graph with some of the edges, bool[edges], renumbered in order."""
        return Digraph(self.vertex_count, self.source[kept], self.target[kept])
