"""The compilation of a program, which the command line and the Python API both call.

Each schedule is a list of steps: plan, measure, verify, prove, write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collc.application.compile.chunk_search import chunk_advice, ideal_of, network_of_bound
from collc.application.compile.compile_report import SCHEDULE_CHECKS, CompileReport, ScheduleReport
from collc.application.compile.fallbacks import FallbackWriter
from collc.application.compile.output_files import check_feasible, emits_of, file_names, unknown_kind, write_files
from collc.application.compile.planning import BuildInput, Plan, plan_schedule
from collc.application.compile.proofs import (
    MAX_TIME,
    check_durations,
    check_limit,
    placed_at_algorithms,
    prove,
    too_long,
)
from collc.application.file_kinds import FILE_KINDS
from collc.application.schedule_times import check_possible, ends_of_runs, queueing_note, step_count
from collc.application.settings import OUTPUT_HINT, Callbacks, Settings
from collc.base.atomic_files import check_folder, open_draft
from collc.base.diagnostics import (
    CheckFailed,
    CollcError,
    Diagnostic,
    Note,
    Outcome,
    SourceError,
    SourceFile,
    Span,
    UsageError,
)
from collc.base.interrupts import stopping_at_signals
from collc.base.reading import real_path
from collc.base.units import format_time
from collc.emit.kinds import EMIT_KINDS
from collc.passes.registry import parse_pipeline
from collc.passes.synthesizers import searching_synthesizers
from collc.source.elaboration.elaborate import load_program
from collc.source.program import Program, ScheduleRequest
from collc.source.standard_library import synthesizer_hint
from collc.synthesis.task import Experience
from collc.ten.module import Module

if TYPE_CHECKING:
    from collc.emit.output import WrittenFile


_FILE_SUFFIXES: Final = {
    suffix: name for name, kind in FILE_KINDS.items() if name in EMIT_KINDS for suffix in kind.suffixes
}
"""Suffixes of the files that collc writes, with the kind of the file."""


def compile_program(source: Path | SourceFile, settings: Settings, callbacks: Callbacks | None = None) -> CompileReport:
    """Synthesize, check and write all schedules of a program.

    source: the program's file, or its text if it is in no file. Raises SourceError if the program is wrong and
    UsageError where the settings are. Errors that concern one schedule are in its report.
    """
    callbacks = callbacks or Callbacks()
    _check_settings(settings)
    program = load_program(source, settings.definitions, settings.only, chunks=settings.chunks)
    if settings.chunks is not None and program.schedules and all(s.choice is None for s in program.schedules):
        message = f"--chunks {settings.chunks}: no run of the program is of a standard collective with 'chunks'"
        raise UsageError(Diagnostic("U0117", message, hint="leave it out"))
    alike = _check_file_names(program.schedules, settings, source if isinstance(source, Path) else None)
    if settings.emit or any(schedule.emits for schedule in program.schedules):
        check_folder(settings.output, OUTPUT_HINT)
    warnings = (*alike, *_warnings(program, settings.output))
    count = len(program.schedules)
    reports: list[ScheduleReport] = []
    fallbacks = FallbackWriter()
    with stopping_at_signals() if settings.keep_best else nullcontext(lambda: False) as interrupted:
        for number, request in enumerate(program.schedules, 1):
            if interrupted():
                raise KeyboardInterrupt

            def progress(share: float | None, phase: str, number: int = number, name: str = request.name) -> None:
                which = name if count == 1 else f"{name} ({number} of {count})"
                callbacks.progress(share, f"{which}: {phase}")

            own, path = settings, settings.certificate
            if path is not None and count > 1:
                own = replace(settings, certificate=path.with_name(f"{path.stem}.{request.name}{path.suffix}"))
            experience = None if request.failures is None else Experience()
            given = BuildInput(request, own, progress, callbacks.module_text, interrupted, experience)
            built = [build_schedule(given)]
            if request.failures is not None and built[0].ok:
                built = fallbacks.add(given, built[0], build_schedule)
            reports += built
            for report in built:
                callbacks.finished(report)
    index = fallbacks.write(settings.output) if fallbacks.schedules and settings.write else ()
    return CompileReport(tuple(reports), warnings, index)


def _warnings(program: Program, output: Path) -> Iterator[Diagnostic]:
    """Warnings about an output folder that is named like a file and does not exist yet (U0209), and about a program
    without a schedule: it has designs (U0208), or nothing at all to build (U0207).
    """
    if output.suffix in _FILE_SUFFIXES and not output.is_dir():
        message = f"the output folder is called {output}, like a file: the files are written into it"
        hint = f'to name a file, write it in the program, as in: emit {_FILE_SUFFIXES[output.suffix]}("{output.name}")'
        yield Diagnostic("U0209", message, hint=hint, warning=True)
    if not program.schedules and program.designs:
        message = "the program has designs but no schedule, so that there is nothing to compile"
        hint = "'collc design' solves the designs of a program"
        yield Diagnostic("U0208", message, program.designs[0].span, hint=hint, warning=True)
    elif not program.schedules:
        hint = "a schedule says what to build: schedule s on t { run all_gather(t.npus, size: 9MiB) }"
        yield Diagnostic("U0207", "there is nothing to build: the program has no schedule", hint=hint, warning=True)


def _check_settings(settings: Settings) -> None:
    """Raise UsageError for unknown names in the settings, before any work is done.

    Also (U0203) if the folder of the certificate does not exist; only the output folder is made if it is missing.
    """
    for kind in settings.emit:
        if kind not in EMIT_KINDS:
            raise UsageError(unknown_kind(kind))
    name = settings.synthesizer
    if name is not None and name not in searching_synthesizers():
        hint = synthesizer_hint(name, searching_synthesizers())
        raise UsageError(Diagnostic("U0102", f"there is no synthesizer named '{name}'", hint=hint))
    folder = None if settings.certificate is None else settings.certificate.parent
    if folder is not None and not folder.is_dir() and real_path(folder) != real_path(settings.output):
        what = f"{folder} is a file, not a folder" if folder.exists() else f"there is no folder {folder}"
        raise UsageError(Diagnostic("U0203", f"cannot write {settings.certificate}: {what}"))
    if settings.passes is not None:
        parse_pipeline(settings.passes)


def _check_file_names(
    requests: Sequence[ScheduleRequest], settings: Settings, program: Path | None
) -> list[Diagnostic]:
    """Raise SourceError if two files would have one name (U0204), or a file that of the program (U0206).

    Returns warnings about names that differ in case only (U0210).
    """
    taken: dict[Path, Span] = {}
    folded: dict[str, tuple[str, Span]] = {}
    warnings: list[Diagnostic] = []
    for request in requests:
        for name, span in file_names(emits_of(request, settings.emit), request):
            path = real_path(settings.output / name)
            hint = "give one of them another name"
            if program is not None and path == real_path(program):
                raise SourceError(Diagnostic("U0206", f"{name} would overwrite the program", span, hint=hint))
            if path in taken:
                notes = (Note("the other is written here", taken[path]),)
                raise SourceError(Diagnostic("U0204", f"two files are called {name}", span, notes, hint))
            taken[path] = span
            other, place = folded.setdefault(str(path).casefold(), (name, span))
            if other != name and Path(other) != Path(name):
                notes = (Note(f"{other} is written here", place),)
                message = f"{name} and {other} are one file on systems that ignore the case of letters"
                warnings.append(Diagnostic("U0210", message, span, notes, hint, warning=True))
    return warnings


_SYNTHESIS_CODES: Final = ("S", "C")
"""First letters of the codes of messages about synthesis. Such a message without a place gets that of `synthesize`."""

_RUNTIME_LIMITS: Final = {"M0110", "M0111", "M0113"}
"""Codes of files beyond the limits of a runtime, which fewer chunks may keep."""


@dataclass(frozen=True, eq=False)
class Build:
    """What is known of a schedule between two steps. module: with its schedule and bound. planned: seconds by the
    clock when the search ended.
    """

    given: BuildInput
    report: ScheduleReport
    plan: Plan | None = None
    planned: float = 0.0

    @property
    def module(self) -> Module:
        """The module with its schedule."""
        assert self.plan is not None
        return self.plan.module

    def with_files(self, files: WrittenFile) -> Build:
        """The build with what is known of its files added to its report."""
        ranked = replace(self, report=replace(self.report, ranks=files.ranks))
        return ranked.with_outcomes(files.checks, files.diagnostics, files.notes)

    def with_outcomes(
        self, checks: dict[str, Outcome], diagnostics: Sequence[Diagnostic] = (), notes: Sequence[str] = ()
    ) -> Build:
        """The build with outcomes, messages and remarks added to its report."""
        report = self.report
        added = replace(
            report,
            checks={**report.checks, **checks},
            diagnostics=(*report.diagnostics, *diagnostics),
            notes=(*report.notes, *notes),
        )
        return replace(self, report=added)


def build_schedule(given: BuildInput) -> ScheduleReport:
    """Synthesize, check and write a schedule. Errors are in the report; only UsageError is raised."""
    began = time.perf_counter()
    build = Build(given, _blank_report(given))
    steps = list(_STEPS)
    try:
        while steps and "failed" not in build.report.checks.values():
            try:
                build = steps[0](build)
                del steps[0]
            except SourceError as error:
                limited = error.diagnostics[0].code in _RUNTIME_LIMITS
                fewer = build.plan.with_fewer_chunks() if build.plan is not None and limited else None
                if fewer is None:
                    raise
                build = _with_plan(replace(build, report=_blank_report(build.given)), fewer)
                steps = list(_STEPS_AFTER_PLAN)
        if "failed" in build.report.checks.values():
            raise CheckFailed
    except UsageError:
        raise
    except CollcError as error:
        place = given.request.synthesizer_span
        messages = [
            replace(m, span=place) if m.span is None and m.code[0] in _SYNTHESIS_CODES else m for m in error.diagnostics
        ]
        build = build.with_outcomes({}, messages)
        build = replace(build, report=replace(build.report, exit=error.exit))
    if build.plan is not None and build.plan.search_stopped:
        after = time.perf_counter() - build.planned
        build = build.with_outcomes({}, notes=[f"bound, checks and files took {after:.1f} s after the search"])
    return replace(build.report, seconds=time.perf_counter() - began)


def built_module(request: ScheduleRequest, settings: Settings) -> Module:
    """The module of a schedule that is built. Raises what went wrong. settings: with `keep_modules`."""
    report = build_schedule(BuildInput(request, settings))
    CompileReport((report,)).raise_if_failed()
    return report.kept_module()


def _blank_report(given: BuildInput) -> ScheduleReport:
    """The report before the first step. It names all checks, also those that compilation will not reach."""
    request = given.request
    kinds = {emit.kind for emit in given.emits} if given.settings.write else set[str]()
    expected = [
        *SCHEDULE_CHECKS,
        *(("endpoints",) if request.network.has_endpoints else ()),
        *(check for kind in EMIT_KINDS.values() if kind.name in kinds for check in kind.checks),
        *(check.name for check in request.checks),
        *(["proved"] * given.settings.prove),
    ]
    return ScheduleReport(
        name=request.name,
        topology=request.network.name,
        npus=len(request.network.npus),
        devices=int(request.network.present.sum()),
        links=request.network.link_count,
        chunks=request.demand.chunk_count,
        link_model=given.link_model.value,
        checks=dict.fromkeys(expected, "skipped"),
    )


def _with_plan(build: Build, plan: Plan) -> Build:
    """The build with a plan."""
    given = replace(build.given, request=plan.request)
    report = replace(build.report, chunks=plan.request.demand.chunk_count)
    return replace(build, given=given, plan=plan, report=report)


def check_request(build: Build) -> Build:
    """Raise SourceError if durations or files make every schedule impossible."""
    check_durations(build.given.request)
    check_feasible(build.given.request, build.given.emits)
    return build


def find_schedule(build: Build) -> Build:
    """Find the schedule. Raises SourceError C0204 if times exceed 64 bits."""
    try:
        build = _with_plan(build, plan_schedule(build.given))
    except OverflowError as error:
        raise too_long(build.given.request) from error
    return replace(build, planned=time.perf_counter())


def measure(build: Build) -> Build:
    """Compute time, steps and bounds. Raises SourceError C0204 if they exceed 64 bits."""
    from collc.synthesis.bounds import ideal_bound, lower_bound

    request, module, plan = build.given.request, build.module, build.plan
    schedule = module.schedule
    assert schedule is not None
    assert plan is not None
    build.given.progress(None, "computing the lower bound")
    try:
        times: list[int] = schedule.run_times(module.network, module.demand).tolist()
        time_ps = max(times, default=0)
        if plan.attempt is not None and plan.attempt.module is module:
            ideal = plan.attempt.ideal
        else:
            ideal = ideal_of(request, module)
        bound = module.bound
        if bound is None:
            own = ideal_bound(module.network, module.demand, module.model)
            bound = lower_bound(module.network, module.demand, module.model, time_ps, own)
    except OverflowError as error:
        raise too_long(request) from error
    if not 0 <= time_ps < MAX_TIME or bound.time >= MAX_TIME:
        raise too_long(request)
    module = replace(module, bound=bound)
    advice = chunk_advice(request, module, bound, ideal)
    launch = module.network.launch
    without = f"notes count from the end of the launch of {format_time(launch)}" if launch else None
    remarks = without, *module.notes, *plan.notes, advice, ends_of_runs(module.demand, times)
    standards = [family.first.standard for family in module.demand.by_family.families]
    numbers = {None if standard is None else standard.chunks for standard in standards}
    report = replace(
        build.report,
        links=module.network.link_count,
        devices=int(module.network.present.sum()),
        transfer_count=len(schedule),
        steps=step_count(module, time_ps),
        time_ps=launch + time_ps,
        launch_ps=launch,
        run_times_ps=tuple(launch + time for time in times) if len(times) > 1 else (),
        bound_ps=launch + bound.time,
        bound=bound.name + network_of_bound(request, module),
        ideal_ps=launch + ideal.time,
        ideal=ideal.name,
        chunks_per_block=numbers.pop() if len(numbers) == 1 else None,
        synthesizer=module.algorithm,
        seed=module.seed,
        notes=tuple(filter(None, remarks)),
        pareto=module.pareto,
        module=module if build.given.settings.keep_modules else None,
    )
    return replace(build, plan=replace(plan, module=module), report=report)


def verify(build: Build) -> Build:
    """Check the schedule. If the program allows congestion, a remark says how long messages queue."""
    from collc.verification import verify_schedule

    build.given.progress(None, "verifying the schedule")
    verdict = verify_schedule(build.module)
    queued = queueing_note(build.module) if verdict.checks["congestion_free"] == "allowed" else ""
    messages = placed_at_algorithms(build.given.request, verdict.diagnostics)
    build = build.with_outcomes(verdict.checks, messages, [queued] if queued else [])
    report = build.report
    if verdict.ok:
        check_possible(report.name, report.time_ps, (report.bound_ps, report.bound), (report.ideal_ps, report.ideal))
    return build


def check_statements(build: Build) -> Build:
    """Check the comparisons of `verify` statements, and ask Z3 for the proofs that are wanted."""
    report, wanted = build.report, build.given.request.checks
    checks: dict[str, Outcome] = {}
    messages: list[Diagnostic] = []
    for request in wanted:
        if request.operator:
            outcome, message = check_limit(request, report)
            checks[request.name] = "failed" if "failed" in (outcome, checks.get(request.name)) else "ok"
            messages += [message] if message else []
    build = build.with_outcomes(checks, messages)
    if "failed" in checks.values():
        return build
    places = {check.name: check.span for check in wanted}
    proofs = prove(build.module, places, build.given.settings, build.given.progress)
    build = replace(build, report=replace(build.report, optimal=proofs.optimal))
    return build.with_outcomes(proofs.checks, proofs.diagnostics, proofs.notes)


def write(build: Build) -> Build:
    """Write the files, and check those that can be read back; only if all are right they get their names."""
    given = build.given
    emits = given.emits if given.settings.write else ()
    page = partial(_page, build)
    stopped = build.plan is not None and build.plan.search_stopped
    with open_draft(OUTPUT_HINT) as draft:
        target = (given.settings.output, draft)
        output = write_files(
            *(build.module, given.request.network, emits, target, given.progress, page),
            hurried=lambda: stopped or given.interrupted(),
        )
        build = build.with_files(output)
        if "failed" in output.checks.values():
            return build
        return replace(build, report=replace(build.report, files=tuple(draft.publish())))


_STEPS_AFTER_PLAN: Final[tuple[Callable[[Build], Build], ...]] = (measure, verify, check_statements, write)
_STEPS: Final = (check_request, find_schedule, *_STEPS_AFTER_PLAN)


def _page(build: Build, files: WrittenFile) -> str:
    """The text of the report that `emit report` writes. files: the other files."""
    from collc.application.show.report_page import report_of_schedule

    report = replace(build.with_files(files).report, module=build.module)
    return report_of_schedule(report, build.given.request.network, build.given.progress)
