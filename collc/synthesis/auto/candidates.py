"""The candidates for a module: each synthesizer that applies, on the network as it is or with direct links in the place
of its switches, and textbook algorithms.

Schedules on direct links are put back on the switches, and count with the time that they take there.

If NPUs have limits, each turn plans without them and starts the transfers anew as the limits allow, as the synthesizer
alone does (collc/synthesis/endpoints.py). So all times that are compared count the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final, TypeVar

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.auto.kinds import ProblemKind
from collc.synthesis.auto.record import PhasePlanner, Synthesizer
from collc.synthesis.bounds import task_bound
from collc.synthesis.endpoints import limited_schedule, networks_without_limits, retiming_work
from collc.synthesis.fixed.textbook import textbook_algorithms
from collc.synthesis.over_switches import over_switches
from collc.synthesis.reductions.compose import join, solve, split
from collc.synthesis.task import Effort, Task, WorkMeter
from collc.ten.limited import Ports, without_limits
from collc.ten.module import Bound, Module
from collc.ten.network import Network
from collc.ten.schedule import Schedule
from collc.ten.transform import unwound

TRANSFER_WORK: Final = 30
"""Work of laying out a transfer for an algorithm of a library."""

Build = Callable[[WorkMeter], Module]
"""A synthesizer, which counts its work."""

Plan = Callable[[Module, WorkMeter], Module]
"""A synthesizer of a module or of what it is without limits of NPUs."""

Search = Callable[[Module, WorkMeter], Module]
"""A search for the best schedule of another module, which counts its work and does no more than the most."""

GIVEN_UP = Diagnostic("S0201", "it takes more work than the search has left")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A synthesizer of the whole schedule.

    build: plans, and counts its work. ahead: how many turns it is ahead of the least likely synthesizers: 2 if it is
    likely the best one on the network as it is. parts: how many problems alike it plans at once, each of which others
    plan.
    """

    name: str
    build: Build
    ahead: int = 0
    parts: int = 1


def candidates(
    module: Module, effort: Effort, bound: Callable[[], Bound], synthesizers: Sequence[Synthesizer], search: Search
) -> list[Candidate]:
    """All candidates; of those that are equally far ahead, the likelier ones first. bound: of the module.

    Only synthesizers that do not plan over switches plan on direct links in the place of these.
    search: for the sums of nodes in switches that reduce.
    """
    free = replace(module, network=without_limits(module.network))
    problem, planner = ProblemKind(free), _Planner(module, effort, bound)
    records = {record.name: record for record in synthesizers}
    plans: dict[str, Plan] = {
        name: partial(planner.plan, record) for name, record in records.items() if record.is_for(problem)
    }
    likely = problem.likely_best
    ahead = {name: 1 + (name in likely) for name in sorted(plans, key=[*likely, *plans].index)}
    if problem.is_reduced_in_switches:
        plans["in-network"], ahead = partial(_in_network, effort, search), {"in-network": 1, **ahead}
    direct = None if (network := planner.unwound(free)) is None else ProblemKind(replace(free, network=network))
    for name, record in records.items():
        if direct is not None and name not in plans and record.is_for(direct):
            over = f"{name} on unwound switches"
            plans[over], ahead[over] = partial(planner.plan_over_switches, record), int(name in direct.likely_best) - 1
    if effort.library is not None:
        for name, messages, lay_out in textbook_algorithms(module, effort.library):
            plans.setdefault(name, partial(_lay_out, lay_out, TRANSFER_WORK * messages))
            ahead.setdefault(name, -1)
    most = 1 if len(Ports.of(module.network)) else 2  # each turn with limits plans twice, and retimes
    listed = [Candidate(name, partial(_with_limits, module, plans[name]), min(most, ahead[name])) for name in ahead]
    return sorted(listed, key=lambda candidate: -candidate.ahead)


def _in_network(effort: Effort, search: Search, free: Module, meter: WorkMeter) -> Module:
    from collc.synthesis.in_network.synthesizer import in_network

    return in_network(free, effort.with_work(meter), lambda inner: search(inner, meter))


def _lay_out(lay_out: Callable[[Module], Module], work: int, free: Module, meter: WorkMeter) -> Module:
    _add_whole(meter, work)
    return lay_out(free)


def _add_whole(meter: WorkMeter, work: int) -> None:
    """Counts work that cannot be interrupted, before it is done. Raises NoSchedule if it is too much."""
    meter.add_setup(work)
    if meter.is_exceeded:
        raise NoSchedule(GIVEN_UP)


def _with_limits(module: Module, plan: Plan, meter: WorkMeter) -> Module:
    """The module with the schedule of `plan`, which is given it without limits of NPUs; the shortest if there are
    several networks without them, each of which gets the same part of the work.
    """
    if not len(Ports.of(module.network)):
        return join(plan(module, meter))
    parts = _Parts(meter, len(networks_without_limits(module.network)))

    def plan_to_retime(free: Module, part: WorkMeter) -> Module:
        planned = join(plan(free, part))
        assert planned.schedule is not None
        _add_whole(part, retiming_work(len(planned.schedule)))
        return planned

    best = limited_schedule(module, lambda free: parts.plan(partial(plan_to_retime, free)))
    parts.end()
    return best


Planned = TypeVar("Planned", Module, Schedule)


class _Parts:
    """The work of a turn in equal parts, for plans that follow one another."""

    def __init__(self, meter: WorkMeter, count: int) -> None:
        self._meter, self._count, self._unfinished = meter, count, False

    def plan(self, build: Callable[[WorkMeter], Planned]) -> Planned:
        """What one of them gives, with its part of the work."""
        meter = self._meter
        limit = None if meter.limit is None else max(1, meter.limit // self._count)
        part = WorkMeter(limit, most=meter.remainder, compiles=meter.compiles)
        try:
            return build(part)
        finally:
            meter.compiles = part.compiles
            meter.add_setup(part.setup)
            meter.add(part.spent - part.setup)
            self._unfinished = self._unfinished or part.is_used_up

    def end(self) -> None:
        """Notes whether more work could find more: not if each came to its own end."""
        if not self._unfinished:
            self._meter.finish()
        elif self._meter.limit is not None:  # one that ended early leaves its part
            self._meter.limit = min(self._meter.limit, self._meter.spent)


class _Planner:
    """Plans of single synthesizers for a module, or for what it is without limits of NPUs. bound: of the module."""

    def __init__(self, module: Module, effort: Effort, bound: Callable[[], Bound]) -> None:
        self._effort, self._has_limits = effort, len(Ports.of(module.network)) > 0
        self._bound, self._unwound = bound, cache(unwound)
        self._task_bounds: dict[tuple[bool, bool], int] = {}

    def unwound(self, module: Module) -> Network | None:
        """Direct links for the switches; None if something is planned already or a switch has a limited buffer."""
        network = module.network
        if module.schedule is not None or not network.has_switches or network.has_limited_buffers:
            return None
        try:
            return self._unwound(network)
        except ValueError:  # not all switches can be unwound
            return None

    def plan_over_switches(self, record: Synthesizer, free: Module, meter: WorkMeter) -> Module:
        """A plan on direct links, put back on the switches."""
        planned = join(self.plan(record, replace(free, network=self._unwound(free.network)), meter))
        assert planned.schedule is not None
        _add_whole(meter, 2 * TRANSFER_WORK * len(planned.schedule))
        return over_switches(planned, free.network)

    def plan(self, record: Synthesizer, free: Module, meter: WorkMeter) -> Module:
        """A synthesizer, which is loaded when it is called first; all phases of copies get the same part of the work.

        If NPUs have limits, the bounds without these are not known.
        """
        assert record.load is not None
        planner, effort = record.load(), self._effort
        if not isinstance(planner, PhasePlanner):
            bound = None if self._has_limits else lambda: self._bound().time
            return planner.plan(free, replace(effort.with_work(meter), bound=bound), {})
        parts = _Parts(meter, 2 * len(split(free)) - 1)

        def plan(task: Task, part: WorkMeter) -> Schedule:
            bound = None if self._has_limits else partial(self._bound_of, task)
            return planner.plan(task, replace(effort.with_work(part), bound=bound))

        solved = solve(free, lambda task: parts.plan(partial(plan, task)))
        parts.end()
        return solved

    def _bound_of(self, task: Task) -> int:
        """The bound of the copies of a phase, the same for all synthesizers."""
        key = task.inverted, task.network.unwound
        if key not in self._task_bounds:
            self._task_bounds[key] = task_bound(task).time
        return self._task_bounds[key]
