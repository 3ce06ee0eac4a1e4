"""What transfers that are planned already take of links and of the buffers of switches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from collc.synthesis.conditions import Conditions
from collc.ten.network import Network
from collc.ten.schedule import Transfers

Times = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class _Inside:
    """One chunk, whole or in parts, in one switch: arrivals, and (start, end) of departures, in picoseconds."""

    __slots__ = ("arrivals", "departures")

    def __init__(self) -> None:
        self.arrivals: list[int] = []
        self.departures: list[tuple[int, int]] = []

    def places(self, parts: bool, adds: bool) -> Iterator[tuple[int, int]]:
        """(from, until) of each place; parts: of a reduction, which leave once each or, where `adds`, as their sum."""
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


def reserved(conditions: Conditions) -> tuple[Times, Times]:
    """Of what is planned already: int64[n, 3], link, start and end; and switch (from 0), start and end of places."""
    planned, network = conditions.task.reserved, conditions.task.network
    if planned is None or not len(planned):
        return np.empty((0, 3), np.int64), np.empty((0, 3), np.int64)
    frees = planned.start + conditions.clock.busy_of(planned)
    taken = np.stack([planned.link.astype(np.int64), planned.start, frees], axis=1)
    arrivals = planned.start + conditions.clock.total_of(planned)
    held = [
        (switch - network.npu_count, max(0, since), max(1, end))
        for (_, switch, parts), inside in _inside(planned, network, arrivals, frees).items()
        for since, end in inside.places(parts, bool(network.reduces[switch - network.npu_count]))
        if since < end
    ]
    return taken, np.array(held, np.int64).reshape(-1, 3)


def _inside(
    planned: Transfers, network: Network, arrivals: Times, frees: Times
) -> dict[tuple[int, int, bool], _Inside]:
    """By chunk, switch with a limit, and whether parts of a reduction: what both comes and leaves."""
    limited = np.zeros(network.device_count, np.bool_)
    limited[network.npu_count :] = network.buffers >= 0
    chunks: list[int] = planned.chunk.tolist()
    parts: list[bool] = planned.reduce.tolist()
    found: dict[tuple[int, int, bool], _Inside] = {}
    for chunk, part, target, arrival in zip(
        chunks, parts, network.target[planned.link].tolist(), arrivals.tolist(), strict=True
    ):
        if limited[target]:
            found.setdefault((chunk, target, part), _Inside()).arrivals.append(arrival)
    for chunk, part, source, start, end in zip(
        chunks, parts, network.source[planned.link].tolist(), planned.start.tolist(), frees.tolist(), strict=True
    ):
        if (chunk, source, part) in found:
            found[chunk, source, part].departures.append((start, end))
    return found
