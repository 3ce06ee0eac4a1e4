"""The candidates for a module: each synthesizer that applies, on the network as it is or with direct links in the place
of its switches.

If NPUs have limits, each candidate is planned on the links as they are, and on links that share the rates of their NPUs
in equal parts; its transfers are then started anew as the limits allow (collc/synthesis/endpoints.py). So all times
that are compared, and that the notes show, count the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.auto.kinds import ProblemKind
from collc.synthesis.auto.record import IntOptions, ModulePlanner, PhasePlanner, Synthesizer
from collc.synthesis.bounds import lower_bound, task_bound
from collc.synthesis.endpoints import networks_without_limits, retiming_work, shortest_retimed
from collc.synthesis.fixed.textbook import textbook_algorithms
from collc.synthesis.reductions.compose import join, solve, split
from collc.synthesis.task import AlgorithmLibrary, Effort, Task, WorkMeter
from collc.ten.limited import Ports
from collc.ten.module import Bound, Module
from collc.ten.network import Network
from collc.ten.schedule import Schedule
from collc.ten.transform import unwound

TRANSFER_WORK: Final = 30
"""Work of laying out a transfer for an algorithm of a library."""

Build = Callable[[WorkMeter], Module]
"""A synthesizer, which counts its work."""

GIVEN_UP = Diagnostic("S0201", "it takes more work than the search has left")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A synthesizer of the whole schedule.

    network: the one whose links it uses. build: plans, and counts its work. ahead: how many turns it is ahead of the
    least likely synthesizers: 2 if it is likely the best one on the network as it is. least: work that it takes, if
    that is known. parts: how many problems alike it plans at once, each of which others plan.
    """

    name: str
    network: Network
    build: Build
    ahead: int = 0
    least: int = 0
    parts: int = 1


@dataclass
class KnownBounds:
    """The lower bounds of one module on several networks, each computed once for all that ask."""

    _known: dict[int, tuple[Network, Bound]] = field(default_factory=dict[int, tuple[Network, Bound]])

    def of(self, network: Network, module: Module) -> int:
        """Picoseconds that no schedule of the module takes less than on a network."""
        if id(network) not in self._known:
            self._known[id(network)] = network, lower_bound(network, module.demand, module.model)
        return self._known[id(network)][1].time

    def find(self, network: Network) -> Bound | None:
        """The bound on a network if it is known."""
        return self._known.get(id(network), (network, None))[1]


Search = Callable[[Module, WorkMeter], Module]
"""A search for the best schedule of another module, which counts its work and does no more than the most."""

Planners = Callable[[Module], list[Candidate]]
"""The candidates for a module whose network has no limits of NPUs."""


def candidates(
    module: Module, effort: Effort, bounds: KnownBounds, synthesizers: Sequence[Synthesizer], search: Search
) -> list[Candidate]:
    """All candidates, in the order of their first turns. bounds: of the module, shared with whoever asks too.

    search: for the sums of nodes in switches that reduce.
    """

    def plan(free: Module) -> list[Candidate]:
        known = bounds if free is module else KnownBounds()
        listed = _Builders(free, effort, known, synthesizers, search).candidates("", 1)
        if effort.unwinds and (direct := _unwound(free)) is not None:
            listed += _Builders(direct, effort, known, synthesizers, search).candidates(" on unwound switches", 0)
        if effort.library is not None:
            listed += _textbook_candidates(free, effort.library)
        return listed

    return sorted(_with_limits(module, plan), key=lambda candidate: -candidate.ahead)


def _textbook_candidates(module: Module, library: AlgorithmLibrary) -> list[Candidate]:
    """The algorithms of a library that may serve a module; they are tried last."""
    problem = ProblemKind(module)
    each = TRANSFER_WORK * (problem.mean_distance if problem.has_switches else 1.0)
    return [
        Candidate(name, module.network, _lay_out(build, int(each * messages)), -1, int(each * messages))
        for name, messages, build in textbook_algorithms(module, library)
    ]


def _lay_out(build: Callable[[], Module], work: int) -> Build:
    def lay_out(meter: WorkMeter) -> Module:
        add_whole(meter, work)
        return build()

    return lay_out


def add_whole(meter: WorkMeter, work: int) -> None:
    """Counts work that cannot be interrupted, before it is done. Raises NoSchedule if it is too much."""
    meter.add_setup(work)
    if meter.is_exceeded:
        raise NoSchedule(GIVEN_UP)


def _with_limits(module: Module, plan: Planners) -> list[Candidate]:
    """The candidates of `plan`; if NPUs have limits, each plans on all networks without them that could be best."""
    if not len(Ports.of(module.network)):
        return plan(module)
    first, *others = (plan(replace(module, network=network)) for network in networks_without_limits(module.network))
    build_on_others = [{candidate.name: candidate.build for candidate in candidates} for candidates in others]
    listed: list[Candidate] = []
    direct = module.network
    if not direct.unwound and any(candidate.network.unwound for candidate in first):
        direct = unwound(direct)
    for candidate in first:
        builds = [candidate.build, *(build[candidate.name] for build in build_on_others if candidate.name in build)]
        judged = direct if candidate.network.unwound else module.network
        build = _build_with_limits(builds, judged)
        listed.append(replace(candidate, network=judged, build=build, ahead=min(1, candidate.ahead)))
    return listed


def _build_with_limits(builds: Sequence[Build], network: Network) -> Build:
    """The shortest of the schedules of some candidates, whose transfers start anew on a network with limits."""

    def build(meter: WorkMeter) -> Module:
        parts = _Parts(meter, len(builds))
        plans = (partial(parts.plan, partial(_plan_to_retime, plan)) for plan in builds)
        best = shortest_retimed(plans, lambda _: network)
        parts.end()
        return best

    return build


def _plan_to_retime(build: Build, meter: WorkMeter) -> Module:
    planned = join(build(meter))
    assert planned.schedule is not None
    add_whole(meter, retiming_work(len(planned.schedule)))
    return planned


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


def _unwound(module: Module) -> Module | None:
    """Direct links for the switches; None if something is planned already or a switch has a limited buffer."""
    network = module.network
    if module.schedule is not None or not network.has_switches or network.has_limited_buffers:
        return None
    try:
        return replace(module, network=unwound(network))
    except ValueError:  # not all switches can be unwound
        return None


class _Builders:
    """The candidates on one network: each synthesizer that applies, as a function from a work meter to a schedule."""

    def __init__(
        self, module: Module, effort: Effort, bounds: KnownBounds, synthesizers: Sequence[Synthesizer], search: Search
    ) -> None:
        self._module, self._effort, self._synthesizers, self._search = module, effort, synthesizers, search
        self._problem = ProblemKind(module)
        self._whole = bounds
        self._bounds: dict[bool, int] = {}

    def candidates(self, suffix: str, ahead: int) -> list[Candidate]:
        """The candidates; those that are likely the best come first, and a turn ahead of the others.

        suffix: of their names.
        """
        problem = self._problem
        loaders: dict[str, Callable[[], PhasePlanner | ModulePlanner]] = {}
        if problem.is_reduced_in_switches:
            loaders["in-network"] = lambda: ModulePlanner(self._in_network)
        for one in self._synthesizers:
            if one.load is not None and one.applies is not None and one.applies(problem):
                loaders[one.name] = one.load
        likely = [name for name in problem.likely_best if name in loaders]
        network = self._module.network
        return [
            Candidate(name + suffix, network, self._build(loaders[name]), ahead + (name in likely))
            for name in dict.fromkeys([*likely, *loaders])
        ]

    def _build(self, load: Callable[[], PhasePlanner | ModulePlanner]) -> Build:
        """A synthesizer as a function from a work meter to a schedule; it is loaded when it is called first."""

        def build(meter: WorkMeter) -> Module:
            planner = load()
            effort = self._effort.with_work(meter)
            if isinstance(planner, PhasePlanner):
                return self._plan_phases(planner, meter)
            if planner.takes_bound:
                effort = replace(effort, bound=self._whole.of(self._module.network, self._module))
            return join(planner.plan(self._module, effort, {}))

        return build

    def _in_network(self, module: Module, effort: Effort, _options: IntOptions) -> Module:
        from collc.synthesis.in_network.synthesizer import in_network

        return in_network(module, effort, lambda inner: self._search(inner, effort.work))

    def _plan_phases(self, planner: PhasePlanner, meter: WorkMeter) -> Module:
        """A synthesizer of copies, applied to each phase; all phases get the same part of the work."""
        parts = _Parts(meter, 2 * len(split(self._module)) - 1)

        def plan(task: Task, part: WorkMeter) -> Schedule:
            effort = self._effort.with_work(part)
            if planner.takes_bound:
                effort = replace(effort, bound=self._bound(task))
            return planner.plan(task, effort)

        solved = join(solve(self._module, lambda task: parts.plan(partial(plan, task))))
        parts.end()
        return solved

    def _bound(self, task: Task) -> int:
        """The bound of the copies of a phase, the same for all synthesizers."""
        if task.inverted not in self._bounds:
            self._bounds[task.inverted] = task_bound(task).time
        return self._bounds[task.inverted]
