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

from collc.graph.flow import minimum_cut
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
        directed = network.reversed() if backward else network
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
    for _ in range(ROUNDS):
        entering = np.flatnonzero(~inside[network.source] & inside[network.target])
        width = sum(capacity[link] for link in entering.tolist())
        volume = sum(bytes_ for holders, bytes_ in volumes.items() if not inside[list(holders)].any())
        found = _better_set(network, capacity, target, volumes, (width, volume))
        if found is None:
            return
        inside = found
        yield inside


def _better_set(
    network: Network, capacity: list[int], target: int, volumes: Volumes, known: tuple[int, int]
) -> BoolArray | None:
    """The set around a target that minimizes its width * known volume - its volume * known width; None if that is
    not negative.

    known: the width (capacity of the entering links) and the volume of the last set.
    """
    width, volume = known
    start = network.device_count
    edges: list[tuple[int, int, int | None]] = [
        (source, end, capacity[link] * volume)
        for link, (source, end) in enumerate(zip(network.source.tolist(), network.target.tolist(), strict=True))
    ]
    for vertex, (holders, bytes_) in enumerate(sorted(volumes.items()), start + 1):
        edges.append((start, vertex, bytes_ * width))
        edges += [(vertex, holder, None) for holder in holders]
    least, side = minimum_cut(edges, start, target)
    if least >= width * sum(volumes.values()):
        return None
    inside = np.zeros(network.device_count, np.bool_)
    inside[sorted(vertex for vertex in side if vertex < network.device_count)] = True
    return inside
