"""The replay of a schedule on its network, under either link model, by dependencies instead of start times."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.simulation.engine import Deadlock, simulate
from collc.simulation.schedule_tasks import schedule_tasks
from collc.simulation.timing import ExactTiming
from collc.ten.arrays import Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, QueuedMessages, Schedule, Transfers


class Replay(NamedTuple):
    """transfers: with their start times in the replay. busy: by link, picoseconds; sent: bytes. time: picoseconds."""

    transfers: Transfers
    busy: Int64Array
    sent: Int64Array
    time: int


def replay(network: Network, demand: Demand, schedule: Schedule, model: LinkModel) -> Replay:
    """Replay a schedule under a link model, which need not be its own: each transfer starts as soon as it can.

    Each link carries its transfers in the order of the schedule. A copied chunk waits for its first arrival at the
    source, a reduced one for all arrivals that precede it in the schedule; out of a switch, for the last of them.
    Raises CheckFailed (S0401) if a transfer can never start.
    """
    rows = schedule.transfers
    ends = rows.start + Clock.of(network, demand, schedule.model).total_of(rows)
    try:
        found = simulate(network, schedule_tasks(network, demand, rows, ends), ExactTiming(model))
    except Deadlock as error:
        raise CheckFailed(Diagnostic("S0401", "the transfers of the schedule wait for one another")) from error
    start = found.hops.begin if network.has_endpoints else found.start  # a message waits for its NPU, then enters
    messages = None if rows.messages is None else QueuedMessages(rows.messages.number, start, start)
    order = np.lexsort((rows.chunk, rows.link, start))
    transfers = replace(rows, start=start, messages=messages).select(order)
    return Replay(transfers, found.busy, found.sent_bytes, int(found.end.max(initial=0)))
