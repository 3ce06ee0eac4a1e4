"""The route of a message that raises the largest load of a link least often, and of these one of the fewest hops (A*).

A function of flat sequences that runs in plain Python and compiled (collc/kernels/compiled.py).
"""

from __future__ import annotations

import heapq
from collections import namedtuple
from collections.abc import MutableSequence, Sequence

RouteGraph = namedtuple("RouteGraph", "out_offsets out_links source target weight index sizes strides distance")
"""Links, and how far it is at least.

out_offsets, out_links: the links out of each NPU (CSR). source, target: of each link. weight: what a message adds to
the load of each link. index: [axes * NPUs], of each NPU along each axis of a group with some sizes and strides.
distance: hops from element 0 to each one at least, as between their translations.
"""


def find_route(
    graph: RouteGraph,
    start: int,
    end: int,
    load: MutableSequence[int],
    cost: MutableSequence[int],
    via: MutableSequence[int],
    route: MutableSequence[int],
) -> int:
    """Writes the links of the route, the last one first, and adds it to the load; returns how many they are, -1 if
    there is none.

    load: of each link, and at the end the largest. cost, via, route: room for a number of each NPU; cost is 0 before
    and after.
    """
    out_links, target, index, largest = graph.out_links, graph.target, graph.index, load[len(load) - 1]
    heap = [(0, 0, start)]
    touched = [start]
    cost[start] = 1
    hops = -1
    while heap:
        _, negative, npu = heapq.heappop(heap)
        if npu == end:
            hops = 0
            break
        if -negative + 1 > cost[npu]:
            continue
        for number in range(graph.out_offsets[npu], graph.out_offsets[npu + 1]):
            link = out_links[number]
            there = target[link]
            whole = cost[npu] + (len(load) if load[link] + graph.weight[link] > largest else 1)
            if cost[there] and cost[there] <= whole:
                continue
            if not cost[there]:
                touched.append(there)
            cost[there] = whole
            via[there] = link
            left = 0
            for axis in range(len(graph.sizes)):
                step = index[axis * len(cost) + end] - index[axis * len(cost) + there]
                left += (step + graph.sizes[axis] if step < 0 else step) * graph.strides[axis]
            heapq.heappush(heap, (whole - 1 + graph.distance[left], 1 - whole, there))
    npu = end
    while hops >= 0 and npu != start:
        link = via[npu]
        route[hops] = link
        hops += 1
        load[link] += graph.weight[link]
        load[len(load) - 1] = max(load[len(load) - 1], load[link])
        npu = graph.source[link]
    for npu in touched:
        cost[npu] = 0
    return hops


def find_routes(
    graph: RouteGraph,
    starts: Sequence[int],
    ends: Sequence[int],
    load: MutableSequence[int],
    cost: MutableSequence[int],
    via: MutableSequence[int],
    route: MutableSequence[int],
    lengths: MutableSequence[int],
    routes: MutableSequence[int],
) -> int:
    """Writes the routes of messages, one after another, and how long they are; returns how many were found before one
    that has none, or for which `routes` has no room left.
    """
    written = 0
    for number in range(len(starts)):
        if written + len(cost) > len(routes):
            return number
        hops = find_route(graph, starts[number], ends[number], load, cost, via, route)
        if hops < 0:
            return number
        lengths[number] = hops
        for hop in range(hops):
            routes[written + hop] = route[hops - 1 - hop]
        written += hops
    return len(starts)
