"""Minimum cuts by maximum flow (collc/kernels/max_flow.py), with capacities of any size."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from collc.kernels.max_flow import augment, sink_levels

Vertex = TypeVar("Vertex", bound=Hashable)


class CutSearch:
    """Minimum cuts between two vertices of one graph, for any capacities of its edges."""

    def __init__(self, vertices: int, edges: Sequence[tuple[int, int]], source: int, sink: int) -> None:
        """edges: (from, to), where vertices are numbers below `vertices`."""
        self._source, self._sink, count = source, sink, len(edges)
        out: list[list[int]] = [[] for _ in range(vertices)]
        for edge, (start, end) in enumerate(edges):
            out[start].append(edge)
            out[end].append(edge + count)
        self._order = [arc for arcs in out for arc in arcs]
        self._offsets = [0] * (vertices + 1)
        for vertex, arcs in enumerate(out):
            self._offsets[vertex + 1] = self._offsets[vertex] + len(arcs)
        self._head = [end for _, end in edges] + [start for start, _ in edges]
        self._paired = [*range(count, 2 * count), *range(count)]
        self._room = tuple([0] * (vertices + extra) for extra in (0, 1, 0, 1))

    def cut(self, capacity: Sequence[int | None]) -> tuple[int, list[int]]:
        """(capacity of a minimum cut, the vertices on the sink's side of it, as few as there can be).

        capacity: of each edge; None: no limit. Raises ValueError where a path without limit leads to the sink.
        """
        endless = sum(one for one in capacity if one is not None) + 1
        left = [endless if one is None else one for one in capacity] + [0] * len(capacity)
        graph = self._offsets, self._order, self._head, self._paired
        level, queue, cursor, path = self._room
        least = augment(*graph, left, self._source, self._sink, endless, level, queue, cursor, path)
        if least >= endless:
            raise ValueError("a path without limit leads from the source to the sink")
        sink_levels(*graph, left, self._source, self._sink, level, queue)
        return least, [vertex for vertex, arcs in enumerate(level) if arcs >= 0]


def minimum_cut(
    edges: Iterable[tuple[Vertex, Vertex, int | None]], source: Vertex, sink: Vertex
) -> tuple[int, set[Vertex]]:
    """(capacity of a minimum cut, the vertices on the sink's side of it, as few as there can be).

    edges: (from, to, capacity), where None is no limit; parallel edges add up. Integers of any size, so that the cut
    is exact. Raises ValueError where a path without limit leads from source to sink.
    """
    number: dict[Vertex, int] = {source: 0, sink: 1}
    ends: list[tuple[int, int]] = []
    capacity: list[int | None] = []
    for start, end, most in edges:
        ends.append((number.setdefault(start, len(number)), number.setdefault(end, len(number))))
        capacity.append(most)
    least, side = CutSearch(len(number), ends, 0, 1).cut(capacity)
    names = list(number)
    return least, {names[vertex] for vertex in side}
