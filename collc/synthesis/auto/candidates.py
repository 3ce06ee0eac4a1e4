"""The candidates for a module: each synthesizer that applies, on the network as it is or with direct links in the place
of its switches, with its estimate, in the order in which to try them.

If NPUs have limits, each candidate is planned on the links as they are, and on links that share the rates of their NPUs
in equal parts; its transfers are then started anew as the limits allow (collc/synthesis/endpoints.py). So all times
that are compared, and that the notes show, count the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.synthesis.auto.estimates import (
    Candidate,
    Estimate,
    KnownBounds,
    ProblemShape,
    bound_work,
    estimate_in_network,
)
from collc.synthesis.auto.record import IntOptions, ModulePlanner, PhasePlanner, Synthesizer
from collc.synthesis.auto.textbook import textbook_algorithms
from collc.synthesis.bounds import task_bound
from collc.synthesis.endpoints import networks_without_limits, retimed_for_endpoints
from collc.synthesis.in_network.synthesizer import in_network
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.task import AlgorithmLibrary, Effort, Task, WorkMeter
from collc.ten.limited import Ports
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Schedule
from collc.ten.transform import unwound

RETIMING_WORK: Final = 35
"""Work of starting a transfer anew as the limits of NPUs allow."""

QUICK: Final = 100_000
"""Work of first schedules up to which these come before all others."""

LAYOUT_WORK, HOP_WORK = 15_000, 25
"""The work of reading an algorithm of a library, and of each of its messages on each link."""

EXCHANGES: Final = 4
"""Synthesizers that are tried for the sums of nodes; with one, four nodes of eight GPUs take 3.6 % longer."""

Planners = Callable[[Module], list[Candidate]]
"""The candidates for a module whose network has no limits of NPUs."""


def candidates(
    module: Module, effort: Effort, bounds: KnownBounds, synthesizers: Sequence[Synthesizer]
) -> list[Candidate]:
    """All candidates, in the order in which to try them: quick ones first, then those likely to be near the best
    schedule, then those on the network as it is; each time the most promising for their work first.

    bounds: of the module, shared with whoever asks for them too.
    """

    def plan(free: Module) -> list[Candidate]:
        known = bounds if free is module else KnownBounds()
        direct = _unwound(free) if effort.unwinds else None
        own = _Builders(free, effort, known, synthesizers).candidates("")
        return [
            *own,
            *(_Builders(direct, effort, known, synthesizers).candidates(" on unwound switches") if direct else ()),
        ]

    def order(candidate: Candidate) -> tuple[bool, bool, bool, float]:
        unwinds = candidate.network.unwound and not module.network.unwound
        is_late = candidate.estimate.work > QUICK or unwinds
        return is_late, is_late and not candidate.estimate.near_ideal, unwinds, _by_promise(candidate)

    return sorted(_with_limits(module, plan), key=order)


def _by_promise(candidate: Candidate) -> float:
    return candidate.estimate.work / candidate.estimate.promise


def textbook_candidates(module: Module, library: AlgorithmLibrary) -> list[Candidate]:
    """The algorithms of a library that may serve a module; those with the least work first."""

    def plan(free: Module) -> list[Candidate]:
        shape = ProblemShape(free)
        each = HOP_WORK * (shape.mean_distance if shape.has_switches else 1.0)
        return [
            Candidate(name, free.network, Estimate(LAYOUT_WORK + int(each * messages)), lambda _, build=build: build())
            for name, messages, build in textbook_algorithms(free, library)
        ]

    return sorted(_with_limits(module, plan), key=lambda candidate: candidate.estimate.work)


def _with_limits(module: Module, plan: Planners) -> list[Candidate]:
    """The candidates of `plan`; if NPUs have limits, those for networks without them, judged on that of the module."""
    if not len(Ports.of(module.network)):
        return plan(module)
    listed: list[Candidate] = []
    direct: Network | None = None
    for network, suffix in zip(networks_without_limits(module.network), ("", " on shared rates"), strict=False):
        free = replace(module, network=network)
        shape = ProblemShape(free)
        more = int(RETIMING_WORK * shape.pairs * shape.hops)
        for candidate in plan(free):
            judged = module.network
            if candidate.network.unwound and not judged.unwound:
                judged = direct = direct or unwound(judged)
            estimate = replace(candidate.estimate, work=candidate.estimate.work + more, near_ideal=False)
            listed.append(Candidate(candidate.name + suffix, judged, estimate, _build_with_limits(candidate, judged)))
    return listed


def _build_with_limits(candidate: Candidate, network: Network) -> Callable[[WorkMeter], Module]:
    """The synthesizer of a candidate, whose schedule is then started anew on a network with limits."""

    def build(meter: WorkMeter) -> Module:
        planned = join(candidate.build(meter))
        assert planned.schedule is not None
        meter.add_setup(RETIMING_WORK * len(planned.schedule))
        return retimed_for_endpoints(planned, network)

    return build


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
        self, module: Module, effort: Effort, bounds: KnownBounds, synthesizers: Sequence[Synthesizer]
    ) -> None:
        self._module, self._effort, self._synthesizers = module, effort, synthesizers
        self._shape = ProblemShape(module)
        self._whole = bounds
        self._bounds: dict[bool, int] = {}

    def candidates(self, suffix: str) -> list[Candidate]:
        """The candidates, the most promising for their work first. suffix: of their names."""
        planners: dict[str, PhasePlanner | ModulePlanner] = {
            "in-network": ModulePlanner(self._in_network, estimate_in_network)
        }
        for synthesizer in self._synthesizers:
            if synthesizer.load is not None:
                planners[synthesizer.name] = synthesizer.load()
        listed: list[Candidate] = []
        for name, planner in planners.items():
            estimate = None if planner.estimate is None else planner.estimate(self._shape)
            if estimate is not None:
                build = self._by_phase(planner) if isinstance(planner, PhasePlanner) else self._whole_module(planner)
                listed.append(Candidate(name + suffix, self._module.network, estimate, build))
        return sorted(listed, key=_by_promise)

    def _whole_module(self, planner: ModulePlanner) -> Callable[[WorkMeter], Module]:
        def build(meter: WorkMeter) -> Module:
            effort = self._effort.with_work(meter)
            if planner.takes_bound:
                meter.add_setup(self._whole.work(self._module.network, self._module))
                effort = replace(effort, bound=self._whole.of(self._module.network, self._module))
            return join(planner.plan(self._module, effort, {}))

        return build

    def _in_network(self, module: Module, effort: Effort, _options: IntOptions) -> Module:
        return in_network(module, effort, lambda inner: self._shortest_first(inner, effort))

    def _shortest_first(self, module: Module, effort: Effort) -> Module:
        """The module with the shortest first schedule of some synthesizers. Raises what the first one raises."""
        best: Module | None = None
        failure: CollcError | None = None
        for candidate in _Builders(module, effort, KnownBounds(), self._synthesizers).candidates("")[:EXCHANGES]:
            try:
                built = candidate.build(WorkMeter(effort.work.limit))
            except CollcError as error:
                failure = failure or error
                continue
            if best is None or built.collective_time() < best.collective_time():
                best = built
        if best is None:
            raise failure or NoSchedule(Diagnostic("S0201", "nothing reduces among nodes"))
        return best

    def _by_phase(self, planner: PhasePlanner) -> Callable[[WorkMeter], Module]:
        """A synthesizer of copies, applied to each phase; all phases get the same part of the work."""

        def build(meter: WorkMeter) -> Module:
            unfinished: list[bool] = []

            def plan(task: Task) -> Schedule:
                limit = None if meter.limit is None else max(1, meter.limit // self._shape.phases)
                part = WorkMeter(limit, most=meter.remainder, compiles=meter.compiles)
                effort = self._effort.with_work(part)
                if planner.takes_bound:
                    effort = replace(effort, bound=self._bound(task, part))
                try:
                    return planner.plan(task, effort)
                finally:
                    meter.compiles = part.compiles
                    meter.add_setup(part.setup)
                    meter.add(part.spent - part.setup)
                    unfinished.append(part.is_used_up)

            solved = join(solve(self._module, plan))
            if not any(unfinished):
                meter.finish()
            return solved

        return build

    def _bound(self, task: Task, work: WorkMeter) -> int:
        """The bound of the copies of a phase, the same for all synthesizers."""
        if task.inverted not in self._bounds:
            work.add_setup(bound_work(task.network, task.demand) // 3)
            self._bounds[task.inverted] = task_bound(task).time
        return self._bounds[task.inverted]
