"""`collc.compile`, `collc.compile_text` and `collc.solve_designs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, Unpack, cast

from collc.api import arguments
from collc.api.arguments import Definition, with_keywords
from collc.application.compile.compilation import compile_program
from collc.application.compile.compile_report import CompileReport
from collc.application.design.designs import DesignsReport
from collc.application.design.designs import solve_designs as solve
from collc.application.settings import Callbacks, Settings
from collc.base.diagnostics import SourceFile
from collc.emit.kinds import EMIT_KINDS
from collc.ten.link_model import LinkModel


class CompileOptions(TypedDict, total=False):
    """The keywords of `compile` and `compile_text`. A missing one, or None, leaves the choice to the program.

    definitions: values of the program's params, as in {"chunks": 2, "size": "9MiB"}.
    schedule: name of the one schedule to compile.
    synthesizer: its name ("auto", "tacos", "pccl", ...).
    seed: of all random choices.
    trials: independent attempts, of which the best is kept.
    threads: the most threads to use; the result does not depend on it.
    time_limit: seconds for the search of each schedule; the best schedule found by then is used.
    link_model: "store" or "pipelined".
    chunks: chunks per block, in place of the program's, for all runs that take chunks; "auto": collc picks the number.
    passes: a pipeline of passes to run instead of the synthesizer's, as in "tacos{seed=7},invert,verify".
    prove: ask Z3 to prove the properties of each schedule, and to look for a shorter one.
    certificate: file for the formulas given to Z3.
    emit: kinds of files to write besides those that the program names (listed below).
    output: folder for all files; the current folder if it is missing.
    progress: receives the share of the current phase that is done (None if it is not known) and the phase's name.
    errors: "raise" (the default): raise an exception if a schedule fails, after all were compiled. "report": only
        say so in the report.
    """

    definitions: Mapping[str, Definition] | None
    schedule: str | None
    synthesizer: str | None
    seed: int | None
    trials: int | None
    threads: int | None
    time_limit: float | None
    link_model: Literal["store", "pipelined"] | None
    chunks: int | Literal["auto"] | None
    passes: str | None
    prove: bool
    certificate: str | PathLike[str] | None
    emit: str | Iterable[str]
    output: str | PathLike[str] | None
    progress: Callable[[float | None, str], None] | None
    errors: Literal["raise", "report"]


_KINDS: Final = ", ".join(f'"{kind}"' for kind in EMIT_KINDS)
CompileOptions.__doc__ = f"{CompileOptions.__doc__}\n    Kinds of files: {_KINDS}.\n    "

_FORMER: Final = {"only": "schedule", "algorithm": "synthesizer"}


def _chunks(name: str, value: object) -> int | Literal["auto"]:
    """A number of chunks, or "auto". Raises TypeError or ValueError."""
    return arguments.one_of("auto")(name, value) if isinstance(value, str) else arguments.at_least(1)(name, value)


def _kinds(name: str, emit: object) -> tuple[str, ...]:
    """The kinds of files to write: of one string, or of several. Raises TypeError."""
    kinds = (
        (emit,) if isinstance(emit, str) or not isinstance(emit, Iterable) else tuple(cast("Iterable[object]", emit))
    )
    for kind in kinds:
        if not isinstance(kind, str):
            raise arguments.wrong_type(name, "a str or several", kind)
    return cast("tuple[str, ...]", kinds)


_CHECKS: Final = {
    "definitions": arguments.definition_texts,
    "design": arguments.text,
    "schedule": arguments.text,
    "synthesizer": arguments.text,
    "seed": arguments.at_least(0),
    "trials": arguments.at_least(1),
    "threads": arguments.at_least(1),
    "time_limit": arguments.seconds,
    "link_model": arguments.one_of(*LinkModel),
    "chunks": _chunks,
    "passes": arguments.text,
    "prove": arguments.flag,
    "certificate": arguments.path,
    "emit": _kinds,
    "output": arguments.path,
    "progress": arguments.function,
    "errors": arguments.one_of("raise", "report"),
}


@with_keywords(CompileOptions, _CHECKS, _FORMER)
def compile(source: str | PathLike[str], **options: Unpack[CompileOptions]) -> CompileReport:  # noqa: A001
    """Compile a program: synthesize and check all its schedules, and write the files that it asks for.

    source: a `.coll` file, or a program as text. A string with a line break or a brace is text, any other string is
    the path of a file.

    The keywords are those of `CompileOptions`. Returns the report, whose schedules hold their modules:
    `report["gather"].module`. Raises CollcError if the program, the settings or a schedule are wrong, TypeError
    for an unknown keyword, and KeyboardInterrupt at Ctrl-C.
    """
    return _compile(_file_of(source), options)


@with_keywords(CompileOptions, _CHECKS, _FORMER)
def compile_text(text: str, **options: Unpack[CompileOptions]) -> CompileReport:
    """Compile a program given as text, as `compile` does. File names in its imports start at the current folder."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise arguments.wrong_type("text", "a str", text)
    return _compile(SourceFile("<text>", text), options)


def _file_of(source: str | PathLike[str]) -> Path | SourceFile:
    """The text of a program, if the argument `source` is one, or a path."""
    is_text = isinstance(source, str) and any(character in source for character in "\n{")
    return SourceFile("<text>", str(source)) if is_text else arguments.path("source", source)


def _compile(source: Path | SourceFile, options: CompileOptions) -> CompileReport:
    settings: dict[str, Any] = {"only" if name == "schedule" else name: value for name, value in options.items()}
    errors, progress = settings.pop("errors", "raise"), settings.pop("progress", None)
    callbacks = Callbacks() if progress is None else Callbacks(progress=progress)
    report = compile_program(source, Settings(**settings, keep_modules=True), callbacks)
    if errors != "report":
        report.raise_if_failed()
    return report


class DesignOptions(TypedDict, total=False):
    """The keywords of `solve_designs`. A missing one, or None, leaves the choice to the program.

    definitions: values of the program's params. design: name of the one design to solve. output: folder for the files
        that designs ask for; the current folder if it is missing.
    errors: "raise" (the default): raise an exception if a design fails, after all were solved. "report": only say
        so in the report.
    """

    definitions: Mapping[str, Definition] | None
    design: str | None
    output: str | PathLike[str] | None
    errors: Literal["raise", "report"]


@with_keywords(DesignOptions, _CHECKS)
def solve_designs(source: str | PathLike[str], **options: Unpack[DesignOptions]) -> DesignsReport:
    """Find the best bandwidths for the designs of a program, and write the files that they ask for.

    source: a `.coll` file, or a program as text, as in `compile`. Bandwidths are those of an NPU in each dimension, in
    GB/s. Raises SourceError if the program or a design is wrong, NoSchedule if no bandwidths satisfy the
    constraints of a design, UsageError if the program has no design (of that name), TypeError for an unknown
    keyword.
    """
    chosen: dict[str, Any] = dict(options)
    report = solve(_file_of(source), chosen.get("definitions", {}), chosen.get("design"), chosen.get("output", Path()))
    if chosen.get("errors") != "report":
        report.raise_if_failed()
    return report
