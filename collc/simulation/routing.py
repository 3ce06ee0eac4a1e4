"""Routes for messages that name only their two ends."""

from __future__ import annotations

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to
from collc.simulation.tasks import Routes
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network


class NoRoute(Exception):
    """No path of links leads from `source` to `target`, both device numbers."""

    def __init__(self, source: int, target: int) -> None:
        super().__init__(f"no path leads from device {source} to device {target}")
        self.source: int = source
        self.target: int = target


def shortest_routes(network: Network, source: Int32Array, target: Int32Array) -> tuple[Routes, Int32Array]:
    """(routes, int32[messages]): the routes with the fewest hops, and the row of each message.

    source, target: int32[messages], different devices. Of several shortest routes it is the one that at each device
    takes the neighbour with the next number (after the last comes 0), so that on a ring half of the way round goes
    towards higher numbers, as in ASTRA-sim. Raises NoRoute.
    """
    pairs, route_of = np.unique(source.astype(np.int64) * network.device_count + target, return_inverse=True)
    begin, end = np.divmod(pairs, network.device_count)
    paths: list[tuple[int, ...]] = [()] * len(pairs)
    graph = Digraph.of(network)
    direct = _first_links(network)
    indirect: dict[int, list[int]] = {}
    for row, pair in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        if pair in direct:
            paths[row] = (direct[pair],)
        else:
            indirect.setdefault(pair[1], []).append(row)
    hops = np.ones(network.link_count, np.int64)
    for there, rows in indirect.items():
        ahead = _links_towards(network, distances_to(graph, hops, np.array([there], np.int32))[0])
        for row in rows:
            paths[row] = _walk(network, ahead, int(begin[row]), there)
    return Routes.of(paths), route_of.astype(np.int32)


def _first_links(network: Network) -> dict[tuple[int, int], int]:
    """By pair of devices, the first link from one to the other."""
    found: dict[tuple[int, int], int] = {}
    for link, pair in enumerate(zip(network.source.tolist(), network.target.tolist(), strict=True)):
        found.setdefault(pair, link)
    return found


def _links_towards(network: Network, distance: Int64Array) -> list[int]:
    """By device, the link that leads one hop nearer, to the neighbour with the next number; -1 where there is none."""
    nearer = np.flatnonzero(distance[network.source] == distance[network.target] + 1)
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
