"""Spanning trees under a price for load: each tree in turn is removed and grown again (rip-up and reroute, as in
PathFinder: McMurchie and Ebeling, FPGA 1995).

Functions of flat sequences that run in plain Python and compiled (collc/kernels/compiled.py). A tree grows as in Prim's
algorithm: the member next to it joins, over a path through vertices that are no members. Each path loads its edges
anew, also where it begins like another path of the tree, since switches do not copy.
"""

from __future__ import annotations

import heapq
from collections.abc import MutableSequence, Sequence

UNREACHED = 1 << 62
"""A distance beyond all paths."""

LEVELS = 64
"""Entries of the table of prices for loads below the aim."""


def _price(kind: int, load: Sequence[int], aim: Sequence[int], price: Sequence[int]) -> int:
    """The factor of the cost of the edges of a kind for their load."""
    return price[min(load[kind] * LEVELS // aim[kind], len(price) - 1)]


def _relax(
    vertex: int,
    out_offsets: Sequence[int],
    out_edges: Sequence[int],
    target: Sequence[int],
    cost: Sequence[int],
    kind: Sequence[int],
    factor: Sequence[int],
    joined: Sequence[int],
    distance: MutableSequence[int],
    via: MutableSequence[int],
    heap: list[tuple[int, int]],
) -> None:
    """Shorten the distances of the vertices to which edges lead from a vertex."""
    here = distance[vertex]
    for number in range(out_offsets[vertex], out_offsets[vertex + 1]):
        edge = out_edges[number]
        after = target[edge]
        if not joined[after]:
            found = here + cost[2 * edge] * factor[kind[edge]] + cost[2 * edge + 1]
            if found < distance[after]:
                distance[after] = found
                via[after] = edge
                heapq.heappush(heap, (found, after))


def _renew(
    vertex: int,
    in_offsets: Sequence[int],
    in_edges: Sequence[int],
    source: Sequence[int],
    cost: Sequence[int],
    kind: Sequence[int],
    factor: Sequence[int],
    member: Sequence[int],
    joined: Sequence[int],
    distance: MutableSequence[int],
    via: MutableSequence[int],
) -> None:
    """Compute the distance of a vertex from those of the vertices before it, at the prices of now."""
    distance[vertex] = UNREACHED
    for number in range(in_offsets[vertex], in_offsets[vertex + 1]):
        edge = in_edges[number]
        before = source[edge]
        usable = joined[before] or (not member[before] and (via[before] < 0 or source[via[before]] != vertex))
        if usable and distance[before] < UNREACHED:
            found = distance[before] + cost[2 * edge] * factor[kind[edge]] + cost[2 * edge + 1]
            if found < distance[vertex]:
                distance[vertex] = found
                via[vertex] = edge


def _begin_again(
    out_offsets: Sequence[int],
    out_edges: Sequence[int],
    target: Sequence[int],
    cost: Sequence[int],
    kind: Sequence[int],
    factor: Sequence[int],
    joined: Sequence[int],
    distance: MutableSequence[int],
    via: MutableSequence[int],
    heap: list[tuple[int, int]],
) -> None:
    """Search from the vertices of the tree again, at the prices of now."""
    while len(heap) > 0:
        heap.pop()
    for vertex in range(len(joined)):
        if not joined[vertex]:
            distance[vertex] = UNREACHED
            via[vertex] = -1
    for vertex in range(len(joined)):
        if joined[vertex]:
            _relax(vertex, out_offsets, out_edges, target, cost, kind, factor, joined, distance, via, heap)


def _renew_path(
    hops: int,
    path: Sequence[int],
    count: int,
    renewed_at: MutableSequence[int],
    in_offsets: Sequence[int],
    in_edges: Sequence[int],
    source: Sequence[int],
    target: Sequence[int],
    cost: Sequence[int],
    kind: Sequence[int],
    factor: Sequence[int],
    member: Sequence[int],
    joined: Sequence[int],
    distance: MutableSequence[int],
    via: MutableSequence[int],
    heap: list[tuple[int, int]],
) -> bool:
    """Renew the vertices of a path whose edges other paths of the tree have loaded since it was found.

    Those that were renewed since the last member joined are left out; returns whether there were others. count: members
    so far.
    """
    renewed = False
    for hop in range(hops - 1, -1, -1):
        vertex = target[path[hop]]
        if renewed_at[vertex] < count:
            renewed = True
            renewed_at[vertex] = count
            _renew(
                vertex, in_offsets, in_edges, source, cost, kind, factor, member, joined, distance, via
            )  # fmt: skip
        heapq.heappush(heap, (distance[vertex], vertex))
    return renewed


def _begin(
    root: int,
    joined: MutableSequence[int],
    distance: MutableSequence[int],
    via: MutableSequence[int],
    renewed_at: MutableSequence[int],
) -> None:
    """A tree of nothing but its root."""
    for vertex in range(len(joined)):
        joined[vertex] = 0
        distance[vertex] = UNREACHED
        via[vertex] = -1
        renewed_at[vertex] = 0
    joined[root] = 1
    distance[root] = 0


def _path_to(
    vertex: int, joined: Sequence[int], via: Sequence[int], source: Sequence[int], path: MutableSequence[int]
) -> tuple[int, bool]:
    """Write the edges from the tree to a vertex to path, the last one first: (their number, whether it is a path)."""
    hops, at = 0, vertex
    while not joined[at] and hops < len(joined):
        path[hops] = via[at]
        hops += 1
        at = source[via[at]]
    return hops, joined[at] != 0


def _load(
    kind: int,
    amount: int,
    load: MutableSequence[int],
    aim: Sequence[int],
    price: Sequence[int],
    factor: MutableSequence[int],
) -> None:
    """Add to the load of a kind of edges, which changes their price."""
    load[kind] += amount
    factor[kind] = _price(kind, load, aim, price)


def _grow(
    root: int,
    members: int,
    graph: tuple[Sequence[int], ...],
    load: MutableSequence[int],
    price: Sequence[int],
    factor: MutableSequence[int],
    joined: MutableSequence[int],
    distance: MutableSequence[int],
    via: MutableSequence[int],
    renewed_at: MutableSequence[int],
    path: MutableSequence[int],
    rows: MutableSequence[int],
    first: int,
    most: int,
) -> int:
    """Write the edges of one tree to rows, path by path; returns their number, -1 without room, -2 without a path."""
    out_offsets, out_edges, in_offsets, in_edges, source, target, member, cost, kind, aim = graph
    _begin(root, joined, distance, via, renewed_at)
    heap = [(0, root)]
    heap.pop()
    _relax(root, out_offsets, out_edges, target, cost, kind, factor, joined, distance, via, heap)
    count, written = 1, 0
    while count < members:
        if len(heap) == 0:
            return -2
        key, vertex = heapq.heappop(heap)
        if joined[vertex] or key != distance[vertex]:
            continue
        if not member[vertex]:
            _relax(vertex, out_offsets, out_edges, target, cost, kind, factor, joined, distance, via, heap)
            continue
        hops, is_path = _path_to(vertex, joined, via, source, path)
        begin = source[path[hops - 1]]
        now, delay = distance[begin], distance[begin]
        for hop in range(hops):
            now += cost[2 * path[hop]] * factor[kind[path[hop]]] + cost[2 * path[hop] + 1]
            delay += cost[2 * path[hop] + 1]
        if not is_path or now > key:  # not a path: a cycle of renewed distances
            if not is_path or not _renew_path(
                hops, path, count, renewed_at, in_offsets, in_edges, source, target, cost, kind, factor, member, joined,
                distance, via, heap,
            ):  # fmt: skip
                _begin_again(out_offsets, out_edges, target, cost, kind, factor, joined, distance, via, heap)
            continue
        if written + hops > most:
            return -1
        for hop in range(hops - 1, -1, -1):
            rows[first + written] = path[hop]
            _load(kind[path[hop]], 1, load, aim, price, factor)
            written += 1
        joined[vertex] = 1
        count += 1
        distance[vertex] = delay
        _relax(vertex, out_offsets, out_edges, target, cost, kind, factor, joined, distance, via, heap)
    return written


def reroute(
    roots: Sequence[int],
    out_offsets: Sequence[int],
    out_edges: Sequence[int],
    in_offsets: Sequence[int],
    in_edges: Sequence[int],
    source: Sequence[int],
    target: Sequence[int],
    member: Sequence[int],
    cost: Sequence[int],
    kind: Sequence[int],
    aim: Sequence[int],
    price: Sequence[int],
    rounds: int,
    most: int,
    load: MutableSequence[int],
    rows: MutableSequence[int],
    count: MutableSequence[int],
) -> int:
    """Grow a tree for each root, `rounds` times over; returns -1 if `most` edges do not suffice, -2 without a path.

    member: 1 for the vertices that trees span, which lead on only once they have joined. cost: of each edge two
    numbers, one that its price multiplies and one that makes trees shallow: a path costs the second numbers of all
    edges from the root on. kind: which load each edge counts to. aim: of each kind, the load that is wished for.
    price: factor by load, in parts of the aim (see LEVELS). load: of each kind. rows: room for `most` edges of each
    tree. count: edges of each tree; -1 at first, then its former edges are removed before it grows again.
    """
    devices = len(member)
    joined, distance = [0 for _ in range(devices)], [0 for _ in range(devices)]
    via, path = [0 for _ in range(devices)], [0 for _ in range(devices + 1)]
    renewed_at = [0 for _ in range(devices)]
    factor = [_price(number, load, aim, price) for number in range(len(aim))]
    members = sum(member)
    graph = (out_offsets, out_edges, in_offsets, in_edges, source, target, member, cost, kind, aim)
    for turn in range(rounds):
        for position in range(len(roots)):
            tree = position if turn % 2 == 0 else len(roots) - 1 - position
            for number in range(count[tree]):
                _load(kind[rows[tree * most + number]], -1, load, aim, price, factor)
            written = _grow(
                roots[tree], members, graph, load, price, factor, joined, distance, via, renewed_at, path, rows,
                tree * most, most,
            )  # fmt: skip
            if written < 0:
                return written
            count[tree] = written
    return 0
