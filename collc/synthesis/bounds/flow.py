"""The narrowest cuts of small networks, by maximum flow.

For each NPU that wants something, the set of devices around it with the largest ratio of volume to capacity: bytes of
the chunks that no device of the set has at the start, over what the links into the set carry. For All-Gather that is
the bottleneck of ForestColl (Zhao et al., 2024). The ratio is maximized by Dinkelbach's method: each round asks for a
set with a larger ratio than the last one, and a minimum cut between all chunks and the NPU answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from collc.graph.flow import CutSearch
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
