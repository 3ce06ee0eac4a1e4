"""The replay of a schedule on its network, under either link model, by dependencies instead of start times.

Every transfer starts as soon as its chunk is at its source and its link is free. Each link carries its
transfers in the order of the schedule, as in ASTRA-sim's congestion-aware model and in MSCCL's threadblocks.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.ten.arrays import Int64Array
from collc.ten.demand import Demand, Op
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, Transfers


@dataclass(frozen=True, eq=False)
class Replay:
    """The result of a replay.

    transfers: with their start times in the replay. arrival: int64[transfers], picoseconds at which each arrives.
    busy: int64[links], picoseconds for which each link is occupied. sent: int64[links], bytes that it carries.
    """

    model: LinkModel
    transfers: Transfers
    arrival: Int64Array
    busy: Int64Array
    sent: Int64Array

    @cached_property
    def time(self) -> int:
        """Picoseconds until the last chunk has arrived; 0 if there are no transfers."""
        return int(self.arrival.max(initial=0))

    @cached_property
    def load(self) -> NDArray[np.float64]:
        """float64[links]: the share of the total time for which each link is occupied."""
        return self.busy / max(1, self.time)

    @property
    def schedule(self) -> RowSchedule:
        """The replay as a schedule of its link model."""
        return RowSchedule(self.model, self.transfers)


def replay(network: Network, demand: Demand, schedule: Schedule, model: LinkModel) -> Replay:
    """Replay a schedule under a link model.

    A transfer of a copied chunk waits for the first arrival of the chunk at its source; one of a reduced chunk waits
    for all arrivals that precede it in the schedule; one out of a switch waits for the last of them. model: need not be
    the model of the schedule. Raises CheckFailed (S0401) if a transfer can never start.
    """
    rows = schedule.transfers
    planned = Clock.of(network, demand, schedule.model)
    clock = Clock.of(network, demand, model)
    waits = _dependencies(network, demand, rows, rows.start + planned.total_of(rows))
    start = _starts(rows, waits, clock)
    if start is None:
        raise _deadlock(network, demand, rows, waits)
    busy, total = clock.busy_of(rows), clock.total_of(rows)
    occupied = np.zeros(network.link_count, np.int64)
    sent = np.zeros(network.link_count, np.int64)
    np.add.at(occupied, rows.link, busy)
    np.add.at(sent, rows.link, demand.chunks.size[rows.chunk])
    order = np.lexsort((rows.chunk, rows.link, start))
    replayed = Transfers(rows.chunk[order], rows.link[order], start[order], rows.reduce[order])
    return Replay(model, replayed, (start + total)[order], occupied, sent)


def _dependencies(network: Network, demand: Demand, rows: Transfers, ends: Int64Array) -> list[list[int]]:
    """For each transfer the transfers for whose arrival it waits; [-1] if its chunk never arrives at its source.

    ends: int64[transfers], picoseconds at which each arrives in the schedule.
    """
    chunks: list[int] = rows.chunk.tolist()
    sources: list[int] = network.source[rows.link].tolist()
    targets: list[int] = network.target[rows.link].tolist()
    starts: list[int] = rows.start.tolist()
    times: list[int] = ends.tolist()
    reduced: list[bool] = (demand.chunks.op[rows.chunk] != Op.COPY).tolist()
    table = demand.chunks
    arrivals: dict[tuple[int, int], list[int]] = {}
    by_arrival: list[int] = np.argsort(ends, kind="stable").tolist()
    for k in by_arrival:
        arrivals.setdefault((chunks[k], targets[k]), []).append(k)
    waits: list[list[int]] = []
    for k, chunk in enumerate(chunks):
        came = [a for a in arrivals.get((chunk, sources[k]), []) if times[a] <= starts[k]]
        held = bool((table.sets[int(table.pre[chunk])] == sources[k]).any())
        if network.is_switch(sources[k]):
            waits.append(came[-1:] or [-1])
        elif reduced[k]:
            waits.append(came if came or held else [-1])
        else:
            waits.append([] if held else came[:1] or [-1])
    return waits


def _starts(rows: Transfers, waits: list[list[int]], clock: Clock) -> Int64Array | None:
    """int64[transfers]: the start of each transfer in picoseconds; None if some never start."""
    links: list[int] = rows.link.tolist()
    busy: list[int] = clock.busy_of(rows).tolist()
    total: list[int] = clock.total_of(rows).tolist()
    left = [len(w) for w in waits]
    unlocks: list[list[int]] = [[] for _ in waits]
    last: dict[int, int] = {}
    after_link: dict[int, int] = {}
    for k, link in enumerate(links):
        for other in waits[k]:
            if other >= 0:
                unlocks[other].append(k)
        if link in last:
            after_link[last[link]] = k
            left[k] += 1
        last[link] = k
    ready = [0] * len(links)
    queue = [(0, k) for k, count in enumerate(left) if count == 0]
    heapq.heapify(queue)
    started = 0
    while queue:
        time, k = heapq.heappop(queue)
        started += 1
        following = [(other, time + total[k]) for other in unlocks[k]]
        if k in after_link:
            following.append((after_link[k], time + busy[k]))
        for other, at in following:
            ready[other] = max(ready[other], at)
            left[other] -= 1
            if left[other] == 0:
                heapq.heappush(queue, (ready[other], other))
    return np.array(ready, np.int64) if started == len(links) else None


def _deadlock(network: Network, demand: Demand, rows: Transfers, waits: list[list[int]]) -> CheckFailed:
    """The error for transfers that never start: the first whose chunk never arrives, or else a cycle of waits."""
    for k, wait in enumerate(waits):
        if -1 in wait:
            link = int(rows.link[k])
            message = (
                f"chunk {demand.chunk_name(int(rows.chunk[k]))} is never at the source of {network.link_name(link)}"
            )
            return CheckFailed(Diagnostic("S0401", message, hint="verify the schedule first"))
    return CheckFailed(Diagnostic("S0401", "the transfers of the schedule wait for one another"))
