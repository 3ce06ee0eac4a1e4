"""Whether a schedule is right, by the interpreter of the tests, which is written apart from collc.verification."""

from __future__ import annotations

from dataclasses import replace

from collc.synthesis.retiming import shifted_left
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, RowSchedule, Schedule
from tests.verification.interpreter import interpret


def check(network: Network, demand: Demand, schedule: Schedule) -> int:
    """Asserts that the schedule is right; its time. Switches may send a chunk on several links at once."""
    found = interpret(Module("m", network, demand, schedule.model, schedule))
    assert [name for name, holds in found.items() if not holds and name != "switches"] == []
    return schedule.collective_time(network, demand)


def retimed(stored: Module) -> Module:
    """A module with a schedule for link model `store`, whose transfers start as early as pipelined links allow."""
    assert stored.schedule is not None
    rows = stored.schedule.transfers
    earlier = shifted_left(stored.network, stored.demand, LinkModel.PIPELINED, rows)
    schedule = RowSchedule(LinkModel.PIPELINED, rows if earlier is None else earlier)
    return replace(stored, model=LinkModel.PIPELINED, schedule=schedule)
