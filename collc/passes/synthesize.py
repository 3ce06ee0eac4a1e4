"""The pass that runs a synthesizer, and the table of all synthesizers.

Synthesizers are imported when they run: some of them load much.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from collc.base.synthesizers import SEARCH
from collc.passes.context import PassContext
from collc.synthesis.task import Effort, Task
from collc.ten.module import Module, ParetoPoint
from collc.ten.schedule import Schedule

IntOptions = Mapping[str, int]
"""Options by name; those that are not given are left out."""


@dataclass(frozen=True, slots=True)
class Synthesize:
    """Runs a synthesizer.

    name: a key of collc.base.synthesizers.SYNTHESIZERS. options: of these the ones that are given; seed, trials and
    threads that are not given are those of the context.
    """

    name: str
    options: IntOptions = field(default_factory=dict[str, int])

    def run(self, module: Module, context: PassContext) -> Module:
        """See Pass. The schedule of each copy-only phase or, of some synthesizers, of the whole module."""
        if not module.network.has_endpoints or self.name == "auto":  # auto counts limits itself
            return self._synthesized(module, context)
        from collc.synthesis.endpoints import limited_schedule

        return limited_schedule(
            self.name, module, lambda name, free: replace(self, name=name)._synthesized(free, context)
        )

    def _synthesized(self, module: Module, context: PassContext) -> Module:
        """The module with a schedule, or with one of each phase."""
        effort = replace(context.effort, **{key: self.options[key] for key in SEARCH if key in self.options})
        if self.name == "auto":  # it names the synthesizer that it chose
            from collc.synthesis.auto.synthesizer import auto

            return auto(module, effort, context.library)
        solved = _SYNTHESIZERS[self.name](module, effort, self.options)
        algorithm = f"{module.algorithm}+{self.name}" if module.algorithm else self.name
        return replace(solved, algorithm=algorithm, seed=effort.seed)


def _by_phase(
    load: Callable[[], Callable[[Task, Effort], Schedule]],
) -> Callable[[Module, Effort, IntOptions], Module]:
    """A synthesizer of copy-only tasks, applied to each phase; the pass `invert` joins the phases."""

    def run(module: Module, effort: Effort, _options: IntOptions) -> Module:
        from collc.synthesis.reductions.compose import solve

        synthesizer = load()
        return solve(module, lambda task: synthesizer(task, effort))

    return run


def _overlapped(module: Module, effort: Effort, _options: IntOptions) -> Module:
    from collc.synthesis.overlapped import overlap

    return overlap(module, effort)


def _exchange(module: Module, effort: Effort, _options: IntOptions) -> Module:
    from collc.synthesis.exchange import exchange
    from collc.synthesis.tacos import tacos

    return exchange(module, effort, tacos)


def _exact(module: Module, effort: Effort, options: IntOptions) -> Module:
    """See docs/language.md for the options. The Pareto points are found first, and are in the notes."""
    from collc.synthesis.exact import exact
    from collc.synthesis.exact.sums import shorten_both_phases
    from collc.synthesis.reductions.compose import solve

    points, notes = _pareto(module, effort, options)
    solved = solve(module, lambda task: exact(task, effort, most=options.get("steps")))
    if len(solved.phases) > 1 and module.schedule is None:
        solved = shorten_both_phases(solved, effort)
    return replace(solved, pareto=points, notes=(*solved.notes, *notes))


def _pareto(module: Module, effort: Effort, options: IntOptions) -> tuple[tuple[ParetoPoint, ...], list[str]]:
    """The Pareto points that the options ask for, and the notes about them."""
    if "pareto" not in options:
        return (), []
    from collc.synthesis.exact.pareto import pareto_points, point_lines
    from collc.synthesis.tacos import tacos

    extra_rounds = options.get("extra_rounds", 0)
    points = pareto_points(module, effort, options["pareto"], extra_rounds, lambda task: tacos(task, effort))
    return points, point_lines(points)


def _tacos() -> Callable[[Task, Effort], Schedule]:
    from collc.synthesis.tacos import tacos

    return tacos


def _pccl() -> Callable[[Task, Effort], Schedule]:
    from collc.synthesis.pccl import pccl

    return pccl


def _symmetric(module: Module, effort: Effort, _options: IntOptions) -> Module:
    from collc.synthesis.symmetric import symmetric_module

    return symmetric_module(module, effort)


def _hierarchical() -> Callable[[Task, Effort], Schedule]:
    from collc.synthesis.by_dimension.hierarchical import hierarchical

    return hierarchical


def _themis() -> Callable[[Task, Effort], Schedule]:
    from collc.synthesis.by_dimension.themis import themis

    return themis


def _swarm() -> Callable[[Task, Effort], Schedule]:
    from collc.synthesis.swarm import swarm

    return swarm


def _forest(module: Module, effort: Effort, _options: IntOptions) -> Module:
    from collc.synthesis.forest import plan_forest

    return plan_forest(module, effort)


_SYNTHESIZERS: Final[dict[str, Callable[[Module, Effort, IntOptions], Module]]] = {
    "tacos": _by_phase(_tacos),
    "pccl": _by_phase(_pccl),
    "symmetric": _symmetric,
    "exact": _exact,
    "hierarchical": _by_phase(_hierarchical),
    "themis": _by_phase(_themis),
    "swarm": _by_phase(_swarm),
    "forest": _forest,
    "overlapped": _overlapped,
    "exchange": _exchange,
}

SYNTHESIZERS: Final = ("auto", *_SYNTHESIZERS)
"""The names of all passes that run a synthesizer."""
