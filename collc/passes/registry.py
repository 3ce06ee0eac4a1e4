"""The passes that there are, by name, with their options.

A pass is a frozen dataclass; `run` takes a module and returns one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic, NoSchedule, SourceError
from collc.base.options import Option, Options
from collc.passes.context import Pass, PassContext
from collc.passes.synthesizers import SEARCH, SYNTHESIZERS, pass_options, searching_synthesizers
from collc.synthesis.auto.record import IntOptions, PhasePlanner
from collc.ten.demand import Demand, HolderSets, Run
from collc.ten.limited import Ports
from collc.ten.module import Module
from collc.ten.schedule import RowSchedule, Transfers


@dataclass(frozen=True, slots=True)
class Synthesize:
    """Runs a synthesizer.

    name: a key of SYNTHESIZERS. options: of these the ones that are given; seed, trials and threads that are not given
    are those of the context.
    """

    name: str
    options: IntOptions = field(default_factory=dict[str, int])

    def run(self, module: Module, context: PassContext) -> Module:
        """See Pass. The schedule of each copy-only phase or, of some synthesizers, of the whole module."""
        synthesizer = SYNTHESIZERS[self.name]
        if not module.network.has_endpoints or synthesizer.chooses_others:
            return self._synthesize(module, context)
        from collc.synthesis.endpoints import limited_schedule

        if synthesizer.is_optimal and len(Ports.of(module.network)):
            message = f"{self.name} ignores the limits of NPUs, so that its schedules would not be optimal"
            raise NoSchedule(Diagnostic("S0205", message, hint="use 'synthesize auto'; the bound counts the limits"))
        return limited_schedule(module, lambda free: self._synthesize(free, context))

    def _synthesize(self, module: Module, context: PassContext) -> Module:
        """The module with a schedule, or with one of each phase."""
        synthesizer = SYNTHESIZERS[self.name]
        assert synthesizer.load is not None
        planner = synthesizer.load()
        effort = replace(context.effort, **{key: self.options[key] for key in SEARCH if key in self.options})
        if isinstance(planner, PhasePlanner):
            from collc.synthesis.reductions.compose import solve

            solved = solve(module, lambda task: planner.plan(task, effort))
        else:
            solved = planner.plan(module, effort, self.options)
        if synthesizer.chooses_others:
            return solved
        algorithm = f"{module.algorithm}+{self.name}" if module.algorithm else self.name
        return replace(solved, algorithm=algorithm, seed=effort.seed)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Lays out the runs whose algorithms are written by hand."""

    name: str = field(default="fixed", init=False)

    def run(self, module: Module, context: PassContext) -> Module:
        """See Pass."""
        from collc.synthesis.fixed.layout import lay_out

        network, demand, runs = module.network, module.demand, context.handwritten
        if context.allow_congestion:
            from collc.synthesis.fixed.queued import lay_out_queued

            statements = {number: (run.sends, run.span) for number, run in runs.items()}
            rows = lay_out_queued(network, demand, statements, module.model)
        else:
            parts = [lay_out(network, demand, n, run.sends, module.model, run.span) for n, run in runs.items()]
            rows = Transfers.concatenate(parts)
        names = dict.fromkeys(run.algorithm for run in context.handwritten.values())
        schedule = RowSchedule(module.model, rows)
        laid_out = replace(module, schedule=schedule, algorithm="+".join(names))
        if len(context.handwritten) < len(module.demand.runs):
            return replace(laid_out, planned=frozenset(context.handwritten))
        if context.allow_congestion or not module.network.has_endpoints:
            return laid_out
        from collc.synthesis.endpoints import retimed_for_endpoints

        return retimed_for_endpoints(laid_out, module.network)


@dataclass(frozen=True, slots=True)
class ShortestPaths:
    """Plans all chunks along shortest paths, in little time, if a search ends without a schedule.

    If all NPUs are alike in an All-to-All without switches, the schedule is the paths of one NPU and their
    translations.
    """

    name: str = field(default="shortest paths", init=False)

    def run(self, module: Module, context: PassContext) -> Module:
        """See Pass."""
        from collc.synthesis.reductions.compose import solve
        from collc.synthesis.shortest_paths import along_shortest_paths
        from collc.synthesis.symmetric.cluster import translated_paths

        schedule = translated_paths(module)
        if schedule is None:
            solved = solve(module, along_shortest_paths)
        else:
            solved = replace(module, schedule=schedule, notes=(*module.notes, "planned for one NPU, and translated"))
        algorithm = f"{module.algorithm}+{self.name}" if module.algorithm else self.name
        return replace(solved, algorithm=algorithm)


@dataclass(frozen=True, slots=True)
class Invert:
    """Reverses the schedules of inverse problems, and joins the phases of reductions."""

    name: str = field(default="invert", init=False)

    def run(self, module: Module, context: PassContext) -> Module:
        """See Pass."""
        from collc.synthesis.reductions.compose import join

        return join(module) if module.phases else module


@dataclass(frozen=True, slots=True)
class Unwind:
    """Replaces every switch by direct links, from each of its NPUs to the next `degree` ones.

    Each pair of NPUs that several switches join gets a link.
    """

    degree: int = 1
    name: str = field(default="unwind", init=False)

    def run(self, module: Module, context: PassContext) -> Module:
        """See Pass."""
        from collc.ten.transform import unwound

        try:
            return replace(module, network=unwound(module.network, self.degree, joined=True))
        except ValueError as error:
            message = f"the switches of {module.network.name} cannot be unwound: {error}"
            raise SourceError(Diagnostic("C0202", message, hint="synthesize over the switches as they are")) from error


@dataclass(frozen=True, slots=True)
class Verify:
    """Checks the schedule; a module that fails goes no further."""

    name: str = field(default="verify", init=False)

    def run(self, module: Module, context: PassContext) -> Module:
        """See Pass."""
        from collc.verification import verify_schedule

        verdict = verify_schedule(_planned_part(module))
        if not verdict.ok:
            raise CheckFailed(*verdict.diagnostics)
        return module


def _planned_part(module: Module) -> Module:
    """The module in which no NPU wants anything of the runs that the passes so far have not planned."""
    if module.planned is None:
        return module
    runs = list(module.demand.runs)
    for number in set(range(len(runs))) - module.planned:
        run, table = runs[number], runs[number].pattern.expand()
        sets = HolderSets(np.append(table.sets.offsets, table.sets.offsets[-1]), table.sets.members)
        nobody = np.full_like(table.post, len(table.sets))
        runs[number] = Run(run.collective, run.group, replace(table, sets=sets, post=nobody))
    return replace(module, demand=Demand(tuple(runs)))


@dataclass(frozen=True, slots=True)
class PassKind:
    """A pass that can be named: its options, and what makes it of those that are given."""

    make: Callable[[Mapping[str, int]], Pass]
    options: Options = field(default_factory=dict[str, Option])


_PASSES: Final[dict[str, PassKind]] = {
    "fixed": PassKind(lambda _: Fixed()),
    "unwind": PassKind(
        lambda given: Unwind(**given), {"degree": Option("int", "links from each NPU of a switch", 1, least=1)}
    ),
    "invert": PassKind(lambda _: Invert()),
    "verify": PassKind(lambda _: Verify()),
}


def pass_kinds() -> dict[str, PassKind]:
    """All passes by name: the passes of this file, and one for each synthesizer that plans."""
    return _PASSES | {
        name: PassKind(partial(Synthesize, name), pass_options(SYNTHESIZERS[name])) for name in searching_synthesizers()
    }
