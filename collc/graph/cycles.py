"""Cycles through all nodes of a graph (Hamiltonian cycles)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, permutations
from math import prod
from typing import Final

Cost = Callable[[int, int], int | None]
"""What the edge from one node to another costs; None if there is none."""

MOST_DIMENSIONS: Final = 4
"""Dimensions up to which all orders of them are tried."""

MOST_STEPS: Final = 20_000
"""Steps of the search for a cycle if no pattern gives one."""


def cycle_through_all(cost: Cost, coordinates: Sequence[tuple[int, ...]]) -> list[int] | None:
    """The nodes in the order of a cycle that begins at node 0; None if none is found.

    coordinates: of each node, all of one length; () if nodes have none. It is the order of the numbers if that is a
    cycle. Else it is the cheapest of these: rows to and fro along each dimension (closed by an edge around, or by a row
    that is left for the way back), and turns of rings. If there is none of them it is what a search of MOST_STEPS steps
    finds, which goes to the neighbour with the fewest unvisited neighbours.
    """
    nodes = len(coordinates)
    best: tuple[int, list[int]] | None = None
    for order in (list(range(nodes)), *_patterns(coordinates)):
        edges = [cost(u, v) for u, v in pairwise([*order, order[0]])]
        total = sum(edge for edge in edges if edge is not None)
        if len(set(order)) == nodes and None not in edges and (best is None or total < best[0]):
            if best is None and order[0] == 0 and order == sorted(order):
                return order
            best = (total, order)
    if best is None:
        return _search_cycle(cost, nodes)
    first = best[1].index(0)
    return best[1][first:] + best[1][:first]


def _patterns(coordinates: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
    """Orders that are cycles on meshes and tori, for each order of up to MOST_DIMENSIONS dimensions."""
    shape = [max(column) + 1 for column in zip(*coordinates, strict=True)] if coordinates else []
    node_at = {place: node for node, place in enumerate(coordinates)}
    if len(node_at) < len(coordinates) or prod(shape) != len(coordinates) or len(shape) > MOST_DIMENSIONS:
        return
    for axes in permutations(range(len(shape))):
        others = _to_and_fro([shape[axis] for axis in axes[1:]])
        yield from _orders_of_rows(node_at, axes, shape[axes[0]], others) if axes else ()


def _orders_of_rows(
    node_at: dict[tuple[int, ...], int], axes: tuple[int, ...], rows: int, others: list[tuple[int, ...]]
) -> Iterator[list[int]]:
    """Orders in which rows lie one after another along the first of `axes`. others: the places of a row, in order."""
    columns = len(others)

    def at(row: int, column: int) -> int:
        place = dict(zip(axes, (row % rows, *others[column % columns]), strict=True))
        return node_at[tuple(place[axis] for axis in range(len(axes)))]

    forth, back = range(columns), range(columns - 1, -1, -1)
    yield [at(row, column) for row in range(rows) for column in (back if row % 2 else forth)]
    return_row = [at(row, 0) for row in range(rows - 1, 0, -1)]
    inner, outer = range(columns - 1, 0, -1), range(1, columns)
    yield [at(0, 0), *(at(row, c) for row in range(rows) for c in (inner if row % 2 else outer)), *return_row]
    yield _turns(at, rows, columns)


def _to_and_fro(shape: list[int]) -> list[tuple[int, ...]]:
    """All coordinates of a box, each beside the one before."""
    if not shape:
        return [()]
    inner = _to_and_fro(shape[1:])
    return [(k, *rest) for k in range(shape[0]) for rest in (reversed(inner) if k % 2 else inner)]


def _turns(at: Callable[[int, int], int], rows: int, columns: int) -> list[int]:
    """The nodes row by row, each row once around: the first rows in one direction, the others in the opposite one, so
    that the last node is next to the first.
    """
    order: list[int] = []
    forward, column = (rows + columns) // 2, 0
    for row in range(rows):
        step = 1 if row < forward else -1
        order += [at(row, column + step * k) for k in range(columns)]
        column -= step
    return order


def _search_cycle(cost: Cost, nodes: int) -> list[int] | None:
    """A cycle by depth-first search, to the neighbours with the fewest unvisited neighbours first (Warnsdorff)."""
    after = [[v for v in range(nodes) if v != u and cost(u, v) is not None] for u in range(nodes)]
    path, used = [0], [True] + [False] * (nodes - 1)

    def choices(node: int) -> list[int]:
        free = [v for v in after[node] if not used[v]]
        return sorted(free, key=lambda v: sum(not used[w] for w in after[v]), reverse=True)

    left = [choices(0)]
    for _ in range(MOST_STEPS):
        if len(path) == nodes and cost(path[-1], 0) is not None:
            return path
        if left[-1]:
            path.append(left[-1].pop())
            used[path[-1]] = True
            left.append(choices(path[-1]))
            continue
        left.pop()
        used[path.pop()] = False
        if not path:
            return None
    return None
