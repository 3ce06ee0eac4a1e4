"""What the transfers that are planned before occupy of links and of the buffers of switches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from collc.synthesis.conditions import Conditions
from collc.ten.arrays import Int64Array
from collc.ten.network import Network
from collc.ten.schedule import Transfers


class _SwitchVisits:
    """One chunk, whole or in parts, in one switch: arrivals, and (start, end) of departures, in picoseconds."""

    __slots__ = ("arrivals", "departures")

    def __init__(self) -> None:
        self.arrivals: list[int] = []
        self.departures: list[tuple[int, int]] = []

    def slots(self, parts: bool, adds: bool) -> Iterator[tuple[int, int]]:
        """(from, until) of each slot that the chunk occupies.

        parts: of a reduction, which leave once each or, if the switch `adds`, as their sum.
        """
        arrivals, departures = sorted(self.arrivals), sorted(self.departures)
        if not parts:
            until: dict[int, int] = {}
            for start, end in departures:
                since = arrivals[max(0, bisect_right(arrivals, start) - 1)]
                until[since] = max(end, until.get(since, 0))
            yield from until.items()
        elif not adds:
            yield from zip(arrivals, sorted(end for _, end in departures), strict=False)
        else:
            first = 0
            for start, end in departures:
                yield arrivals[min(first, len(arrivals) - 1)], end
                first = bisect_right(arrivals, start)


def reserved_before(conditions: Conditions) -> tuple[Int64Array, Int64Array]:
    """What the reserved transfers of a task occupy, in picoseconds.

    Returns int64[n, 3], link, start and end of each transfer; and int64[m, 3], switch (numbered from 0), start and end
    of each slot of a buffer.
    """
    planned, network = conditions.task.reserved, conditions.task.network
    if planned is None or not len(planned):
        return np.empty((0, 3), np.int64), np.empty((0, 3), np.int64)
    ends = planned.start + conditions.clock.busy_of(planned)
    occupied = np.stack([planned.link.astype(np.int64), planned.start, ends], axis=1)
    arrivals = planned.start + conditions.clock.total_of(planned)
    held = [
        (switch - network.npu_count, max(0, since), max(1, end))
        for (_, switch, parts), visits in _visits(planned, network, arrivals, ends).items()
        for since, end in visits.slots(parts, bool(network.reduces[switch - network.npu_count]))
        if since < end
    ]
    return occupied, np.array(held, np.int64).reshape(-1, 3)


def _visits(
    planned: Transfers, network: Network, arrivals: Int64Array, ends: Int64Array
) -> dict[tuple[int, int, bool], _SwitchVisits]:
    """The visits of what both enters and leaves a switch with a limit, by chunk, switch, and whether it is reduced."""
    limited = np.zeros(network.device_count, np.bool_)
    limited[network.npu_count :] = network.buffers >= 0
    chunks: list[int] = planned.chunk.tolist()
    parts: list[bool] = planned.reduce.tolist()
    visits: dict[tuple[int, int, bool], _SwitchVisits] = {}
    for chunk, part, target, arrival in zip(
        chunks, parts, network.target[planned.link].tolist(), arrivals.tolist(), strict=True
    ):
        if limited[target]:
            visits.setdefault((chunk, target, part), _SwitchVisits()).arrivals.append(arrival)
    for chunk, part, source, start, end in zip(
        chunks, parts, network.source[planned.link].tolist(), planned.start.tolist(), ends.tolist(), strict=True
    ):
        if (chunk, source, part) in visits:
            visits[chunk, source, part].departures.append((start, end))
    return visits
