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
from collc.synthesis.bounds import lower_bound, task_bound
from collc.synthesis.endpoints import limited_schedule, networks_without_limits, retiming_work
from collc.synthesis.fixed.textbook import textbook_algorithms
from collc.synthesis.over_switches import over_switches
from collc.synthesis.reductions.compose import join, solve, split
from collc.synthesis.task import Effort, Task, WorkMeter
from collc.ten.limited import Ports, without_limits
from collc.ten.module import Bound, Module
from collc.ten.schedule import Schedule
from collc.ten.transform import unwound

TRANSFER_WORK: Final = 30
"""Work of laying out a transfer for an algorithm of a library."""

Build = Callable[[WorkMeter], Module]
"""A synthesizer, which counts its work."""

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


def bound_of(module: Module) -> Callable[[], Bound]:
    """Gives the lower bound of a module, which is computed when it is first asked for."""
    return cache(lambda: lower_bound(module.network, module.demand, module.model))


def candidates(
    module: Module, effort: Effort, bound: Callable[[], Bound], synthesizers: Sequence[Synthesizer], search: Search
) -> list[Candidate]:
    """All candidates; of those that are equally far ahead, the likelier ones first. bound: of the module.

    search: for the sums of nodes in switches that reduce.
    """
    listed = _OnNetwork(module, module, effort, bound, synthesizers, search).candidates("", 1)
    if (direct := _unwound(module)) is not None:
        on_direct = _OnNetwork(module, direct, effort, bound_of(direct), synthesizers, search)
        listed += on_direct.candidates(" on unwound switches", 0)
    if effort.library is not None:
        for name, messages, lay_out in textbook_algorithms(module, effort.library):
            plan = partial(_lay_out, lay_out, TRANSFER_WORK * messages)
            listed.append(Candidate(name, partial(_with_limits, module, plan), -1))
    return sorted(listed, key=lambda candidate: -candidate.ahead)


def _unwound(module: Module) -> Module | None:
    """Direct links for the switches; None if something is planned already or a switch has a limited buffer."""
    network = module.network
    if module.schedule is not None or not network.has_switches or network.has_limited_buffers:
        return None
    try:
        return replace(module, network=unwound(network))
    except ValueError:  # not all switches can be unwound
        return None


def _lay_out(lay_out: Callable[[Module], Module], work: int, free: Module, meter: WorkMeter) -> Module:
    _add_whole(meter, work)
    return lay_out(free)


def _add_whole(meter: WorkMeter, work: int) -> None:
    """Counts work that cannot be interrupted, before it is done. Raises NoSchedule if it is too much."""
    meter.add_setup(work)
    if meter.is_exceeded:
        raise NoSchedule(GIVEN_UP)


def _with_limits(module: Module, plan: Callable[[Module, WorkMeter], Module], meter: WorkMeter) -> Module:
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


class _OnNetwork:
    """The candidates on one network: each synthesizer that applies, as a function from a work meter to a schedule.

    own: the module that they plan, `module` or with direct links. bound: of it.
    """

    def __init__(
        self,
        module: Module,
        own: Module,
        effort: Effort,
        bound: Callable[[], Bound],
        synthesizers: Sequence[Synthesizer],
        search: Search,
    ) -> None:
        self._module, self._own, self._effort, self._bound_of_own = module, own, effort, bound
        self._synthesizers, self._search = synthesizers, search
        self._task_bounds: dict[bool, int] = {}

    def candidates(self, suffix: str, ahead: int) -> list[Candidate]:
        """The candidates; those that are likely the best come first, and a turn ahead of the others.

        suffix: of their names.
        """
        problem = ProblemKind(replace(self._own, network=without_limits(self._own.network)))
        plan = self._plan if self._own is self._module else self._plan_over_switches
        plans = {
            record.name: partial(plan, record)
            for record in self._synthesizers
            if record.applies is not None and record.applies(problem)
        }
        if problem.is_reduced_in_switches:
            plans = {"in-network": self._in_network, **plans}
        most = 1 if len(Ports.of(self._module.network)) else 2  # each turn with limits plans twice, and retimes
        likely = [name for name in problem.likely_best if name in plans]
        return [
            Candidate(
                name + suffix, partial(_with_limits, self._module, plans[name]), min(most, ahead + (name in likely))
            )
            for name in dict.fromkeys([*likely, *plans])
        ]

    def _in_network(self, free: Module, meter: WorkMeter) -> Module:
        from collc.synthesis.in_network.synthesizer import in_network

        return in_network(free, self._effort.with_work(meter), lambda inner: self._search(inner, meter))

    def _plan_over_switches(self, record: Synthesizer, free: Module, meter: WorkMeter) -> Module:
        """A plan on direct links, put back on the switches."""
        own = self._own if free is self._module else replace(free, network=unwound(free.network))
        planned = join(self._plan(record, own, meter))
        assert planned.schedule is not None
        _add_whole(meter, 2 * TRANSFER_WORK * len(planned.schedule))
        return over_switches(planned, free.network)

    def _plan(self, record: Synthesizer, free: Module, meter: WorkMeter) -> Module:
        """A synthesizer, which is loaded when it is called first; all phases of copies get the same part of the work.

        free: the module, or what it is without limits of NPUs; then its bounds are not known.
        """
        assert record.load is not None
        planner, effort = record.load(), self._effort
        own = free is self._own
        if not isinstance(planner, PhasePlanner):
            bound = (lambda: self._bound_of_own().time) if own else None
            return planner.plan(free, replace(effort.with_work(meter), bound=bound), {})
        parts = _Parts(meter, 2 * len(split(free)) - 1)

        def plan(task: Task, part: WorkMeter) -> Schedule:
            bound = partial(self._bound, task) if own else None
            return planner.plan(task, replace(effort.with_work(part), bound=bound))

        solved = solve(free, lambda task: parts.plan(partial(plan, task)))
        parts.end()
        return solved

    def _bound(self, task: Task) -> int:
        """The bound of the copies of a phase, the same for all synthesizers."""
        if task.inverted not in self._task_bounds:
            self._task_bounds[task.inverted] = task_bound(task).time
        return self._task_bounds[task.inverted]
