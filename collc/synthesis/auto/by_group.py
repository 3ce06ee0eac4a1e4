"""The candidate that plans each run on the links of its own group (collc/synthesis/group_parts.py)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.auto.estimates import Candidate, Estimate
from collc.synthesis.group_parts import GroupPart, group_parts, joined_parts
from collc.synthesis.symmetric import is_symmetric
from collc.synthesis.task import WorkMeter
from collc.ten.module import Module
from collc.ten.schedule import Schedule

JOINED_WORK: Final = 2
"""Work of a transfer when the schedules of groups are joined."""


def by_group(module: Module, plan: Callable[[Module, int], tuple[Module, int]]) -> Candidate | None:
    """The candidate; None where groups share NPUs, or are neither alike nor symmetric on their own links: then others
    are more likely to be better.

    plan: a module with a schedule, and the work of that, given a module and how many there are.
    """
    parts = group_parts(module)
    if parts is None:
        return None
    kinds: dict[Hashable, GroupPart] = {part.alike: part for part in parts}
    alike = len(kinds) == 1 < len(parts)
    if not alike and not all(is_symmetric(part.module) for part in kinds.values()):
        return None

    def build(meter: WorkMeter) -> Module:
        schedules: dict[Hashable, Schedule] = {}
        for kind, part in kinds.items():
            planned, work = plan(part.module, len(kinds))
            assert planned.schedule is not None
            meter.add_setup(work)
            schedules[kind] = planned.schedule
        meter.add_setup(JOINED_WORK * sum(len(schedules[part.alike]) for part in parts))
        joined = joined_parts(module, parts, schedules)
        if joined is None:
            raise NoSchedule(Diagnostic("S0201", "two groups would use a link at the same time"))
        return joined

    return Candidate("group by group", module.network, Estimate(0, 1.0, near_ideal=True), build)
