"""The candidates for a module: each synthesizer that applies, on the network as it is or with direct links in the place
of its switches, with its estimate, the most promising for its work first.

Candidates for a network whose NPUs have limits: planned without these, and judged with them.

Each candidate is planned on the links as they are, and on links that share the rates of their NPUs in equal parts; its
transfers are then started anew as the limits allow (collc/synthesis/endpoints.py). So all times that are compared, and
that the notes show, count the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.synthesis.auto.estimates import Candidate, Estimate, bound_work, estimate_in_network
from collc.synthesis.auto.record import IntOptions, ModulePlanner, PhasePlanner, Synthesizer
from collc.synthesis.auto.shape import ProblemShape
from collc.synthesis.auto.textbook import TextbookAlgorithm, textbook_algorithms
from collc.synthesis.auto.tried import KnownBounds
from collc.synthesis.bounds import task_bound
from collc.synthesis.endpoints import RULES, networks_without_limits, retimed_for_endpoints
from collc.synthesis.in_network.synthesizer import in_network
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.task import AlgorithmLibrary, Effort, Task, WorkMeter
from collc.ten.limited import Ports
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Schedule
from collc.ten.transform import unwound

RETIMED, RETIMED_ONCE = 90, 35
"""Work of starting a transfer anew, with all rules for that or with one of them."""

FEW: Final = 1_000
"""Transfers up to which all rules are tried on each candidate. Of larger schedules, only the best one is started anew
by all of them, at the end."""

ON_SHARED: Final = " on shared rates"
"""What the name of a candidate ends with that was planned on links that share the rates of their NPUs."""


def with_limits(module: Module, plan: Callable[[Module], list[Candidate]]) -> list[Candidate]:
    """The candidates that `plan` gives for a network without limits, judged on that of the module.

    Those on direct links in the place of switches come last.
    """
    found: list[Candidate] = []
    direct: Network | None = None
    for network, where in zip(networks_without_limits(module.network), ("", ON_SHARED), strict=False):
        free = replace(module, network=network)
        shape = ProblemShape(free)
        more = _retiming(int(shape.pairs * shape.hops))[1]
        for one in plan(free):
            judged = module.network
            if one.network.unwound and not judged.unwound:
                judged = direct = direct or unwound(judged)
            estimate = replace(one.estimate, work=one.estimate.work + more, near_ideal=False, whole=False)
            build = _judged(one, judged)
            name = one.name + where
            found.append(replace(one, name=name, network=judged, estimate=estimate, build=build, least=None))
    return sorted(found, key=lambda one: (one.network is direct, one.estimate.work / max(one.estimate.promise, 1.0)))


def _judged(candidate: Candidate, network: Network) -> Callable[[WorkMeter], Module]:
    """The synthesizer of a candidate, whose schedule is then started anew on a network with limits."""

    def build(meter: WorkMeter) -> Module:
        planned = join(candidate.build(meter))
        assert planned.schedule is not None
        rules, work = _retiming(len(planned.schedule))
        meter.add_setup(work)
        return retimed_for_endpoints(planned, network, rules)

    return build


def _retiming(transfers: int) -> tuple[int, int]:
    """By how many rules the transfers of a candidate are started anew, at most, and the work of that."""
    return (len(RULES), RETIMED * transfers) if transfers <= FEW else (1, RETIMED_ONCE * transfers)


def candidates(
    module: Module, effort: Effort, bounds: KnownBounds, synthesizers: Sequence[Synthesizer]
) -> list[Candidate]:
    """All candidates, in the order in which to try them.

    Those on direct links in the place of switches come after those on the network as it is, but those that are likely
    to come near the best schedule of all come before what takes much work.

    bounds: of the module, shared with whoever asks for them too.
    """
    if len(Ports.of(module.network)):
        return with_limits(module, lambda free: _all_candidates(free, effort, KnownBounds(), synthesizers))
    return _all_candidates(module, effort, bounds, synthesizers)


def _all_candidates(
    module: Module, effort: Effort, bounds: KnownBounds, synthesizers: Sequence[Synthesizer]
) -> list[Candidate]:
    builders = _Builders(module, effort, bounds, synthesizers)
    own = builders.candidates("")
    direct = _unwound(module) if effort.unwinds else None
    more = [] if direct is None else _Builders(direct, effort, bounds, synthesizers).candidates(" on unwound switches")
    quick = [one for one in own if one.estimate.work <= QUICK]
    near = [one for one in own + more if one.estimate.near_ideal and one not in quick]
    rest = [one for one in own + more if not one.estimate.near_ideal and one not in quick]
    return quick + _most_promising_first(near) + rest


def _most_promising_first(found: Iterable[Candidate]) -> list[Candidate]:
    return sorted(found, key=lambda one: one.estimate.work / one.estimate.promise)


def textbook_candidates(module: Module, library: AlgorithmLibrary) -> list[Candidate]:
    """The algorithms of a library that may serve a module; those with the least work first."""
    if len(Ports.of(module.network)):
        found = with_limits(module, lambda free: _textbook(free, library))
    else:
        found = _textbook(module, library)
    return sorted(found, key=lambda one: one.estimate.work)


def _textbook(module: Module, library: AlgorithmLibrary) -> list[Candidate]:
    shape = ProblemShape(module)
    return [
        Candidate(
            algorithm.name,
            module.network,
            Estimate(
                LAYOUT_WORK + _layout_work(algorithm, shape),
                0.0,
                failing=LAYOUT_WORK + FAILING_MESSAGE_WORK * algorithm.messages,
            ),
            lambda _, algorithm=algorithm: algorithm.build(),
            lambda algorithm=algorithm: algorithm.least_time,
        )
        for algorithm in textbook_algorithms(module, library)
    ]


def _layout_work(algorithm: TextbookAlgorithm, shape: ProblemShape) -> int:
    """The work of the messages of an algorithm, over each link of their paths; a ring passes on what is for others."""
    name, standard = algorithm.name, shape.module.demand.runs[0].standard
    to_all = name in TO_ALL_OTHERS
    hops = shape.mean_distance if to_all else 2.0 if shape.has_switches else 1.0
    if standard is not None and standard.kind == "all_to_all" and name in PASSED_ON:
        hops *= max(1.0, shape.npus * PASSED_ON[name])
    each = HOP_WORK_OF_SUMS if shape.reduces and to_all and shape.has_switches else HOP_WORK
    return int(each * hops * algorithm.messages)


QUICK = 100_000
"""Work of first schedules up to which these come before all others, and before the whole search of what is likely to be
near the best.
"""

LAYOUT_WORK, HOP_WORK, HOP_WORK_OF_SUMS, FAILING_MESSAGE_WORK = 15_000, 20, 45, 5
"""The work of reading an algorithm of a library, of each message on each link; where many sums meet in switches; and of
each message where the algorithm does not run.
"""

TO_ALL_OTHERS = frozenset({"direct", "pairwise"})
"""Algorithms that send from each NPU to all others."""

PASSED_ON = {"ring": 0.5, "bidirectional_ring": 0.25}
"""How often a block of an All-to-All is sent, by the number of NPUs."""


EXCHANGES = 4
"""Synthesizers that are tried for the reductions among nodes."""


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

    def candidates(self, where: str) -> list[Candidate]:
        """The candidates, the most promising for their work first. where: what their names end with."""
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
                listed.append(Candidate(name + where, self._module.network, estimate, build))
        return _most_promising_first(listed)

    def _whole_module(self, planner: ModulePlanner) -> Callable[[WorkMeter], Module]:
        def build(meter: WorkMeter) -> Module:
            effort = replace(self._effort, work=meter)
            if planner.takes_bound:
                meter.add_setup(self._whole.work(self._module.network, self._module))
                effort = replace(effort, bound=self._whole.of(self._module.network, self._module))
            return join(planner.plan(self._module, effort, {}))

        return build

    def _in_network(self, module: Module, effort: Effort, _options: IntOptions) -> Module:
        return in_network(module, effort, lambda inner: self._best_first(inner, effort))

    def _best_first(self, module: Module, effort: Effort) -> Module:
        """The module with the shortest first schedule of some promising synthesizers. Raises what they raise."""
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
                part = WorkMeter(limit, most=None if meter.most is None else max(0, meter.most - meter.spent))
                effort = replace(self._effort, work=part)
                if planner.takes_bound:
                    effort = replace(effort, bound=self._bound(task, part))
                try:
                    return planner.plan(task, effort)
                finally:
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
