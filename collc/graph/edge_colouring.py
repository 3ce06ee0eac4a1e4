"""Edge colouring of bipartite multigraphs: edges that share a vertex get different colours (König)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from collc.kernels.compiled import trailing_zeros


def largest_degree(edges: Sequence[tuple[int, int]]) -> int:
    """The most edges at one vertex. edges: as for `colour_edges`."""
    return max((max(Counter(side).values()) for side in zip(*edges, strict=True)), default=0)


def colour_edges(edges: Sequence[tuple[int, int]]) -> list[int]:
    """A colour for each edge, from 0 to before the largest degree.

    edges: the number of the vertex on the left, and of the one on the right. Each edge takes the first colour that is
    free on both sides; if there is none, two colours are swapped along the alternating path from the right vertex.
    """
    colours = largest_degree(edges)
    names: dict[tuple[int, int], int] = {}
    ends = [(names.setdefault((0, a), len(names)), names.setdefault((1, b), len(names))) for a, b in edges]
    used: list[dict[int, int]] = [{} for _ in names]  # by vertex and colour, the edge
    free = [(1 << colours) - 1] * len(names)
    colour_of = [-1] * len(edges)

    def toggle(edge: int, colour: int) -> None:
        for vertex in ends[edge]:
            free[vertex] ^= 1 << colour
            if used[vertex].pop(colour, None) is None:
                used[vertex][colour] = edge

    def swap(vertex: int, first: int, second: int) -> None:
        path: list[tuple[int, int]] = []
        colour = first
        while colour in used[vertex]:
            path.append((used[vertex][colour], colour))
            vertex, colour = sum(ends[path[-1][0]]) - vertex, first + second - colour
        for edge, colour in path:
            toggle(edge, colour)
        for edge, colour in path:
            colour_of[edge] = first + second - colour
            toggle(edge, colour_of[edge])

    for edge, (left, right) in enumerate(ends):
        if not free[left] & free[right]:
            swap(right, trailing_zeros(free[left]), trailing_zeros(free[right]))
        colour_of[edge] = trailing_zeros(free[left] & free[right])
        toggle(edge, colour_of[edge])
    return colour_of
