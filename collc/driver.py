"""From a file to its schedules: what the command line and the Python API both call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from collc.building import Build
from collc.diagnostics import UsageError
from collc.outputs import WRITERS, unknown_kind
from collc.passes import make_pass, parse_pipeline
from collc.report import CompileReport, ScheduleReport
from collc.settings import Settings
from collc.source.elaborate import load_program


def compile_file(
    path: Path,
    settings: Settings,
    progress: Callable[[float, str], None] = lambda _share, _words: None,
    show: Callable[[str], None] = print,
) -> CompileReport:
    """Build, verify and write all schedules of a file.

    progress is told the share done and a few words; show gets what `--print-after` asks for. Raises
    SourceError where the program is wrong and UsageError where the settings are; what goes wrong
    with one schedule is in its report.
    """
    _check(settings)
    program = load_program(path, settings.definitions, settings.only)
    reports: list[ScheduleReport] = []
    for number, request in enumerate(program.schedules):

        def told(share: float, words: str, number: int = number, name: str = request.name) -> None:
            progress((number + share) / len(program.schedules), f"{name}: {words}")

        reports.append(Build(request, settings, told, show).report())
    return CompileReport(tuple(reports))


def _check(settings: Settings) -> None:
    """Raise UsageError for names that there are not, before any work is done."""
    for kind in settings.emit:
        if kind not in WRITERS:
            raise UsageError(unknown_kind(kind))
    if settings.algorithm is not None:
        make_pass(settings.algorithm, {})
    if settings.passes is not None:
        parse_pipeline(settings.passes)
