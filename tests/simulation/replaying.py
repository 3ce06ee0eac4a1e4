"""The replay of a schedule on its network, under either link model, by dependencies instead of start times.

Every transfer starts as soon as its chunk is at its source and its link is free. Each link carries its
transfers in the order of the schedule, as in ASTRA-sim's congestion-aware model and in MSCCL's threadblocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.simulation.engine import Deadlock, simulate
from collc.simulation.schedule_tasks import schedule_tasks
from collc.simulation.timing import ExactTiming
from collc.ten.arrays import Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, QueuedMessages, RowSchedule, Schedule, Transfers


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
    ends = rows.start + Clock.of(network, demand, schedule.model).total_of(rows)
    try:
        found = simulate(network, schedule_tasks(network, demand, rows, ends), ExactTiming(model))
    except Deadlock as error:
        raise CheckFailed(Diagnostic("S0401", "the transfers of the schedule wait for one another")) from error
    start = found.hops.begin if network.has_endpoints else found.start  # a message waits for its NPU, then enters
    order = np.lexsort((rows.chunk, rows.link, start))
    replayed = replace(rows, start=start, messages=_alone(rows, start)).select(order)
    return Replay(model, replayed, found.end[order], found.busy, found.sent_bytes)


def _alone(rows: Transfers, start: Int64Array) -> QueuedMessages | None:
    """The messages of a schedule, whose hops join the queue of a link when it is their turn."""
    return None if rows.messages is None else QueuedMessages(rows.messages.number, start, start)
