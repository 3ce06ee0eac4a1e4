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
    graph, length = Digraph.of(network), times.total[:, 0][network.kind]
    to = distances_to(graph, length, network.npus)
    since = distances_to(graph.reversed(), length, network.npus)
    row = np.zeros(network.device_count, np.int64)
    row[network.npus] = np.arange(len(network.npus))
    known: dict[tuple[object, ...], int] = {}
    for part in traffic:
        for senders, receivers, counts in part.shared():
            for npu in senders.tolist():
                farthest = _most_distant(to[row[receivers], npu], receivers)
                if farthest == npu:
                    continue
                links = network.out_links[1][network.out_links[0][npu] : network.out_links[0][npu + 1]]
                time = _delivery(network, times, links, to[row[farthest], network.target[links]], counts, known)
                yield Bound(
                    time, f"out-degree of {network.device_name(npu)} and path to {network.device_name(farthest)}"
                )
            for npu in receivers.tolist():
                farthest = _most_distant(since[row[senders], npu], senders)
                if farthest == npu:
                    continue
                links = network.in_links[1][network.in_links[0][npu] : network.in_links[0][npu + 1]]
                time = _delivery(network, times, links, since[row[farthest], network.source[links]], counts, known)
                yield Bound(
                    time, f"in-degree of {network.device_name(npu)} and path from {network.device_name(farthest)}"
                )


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
