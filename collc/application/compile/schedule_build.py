"""The compilation of one schedule, as a list of steps: plan, measure, verify, prove, write."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from collc.application.compile.build_input import BuildInput
from collc.application.compile.chunk_advice import chunk_advice, network_of_bound
from collc.application.compile.compile_report import SCHEDULE_CHECKS, CompileReport, ScheduleReport
from collc.application.compile.output_files import check_feasible, write_files
from collc.application.compile.planning import Plan, plan_schedule
from collc.application.compile.proofs import prove
from collc.application.compile.schedule_checks import (
    MAX_TIME,
    ScheduleLength,
    check_durations,
    check_limit,
    check_transfer_count,
    placed_at_algorithms,
    too_long,
)
from collc.application.schedule_times import check_possible, queueing_note, step_count
from collc.application.settings import OUTPUT_HINT, Settings
from collc.base.atomic_files import open_draft
from collc.base.diagnostics import CheckFailed, CollcError, Diagnostic, Outcome, SourceError, UsageError
from collc.emit.kinds import EMIT_KINDS
from collc.source.program import ScheduleRequest
from collc.ten.demand import Demand
from collc.ten.module import Module

if TYPE_CHECKING:
    from collc.emit.output import WrittenFile

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
                fewer = _with_fewer_chunks(build, error)
                if fewer is None:
                    raise
                build, steps = fewer, list(_STEPS_AFTER_PLAN)
        if "failed" in build.report.checks.values():
            raise CheckFailed
    except UsageError:
        raise
    except CollcError as error:
        place = given.request.synthesizer_span
        messages = [replace(m, span=place) if _lacks_place(m) else m for m in error.diagnostics]
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
        chunks=_chunk_count(request.demand),
        link_model=given.link_model.value,
        checks=dict.fromkeys(expected, "skipped"),
    )


def _lacks_place(message: Diagnostic) -> bool:
    """Whether a message is about synthesis and gets the place of the `synthesize` statement."""
    return message.span is None and message.code[0] in _SYNTHESIS_CODES


def _with_fewer_chunks(build: Build, error: SourceError) -> Build | None:
    """The build with a plan of fewer chunks, if files exceed limits of a runtime and collc picks their number."""
    if build.plan is None or error.diagnostics[0].code not in _RUNTIME_LIMITS:
        return None
    plan = build.plan.with_fewer_chunks()
    return plan and _with_plan(replace(build, report=_blank_report(build.given)), plan)


def _with_plan(build: Build, plan: Plan) -> Build:
    """The build with a plan."""
    given = replace(build.given, request=plan.request)
    report = replace(build.report, chunks=_chunk_count(plan.request.demand))
    return replace(build, given=given, plan=plan, report=report)


# Steps


def check_request(build: Build) -> Build:
    """Raise SourceError if durations, transfers or files make every schedule impossible."""
    check_durations(build.given.request)
    check_transfer_count(build.given.request)
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
        time_ps = schedule.collective_time(module.network, module.demand)
        if plan.attempt is not None and plan.attempt.module is module:
            ideal = plan.attempt.ideal
        else:
            ideal = ideal_bound(module.network, module.demand, module.model)
        bound = lower_bound(module.network, module.demand, module.model, time_ps, ideal)
    except OverflowError as error:
        raise too_long(request) from error
    if not 0 <= time_ps < MAX_TIME or bound.time >= MAX_TIME:
        raise too_long(request)
    module = replace(module, bound=bound)
    advice = chunk_advice(request, module, bound, ideal)
    where = network_of_bound(request, module)
    numbers = {None if run.standard is None else run.standard.chunks for run in module.demand.runs}
    report = replace(
        build.report,
        links=module.network.link_count,
        devices=int(module.network.present.sum()),
        transfer_count=len(schedule),
        steps=step_count(module, time_ps),
        time_ps=time_ps,
        bound_ps=bound.time,
        bound=bound.name + where,
        ideal_ps=ideal.time,
        ideal=ideal.name + where,
        chunks_per_block=numbers.pop() if len(numbers) == 1 else None,
        synthesizer=module.algorithm,
        seed=module.seed,
        notes=(*module.notes, *plan.notes, *([advice] if advice else [])),
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


def check_limits(build: Build) -> Build:
    """Check the comparisons of `verify` statements."""
    report = build.report
    length = ScheduleLength(report.time_ps or 0, report.bound_ps or 0, report.bound or "", report.steps)
    checks: dict[str, Outcome] = {}
    messages: list[Diagnostic] = []
    for request in build.given.request.checks:
        if request.operator:
            outcome, message = check_limit(request, length)
            checks[request.name] = "failed" if "failed" in (outcome, checks.get(request.name)) else "ok"
            messages += [message] if message else []
    return build.with_outcomes(checks, messages)


def prove_wanted(build: Build) -> Build:
    """Ask Z3 for the proofs that the program and the settings want."""
    wanted = {check.name: check.span for check in build.given.request.checks}
    proofs = prove(build.module, wanted, build.given.settings, build.given.progress)
    build = replace(build, report=replace(build.report, optimal=proofs.optimal))
    return build.with_outcomes(proofs.checks, proofs.diagnostics, proofs.notes)


def write(build: Build) -> Build:
    """Write the files, and check those that can be read back; only if all are right they get their names."""
    given = build.given
    emits = given.emits if given.settings.write else ()
    page = partial(_page, build)
    with open_draft(OUTPUT_HINT) as draft:
        output = write_files(
            build.module, given.request.network, emits, (given.settings.output, draft), given.progress, page
        )
        build = replace(build, report=replace(build.report, ranks=output.ranks))
        build = build.with_outcomes(output.checks, output.diagnostics, output.notes)
        if "failed" in output.checks.values():
            return build
        return replace(build, report=replace(build.report, files=tuple(draft.publish())))


_STEPS_AFTER_PLAN: Final[tuple[Callable[[Build], Build], ...]] = (
    measure,
    verify,
    check_limits,
    prove_wanted,
    write,
)
_STEPS: Final = (check_request, find_schedule, *_STEPS_AFTER_PLAN)


def _page(build: Build, files: WrittenFile) -> str:
    """The text of the report that `emit report` writes. files: the other files."""
    from collc.application.show.report_page import report_of_schedule

    notes = (*build.report.notes, *files.notes)
    report = replace(build.report, module=build.module, notes=notes, ranks=files.ranks)
    return report_of_schedule(report, build.given.request.network, build.given.progress)


def _chunk_count(demand: Demand) -> int:
    return sum(len(run.pattern) for run in demand.runs)
