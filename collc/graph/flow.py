"""Maximum flow and minimum cut."""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

Vertex = TypeVar("Vertex", bound=Hashable)


def minimum_cut(
    edges: Iterable[tuple[Vertex, Vertex, int | None]], source: Vertex, sink: Vertex
) -> tuple[int, set[Vertex]]:
    """(capacity of a minimum cut, the vertices on the sink's side of it, as few as there can be).

    edges: (from, to, capacity), where None is no limit; parallel edges add up. Integers of any size, so that the cut
    is exact. Raises ValueError where a path without limit leads from source to sink.
    """
    nx: Any = importlib.import_module("networkx")  # no types to check, and 0.2 s to import
    graph: Any = nx.DiGraph()
    graph.add_nodes_from((source, sink))
    for start, end, capacity in edges:
        if capacity is None:
            graph.add_edge(start, end)
            graph[start][end].pop("capacity", None)
        elif not graph.has_edge(start, end):
            graph.add_edge(start, end, capacity=capacity)
        elif "capacity" in graph[start][end]:
            graph[start][end]["capacity"] += capacity
    try:
        least, (_, side) = nx.minimum_cut(graph, source, sink)
    except nx.NetworkXUnbounded as error:
        raise ValueError("a path without limit leads from the source to the sink") from error
    return int(least), set(side)
