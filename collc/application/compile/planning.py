"""The schedule of a request: what it is built from, and how it is found.

The synthesizer finds it, or, if its search ends without any, all chunks take shortest paths.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, cast

from collc.application.compile.chunk_search import SHORT_PART, Attempt, ChunkSearch
from collc.application.compile.output_files import check_feasible, emits_of, stays_in_groups, switch_options
from collc.application.compile.ring_order import RINGS, along_links
from collc.application.settings import Progress, Settings
from collc.base.diagnostics import CheckFailed, Diagnostic, NoSchedule, SourceError, UsageError
from collc.base.interrupts import OutOfTime, ended_after
from collc.base.wording import plural
from collc.emit.kinds import EMIT_KINDS
from collc.msccl.communicators import for_one_run, network_of_groups, relays_outside
from collc.passes.registry import (
    Fixed,
    HandwrittenRun,
    Invert,
    Pass,
    PassContext,
    ShortestPaths,
    Synthesize,
    Value,
    make_pass,
    parse_pipeline,
)
from collc.passes.synthesizers import COMMON
from collc.source.program import EmitRequest, ScheduleRequest
from collc.synthesis.task import Effort, Experience
from collc.ten.algorithm import AlgorithmSends
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, RowSchedule, Transfers


@dataclass(slots=True)
class SearchLimit:
    """Ends a search at a signal or at its time limit, and remembers why.

    interrupted: whether a signal came. seconds: the time limit, counted from the creation of this object.
    note: the remark for the report; "" while the search goes on.
    """

    interrupted: Callable[[], bool]
    seconds: float | None
    note: str = ""
    _deadline: float = math.inf

    def __post_init__(self) -> None:
        if self.seconds is not None:
            self._deadline = time.monotonic() + self.seconds

    def is_reached(self) -> bool:
        """Whether the search must end now."""
        if self.interrupted():
            self.note = "stopped by Ctrl-C: this is the best schedule found until then"
        elif time.monotonic() >= self._deadline:
            self.note = f"stopped at the time limit of {self.seconds:g} s: this is the best schedule found until then"
        return bool(self.note)


@dataclass(frozen=True, eq=False)
class Plan:
    """A request with its number of chunks, the module with the schedule, and remarks.

    search, attempt: if collc picked the number of chunks. search_stopped: whether a limit or a signal ended the search.
    """

    request: ScheduleRequest
    module: Module
    notes: tuple[str, ...] = ()
    search: ChunkSearch | None = None
    attempt: Attempt | None = None
    search_stopped: bool = False

    def with_fewer_chunks(self) -> Plan | None:
        """The plan with the shortest schedule of fewer chunks, if collc picks their number and has such a schedule."""
        if self.search is None or self.attempt is None:
            return None
        fewer = self.search.best_below(self.attempt.number)
        return fewer and replace(_plan_of(self.search, fewer), search_stopped=self.search_stopped)


def plan_schedule(given: BuildInput) -> Plan:
    """A schedule by the synthesizer or, if its time ends before it has any, along shortest paths.

    Raises what the passes raise; NoSchedule S0207 if there are too many such paths.
    """
    limit = SearchLimit(given.interrupted, given.time_limit)
    try:
        with ended_after(limit.seconds):
            plan = _with_best_chunks(given, limit)
    except OutOfTime:
        if not limit.is_reached():  # the time of a command is over
            raise
        plan = _along_shortest_paths(given, "no schedule was found until then")
    except NoSchedule as error:
        own = given.own_options  # such as points or steps, which others do not give
        if not limit.is_reached() or given.settings.passes is not None or own:
            raise
        plan = _along_shortest_paths(given, error.diagnostics[0].message)
    return replace(plan, notes=(*plan.notes, limit.note), search_stopped=True) if limit.note else plan


def _along_shortest_paths(given: BuildInput, reason: str) -> Plan:
    """All chunks along shortest paths; the fewest chunks if collc picks their number. Raises NoSchedule S0207."""
    choice = given.request.choice
    if choice is not None and choice.automatic:
        given = replace(given, request=choice.request(choice.numbers[0]))
    given.progress(None, "planning along shortest paths")
    passes = (*given.by_hand(), ShortestPaths(), Invert())
    module = _run_passes(given, passes, given.context(lambda: False))
    if module.network.has_endpoints:
        from collc.synthesis.endpoints import retimed_for_endpoints

        module = retimed_for_endpoints(module, module.network)
    return Plan(given.request, module, (f"{reason}: all chunks take shortest paths",))


def _with_best_chunks(given: BuildInput, limit: SearchLimit) -> Plan:
    """The schedule of the synthesizer, with the best number of chunks if the program leaves it to collc."""
    choice = given.request.choice
    if choice is None or not choice.automatic:
        return Plan(given.request, _synthesize(given, limit, experience=given.experience))
    from collc.verification import verify_schedule

    texts: list[tuple[Module, list[str]]] = []
    part = SHORT_PART if choice.numbers[1:] else Fraction(1)
    experience = Experience() if given.experience is None else given.experience

    def synthesize(request: ScheduleRequest, number: int) -> Module:
        check_feasible(request, given.emits)
        given.progress(None, f"trying {plural(number, 'chunk')} per block")
        share = SearchLimit(limit.is_reached, None if limit.seconds is None else limit.seconds * float(part))
        text: list[str] = []
        module = _synthesize(replace(given, request=request, module_text=text.append), share, part, experience)
        texts.append((module, text))
        if request.is_handwritten and not verify_schedule(module).ok:  # its time means nothing
            raise CheckFailed
        return module

    search = ChunkSearch(choice, synthesize, limit.is_reached, bool(given.emits))
    try:
        best = search.best()
    except OutOfTime:
        if not search.tried:
            raise
        best = search.shortest()
    except CheckFailed:  # the report says what is wrong with the first one
        given = replace(given, request=choice.request(choice.numbers[0]))
        return Plan(given.request, _synthesize(given, limit))
    for text in next(text for module, text in texts if module is best.module):
        given.module_text(text)
    return _plan_of(search, best)


def _plan_of(search: ChunkSearch, attempt: Attempt) -> Plan:
    """The plan of one of the numbers of chunks that were tried."""
    return Plan(attempt.request, attempt.module, (search.note(attempt),), search, attempt)


def _synthesize(
    given: BuildInput, limit: SearchLimit, work: Fraction = Fraction(1), experience: Experience | None = None
) -> Module:
    """The module after the passes of the settings or the program. Raises UsageError U0108 for a wrong `print_after`.

    work, experience: see `Effort`.
    """
    passes = given.pipeline()
    names = [step.name for step in passes]
    for name in given.settings.print_after:
        if name not in names:
            message = f"--print-after {name}: no such pass runs for '{given.request.name}'"
            raise UsageError(Diagnostic("U0108", message, hint="the passes are " + ", ".join(names)))
    return _run_passes(given, passes, given.context(limit.is_reached, work, experience))


def _run_passes(given: BuildInput, passes: Sequence[Pass], context: PassContext) -> Module:
    """The module after all passes, fit for the files to write. Raises what they raise."""
    kinds = {emit.kind for emit in given.emits} | set(given.settings.planned_for)
    plan = switch_options(given.emits, kinds, given.request)
    if plan is not None:
        from collc.msccl.plans.switches import has_plan

        module = _module_after(given, passes, context, relays=False)
        if has_plan(module, plan):
            return module
    return _module_after(given, passes, context, relays=any(EMIT_KINDS[kind].only_messages for kind in kinds))


def _module_after(given: BuildInput, passes: Sequence[Pass], context: PassContext, *, relays: bool) -> Module:
    """The module after all passes. relays: whether switches only pass on."""
    request, settings = given.request, given.settings
    confine = settings.passes is None and stays_in_groups(given.emits) and any(r.moves is None for r in request.runs)
    whole = Module(request.name, request.network, request.demand, given.link_model, relays=relays)
    module = blank = whole
    if confine and (network := network_of_groups(whole.network, whole.demand)) is not whole.network:
        idle = len(whole.network.npus) - len(network.npus)
        outside = f"{plural(idle, 'NPU')} outside the group" if idle else "links between groups"
        note = f"{outside} cannot be used: the ranks of a file are the members of its run only"
        module = blank = replace(whole, network=network, notes=(*whole.notes, note))
    for step in passes:
        given.progress(None, f"running {step.name}")
        if confine and isinstance(step, Fixed):
            try:
                module = blank = step.run(module, context)
            except SourceError:  # they leave their groups
                module = blank = step.run(whole, context)
            continue
        module = step.run(module, context)
        if step.name in settings.print_after:
            from collc.ten.text.write import format_module

            given.module_text(format_module(module))
    _check_complete(given, module)
    return keep_inside(blank, module, context) if confine else module


def _check_complete(given: BuildInput, module: Module) -> None:
    """Raise UsageError U0104 or SourceError S0307 if the passes have not scheduled all runs."""
    if module.schedule is None or module.phases:
        message = f"the pipeline leaves '{module.name}' without a schedule"
        raise UsageError(Diagnostic("U0104", message, hint='end it as in "tacos,invert,verify"'))
    if module.planned is None:
        return
    if given.settings.passes is None:
        message = f"no run of '{module.name}' but those with 'using' is planned by 'synthesize fixed'"
        hint = "give the others algorithms with 'using', or use another synthesizer: 'synthesize auto'"
        raise SourceError(Diagnostic("S0307", message, given.request.synthesizer_span, hint=hint))
    message = f"the pipeline plans only {len(module.planned)} of the {len(given.request.runs)} runs"
    hint = 'synthesize the others, as in "fixed,tacos,invert,verify"'
    raise UsageError(Diagnostic("U0104", f"{message} of '{module.name}'", hint=hint))


_AROUND_OTHERS: Final = "pccl"
"""The synthesizer that plans each run around those before it, if planning all at once leaves the groups."""


def keep_inside(module: Module, synthesized: Module, context: PassContext) -> Module:
    """The synthesized module; if chunks of a run leave its group, the runs planned one after another instead.

    module: as it was before synthesis, with the runs whose algorithms are written by hand. If one of these leaves
    its group, nothing is planned anew: the writer of its file says so.
    """
    if not relays_outside(synthesized) or relays_outside(module):
        return synthesized
    network = module.network
    by_hand = module.planned or frozenset()
    planned = module
    if module.schedule is None:
        planned = replace(module, schedule=RowSchedule(module.model, Transfers.concatenate([])))
    steps: Sequence[Pass] = (Synthesize(_AROUND_OTHERS), Invert())
    for number, run in enumerate(module.demand.runs):
        if number in by_hand:
            continue
        others = frozenset(range(len(module.demand.runs))) - {number}
        planned = replace(planned, network=for_one_run(network, run.group), planned=others, algorithm="", notes=())
        for step in steps:
            planned = step.run(planned, context)
    why = "planned together, chunks would leave their groups"
    note = f"the runs are planned one after another by {_AROUND_OTHERS}: {why}"
    return replace(planned, network=network, algorithm=_AROUND_OTHERS, notes=(*module.notes, note), planned=None)


@dataclass(frozen=True, eq=False)
class BuildInput:
    """What a schedule is compiled from. Of an option the settings decide, else the `synthesize` statement, else the
    default.

    module_text: receives the modules that `Settings.print_after` asks for. interrupted: whether a signal has asked to
    end the search. experience: of the search before a failure, and then of this one; None if there are no others.
    """

    request: ScheduleRequest
    settings: Settings
    progress: Progress = lambda _share, _phase: None
    module_text: Callable[[str], None] = lambda _text: None
    interrupted: Callable[[], bool] = lambda: False
    experience: Experience | None = None

    @property
    def emits(self) -> tuple[EmitRequest, ...]:
        """The files to write; their kinds also decide which schedules are fit."""
        return emits_of(self.request, self.settings.emit)

    def _value(self, name: str, setting: Value | None) -> Value | None:
        """The setting, else the option of the program (times in seconds), else the default."""
        if setting is not None:
            return setting
        option = self.request.options.get(name)
        if option is None:
            return COMMON[name].default
        if option.type == "time":
            return float(cast("float", option.value)) / 1e12
        return cast("Value", option.value)

    @property
    def link_model(self) -> LinkModel:
        """The link model that the schedule is made for."""
        return LinkModel(str(self._value("link_model", self.settings.link_model)))

    @property
    def time_limit(self) -> float | None:
        """Seconds for the search; None: no limit."""
        limit = self._value("time_limit", self.settings.time_limit)
        return None if limit is None else float(limit)

    def context(
        self, stop: Callable[[], bool], work: Fraction = Fraction(1), experience: Experience | None = None
    ) -> PassContext:
        """What the passes receive besides the module: algorithms written by hand, and how long to search.

        stop: polled by the synthesizers; True ends the search. work, experience: see `Effort`.
        """
        settings = self.settings
        effort = Effort(
            seed=int(self._value("seed", settings.seed) or 0),
            trials=int(self._value("trials", settings.trials) or 0),
            threads=int(self._value("threads", settings.threads) or 0),
            stop=stop,
            progress=self.progress,
            time_limit=self.time_limit,
            work_part=work,
            experience=experience,
        )
        handwritten = {
            number: HandwrittenRun(run.algorithm or "", self._statements(number, run.moves), run.span)
            for number, run in enumerate(self.request.runs)
            if run.moves is not None
        }
        return PassContext(handwritten, effort, self.request.allow_congestion)

    def _statements(self, number: int, moves: AlgorithmSends) -> AlgorithmSends:
        """The statements of a run; a ring of the standard library follows links if the group has such a cycle."""
        request, run = self.request.runs[number], self.request.demand.runs[number]
        if request.library and request.algorithm in RINGS and run.standard is not None:
            first = int(self.request.demand.first_chunk[number])
            return along_links(self.request.network, run, moves, request.algorithm, first)
        return moves

    def pipeline(self) -> tuple[Pass, ...]:
        """The passes to run: the pipeline of the settings, else layout by hand, synthesizer and inversion as needed."""
        if self.settings.passes is not None:
            return parse_pipeline(self.settings.passes)
        if all(run.moves is not None for run in self.request.runs):
            return (Fixed(),)
        synthesizer = self.settings.synthesizer or self.request.synthesizer
        return (*self.by_hand(), make_pass(synthesizer, self.own_options), Invert())

    def by_hand(self) -> tuple[Pass, ...]:
        """The pass that lays out the runs whose algorithms are written by hand, if there are any."""
        return (Fixed(),) if self.request.is_handwritten else ()

    @property
    def own_options(self) -> dict[str, Value | None]:
        """The options that only the synthesizer has that runs.

        The program's options of another synthesizer do not apply to one that the settings name.
        """
        if self.settings.synthesizer is not None:
            return {}
        return {name: self._value(name, None) for name in self.request.options if name not in COMMON}
