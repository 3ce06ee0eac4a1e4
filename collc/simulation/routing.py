"""Routes for messages that name only their two ends, and the order of those that could start at one moment."""

from __future__ import annotations

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to
from collc.simulation.tasks import Routes
from collc.ten.arrays import Int32Array, Int64Array, ranges
from collc.ten.network import Network


class NoRoute(Exception):
    """No path of links leads from `source` to `target`, both device numbers."""

    def __init__(self, source: int, target: int) -> None:
        super().__init__(f"no path leads from device {source} to device {target}")
        self.source: int = source
        self.target: int = target


def shortest_routes(
    network: Network, source: Int32Array, target: Int32Array, length: Int64Array | None = None
) -> tuple[Routes, Int32Array]:
    """(routes, int32[messages]): the routes with the fewest hops, and the row of each message.

    source, target: int32[messages], different devices. length: int64[links], at least 1; the routes are then those of
    the least length, but the direct link if there is one. Of several shortest routes it is the one that at each
    device takes the neighbour with the next number (after the last comes 0), so that on a ring half of the way round
    goes towards higher numbers, as in ASTRA-sim. Messages between devices with parallel links take them in turn.
    Raises NoRoute.
    """
    pair_of = source.astype(np.int64) * network.device_count + target
    lanes = _links_by_pair(network)
    variants = _variants(network, pair_of, lanes)
    most = int(variants.max(initial=0)) + 1
    rows, route_of = np.unique(pair_of * most + variants, return_inverse=True)
    paths: list[tuple[int, ...]] = [()] * len(rows)
    indirect: dict[int, list[int]] = {}
    for row, number in enumerate(rows.tolist()):
        begin, end = divmod(number // most, network.device_count)
        if (begin, end) in lanes:
            paths[row] = (lanes[begin, end][number % most],)
        else:
            indirect.setdefault(end, []).append(row)
    graph = Digraph.of(network)
    hops = np.ones(network.link_count, np.int64) if length is None else length
    for there, reached in indirect.items():
        ahead = _links_towards(network, hops, distances_to(graph, hops, np.array([there], np.int32))[0])
        for row in reached:
            paths[row] = _walk(network, ahead, int(rows[row]) // most // network.device_count, there)
    return Routes.of(paths), route_of.astype(np.int32)


def _links_by_pair(network: Network) -> dict[tuple[int, int], list[int]]:
    """By pair of devices, the links from one to the other."""
    links_of: dict[tuple[int, int], list[int]] = {}
    sources: list[int] = network.source.tolist()
    targets: list[int] = network.target.tolist()
    for link, pair in enumerate(zip(sources, targets, strict=True)):
        links_of.setdefault(pair, []).append(link)
    return links_of


def _variants(network: Network, pair_of: Int64Array, lanes: dict[tuple[int, int], list[int]]) -> Int64Array:
    """int64[messages]: which of the parallel links between its ends a message takes: each in turn."""
    if len(lanes) == network.link_count:
        return np.zeros(len(pair_of), np.int64)
    pairs, row, counts = np.unique(pair_of, return_inverse=True, return_counts=True)
    order = np.argsort(row, kind="stable")
    turn = np.empty(len(pair_of), np.int64)
    turn[order] = ranges(np.zeros(len(counts), np.int64), counts)
    numbers: list[int] = pairs.tolist()
    width = [len(lanes.get(divmod(pair, network.device_count), ())) or 1 for pair in numbers]
    return turn % np.array(width, np.int64)[row]


def _links_towards(network: Network, length: Int64Array, distance: Int64Array) -> list[int]:
    """By device, the link on a shortest path, to the neighbour with the next number; -1 if there is none."""
    nearer = np.flatnonzero(distance[network.source] == distance[network.target] + length)
    nearer = nearer[distance[network.source[nearer]] < UNREACHABLE]
    ahead_by = (network.target[nearer] - network.source[nearer]) % network.device_count
    nearer = nearer[np.argsort(ahead_by, kind="stable")][::-1]
    ahead = np.full(network.device_count, -1, np.int64)
    ahead[network.source[nearer]] = nearer
    return ahead.tolist()


def _walk(network: Network, ahead: list[int], source: int, target: int) -> tuple[int, ...]:
    path: list[int] = []
    here = source
    while here != target:
        if ahead[here] < 0:
            raise NoRoute(source, target)
        path.append(ahead[here])
        here = int(network.target[ahead[here]])
    return tuple(path)


def send_order(
    rank: Int32Array | Int64Array, receiver: Int32Array | Int64Array, ranks: int, position: Int64Array | None = None
) -> Int64Array:
    """int64[tasks]: `order` of a TaskGraph whose `hop_order` is the number of each task: messages arrive first.

    Threadblocks run side by side. If all began with the same receiver, messages would queue there; so each rank serves
    the next one first. rank: int32[tasks]. receiver: int32[tasks], -1 or the rank itself if nothing is sent.
    position: int64[tasks], in the threadblock; of equals the first step goes first, then the first task.
    """
    count = len(rank)
    ahead = (receiver - rank) % max(1, ranks)
    order = np.empty(count, np.int64)
    place = np.zeros(count, np.int64) if position is None else position
    order[np.lexsort((place, ahead))] = count + np.arange(count)
    return order
