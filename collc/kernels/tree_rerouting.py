"""Spanning trees under a price for load: each tree in turn is removed and grown again (rip-up and reroute, as in
PathFinder: McMurchie and Ebeling, FPGA 1995).

Functions of flat sequences that run in plain Python and compiled (collc/kernels/compiled.py). A tree grows as in Prim's
algorithm: the member next to it joins, over a path through vertices that are no members. Each path loads its edges
anew, also where it begins like another path of the tree, since switches do not copy.
"""

from __future__ import annotations

import heapq
from collections import namedtuple
from collections.abc import MutableSequence, Sequence

UNREACHED = 1 << 62
"""A distance beyond all paths."""

LEVELS = 64
"""Entries of the table of prices for loads below the aim."""


TreeGraph = namedtuple(
    "TreeGraph",
    "out_offsets out_edges in_offsets in_edges source target member cost kind aim price",
)
"""A graph in which trees grow, and what its edges cost.

out_offsets, out_edges, in_offsets, in_edges: the edges out of each vertex and into it (CSR). source, target: of
each edge. member: 1 for the vertices that trees span, which lead on only once they have joined. cost: of each edge
two numbers, one that its price multiplies and one that makes trees shallow: a path costs the second numbers of all
edges from the root on. kind: which load each edge counts to. aim: of each kind, the load that is wished for.
price: factor by load, in parts of the aim (see LEVELS).
"""


_Growth = namedtuple("_Growth", "load factor joined distance via renewed_at path work")
"""A tree as far as it has grown.

load, factor: of each kind of edges, and the price of that load. joined: 1 for the vertices of the tree. distance,
via: of each vertex, from the root, and the edge over which it is reached. renewed_at: by vertex, how many members
there were when its distance was renewed. path: room for the edges of one path, the last one first. work: how many
edges were looked at and distances queued, and how many at most.
"""


def _add_load(kind: int, amount: int, graph: TreeGraph, growth: _Growth) -> None:
    """Add to the load of a kind of edges, which changes their price."""
    growth.load[kind] += amount
    level = growth.load[kind] * LEVELS // graph.aim[kind]
    growth.factor[kind] = graph.price[min(level, len(graph.price) - 1)]


def _end_of(edge: int, graph: TreeGraph, growth: _Growth) -> int:
    """The distance of the target of an edge, if the path to it ends with that edge, at the prices of now."""
    priced = graph.cost[2 * edge] * growth.factor[graph.kind[edge]]
    return growth.distance[graph.source[edge]] + priced + graph.cost[2 * edge + 1]


def _relax(vertex: int, graph: TreeGraph, growth: _Growth, heap: list[tuple[int, int]]) -> None:
    """Shorten the distances of the vertices to which edges lead from a vertex."""
    growth.work[0] += graph.out_offsets[vertex + 1] - graph.out_offsets[vertex]
    for number in range(graph.out_offsets[vertex], graph.out_offsets[vertex + 1]):
        edge = graph.out_edges[number]
        after = graph.target[edge]
        if not growth.joined[after]:
            end = _end_of(edge, graph, growth)
            if end < growth.distance[after]:
                growth.distance[after] = end
                growth.via[after] = edge
                growth.work[0] += 1
                heapq.heappush(heap, (end, after))


def _search_again(graph: TreeGraph, growth: _Growth, heap: list[tuple[int, int]]) -> None:
    """Search from the vertices of the tree, at the prices of now."""
    heap.clear()
    for vertex in range(len(growth.joined)):
        if not growth.joined[vertex]:
            growth.distance[vertex] = UNREACHED
            growth.via[vertex] = -1
    for vertex in range(len(growth.joined)):
        if growth.joined[vertex]:
            _relax(vertex, graph, growth, heap)


def _renew(vertex: int, graph: TreeGraph, growth: _Growth) -> None:
    """Compute the distance of a vertex from those of the vertices before it, at the prices of now."""
    joined, distance, via = growth.joined, growth.distance, growth.via
    distance[vertex] = UNREACHED
    growth.work[0] += graph.in_offsets[vertex + 1] - graph.in_offsets[vertex]
    for number in range(graph.in_offsets[vertex], graph.in_offsets[vertex + 1]):
        edge = graph.in_edges[number]
        before = graph.source[edge]
        leads_on = not graph.member[before] and (via[before] < 0 or graph.source[via[before]] != vertex)
        if (joined[before] or leads_on) and distance[before] < UNREACHED:
            end = _end_of(edge, graph, growth)
            if end < distance[vertex]:
                distance[vertex] = end
                via[vertex] = edge


def _renew_path(hops: int, count: int, graph: TreeGraph, growth: _Growth, heap: list[tuple[int, int]]) -> bool:
    """Renew the vertices of a path whose edges other paths of the tree have loaded since it was found.

    Those that were renewed since the last member joined are left out; returns whether there were others. count: members
    so far.
    """
    renewed = False
    for hop in range(hops - 1, -1, -1):
        vertex = graph.target[growth.path[hop]]
        if growth.renewed_at[vertex] < count:
            renewed = True
            growth.renewed_at[vertex] = count
            _renew(vertex, graph, growth)
        heapq.heappush(heap, (growth.distance[vertex], vertex))
    return renewed


def _grow(
    root: int, members: int, graph: TreeGraph, growth: _Growth, rows: MutableSequence[int], first: int, most: int
) -> int:
    """Write the edges of one tree to rows, path by path; returns their number, or as `reroute`."""
    source, cost, kind = graph.source, graph.cost, graph.kind
    _, factor, joined, distance, via, renewed_at, path, work = growth
    for vertex in range(len(joined)):
        joined[vertex] = renewed_at[vertex] = 0
    joined[root], distance[root] = 1, 0
    heap = [(0, root)]
    _search_again(graph, growth, heap)
    count, written = 1, 0
    while count < members:
        if len(heap) == 0:
            return -2
        if work[0] >= work[1]:
            return -3
        key, vertex = heapq.heappop(heap)
        if joined[vertex] or key != distance[vertex]:
            continue
        if not graph.member[vertex]:
            _relax(vertex, graph, growth, heap)
            continue
        hops, begin = 0, vertex
        while not joined[begin] and hops < len(joined):
            path[hops] = via[begin]
            hops += 1
            begin = source[via[begin]]
        now, delay = distance[begin], distance[begin]
        for hop in range(hops):
            now += cost[2 * path[hop]] * factor[kind[path[hop]]] + cost[2 * path[hop] + 1]
            delay += cost[2 * path[hop] + 1]
        if not joined[begin] or (now > key and not _renew_path(hops, count, graph, growth, heap)):
            _search_again(graph, growth, heap)  # not a path: a cycle of renewed distances
        if not joined[begin] or now > key:
            continue
        if written + hops > most:
            return -1
        for hop in range(hops - 1, -1, -1):
            rows[first + written] = path[hop]
            _add_load(kind[path[hop]], 1, graph, growth)
            written += 1
        joined[vertex] = 1
        count += 1
        distance[vertex] = delay
        _relax(vertex, graph, growth, heap)
    return written


def reroute(
    roots: Sequence[int],
    graph: TreeGraph,
    rounds: int,
    most: int,
    load: MutableSequence[int],
    rows: MutableSequence[int],
    count: MutableSequence[int],
    work: MutableSequence[int],
) -> int:
    """Grow a tree for each root, `rounds` times over; returns -1 if `most` edges do not suffice, -2 without a path, -3
    for too much work.

    load: of each kind. rows: room for `most` edges of each tree. count: edges of each tree; -1 at first, then its
    former edges are removed before it grows again. work: as in _Growth.
    """
    devices, members = len(graph.member), sum(graph.member)
    joined, distance = [0 for _ in range(devices)], [0 for _ in range(devices)]
    via, path = [0 for _ in range(devices)], [0 for _ in range(devices + 1)]
    renewed_at, factor = [0 for _ in range(devices)], [0 for _ in range(len(load))]
    growth = _Growth(load, factor, joined, distance, via, renewed_at, path, work)
    for kind in range(len(load)):
        _add_load(kind, 0, graph, growth)
    for turn in range(rounds):
        for position in range(len(roots)):
            tree = position if turn % 2 == 0 else len(roots) - 1 - position
            for number in range(count[tree]):
                _add_load(graph.kind[rows[tree * most + number]], -1, graph, growth)
            written = _grow(roots[tree], members, graph, growth, rows, tree * most, most)
            if written < 0:
                return written
            count[tree] = written
    return 0
