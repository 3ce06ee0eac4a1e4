"""The candidates for a module: each synthesizer that applies, on the network as it is or with direct links in the place
of its switches, with its estimate, the most promising for its work first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.synthesis.auto.estimates import ESTIMATORS, Candidate, Estimate, bound_work
from collc.synthesis.auto.limited import with_limits
from collc.synthesis.auto.shape import ProblemShape
from collc.synthesis.auto.textbook import AlgorithmLibrary, TextbookAlgorithm, textbook_algorithms
from collc.synthesis.auto.tried import KnownBounds
from collc.synthesis.bounds import task_bound
from collc.synthesis.by_dimension.orders import hierarchical, themis
from collc.synthesis.exchange import exchange
from collc.synthesis.forest import plan_forest
from collc.synthesis.in_network.synthesizer import in_network
from collc.synthesis.overlapped import overlap
from collc.synthesis.pccl import pccl
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.swarm import swarm
from collc.synthesis.symmetric import symmetric_module
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort, Task, WorkMeter
from collc.ten.limited import Ports
from collc.ten.module import Module
from collc.ten.schedule import Schedule
from collc.ten.transform import unwound


def candidates(module: Module, effort: Effort, bounds: KnownBounds) -> list[Candidate]:
    """All candidates, in the order in which to try them.

    Those on direct links in the place of switches come after those on the network as it is, but those that are likely
    to come near the best schedule of all come before what takes much work.

    bounds: of the module, shared with whoever asks for them too.
    """
    if len(Ports.of(module.network)):
        return with_limits(module, lambda free: _all_candidates(free, effort, KnownBounds()))
    return _all_candidates(module, effort, bounds)


def _all_candidates(module: Module, effort: Effort, bounds: KnownBounds) -> list[Candidate]:
    own = _candidates_on(module, effort, bounds, "")
    direct = _unwound(module) if effort.unwinds else None
    more = [] if direct is None else _candidates_on(direct, effort, bounds, " on unwound switches")
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


def _candidates_on(module: Module, effort: Effort, bounds: KnownBounds, where: str) -> list[Candidate]:
    shape = ProblemShape(module)
    builders = _Builders(module, effort, bounds, shape.phases)
    found: list[Candidate] = []
    for name, estimator in ESTIMATORS.items():
        estimate = estimator(shape)
        if estimate is not None:
            found.append(Candidate(name + where, module.network, estimate, builders.of(name)))
    return _most_promising_first(found)


EXCHANGES = 4
"""Synthesizers that are tried for the reductions among nodes."""


def _best_first(module: Module, effort: Effort) -> Module:
    """The module with the shortest of the first schedules of some promising synthesizers. Raises what they raise."""
    best: Module | None = None
    failure: CollcError | None = None
    for candidate in _candidates_on(module, effort, KnownBounds(), "")[:EXCHANGES]:
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


def _unwound(module: Module) -> Module | None:
    """Direct links for the switches; None where something is planned already or a switch has a limited buffer."""
    network = module.network
    if module.schedule is not None or not network.has_switches or network.has_limited_buffers:
        return None
    try:
        return replace(module, network=unwound(network))
    except ValueError:  # not all switches can be unwound
        return None


class _Builders:
    """The synthesizers, as functions from a work meter to the module with its schedule."""

    def __init__(self, module: Module, effort: Effort, bounds: KnownBounds, phases: int) -> None:
        self._module, self._effort, self._phases = module, effort, phases
        self._whole = bounds
        self._bounds: dict[bool, int] = {}

    def of(self, name: str) -> Callable[[WorkMeter], Module]:
        """The synthesizer of a name of ESTIMATORS."""
        whole: dict[str, Callable[[Module, Effort], Module]] = {
            "symmetric": lambda module, effort: join(symmetric_module(module, effort)),
            "in-network": lambda module, effort: in_network(module, effort, lambda inner: _best_first(inner, effort)),
            "forest": lambda module, effort: join(plan_forest(module, effort)),
            "overlapped": overlap,
            "exchange": self._exchange,
        }
        if name in whole:
            return lambda meter: whole[name](self._module, replace(self._effort, work=meter))
        return lambda meter: self._by_phase(name, meter)

    def _exchange(self, module: Module, effort: Effort) -> Module:
        effort.work.add_setup(self._whole.work(module.network, module))
        return exchange(module, effort, tacos, self._whole.of(module.network, module))

    def _by_phase(self, name: str, meter: WorkMeter) -> Module:
        """A synthesizer of copies, applied to each phase, which all get the same part of the work."""
        unfinished: list[bool] = []

        def solver(task: Task) -> Schedule:
            limit = None if meter.limit is None else max(1, meter.limit // self._phases)
            part = WorkMeter(limit, most=None if meter.most is None else max(0, meter.most - meter.spent))
            try:
                return self._solved(name, task, replace(self._effort, work=part))
            finally:
                meter.add_setup(part.setup)
                meter.add(part.spent - part.setup)
                unfinished.append(part.is_used_up)

        solved = join(solve(self._module, solver))
        if not any(unfinished):
            meter.finish()
        return solved

    def _solved(self, name: str, task: Task, effort: Effort) -> Schedule:
        plain = {"hierarchical": hierarchical, "themis": themis}
        if name in plain:
            return plain[name](task, effort)
        bounded = {"tacos": tacos, "pccl": pccl, "swarm": swarm}
        return bounded[name](task, effort, self._bound(task, effort.work))

    def _bound(self, task: Task, work: WorkMeter) -> int:
        """The bound of the copies of a phase, the same for all synthesizers."""
        if task.inverted not in self._bounds:
            work.add_setup(bound_work(task.network, task.demand) // 3)
            self._bounds[task.inverted] = task_bound(task).time
        return self._bounds[task.inverted]
