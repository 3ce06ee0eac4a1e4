"""Maximum flow on residual arrays (Dinic 1970), and two searches that ask for many flows on one graph.

Functions of flat sequences that run in plain Python and compiled (collc/kernels/compiled.py). Residual capacities by
arc, which are changed in place, are whole numbers below UNLIMITED.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

UNLIMITED = 1 << 61
"""A capacity that no cut of finite capacity contains."""


class FlowGraph(NamedTuple):
    """A graph as arcs, and memory of a search.

    offsets, order: the arcs out of each vertex (CSR). head: where each arc leads. paired: the arc back. level, queue,
    cursor, path: room for one number a vertex each, and one more in queue and path.
    """

    offsets: Sequence[int]
    order: Sequence[int]
    head: Sequence[int]
    paired: Sequence[int]
    level: MutableSequence[int]
    queue: MutableSequence[int]
    cursor: MutableSequence[int]
    path: MutableSequence[int]


def sink_levels(graph: FlowGraph, capacity: Sequence[int], source: int, sink: int) -> bool:
    """Fill level with the arcs from each vertex to the sink in the residual graph, -1 where none lead there.

    Returns True, with levels incomplete, as soon as the source is reached. After False the vertices with a level are
    the sink's side of a minimum cut, as few as there can be.
    """
    offsets, order, head, paired, level, queue, _, _ = graph
    for vertex in range(len(level)):
        level[vertex] = -1
    level[sink] = 0
    queue[0] = sink
    begin, end = 0, 1
    while begin < end:
        vertex = queue[begin]
        begin += 1
        for place in range(offsets[vertex], offsets[vertex + 1]):
            arc = order[place]
            before = head[arc]
            if level[before] < 0 and capacity[paired[arc]] > 0:
                level[before] = level[vertex] + 1
                if before == source:
                    return True
                queue[end] = before
                end += 1
    return False


def augment(graph: FlowGraph, capacity: MutableSequence[int], source: int, sink: int, most: int) -> int:
    """Send flow from source to sink until no path is left or `most` is reached; returns how much was sent."""
    offsets, order, head, paired, level, _, cursor, path = graph
    total = 0
    while total < most and sink_levels(graph, capacity, source, sink):
        for vertex in range(len(cursor)):
            cursor[vertex] = offsets[vertex]
        depth = 0
        vertex = source
        while True:
            if vertex == sink:
                amount = most - total
                for hop in range(depth):
                    amount = min(amount, capacity[path[hop]])
                first = 0
                for hop in range(depth - 1, -1, -1):
                    arc = path[hop]
                    capacity[arc] -= amount
                    capacity[paired[arc]] += amount
                    if capacity[arc] == 0:
                        first = hop
                total += amount
                if total == most:
                    return total
                depth = first
                vertex = head[paired[path[first]]]
                continue
            advanced = False
            while cursor[vertex] < offsets[vertex + 1]:
                arc = order[cursor[vertex]]
                if capacity[arc] > 0 and level[head[arc]] == level[vertex] - 1:
                    advanced = True
                    path[depth] = arc
                    depth += 1
                    vertex = head[arc]
                    break
                cursor[vertex] += 1
            if not advanced:
                if vertex == source:
                    break
                level[vertex] = -2
                depth -= 1
                vertex = head[paired[path[depth]]]
                cursor[vertex] += 1
    return total


def first_unfed(
    graph: FlowGraph, capacity: MutableSequence[int], source: int, supply: Sequence[int], finished: int, need: int
) -> int:
    """The first vertex, by number in `supply`, that gets less than `need` from the source; -1 if none does.

    supply: for each vertex to feed, the arc to it from the source. The first `finished` are known to be fed. A vertex
    that is fed joins the source (its supply becomes unlimited) and the residual capacities stay: the cuts that remain
    to be tested have it on the source's side (Hao and Orlin 1994). If a vertex is not fed, the vertices with a
    `level` of 0 or more are the sink's side of a cut that is too narrow.
    """
    for number in range(finished):
        capacity[supply[number]] = UNLIMITED
    for number in range(finished, len(supply)):
        if augment(graph, capacity, source, graph.head[supply[number]], need) < need:
            return number
        capacity[supply[number]] = UNLIMITED
    return -1


def truncate(
    graph: FlowGraph, given: Sequence[int], capacity: MutableSequence[int], source: int, sink: int,
    supply: Sequence[int], drain: Sequence[int], charge: int, value: MutableSequence[int], part: MutableSequence[int],
) -> int:  # fmt: skip
    """The least sum over the parts of a partition of (flow from the part to all other members - charge).

    The Dilworth truncation of a cut function by the greedy algorithm (Schrijver 2003, section 48.2): one flow a member.
    given: capacities of the graph, with 0 on the arcs `supply`, from the source to each member, and `drain`, from each
    member to the sink; capacity: room for as many. value: room for a number a member. part: on return, members of
    one part of the best partition have one number.
    """
    total = 0
    members = len(supply)
    for member in range(members):
        part[member] = member
    for member in range(members):
        for arc in range(len(given)):
            capacity[arc] = given[arc]
        constant = -charge
        for other in range(member):
            if value[other] >= 0:
                capacity[supply[other]] = value[other]
                constant -= value[other]
            else:
                capacity[drain[other]] = -value[other]
        capacity[supply[member]] = UNLIMITED
        for other in range(member + 1, members):
            capacity[drain[other]] = UNLIMITED
        value[member] = augment(graph, capacity, source, sink, UNLIMITED) + constant
        total += value[member]
        sink_levels(graph, capacity, source, sink)
        for other in range(member):
            if graph.level[graph.head[supply[other]]] < 0 and part[other] != member:
                merged = part[other]
                for earlier in range(member):
                    if part[earlier] == merged:
                        part[earlier] = member
    return total
