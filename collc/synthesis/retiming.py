"""A schedule made for links that are busy until arrival, run where a chunk arrives after its link is free again.

It is valid there as it stands, since links and switches are busy for less. Made earlier it keeps the order of
transfers on each link and of what comes to and leaves each device, so that it stays valid.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

import numpy as np

from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, StepSchedule, Transfers

MOST = 200_000
"""Transfers up to which a schedule is made earlier; larger ones are taken as they are."""

PASSES = 20
"""Rounds of moving transfers back behind those they wait for, after which a schedule is taken as it is."""

Waits = list[list[tuple[int, int]]]
"""For each transfer: (another, w): it starts at least w picoseconds after the other."""


def retimed(module: Module) -> Module:
    """A module whose schedule stores, for the model that pipelines: never longer, shorter where links allow.

    Places in switches are freed and taken in the order of the schedule; where a switch has few, times stay.
    """
    assert module.schedule is not None
    plain = _as_it_is(module.schedule)
    limited = bool((module.network.buffers >= 0).any())
    if limited or len(plain) > MOST:
        return replace(module, model=LinkModel.PIPELINED, schedule=plain)
    clock = Clock.of(module.network, module.demand, LinkModel.PIPELINED)
    rows = plain.transfers
    start = _earliest(_waits(module.network, module.demand, rows, clock))
    if start is not None:
        plain = RowSchedule(LinkModel.PIPELINED, Transfers.of(rows.chunk, rows.link, np.array(start), rows.reduce))
    return replace(module, model=LinkModel.PIPELINED, schedule=plain)


def _as_it_is(schedule: Schedule) -> Schedule:
    if isinstance(schedule, StepSchedule):
        return replace(schedule, model=LinkModel.PIPELINED)
    return RowSchedule(LinkModel.PIPELINED, schedule.transfers)


def _earliest(waits: Waits) -> list[int] | None:
    """The least starts that keep all waits; None where they are not found in a few rounds."""
    start = [0] * len(waits)
    for _ in range(PASSES):
        moved = False
        for k, wait in enumerate(waits):
            least = max((start[other] + after for other, after in wait), default=0)
            if least > start[k]:
                start[k], moved = least, True
        if not moved:
            return start
    return None


@dataclass(frozen=True, slots=True)
class _Visits:
    """Transfers of one chunk that come to, or leave, one device: their ends in ascending order, and their rows.

    Of equals, the one over the lower link is first, as where two partials reach a switch at once.
    """

    ends: list[int]
    rows: list[int]

    def before(self, row: int) -> list[int]:
        """The one before a transfer."""
        place = self.rows.index(row)
        return self.rows[max(0, place - 1) : place]

    def until(self, time: int) -> list[int]:
        """Those that have ended by a time, the last one last."""
        return self.rows[: bisect_right(self.ends, time)]


def _waits(network: Network, demand: Demand, rows: Transfers, clock: Clock) -> Waits:
    """What each transfer waits for; rows as they are where links are busy until arrival."""
    busy: list[int] = clock.busy_of(rows).tolist()
    total: list[int] = clock.total_of(rows).tolist()
    start: list[int] = rows.start.tolist()
    ends = [begin + time for begin, time in zip(start, total, strict=True)]
    chunks: list[int] = rows.chunk.tolist()
    links: list[int] = rows.link.tolist()
    sources: list[int] = network.source[rows.link].tolist()
    targets: list[int] = network.target[rows.link].tolist()
    came, left = _visits(chunks, targets, ends, links), _visits(chunks, sources, ends, links)
    nothing = _Visits([], [])
    waits = _in_order(links, busy)
    multicast: list[bool] = network.multicast.tolist()
    sums: list[bool] = (demand.chunks.op[rows.chunk] != Op.COPY).tolist()
    for k, (chunk, source, target) in enumerate(zip(chunks, sources, targets, strict=True)):
        waits[k] += [(a, total[a]) for a in _needed(network, demand, chunk, source, came, start[k])]
        if source >= network.npu_count and not multicast[source - network.npu_count]:
            # Each departure is from a place of its own, so those that were apart stay apart.
            waits[k] += [(d, busy[d]) for d in left[chunk, source].until(start[k])]
        if target >= network.npu_count:
            here, gone = came[chunk, target], left.get((chunk, target), nothing)
            waits[k] += [(d, busy[d] - total[k]) for d in gone.until(ends[k])[-1:]]
            waits[k] += [(a, total[a]) for a in here.until(start[k])[-1:]]
            if sums[k]:  # a switch passes partials on in the order in which they came
                waits[k] += [(d, 1 - total[k]) for d in gone.rows if start[d] < ends[k]]
                waits[k] += [(a, total[a] - total[k] + (ends[a] < ends[k])) for a in here.before(k)]
    return waits


def _needed(
    network: Network, demand: Demand, chunk: int, source: int, came: dict[tuple[int, int], _Visits], start: int
) -> list[int]:
    """The arrivals that a transfer waits for: all where they add up or take places in a switch, else the first."""
    table = demand.chunks
    if (chunk, source) not in came:
        return []
    before = came[chunk, source].until(start)
    if table.op[chunk] != Op.COPY or source >= network.npu_count:
        return before
    return [] if bool((table.sets[int(table.pre[chunk])] == source).any()) else before[:1]


def _in_order(links: list[int], busy: list[int]) -> Waits:
    """Each transfer after the one before on its link."""
    waits: Waits = [[] for _ in links]
    last: dict[int, int] = {}
    for k, link in enumerate(links):
        if link in last:
            waits[k].append((last[link], busy[last[link]]))
        last[link] = k
    return waits


def _visits(chunks: list[int], devices: list[int], ends: list[int], links: list[int]) -> dict[tuple[int, int], _Visits]:
    found: dict[tuple[int, int], _Visits] = {}
    for k in sorted(range(len(ends)), key=lambda k: (ends[k], links[k])):
        visits = found.setdefault((chunks[k], devices[k]), _Visits([], []))
        visits.ends.append(ends[k])
        visits.rows.append(k)
    return found
