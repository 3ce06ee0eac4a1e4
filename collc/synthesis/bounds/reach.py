"""Bounds by what one NPU must send, and the distance to another NPU that needs all of it.

The last chunk that leaves an NPU still has to reach the farthest NPU, and the first chunk from the farthest NPU cannot
enter the last link at once. For an All-Reduce of n chunks on a line of n NPUs, the NPU at the end sends n chunks over
its link, and the last chunk then takes n - 2 more hops: 2 (n - 1) steps in all, which is the optimum.
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
from collc.ten.arrays import Int64Array
from collc.ten.module import Bound
from collc.ten.network import Network

MOST_WORK: Final = 1_000_000
"""NPUs x links up to which these bounds are computed."""


def reach_bounds(network: Network, traffic: list[Traffic], times: TransferTimes) -> Iterator[Bound]:
    """For each NPU, what it sends and the farthest NPU that wants all of it; and the same backwards. Each bound is
    larger than those before.
    """
    if network.npu_count * network.link_count > MOST_WORK:
        return
    row = np.zeros(network.device_count, np.int64)
    row[network.npus] = np.arange(len(network.npus))
    largest = -1
    for backward, name in (
        (False, "the links out of {} and the path to {}"),
        (True, "the links into {} and the path from {}"),
    ):
        reach = _Reach(network, times, backward)
        for part in traffic:
            for holders, wanting, counts in part.shared():
                near, others = (wanting, holders) if backward else (holders, wanting)
                farthest = others[reach.distance[np.ix_(row[others], near)].argmax(axis=0)]
                for npu, other in zip(near.tolist(), farthest.tolist(), strict=True):
                    time = reach.time(npu, other, int(row[other]), counts) if npu != other else -1
                    if time > largest:
                        largest = time
                        yield Bound(time, name.format(network.shown_name(npu), network.shown_name(other)))


class _Reach:
    """Bounds of NPUs and the farthest ones. backward: what NPUs receive, from the farthest ones.

    distance: int64[NPUs, devices], picoseconds.
    """

    def __init__(self, network: Network, times: TransferTimes, backward: bool) -> None:
        self._times, self._kind = times, network.kind
        graph = Digraph.of(network.reverse() if backward else network)
        self.distance = distances_to(graph, times.total[:, 0][network.kind], network.npus)
        self._offsets, self._links = network.in_links if backward else network.out_links
        self._ends = network.source if backward else network.target
        self._classes: dict[tuple[int, int], tuple[tuple[tuple[int, int], int], ...]] = {}
        self._known: dict[tuple[object, ...], int] = {}

    def time(self, npu: int, farthest: int, row: int, counts: Int64Array) -> int:
        """See `TransferTimes.delivery`. row: of the farthest one. counts: int64[sizes], chunks."""
        classes = self._classes.get((npu, farthest))
        if classes is None:
            links = self._links[self._offsets[npu] : self._offsets[npu + 1]]
            lag = np.minimum(self.distance[row, self._ends[links]], UNREACHABLE)
            number = Counter(zip(self._kind[links].tolist(), lag.tolist(), strict=True))
            classes = self._classes[npu, farthest] = tuple(sorted(number.items()))
        key = classes, counts.tobytes()
        if key not in self._known:
            found = [LinkClass(kind, lag, lag, count) for (kind, lag), count in classes]
            self._known[key] = self._times.delivery(found, counts.tolist())
        return self._known[key]
