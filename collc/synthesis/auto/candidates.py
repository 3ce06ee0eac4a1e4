"""The candidates for a module: each synthesizer that applies, on the network as it is or, for sums, with direct links
in the place of its switches. Schedules on direct links are put back on the switches.

If NPUs have limits, each turn starts the transfers that it planned anew as the limits allow, as the synthesizer alone
does (collc/synthesis/endpoints.py). So all times that are compared count the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final, TypeVar

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.auto.kinds import ProblemKind
from collc.synthesis.auto.record import PhasePlanner, Synthesizer
from collc.synthesis.bounds import task_bound
from collc.synthesis.endpoints import limited_schedule, networks_to_plan_on, retiming_work
from collc.synthesis.in_network import in_network
from collc.synthesis.over_switches import over_switches, pairs_in_switches
from collc.synthesis.reductions.compose import join, solve, split
from collc.synthesis.shortest_paths import along_shortest_paths, tree_count
from collc.synthesis.task import COMPILED_TIMES, Effort, Task, WorkMeter
from collc.ten.limited import Ports, without_limits
from collc.ten.module import Bound, Module
from collc.ten.network import Network
from collc.ten.schedule import Schedule
from collc.ten.transform import unwound

TRANSFER_WORK: Final = 60
"""Work of putting a transfer on two links and retiming it."""

Search = Callable[[Module, WorkMeter], Module]
"""A synthesizer of modules, or of what they are without limits of NPUs; it counts its work."""

GIVEN_UP = Diagnostic(
    "S0201",
    "it takes more work than the search has left",
    hint="give it more time with 'time_limit', name a synthesizer, or use fewer NPUs or chunks",
)

LAST_RESORT: Final = "shortest paths"
"""The candidate that plans as what serves if a search ends without a schedule, for networks on which all others end
without one.
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A synthesizer of the whole schedule.

    build: plans, and counts its work. ahead: how many turns it is ahead of the least likely ones: 2 if it is likely the
    best one on the network as it is. parts: how many problems alike it plans at once, each of which others plan.
    """

    name: str
    build: Callable[[WorkMeter], Module]
    ahead: int = 0
    parts: int = 1


def candidates(
    module: Module,
    effort: Effort,
    bound: Callable[[], Bound],
    synthesizers: Sequence[Synthesizer],
    search: Search,
    least: int,
) -> list[Candidate]:
    """All candidates; of those that are equally far ahead, the likelier ones first. Only synthesizers that do not plan
    over switches plan on direct links. bound: of the module. search: for the sums of nodes in switches that reduce.
    least: the least number of transfers.
    """
    free = replace(module, network=without_limits(module.network))
    problem = direct = ProblemKind(free)
    direct_links, limited = cache(unwound), free.network.has_limited_buffers
    if problem.reduces and free.network.has_switches and module.schedule is None and not limited:
        with suppress(ValueError):  # not all switches can be unwound
            direct = ProblemKind(replace(free, network=direct_links(free.network)))
    has_limits = len(Ports.of(module.network)) > 0
    plan = _Planner(effort, None if has_limits else lambda: bound().time, least).plan
    most = 1 if has_limits else 2  # each turn with limits plans twice, and retimes
    found: list[Candidate] = []

    def add(name: str, ahead: int, search: Search, counts_limits: bool = False) -> None:
        found.append(Candidate(name, partial(_with_limits, module, search, counts_limits), min(most, ahead)))

    if problem.reduces and module.network.reduces.any() and not module.relays:
        add("in-network", 1, lambda free, on: in_network(free, effort.with_work(on), lambda part: search(part, on)))
    likely = problem.likely_best
    for record in sorted(synthesizers, key=lambda record: [*likely, record.name].index(record.name)):
        if record.applies(problem):
            add(record.name, 1 + (record.name in likely), partial(plan, record), record.counts_limits)
        elif record.applies(direct):
            over = partial(_plan_over_switches, direct_links, partial(plan, record))
            add(f"{record.name} on unwound switches", -1, over)
    add(LAST_RESORT, 1, partial(_along_shortest_paths, least))
    return sorted(found, key=lambda candidate: -candidate.ahead)


def _along_shortest_paths(least: int, free: Module, meter: WorkMeter) -> Module:
    _add_whole(meter, 2 * (free.demand.pair_count + least))
    links = free.network.link_count
    trees = sum(tree_count(phase.module.demand, links) for phase in split(free))  # partials and sums have their own
    _add_whole(meter, trees * links // COMPILED_TIMES)
    return solve(free, along_shortest_paths)


def _add_whole(meter: WorkMeter, work: int) -> None:
    """Counts work that cannot be interrupted, before it is done. Raises NoSchedule if it is too much."""
    meter.add_setup(work)
    if meter.is_exceeded:
        raise NoSchedule(GIVEN_UP)


def _plan_over_switches(unwind: Callable[[Network], Network], plan: Search, free: Module, meter: WorkMeter) -> Module:
    """A plan on direct links, put back on the switches."""
    planned = join(plan(replace(free, network=unwind(free.network)), meter))
    assert planned.schedule is not None
    _add_whole(meter, TRANSFER_WORK * len(planned.schedule))
    _add_whole(meter, pairs_in_switches(planned.schedule.transfers, free.network) // COMPILED_TIMES)
    return over_switches(planned, free.network)


def _with_limits(module: Module, plan: Search, counts_limits: bool, meter: WorkMeter) -> Module:
    """The module with the shortest schedule of `plan` on the networks that it is given if NPUs have limits, each of
    which gets the same part of the work.
    """
    if not len(Ports.of(module.network)):
        return join(plan(module, meter))

    def plan_to_retime(free: Module) -> Module:
        planned = join(plan(free, meter))
        assert planned.schedule is not None
        _add_whole(meter, retiming_work(len(planned.schedule)))
        return planned

    plans = len(networks_to_plan_on(module.network, counts_limits))
    return limited_schedule(module, _in_parts(meter, plans, plan_to_retime), counts_limits)


Given = TypeVar("Given", Module, Task)
Planned = TypeVar("Planned", Module, Schedule)


def _in_parts(meter: WorkMeter, count: int, plan: Callable[[Given], Planned]) -> Callable[[Given], Planned]:
    """Plans that follow one another, at most `count`, each with the same part of the work of a turn.

    The meter then says whether more work could find more: not if each came to its own end.
    """
    assert meter.limit is not None
    each, unfinished = max(1, (meter.limit - meter.spent) // count), False

    def in_part(given: Given) -> Planned:
        nonlocal unfinished
        meter.limit = meter.spent + each
        try:
            return plan(given)
        finally:
            unfinished = unfinished or meter.is_used_up
            meter.limit = meter.spent if unfinished else None

    return in_part


class _Planner:
    """Plans of single synthesizers. bound: of all plans; None: not known, as without limits that NPUs have. least: the
    least number of transfers, but on unwound switches.
    """

    def __init__(self, effort: Effort, bound: Callable[[], int] | None, least: int) -> None:
        self._effort, self._bound, self._least = effort, bound, least
        self._task_bounds: dict[tuple[bool, bool], int] = {}

    def plan(self, record: Synthesizer, free: Module, meter: WorkMeter) -> Module:
        """A synthesizer, loaded when it is called first; all phases of copies get the same part of the work."""
        assert record.load is not None
        planner, effort = record.load(), self._effort.with_work(meter)
        if not isinstance(planner, PhasePlanner):
            return planner.plan(free, replace(effort, bound=self._bound), {})
        least = free.demand.least_transfers if free.network.unwound else self._least
        least //= COMPILED_TIMES  # all are listed, more than that many in a unit by none
        if meter.remainder is not None and least >= meter.remainder:
            _add_whole(meter, least)

        def plan(task: Task) -> Schedule:
            bound = None if self._bound is None else partial(self._bound_of, task)
            return planner.plan(task, replace(effort, bound=bound))

        return solve(free, _in_parts(meter, 2 * len(split(free)) - 1, plan))

    def _bound_of(self, task: Task) -> int:
        """The bound of the copies of a phase, the same for all synthesizers."""
        key = task.inverted, task.network.unwound
        if key not in self._task_bounds:
            self._task_bounds[key] = task_bound(task).time
        return self._task_bounds[key]
