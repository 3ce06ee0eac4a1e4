"""Bounds by what one NPU must send and how far away another one needs all of it.

The last chunk that leaves an NPU still has to reach the NPU that is farthest away; and the first chunk from the NPU
that is farthest away cannot enter the last link at once. On a line of n NPUs and for an All-Reduce of n chunks the end
sends n chunks over its link, and the last one then takes n - 2 more hops: 2 (n - 1) steps in all, which is the optimum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to
from collc.synthesis.bounds.timing import LinkClass, TransferTimes
from collc.synthesis.bounds.traffic import Traffic
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.module import Bound
from collc.ten.network import Network

MOST_WORK: Final = 1_000_000
"""NPUs x links up to which these bounds are computed."""


def reach_bounds(network: Network, traffic: list[Traffic], times: TransferTimes) -> Iterator[Bound]:
    """For each NPU, what it sends and the farthest NPU that wants all of it; and the same backwards."""
    if network.npu_count * network.link_count > MOST_WORK:
        return
    row = np.zeros(network.device_count, np.int64)
    row[network.npus] = np.arange(len(network.npus))
    known: dict[tuple[object, ...], int] = {}
    for backward, name in ((False, "out-degree of {} and path to {}"), (True, "in-degree of {} and path from {}")):
        graph = Digraph.of(network.reversed() if backward else network)
        distance = distances_to(graph, times.total[:, 0][network.kind], network.npus)
        offsets, numbers = network.in_links if backward else network.out_links
        ends = network.source if backward else network.target
        for part in traffic:
            for holders, wanting, counts in part.shared():
                near, far = (wanting, holders) if backward else (holders, wanting)
                for npu in near.tolist():
                    farthest = _most_distant(distance[row[far], npu], far)
                    if farthest != npu:
                        links = numbers[offsets[npu] : offsets[npu + 1]]
                        lag = distance[row[farthest], ends[links]]
                        time = _delivery(network, times, links, lag, counts, known)
                        yield Bound(time, name.format(network.device_name(npu), network.device_name(farthest)))


def _most_distant(distance: Int64Array, devices: Int32Array) -> int:
    """The device of the largest distance."""
    return int(devices[int(distance.argmax())])


def _delivery(
    network: Network,
    times: TransferTimes,
    links: Int32Array,
    lag: Int64Array,
    counts: Int64Array,
    known: dict[tuple[object, ...], int],
) -> int:
    """See `TransferTimes.delivery`; lag: int64, of each link. known: results until now."""
    kinds: list[int] = network.kind[links].tolist()
    number = Counter(zip(kinds, np.minimum(lag, UNREACHABLE).tolist(), strict=True))
    key = (*sorted(number.items()), *counts.tolist())
    if key not in known:
        classes = [LinkClass(kind, lag, lag, count) for (kind, lag), count in sorted(number.items())]
        known[key] = times.delivery(classes, counts.tolist())
    return known[key]
