"""Cuts of a network that are likely to be narrow.

The narrowest cuts of small networks, by maximum flow.

For each NPU that wants something, the set of devices around it with the largest ratio of volume to capacity: bytes of
the chunks that no device of the set has at the start, over what the links into the set carry. For All-Gather that is
the bottleneck of ForestColl (Zhao et al., 2024). The ratio is maximized by Dinkelbach's method: each round asks for a
set with a larger ratio than the last one, and a minimum cut between all chunks and the NPU answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.flow import CutSearch
from collc.graph.reachability import weakly_connected
from collc.synthesis.bounds.traffic import Traffic
from collc.ten.arrays import BoolArray, Int64Array
from collc.ten.network import Network

MOST_DEVICES: Final = 32
"""Devices up to which flows are computed: they take milliseconds each."""

ROUNDS: Final = 8
"""Rounds for each NPU; few need more than three."""

_SCALE: Final = 1 << 40
"""Capacities are _SCALE / picoseconds, as integers, so that flows are exact."""

Volumes = dict[tuple[int, ...], int]
"""Bytes that one NPU wants, by the NPUs that hold them at the start."""


def flow_cuts(network: Network, traffic: list[Traffic], busy: Int64Array) -> Iterator[BoolArray]:
    """The narrowest cuts found, bool[devices], each once.

    busy: int64[kinds], picoseconds that a chunk occupies a link.
    """
    if int(network.present.sum()) > MOST_DEVICES:
        return
    seen: set[bytes] = set()
    capacity: list[int] = [_SCALE // max(1, int(time)) + 1 for time in busy[network.kind].tolist()]
    for backward in (False, True):
        wanted: dict[int, Volumes] = {}
        for part in traffic:
            for stream in part.streams(backward):
                volumes = wanted.setdefault(stream.target, {})
                volumes[stream.sources] = volumes.get(stream.sources, 0) + stream.volume
        directed = network.reverse() if backward else network
        for target, volumes in sorted(wanted.items()):
            for inside in _narrower_sets(directed, capacity, target, volumes):
                key = inside.tobytes()
                if key not in seen:
                    seen.add(key)
                    yield inside


def _narrower_sets(network: Network, capacity: list[int], target: int, volumes: Volumes) -> Iterator[BoolArray]:
    """Sets around a target, each with a larger ratio of volume to capacity than the last; the first beats the target
    alone.
    """
    inside = np.zeros(network.device_count, np.bool_)
    inside[target] = True
    search: _SetSearch | None = None
    for _ in range(ROUNDS):
        entering = np.flatnonzero(~inside[network.source] & inside[network.target])
        width = sum(capacity[link] for link in entering.tolist())
        volume = sum(bytes_ for holders, bytes_ in volumes.items() if not inside[list(holders)].any())
        search = search or _SetSearch(network, capacity, target, volumes)
        found = search.better(width, volume)
        if found is None:
            return
        inside = found
        yield inside


class _SetSearch:
    """The sets around a target with a large ratio of volume to capacity, as minimum cuts of one graph.

    Its vertices are the devices, a source of all chunks, and one for the chunks of each set of several holders.
    """

    def __init__(self, network: Network, capacity: list[int], target: int, volumes: Volumes) -> None:
        self._devices, self._capacity, self._volumes = network.device_count, capacity, sorted(volumes.items())
        start = network.device_count
        vertices = start + 1
        ends: list[tuple[int, int]] = list(zip(network.source.tolist(), network.target.tolist(), strict=True))
        joins: list[tuple[int, int]] = []
        for holders, _ in self._volumes:
            if len(holders) == 1:
                ends.append((start, holders[0]))
                continue
            ends.append((start, vertices))
            joins += [(vertices, holder) for holder in holders]
            vertices += 1
        self._joins = len(joins)
        self._search = CutSearch(vertices, ends + joins, start, target)

    def better(self, width: int, volume: int) -> BoolArray | None:
        """The set that minimizes its width * known volume - its volume * known width; None if that is not negative.

        width, volume: the capacity of the links into the last set, and its volume.
        """
        wanted = [bytes_ * width for _, bytes_ in self._volumes]
        given = [*(each * volume for each in self._capacity), *wanted, *([None] * self._joins)]
        least, side = self._search.cut(given)
        if least >= sum(wanted):
            return None
        inside = np.zeros(self._devices, np.bool_)
        inside[[vertex for vertex in side if vertex < self._devices]] = True
        return inside


EXHAUSTIVE_DEVICES: Final = 8
"""Devices up to which every cut is tried."""

MOST_CUTS: Final = 1024
"""The most components for one link cost, and the most switches, that are tried as cuts."""

AXIS_CUTS: Final = 16
"""The parts into which a longer axis is divided, with cuts only between them."""


def cuts_of(network: Network, cost: Int64Array) -> Iterator[BoolArray]:
    """The cuts to try, bool[devices]. cost: int64[kinds], picoseconds of a chunk on links of a kind.

    Every set of devices gives a valid bound; these tend to give tight ones: components of the graph of the cheaper
    links, halves along the axes of arrays, the NPUs on a switch, and all sets of a small network.
    """
    used = np.flatnonzero(network.present)
    if tries_all_cuts(network):
        for bits in range(1, 1 << (len(used) - 1)):
            inside = np.zeros(network.device_count, np.bool_)
            inside[used[[k for k in range(len(used)) if bits >> k & 1]]] = True
            yield inside
        return
    yield from _component_cuts(network, cost)
    yield from _axis_cuts(network)
    yield from _switch_cuts(network)


def tries_all_cuts(network: Network) -> bool:
    """Whether a network is so small that every cut is tried."""
    return 1 < int(network.present.sum()) <= EXHAUSTIVE_DEVICES


def _component_cuts(network: Network, cost: Int64Array) -> Iterator[BoolArray]:
    """For each link cost but the least, the components of the graph of all cheaper links."""
    for price in np.unique(cost[network.kind])[1:].tolist():
        component = weakly_connected(Digraph.of(network).with_edges(cost[network.kind] < price))
        labels, sizes = np.unique(component[network.present], return_counts=True)
        for label in labels[sizes > 1][:MOST_CUTS].tolist():
            inside = component == label
            if not inside[network.present].all():
                yield inside


def _axis_cuts(network: Network) -> Iterator[BoolArray]:
    """For each index of each array of NPUs, those below some value of it."""
    for family in network.families:
        if family.first >= network.npu_count or not family.shape:
            continue
        rest = np.arange(family.count)
        index = np.empty((len(family.shape), family.count), np.int64)
        for axis in sorted(range(len(family.shape)), key=lambda a: -family.strides[a]):
            index[axis], rest = np.divmod(rest, family.strides[axis])
        for axis, size in enumerate(family.shape):
            limits = range(1, size)
            if size > AXIS_CUTS:
                limits = sorted({1, size - 1, *(size * part // AXIS_CUTS for part in range(1, AXIS_CUTS))})
            for limit in limits:
                inside = np.zeros(network.device_count, np.bool_)
                inside[family.first : family.first + family.count] = index[axis] < limit
                yield _with_switches(network, inside)


def _with_switches(network: Network, inside: BoolArray) -> BoolArray:
    """The set of NPUs, with those switches that have more than half of their links to it."""
    if not network.switch_count:
        return inside
    surplus = np.zeros(network.device_count, np.int64)
    np.add.at(surplus, network.source, np.where(inside[network.target], 1, -1))
    np.add.at(surplus, network.target, np.where(inside[network.source], 1, -1))
    found = inside.copy()
    found[network.npu_count :] = surplus[network.npu_count :] > 0
    return found


def _switch_cuts(network: Network) -> Iterator[BoolArray]:
    """Each switch with the NPUs on it."""
    for switch in range(network.npu_count, min(network.device_count, network.npu_count + MOST_CUTS)):
        inside = np.zeros(network.device_count, np.bool_)
        inside[network.target[network.source == switch]] = True
        inside[network.npu_count :] = False
        inside[switch] = True
        if int(inside.sum()) > 2 and not inside[: network.npu_count][network.present[: network.npu_count]].all():
            yield inside
