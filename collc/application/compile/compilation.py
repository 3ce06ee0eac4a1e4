"""The compilation of a program: what the command line and the Python API both call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from collc.application.compile.build_input import BuildInput
from collc.application.compile.compile_report import CompileReport, ScheduleReport
from collc.application.compile.output_files import emits_of, file_names, unknown_kind
from collc.application.compile.schedule_build import build_schedule
from collc.application.settings import OUTPUT_HINT, Callbacks, Settings
from collc.base.atomic_files import check_folder
from collc.base.diagnostics import Diagnostic, Note, SourceError, SourceFile, Span, UsageError
from collc.base.interrupts import stopping_at_signals
from collc.base.reading import real_path
from collc.emit.kinds import EMIT_KINDS
from collc.passes.registry import parse_pipeline
from collc.passes.synthesizers import searching_synthesizers
from collc.source.elaboration.elaborate import load_program
from collc.source.program import Program, ScheduleRequest
from collc.source.standard_library import synthesizer_hint

_FILE_SUFFIXES: Final = {".ten": "ten", ".xml": "msccl", ".msccl": "msccl", ".json": "mscclpp", ".mscclpp": "mscclpp"}
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
    warnings = (*alike, *_output_warnings(settings), *_program_warnings(program))
    count = len(program.schedules)
    reports: list[ScheduleReport] = []
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
            given = BuildInput(request, own, progress, callbacks.module_text, interrupted)
            reports.append(build_schedule(given))
            callbacks.finished(reports[-1])
    return CompileReport(tuple(reports), warnings)


def _output_warnings(settings: Settings) -> tuple[Diagnostic, ...]:
    """The warning U0209 about an output folder that is named like a file and does not exist yet."""
    folder = settings.output
    if folder.suffix not in _FILE_SUFFIXES or folder.is_dir():
        return ()
    message = f"the output folder is called {folder}, like a file: the files are written into it"
    hint = f'to name a file, write it in the program, as in: emit {_FILE_SUFFIXES[folder.suffix]}("{folder.name}")'
    return (Diagnostic("U0209", message, hint=hint, warning=True),)


def _program_warnings(program: Program) -> tuple[Diagnostic, ...]:
    """Warnings about a program without a schedule: it has designs (U0208), or nothing at all to build (U0207)."""
    if program.schedules:
        return ()
    if program.designs:
        message = "the program has designs but no schedule, so that there is nothing to compile"
        hint = "'collc design' solves the designs of a program"
        return (Diagnostic("U0208", message, program.designs[0].span, hint=hint, warning=True),)
    hint = "a schedule says what to build: schedule s on t { run all_gather(t.npus, size: 9MiB) }"
    return (Diagnostic("U0207", "there is nothing to build: the program has no schedule", hint=hint, warning=True),)


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
