"""The compilation of one schedule: passes, checks and files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from collc.application.compile.build_clock import BuildClock
from collc.application.compile.chunk_advice import chunk_advice, network_of_bound
from collc.application.compile.chunk_search import Attempt, ChunkSearch
from collc.application.compile.compile_report import FILE_CHECKS, SCHEDULE_CHECKS, ScheduleReport
from collc.application.compile.confined_runs import confined_module, keep_inside, laid_out_inside
from collc.application.compile.early_checks import MAX_TIME, check_durations, check_transfer_count, too_long
from collc.application.compile.files_in_time import check_seconds, kept_seconds, least_check_seconds, write_in_time
from collc.application.compile.handwritten_runs import has_handwritten, placed_at_algorithms
from collc.application.compile.limit_checks import ScheduleLength, check_limit
from collc.application.compile.output_files import (
    CHECKED,
    FROM_NPU_TO_NPU,
    OutputFiles,
    check_feasible,
    emits_of,
    stays_in_groups,
    switch_options,
)
from collc.application.compile.proofs import prove
from collc.application.compile.queueing import queueing_note
from collc.application.compile.reserved_time import reserved_seconds
from collc.application.compile.synthesis_options import SearchLimit, SynthesisOptions
from collc.application.impossible_times import check_possible
from collc.application.settings import OUTPUT_HINT, Progress, Settings
from collc.application.step_count import step_count
from collc.application.verify.trace_verification import TRACE_CHECKS
from collc.base.atomic_files import drafting
from collc.base.diagnostics import CheckFailed, CollcError, Diagnostic, NoSchedule, SourceError, UsageError
from collc.base.interrupts import OutOfTime, cleanup_on_termination, stopping_at_interrupt
from collc.base.outcome import Outcome
from collc.base.wording import plural
from collc.passes.context import Pass, PassContext
from collc.passes.registry import Fixed, Invert
from collc.passes.synthesize import ShortestPaths
from collc.source.program import EmitRequest, ScheduleRequest
from collc.synthesis.experience import Experience
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.schedule import Schedule

if TYPE_CHECKING:
    from collc.application.emit.written_files import WrittenFile
    from collc.verification import Verdict

_SYNTHESIS_CODES: Final = ("S", "C")
"""First letters of the codes of messages about synthesis. Such a message without a place gets that of `synthesize`."""

FIRST_PART: Final = 0.5
OTHER_PARTS: Final = 0.2
"""With `chunks: auto` the search with one number of chunks ends after this part of the time limit, if there is one."""

_RUNTIME_LIMITS: Final = {"M0110", "M0111", "M0113"}
"""Codes of files beyond the limits of a runtime, which fewer chunks may keep."""


@dataclass
class ScheduleBuild:
    """The compilation of one schedule of a program; `report` does all of it.

    module_text: receives the modules that `Settings.print_after` asks for. used: seconds of the time limit that are
    used up already.
    """

    request: ScheduleRequest
    settings: Settings
    progress: Progress
    module_text: Callable[[str], None]
    used: float = 0.0
    _report: ScheduleReport = field(init=False)
    _search: ChunkSearch | None = field(init=False, default=None)
    _taken: Attempt | None = field(init=False, default=None)
    _verdicts: list[tuple[Schedule, Verdict]] = field(init=False, default_factory=list[tuple["Schedule", "Verdict"]])
    _clock: BuildClock = field(init=False)

    def report(self) -> ScheduleReport:
        """Synthesize, check and write the schedule. Errors are in the report; only UsageError is raised."""
        began = time.perf_counter()
        request = self.request
        options = SynthesisOptions(request, self.settings)
        self._clock = BuildClock(options.time_limit, used=self.used)
        self._report = ScheduleReport(
            name=request.name,
            topology=request.network.name,
            npus=len(request.network.npus),
            devices=int(request.network.present.sum()),
            links=request.network.link_count,
            chunks=sum(len(run.pattern) for run in request.demand.runs),
            link_model=options.link_model.value,
            checks=dict.fromkeys(self._expected_checks(), "skipped"),
        )
        try:
            self._build()
        except UsageError:
            raise
        except (CollcError, OutOfTime) as error:
            if isinstance(error, OutOfTime) and not self._ends_itself():
                raise
            known = error if isinstance(error, CollcError) else self._clock.between()
            messages = [self._with_place(message) for message in known.diagnostics]
            diagnostics = (*self._report.diagnostics, *messages)
            self._report = replace(self._report, diagnostics=diagnostics, exit=known.exit)
        return replace(self._report, seconds=time.perf_counter() - began)

    def _with_place(self, message: Diagnostic) -> Diagnostic:
        """The message; one about synthesis without a place gets that of the `synthesize` statement."""
        if message.span is not None or message.code[0] not in _SYNTHESIS_CODES:
            return message
        return replace(message, span=self.request.synthesizer_span)

    def _expected_checks(self) -> list[str]:
        """The checks that will be made. A report names all of them, also where compilation ends before one."""
        named = [*(emit.kind for emit in self.request.emits), *self.settings.emit]
        kinds = set(named if self.settings.write else ())
        asked = [check.name for check in self.request.checks] + ["proved"] * self.settings.prove
        traces = TRACE_CHECKS if "chakra" in kinds else ()
        limits = ("endpoints",) if self.request.network.has_endpoints else ()
        return list(
            dict.fromkeys([*SCHEDULE_CHECKS, *limits, *(FILE_CHECKS if kinds & set(CHECKED) else ()), *traces, *asked])
        )

    def _build(self) -> None:
        emits = emits_of(self.request, self.settings.emit)
        with self._clock.preparing("the demand was looked at"):
            check_durations(self.request)
            check_transfer_count(self.request)
            check_feasible(self.request, emits)
        blank = self._report
        module = self._scheduled(emits)
        while True:
            try:
                return self._check_and_write(module, emits)
            except SourceError as error:
                fewer = self._attempt_with_fewer_chunks(error)
                if fewer is None:
                    raise
            self._report = replace(blank, chunks=self._report.chunks)
            module = self._measured(*fewer)

    def _attempt_with_fewer_chunks(self, error: SourceError) -> tuple[Module, list[str]] | None:
        """(module, remarks) where files exceed limits of a runtime and collc picks the number of chunks, else None."""
        search, taken = self._search, self._taken
        if search is None or taken is None or error.diagnostics[0].code not in _RUNTIME_LIMITS:
            return None
        fewer = search.best_below(taken.number)
        if fewer is None:
            return None
        self._take(fewer)
        return fewer.module, [search.note(fewer)]

    def _check_and_write(self, module: Module, emits: Sequence[EmitRequest]) -> None:
        kept, least = kept_seconds(module), least_check_seconds(module)
        with self._clock.keeping("the schedule was checked", but=kept, least=least):
            self._verify(module)
        self._check_limits()
        with self._clock.paused():
            self._prove(module)
        written = emits if self.settings.write else ()
        with cleanup_on_termination(), drafting(OUTPUT_HINT) as draft:
            page, declared = partial(self._page, module), self.request.network
            outputs = OutputFiles(module, declared, self.settings.output, draft, self.progress, page)
            try:
                late = write_in_time(outputs, written, self._clock)
                output = outputs.collect()
            finally:
                outputs.discard()
            self._report = replace(self._report, ranks=output.ranks)
            self._add(output.checks, output.diagnostics, output.notes)
            files = tuple(draft.publish())
        self._report = replace(self._report, files=files)
        if late is not None:
            raise NoSchedule(late)

    def _page(self, module: Module, files: WrittenFile) -> str:
        """The text of the report that `emit report` writes. files: the other files."""
        from collc.application.show.module_report import report_of_schedule

        report = replace(self._report, module=module, notes=(*self._report.notes, *files.notes), ranks=files.ranks)
        return report_of_schedule(report, self.request.network, self.progress)

    def _add(
        self, checks: Mapping[str, Outcome], diagnostics: Sequence[Diagnostic] = (), notes: Sequence[str] = ()
    ) -> None:
        """Add outcomes, messages and remarks to the report. Raises CheckFailed where a check failed."""
        report = self._report
        self._report = replace(
            report,
            checks={**report.checks, **checks},
            diagnostics=(*report.diagnostics, *diagnostics),
            notes=(*report.notes, *notes),
        )
        if "failed" in checks.values():
            raise CheckFailed

    def _interruptible(self) -> AbstractContextManager[Callable[[], bool]]:
        """What handles Ctrl-C: the first one ends a search or proof early, or it raises KeyboardInterrupt at once."""
        return stopping_at_interrupt() if self.settings.keep_best else nullcontext(lambda: False)

    def _ends_itself(self) -> bool:
        """Whether the clock of this schedule ends it; else OutOfTime is that of the command."""
        return self._clock.seconds is not None or self.settings.keep_best

    # Synthesis

    def _scheduled(self, emits: Sequence[EmitRequest]) -> Module:
        """The module with its schedule and lower bound. Raises SourceError C0204 where times exceed 64 bits."""
        try:
            with self._interruptible() as interrupted:
                self._clock.reserved = reserved_seconds(SynthesisOptions(self.request, self.settings))
                limit = SearchLimit(interrupted, self._clock.seconds, self._clock.reserved, self._clock.used)
                module, note = self._planned(limit, emits)
            return self._measured(module, [text for text in (note, limit.note) if text])
        except OverflowError as error:
            raise too_long(self.request) from error

    def _planned(self, limit: SearchLimit, emits: Sequence[EmitRequest]) -> tuple[Module, str]:
        """The module with a schedule, and a remark: by the synthesizer or, if its time ends before it has any schedule,
        along shortest paths.
        """
        try:
            with self._clock.searching():
                return self._with_best_chunks(limit, emits)
        except OutOfTime:
            if not self._ends_itself():
                raise
            limit.reached()
            reason = "no schedule was found until then"
        except NoSchedule as error:
            own = SynthesisOptions(self.request, self.settings).own  # such as points or steps, which others do not give
            if not limit.reached() or self.settings.passes is not None or own:
                raise
            reason = error.diagnostics[0].message
        finally:
            self._clock.end_search()
        return self._along_shortest_paths(emits), f"{reason}: all chunks take shortest paths"

    def _along_shortest_paths(self, emits: Sequence[EmitRequest]) -> Module:
        """The module with the schedule that takes least time to find. Raises NoSchedule where even that is too long."""
        choice = self.request.choice
        if choice is not None and choice.automatic:
            self.request = choice.request(choice.numbers[0])
        self.progress(None, "planning along shortest paths")
        options = SynthesisOptions(self.request, self.settings)
        context = options.context(self._clock.is_over, self.progress)
        with self._clock.keeping("a schedule along shortest paths was planned"):
            module = self._run((*options.by_hand(), ShortestPaths(), Invert()), options, context, emits)
            if not module.network.has_endpoints:
                return module
            from collc.synthesis.endpoints import retimed_for_endpoints

            return retimed_for_endpoints(module, module.network)

    def _with_best_chunks(self, limit: SearchLimit, emits: Sequence[EmitRequest]) -> tuple[Module, str]:
        """The module with a schedule and, where the program leaves the number of chunks to collc, a remark about it."""
        choice = self.request.choice
        if choice is None or not choice.automatic:
            return self._synthesized(self.request, limit, emits, self.module_text), ""
        texts: list[tuple[Module, list[str]]] = []

        def synthesize(request: ScheduleRequest, number: int) -> Module:
            check_feasible(request, emits)
            self.progress(None, f"trying {plural(number, 'chunk')} per block")
            part = FIRST_PART if number == choice.numbers[0] else OTHER_PARTS
            share = SearchLimit(limit.reached, None if limit.seconds is None else (limit.seconds - limit.used) * part)
            text: list[str] = []
            module = self._synthesized(request, share, emits, text.append, search.experience)
            texts.append((module, text))
            self._check_handwritten(request, module)
            return module

        search = ChunkSearch(choice, synthesize, limit.reached, listed=bool(emits))
        try:
            best = search.best()
        except OutOfTime:
            if not search.tried:
                raise
            best = search.shortest()
        except CheckFailed:  # the report says what is wrong with the first one
            self.request = choice.request(choice.numbers[0])
            return self._synthesized(self.request, limit, emits, self.module_text), ""
        for text in next(text for module, text in texts if module is best.module):
            self.module_text(text)
        self._search = search
        self._take(best)
        return best.module, search.note(best)

    def _take(self, attempt: Attempt) -> None:
        """Go on with one of the numbers of chunks that were tried."""
        self._taken, self.request = attempt, attempt.request
        chunks = sum(len(run.pattern) for run in attempt.request.demand.runs)
        self._report = replace(self._report, chunks=chunks)

    def _synthesized(
        self,
        request: ScheduleRequest,
        limit: SearchLimit,
        emits: Sequence[EmitRequest],
        module_text: Callable[[str], None],
        experience: Experience | None = None,
    ) -> Module:
        options = SynthesisOptions(request, self.settings)
        context = options.context(limit.reached, self.progress, experience)
        pipeline = options.pipeline()
        self._check_print_after([step.name for step in pipeline])
        return self._run(pipeline, options, context, emits, module_text)

    def _run(
        self,
        pipeline: Sequence[Pass],
        options: SynthesisOptions,
        context: PassContext,
        emits: Sequence[EmitRequest],
        module_text: Callable[[str], None] = lambda _text: None,
    ) -> Module:
        """The module after all passes. Raises what they raise."""
        request = options.request
        kinds = {emit.kind for emit in emits} | set(self.settings.planned_for)
        relays = not kinds.isdisjoint(FROM_NPU_TO_NPU)
        plan = switch_options(emits, kinds, request)
        if plan is not None:
            module = self._passed(pipeline, options, context, emits, module_text, relays=False)
            from collc.msccl.plans.switch_program import has_plan

            if has_plan(module, plan):
                if options.time_limit is not None or "auto" not in [step.name for step in pipeline]:
                    return module
                from collc.application.compile.plan_choice import faster_plan

                def again(context: PassContext) -> Module:
                    return self._passed(pipeline, options, context, emits, lambda _text: None, relays=False)

                return faster_plan(module, request.network, plan, again, context)
        return self._passed(pipeline, options, context, emits, module_text, relays=relays)

    def _passed(
        self,
        pipeline: Sequence[Pass],
        options: SynthesisOptions,
        context: PassContext,
        emits: Sequence[EmitRequest],
        module_text: Callable[[str], None],
        *,
        relays: bool,
    ) -> Module:
        """The module after all passes. relays: whether switches only pass on. Raises what the passes raise."""
        request = options.request
        module = Module(request.name, request.network, request.demand, options.link_model, relays=relays)
        confine = stays_in_groups(emits) and any(run.moves is None for run in request.runs)
        confine &= self.settings.passes is None
        whole = module
        module = blank = confined_module(module) if confine else module
        for step in pipeline:
            self.progress(None, f"running {step.name}")
            if confine and isinstance(step, Fixed):
                module = blank = laid_out_inside(module, whole, context)
                continue
            module = step.run(module, context)
            if step.name in self.settings.print_after:
                from collc.ten.text.write import format_module

                module_text(format_module(module))
        self._check_complete(module)
        return keep_inside(blank, module, context) if confine else module

    def _check_print_after(self, names: list[str]) -> None:
        """Raise UsageError U0108 for a `--print-after` that names no pass of the pipeline."""
        for name in self.settings.print_after:
            if name not in names:
                message = f"--print-after {name}: no such pass runs for '{self.request.name}'"
                raise UsageError(Diagnostic("U0108", message, hint="the passes are " + ", ".join(names)))

    def _check_complete(self, module: Module) -> None:
        """Raise UsageError U0104 or SourceError S0307 where the passes have not scheduled all runs."""
        if module.schedule is None or module.phases:
            message = f"the pipeline leaves '{module.name}' without a schedule"
            raise UsageError(Diagnostic("U0104", message, hint='end it as in "tacos,invert,verify"'))
        if module.planned is None:
            return
        if self.settings.passes is None:
            message = f"no run of '{module.name}' but those with 'using' is planned by 'synthesize fixed'"
            hint = "give the others algorithms with 'using', or use another synthesizer: 'synthesize auto'"
            raise SourceError(Diagnostic("S0307", message, self.request.synthesizer_span, hint=hint))
        message = f"the pipeline plans only {len(module.planned)} of the {len(self.request.runs)} runs"
        hint = 'synthesize the others, as in "fixed,tacos,invert,verify"'
        raise UsageError(Diagnostic("U0104", f"{message} of '{module.name}'", hint=hint))

    def _measured(self, module: Module, notes: Sequence[str]) -> Module:
        """The module with its lower bound. The report gets all numbers. Raises OverflowError beyond `MAX_TIME`."""
        from collc.synthesis.bounds import ideal_bound, lower_bound

        schedule = module.schedule
        assert schedule is not None
        self.progress(None, "computing the lower bound")
        time_ps = schedule.collective_time(module.network, module.demand)
        if not 0 <= time_ps < MAX_TIME:
            raise OverflowError
        ideal = bound = None
        try:
            with self._clock.sparing(but=check_seconds(module) + kept_seconds(module)):
                taken = self._taken
                if taken is not None and taken.module is module:
                    ideal = taken.ideal
                else:
                    ideal = ideal_bound(module.network, module.demand, module.model)
                bound = lower_bound(module.network, module.demand, module.model, time_ps, ideal)
        except OutOfTime:
            notes = [*notes, "the time limit ended before the lower bound was known"]
        if bound is not None and bound.time >= MAX_TIME:
            raise OverflowError
        module = replace(module, bound=bound)
        advice = chunk_advice(self.request, module, bound, ideal) if bound is not None and ideal is not None else ""
        where = network_of_bound(self.request, module)
        self._report = replace(
            self._report,
            links=module.network.link_count,
            devices=int(module.network.present.sum()),
            transfer_count=len(schedule),
            steps=step_count(module, time_ps),
            time_ps=time_ps,
            bound_ps=None if bound is None else bound.time,
            bound=None if bound is None else bound.name + where,
            ideal_ps=None if ideal is None else ideal.time,
            ideal=None if ideal is None else ideal.name + where,
            chunks_per_block=_chunks_per_block(module.demand),
            synthesizer=module.algorithm,
            seed=module.seed,
            notes=(*module.notes, *notes, *([advice] if advice else [])),
            pareto=module.pareto,
            module=module if self.settings.keep_modules else None,
        )
        return module

    # Checks

    def _check_handwritten(self, request: ScheduleRequest, module: Module) -> None:
        """Raise CheckFailed for a schedule of algorithms written by hand that is wrong: its time means nothing."""
        from collc.verification import verify_schedule

        if has_handwritten(request):
            verdict = verify_schedule(module)
            if not verdict.ok:
                raise CheckFailed
            if module.schedule is not None:
                self._verdicts.append((module.schedule, verdict))

    def _verify(self, module: Module) -> None:
        """Check the schedule. Messages may queue where the program allows congestion; a remark says for how long."""
        from collc.verification import verify_schedule

        self.progress(None, "verifying the schedule")
        known = (verdict for schedule, verdict in self._verdicts if schedule is module.schedule)
        verdict = next(known, None) or verify_schedule(module)
        queued = queueing_note(module) if verdict.checks["congestion_free"] == "allowed" else ""
        self._add(verdict.checks, placed_at_algorithms(self.request, verdict.diagnostics), [queued] if queued else [])
        if verdict.ok:
            found = self._report
            check_possible(found.name, found.time_ps, (found.bound_ps, found.bound), (found.ideal_ps, found.ideal))

    def _check_limits(self) -> None:
        """Check the comparisons of `verify` statements."""
        report = self._report
        length = ScheduleLength(report.time_ps or 0, report.bound_ps or 0, report.bound or "", report.steps)
        checks: dict[str, Outcome] = {}
        messages: list[Diagnostic] = []
        for request in self.request.checks:
            if request.operator:
                outcome, message = check_limit(request, length)
                checks[request.name] = "failed" if "failed" in (outcome, checks.get(request.name)) else "ok"
                messages += [message] if message else []
        self._add(checks, messages)

    def _prove(self, module: Module) -> None:
        """Ask Z3 for the proofs that the program and the settings want."""
        wanted = {check.name: check.span for check in self.request.checks}
        with self._interruptible():
            proofs = prove(module, wanted, self.settings, self.progress)
        self._report = replace(self._report, optimal=proofs.optimal)
        self._add(proofs.checks, proofs.diagnostics, proofs.notes)


def _chunks_per_block(demand: Demand) -> int | None:
    """The number of chunks per block where all runs are standard collectives with the same one, else None."""
    numbers = {None if run.standard is None else run.standard.chunks for run in demand.runs}
    return numbers.pop() if len(numbers) == 1 else None


def quiet_report(request: ScheduleRequest, settings: Settings) -> ScheduleReport:
    """The report of a schedule that is made without progress."""
    return ScheduleBuild(request, settings, lambda _share, _phase: None, lambda _text: None).report()
