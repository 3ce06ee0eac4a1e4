"""From a file to its schedules: what the command line and the Python API both call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from collc.application.compile_report import CompileReport, ScheduleReport
from collc.application.output_files import WRITERS, file_names, unknown_kind
from collc.application.schedule_build import Build
from collc.application.settings import Settings
from collc.base.diagnostics import Diagnostic, Note, SourceError, Span, UsageError
from collc.base.wording import listed
from collc.passes.pipeline import make_pass, parse_pipeline
from collc.passes.synthesize import SYNTHESIZERS
from collc.source.elaboration.elaborate import load_program
from collc.source.program import EmitRequest, Program, ScheduleRequest


def compile_file(
    path: Path,
    settings: Settings,
    progress: Callable[[float, str], None] = lambda _share, _words: None,
    show: Callable[[str], None] = print,
    done: Callable[[ScheduleReport], None] = lambda _report: None,
) -> CompileReport:
    """Build, verify and write all schedules of a file.

    progress is told the share done and a few words; show gets what `--print-after` asks for; done gets each report
    as soon as its schedule is written, also if a later one raises. Raises SourceError where the program is wrong and
    UsageError where the settings are; what goes wrong with one schedule is in its report.
    """
    _check(settings)
    program = load_program(path, settings.definitions, settings.only)
    _check_files(program.schedules, settings, path)
    reports: list[ScheduleReport] = []
    for number, request in enumerate(program.schedules):

        def told(share: float, words: str, number: int = number, name: str = request.name) -> None:
            progress((number + share) / len(program.schedules), f"{name}: {words}")

        reports.append(Build(request, _own(settings, request, len(program.schedules)), told, show).report())
        done(reports[-1])
    return CompileReport(tuple(reports), _left_out(program))


def _left_out(program: Program) -> tuple[Diagnostic, ...]:
    """Warnings: of designs, which are checked only, and where there is nothing to build."""
    found = [
        Diagnostic("U0208", f"design '{d.name}' is checked, but collc does not solve designs yet", d.span, warning=True)
        for d in program.designs
    ]
    if not program.schedules and not found:
        hint = "a schedule says what to build: schedule s on t { run all_gather(t.npus, size: 9MiB) }"
        found = [Diagnostic("U0207", "there is nothing to build: the program has no schedule", hint=hint, warning=True)]
    return tuple(found)


def _own(settings: Settings, request: ScheduleRequest, schedules: int) -> Settings:
    """The settings for one schedule: of several, each has a certificate of its own."""
    path = settings.certificate
    if path is None or schedules == 1:
        return settings
    return replace(settings, certificate=path.with_name(f"{path.stem}.{request.name}{path.suffix}"))


def _check(settings: Settings) -> None:
    """Raise UsageError for names that there are not, before any work is done."""
    for kind in settings.emit:
        if kind not in WRITERS:
            raise UsageError(unknown_kind(kind))
    if settings.synthesizer is not None:
        make_pass(settings.synthesizer, {})
        if settings.synthesizer not in SYNTHESIZERS:
            message = f"the pass '{settings.synthesizer}' synthesizes nothing"
            raise UsageError(Diagnostic("U0102", message, hint="there are " + listed(SYNTHESIZERS)))
    if settings.passes is not None:
        parse_pipeline(settings.passes)


def _check_files(requests: Sequence[ScheduleRequest], settings: Settings, program: Path) -> None:
    """Raise SourceError where two files would have one name, or one that of the program, before any work is done."""
    taken: dict[Path, Span] = {}
    for request in requests:
        kinds = {emit.kind for emit in request.emits}
        added = [kind for kind in dict.fromkeys(settings.emit) if kind not in kinds]
        emits = [*request.emits, *(EmitRequest(kind, None, {}, request.span) for kind in added)]
        named = [(name, emit.span) for emit in emits for name in file_names(emit, request.name)]
        for name, span in named:
            path = (settings.output / name).resolve()
            hint = "give one of them another name"
            if path == program.resolve():
                raise SourceError(Diagnostic("U0206", f"{name} would overwrite the program", span, hint=hint))
            if path in taken:
                notes = (Note("the other is written here", taken[path]),)
                raise SourceError(Diagnostic("U0204", f"two files are called {name}", span, notes, hint))
            taken[path] = span
