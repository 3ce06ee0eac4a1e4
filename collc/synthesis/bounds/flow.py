"""Narrowest cuts of small networks, by maximum flow.

For each NPU that wants something, the set round it whose links in have the most to bring for their capacity: chunks
that nobody in the set has at the start, over what its links carry (for All-Gather the bottleneck of ForestColl, Zhao et
al., 2024). Each round asks for a set that is worse than the last one (Dinkelbach); the minimum cut of a flow from all
chunks to the NPU answers.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from collc.synthesis.bounds.cuts import Cut
from collc.synthesis.bounds.traffic import Traffic
from collc.ten.arrays import BoolArray, Int64Array
from collc.ten.network import Network

DEVICES: Final = 32
"""Devices up to which flows are computed: they take milliseconds each."""

ROUNDS: Final = 8
"""Rounds for each NPU; few need more than three."""

_SCALE: Final = 1 << 40


def flow_cuts(network: Network, traffic: list[Traffic], busy: Int64Array) -> Iterator[Cut]:
    """The narrowest cuts found, each once. busy: int64[kinds], picoseconds that a chunk takes a link."""
    if int(network.present.sum()) > DEVICES:
        return
    seen: set[bytes] = set()
    capacity: list[int] = [_SCALE // max(1, int(time)) + 1 for time in busy[network.kind].tolist()]
    for backward in (False, True):
        wanted: dict[int, dict[tuple[int, ...], int]] = {}
        for part in traffic:
            for stream in part.streams(backward):
                classes = wanted.setdefault(stream.target, {})
                classes[stream.sources] = classes.get(stream.sources, 0) + stream.volume
        turned = network.reversed() if backward else network
        for target, classes in sorted(wanted.items()):
            for inside in _narrower(turned, capacity, target, classes):
                key = inside.tobytes()
                if key not in seen:
                    seen.add(key)
                    yield Cut(_name(network, inside), inside)


def _name(network: Network, inside: BoolArray) -> str:
    """All devices of the smaller side, by name."""
    few = inside if 2 * int(inside.sum()) <= int(network.present.sum()) else ~inside & network.present
    names = ", ".join(network.device_name(device) for device in np.flatnonzero(few).tolist())
    return "{" + names + "}" if few is inside else "all but {" + names + "}"


def _narrower(
    network: Network, capacity: list[int], target: int, classes: dict[tuple[int, ...], int]
) -> Iterator[BoolArray]:
    """Sets with the target, each with more to bring for its capacity than the one before, which is the target alone."""
    inside = np.zeros(network.device_count, np.bool_)
    inside[target] = True
    for _ in range(ROUNDS):
        entering = np.flatnonzero(~inside[network.source] & inside[network.target])
        width = sum(capacity[link] for link in entering.tolist())
        volume = sum(v for sources, v in classes.items() if not inside[list(sources)].any())
        found = _minimum(network, capacity, target, classes, (width, volume))
        if found is None:
            return
        inside = found
        yield inside


def _minimum(
    network: Network,
    capacity: list[int],
    target: int,
    classes: dict[tuple[int, ...], int],
    known: tuple[int, int],
) -> BoolArray | None:
    """The set with the target for which width x known volume - volume x known width is least; None if not below 0."""
    nx: Any = importlib.import_module("networkx")  # networkx has no types to check
    width, volume = known
    graph: Any = nx.DiGraph()
    graph.add_nodes_from(range(network.device_count))
    for link, (a, b) in enumerate(zip(network.source.tolist(), network.target.tolist(), strict=True)):
        more = capacity[link] * volume
        if graph.has_edge(a, b):
            graph[a][b]["capacity"] += more
        else:
            graph.add_edge(a, b, capacity=more)
    for number, (sources, bytes_) in enumerate(sorted(classes.items())):
        graph.add_edge("all", -1 - number, capacity=bytes_ * width)
        for source in sources:
            graph.add_edge(-1 - number, source)
    least, (_, side) = nx.minimum_cut(graph, "all", target)
    if least >= width * sum(classes.values()):
        return None
    inside = np.zeros(network.device_count, np.bool_)
    inside[sorted(node for node in side if isinstance(node, int) and node >= 0)] = True
    return inside
