"""What links carried in a run of the lab, and how that differs from the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from collc.base.tables import Column
from collc.base.units import format_time, percent
from collc.lab.laboratory import Experiment, Measurement
from collc.pictures.link_use import LinkUse, use_of_simulation
from collc.ten.arrays import Int64Array


@dataclass(frozen=True, slots=True)
class LinkDelay:
    """A link in a run. Times in picoseconds.

    planned, measured: for which it is occupied. late: how much later than planned the message arrived that was latest.
    late_at: when that was planned. queued: for which messages waited after the plan let them enter the link, in all.
    """

    name: str
    planned: int
    measured: int
    late: int
    late_at: int
    queued: int


def _short_time(time: int) -> str:
    return format_time(round(time, -8))


LINK_COLUMNS: Final[Sequence[Column[LinkDelay]]] = (
    Column("link", "link", lambda row: row.name),
    Column("latest message", "late_ps", lambda row: row.late, _short_time),
    Column("planned at", "late_at_ps", lambda row: row.late_at, _short_time),
    Column("queued beyond the plan", "queued_ps", lambda row: row.queued, _short_time),
    Column("planned use", "planned_ps", lambda row: row.planned, _short_time),
    Column("measured use", "measured_ps", lambda row: row.measured, _short_time),
    Column("rate", "rate", lambda row: row.planned / row.measured if row.measured else None, percent),
)


def use_of_measurement(experiment: Experiment, run: Measurement) -> LinkUse:
    """The messages of a run: on each link of their path from their first bytes to their last at the receiver."""
    plan = use_of_simulation(experiment.plan)
    begin, arrive = _picoseconds(run.begun)[plan.item], _picoseconds(run.arrived)[plan.item]
    order = np.argsort(begin, kind="stable")
    return replace(
        plan,
        link=plan.link[order],
        begin=begin[order],
        free=arrive[order],
        arrive=arrive[order],
        size=plan.size[order],
        item=plan.item[order],
        owner=plan.owner[order],
        reduce=plan.reduce[order],
        kept=plan.kept[order],
        time=round(run.seconds * 1e12),
    )


def link_delays(experiment: Experiment, run: Measurement) -> tuple[LinkDelay, ...]:
    """The links that were used, the one first whose messages were latest."""
    simulation = experiment.plan
    plan, measured = use_of_simulation(simulation), use_of_measurement(experiment, run)
    first = simulation.hops.offsets[:-1]
    sends = np.flatnonzero(np.diff(simulation.hops.offsets))
    begin = simulation.start.copy()
    begin[sends] = simulation.hops.begin[first[sends]]
    late = _picoseconds(run.arrived) - simulation.end
    waited = np.maximum(0, _picoseconds(run.begun) - np.maximum(_picoseconds(run.queued), begin))
    queued = np.zeros(plan.network.link_count, np.int64)
    np.add.at(queued, simulation.hops.link[first[sends]], waited[sends])
    delays: list[LinkDelay] = []
    for link in np.unique(plan.link).tolist():
        steps = plan.item[plan.link == link]
        worst = int(steps[np.argmax(late[steps])])
        busy = int(plan.busy_per_link[link]), int(measured.busy_per_link[link])
        delays.append(
            LinkDelay(
                plan.network.link_name(link), *busy, int(late[worst]), int(simulation.end[worst]), int(queued[link])
            )
        )
    return tuple(sorted(delays, key=lambda row: -row.late))


def _picoseconds(seconds: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Int64Array:
    """int64; 0 for what did not happen."""
    return np.round(np.where(np.isfinite(seconds), seconds, 0.0) * 1e12).astype(np.int64)
