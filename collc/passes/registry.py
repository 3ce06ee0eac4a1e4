"""Passes from module to module: what they are, their names and options, and pipelines of them as strings.

A pass is a frozen dataclass; `run` takes a module and returns one. A pipeline reads
`fixed,tacos{seed=7 trials=8},invert,verify`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic, NoSchedule, SourceError, Span, UsageError
from collc.base.options import Option, Options
from collc.base.wording import did_you_mean, phrase
from collc.passes.synthesizers import SEARCH, SYNTHESIZERS, pass_options, searching_synthesizers
from collc.synthesis.auto.record import IntOptions, PhasePlanner
from collc.synthesis.task import Effort, check_transfer_count
from collc.ten.algorithm import AlgorithmSends
from collc.ten.demand import Demand, HolderSets, Run
from collc.ten.limited import Ports
from collc.ten.module import Module
from collc.ten.schedule import RowSchedule, Transfers


@dataclass(frozen=True, eq=False)
class HandwrittenRun:
    """A run whose algorithm is written by hand: its name and its sends, and the place of the run in the program."""

    algorithm: str
    sends: AlgorithmSends
    span: Span


@dataclass(frozen=True, slots=True)
class PassContext:
    """What passes may know beside the module.

    handwritten: the runs whose algorithms are written by hand, by number. effort: seed, trials and threads if a pass
    does not set its own, the time limit, and the receiver of progress. allow_congestion: messages of algorithms may
    meet on links, and queue there.
    """

    handwritten: Mapping[int, HandwrittenRun] = field(default_factory=dict[int, HandwrittenRun])
    effort: Effort = field(default_factory=Effort)
    allow_congestion: bool = False


class Pass(Protocol):
    """One step from module to module."""

    @property
    def name(self) -> str:
        """The name in pipelines."""
        ...

    def run(self, module: Module, context: PassContext) -> Module:
        """The module with the pass applied.

        Raises CollcError if the pass fails.
        """
        ...


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
        return limited_schedule(module, lambda free: self._synthesize(free, context), synthesizer.counts_limits)

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
            if self.name not in ("auto", "symmetric"):  # these may need no list
                check_transfer_count(module.demand.least_transfers)
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

    An All-to-All over all NPUs of a Cayley graph is planned for one NPU, and translated.
    """

    name: str = field(default="shortest paths", init=False)

    def run(self, module: Module, context: PassContext) -> Module:
        """See Pass."""
        from collc.synthesis.reductions.compose import solve
        from collc.synthesis.shortest_paths import along_shortest_paths
        from collc.synthesis.symmetric.translated import bundled_schedule

        schedule = bundled_schedule(module)
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


Value = int | float | str | bool

_PASS: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\{([^{}]*)\})?\s*(,|$)")
_OPTION: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*([^\s,]+)\s*,?")


def make_pass(name: str, options: Mapping[str, Value | None]) -> Pass:
    """A pass by name, with those of the options that are not None.

    Raises UsageError for unknown names and options, and for values of a wrong type or below the least.
    """
    kinds = pass_kinds()
    kind = kinds.get(name)
    if kind is None:
        raise UsageError(_unknown_name("pass", name, tuple(kinds)))
    given: dict[str, int] = {}
    for option, value in options.items():
        if option not in kind.options:
            raise UsageError(_unknown_name(f"option of '{name}'", option, tuple(kind.options)))
        if value is not None:
            given[option] = _number(name, option, kind.options[option], value)
    return kind.make(given)


def _number(name: str, option: str, known: Option, value: Value) -> int:
    """The value of an option of a pass; the options of all passes are numbers."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(Diagnostic("U0103", f"option '{option}' of '{name}' must be {known.type}, not {value!r}"))
    if known.least is not None and value < known.least:
        raise UsageError(
            Diagnostic("U0103", f"option '{option}' of '{name}' must be at least {known.least}, not {value}")
        )
    return value


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """Passes from `tacos{seed=7},invert,verify`.

    Raises UsageError if the text is not a pipeline.
    """
    passes: list[Pass] = []
    position = 0
    while True:
        match = _PASS.match(text, position)
        if match is None:
            message = f"the pipeline cannot be read from here on: {text[position:]!r}"
            raise UsageError(
                Diagnostic("U0101", message, hint='a pipeline reads "tacos{seed=7 trials=8},invert,verify"')
            )
        passes.append(make_pass(match[1], _options(match[1], match[2] or "")))
        position = match.end()
        if not match[3]:
            return tuple(passes)


def _options(name: str, text: str) -> dict[str, Value | None]:
    options: dict[str, Value | None] = {}
    position = 0
    while text[position:].strip():
        match = _OPTION.match(text, position)
        if match is None:
            message = f"options of '{name}' read name=value, not {text[position:].strip()!r}"
            raise UsageError(Diagnostic("U0101", message, hint=f"as in {name}{{seed=7 trials=8}}"))
        options[match[1]] = _value(match[2])
        position = match.end()
    return options


def _value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip('"')


def _unknown_name(what: str, name: str, known: tuple[str, ...]) -> Diagnostic:
    hint = did_you_mean(name, known, f"there are {phrase(known)}" if known else "it takes none")
    return Diagnostic("U0102", f"there is no {what} named '{name}'", hint=hint)
