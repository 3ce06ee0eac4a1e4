"""`collc.compile` and `collc.compile_text`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from collc.api.keywords import with_keywords
from collc.application.compilation import compile_program
from collc.application.compile_report import CompileReport
from collc.application.settings import Callbacks, Progress, Settings
from collc.base.diagnostics import SourceFile

Definition = int | float | bool | str
"""A value of a param: a string is text in the syntax of `.coll`, as in "9MiB", or the value of a string param."""


class CompileOptions(TypedDict, total=False):
    """The keywords of `compile` and `compile_text`. A missing one, or None, leaves the choice to the program.

    definitions: values of the program's params, as in {"chunks": 2, "size": "9MiB"}.
    only: name of the one schedule to compile.
    synthesizer, algorithm: name of the synthesizer ("auto", "tacos", "pccl", ...); two names for one keyword.
    seed: of all random choices.
    trials: independent attempts, of which the best is kept.
    threads: at most so many; the result does not depend on it.
    time_limit: seconds for the search of each schedule; the best schedule found until then is used.
    link_model: "store" or "pipelined".
    passes: a pipeline of passes to run instead, as in "tacos{seed=7},invert,verify".
    prove: ask Z3 to prove the properties of each schedule, and to look for a shorter one.
    certificate: file for the formulas given to Z3.
    emit: kinds of files to write besides those that the program names: "ten", "msccl", "mscclpp".
    output: folder for all files; the current folder where it is missing.
    progress: receives the share of the current phase that is done (None where it is not known) and the phase's name.
    errors: "raise" (the default): raise an exception where a schedule fails, after all were compiled. "report": only
        say so in the report.
    """

    definitions: Mapping[str, Definition] | None
    only: str | None
    synthesizer: str | None
    algorithm: str | None
    seed: int | None
    trials: int | None
    threads: int | None
    time_limit: float | None
    link_model: Literal["store", "pipelined"] | None
    passes: str | None
    prove: bool
    certificate: str | PathLike[str] | None
    emit: str | Iterable[str]
    output: str | PathLike[str] | None
    progress: Callable[[float | None, str], None] | None
    errors: Literal["raise", "report"]


@with_keywords(CompileOptions)
def compile(source: str | PathLike[str], **options: Unpack[CompileOptions]) -> CompileReport:  # noqa: A001
    """Compile a program: synthesize and check all its schedules, and write the files that it asks for.

    source: a `.coll` file, or a program as text. A string with a line break or a brace is text, any other string is
    the path of a file.

    The keywords are those of `CompileOptions`. Returns the report, whose schedules hold their modules:
    `report["gather"].module`. Raises CollcError where the program, the settings or a schedule are wrong, TypeError
    for an unknown keyword, and KeyboardInterrupt at Ctrl-C.
    """
    if isinstance(source, str) and any(character in source for character in "\n{"):
        return compile_text(source, **options)
    return _compile(Path(source), options)


@with_keywords(CompileOptions)
def compile_text(text: str, **options: Unpack[CompileOptions]) -> CompileReport:
    """Compile a program given as text, as `compile` does. File names in its imports start at the current folder."""
    return _compile(SourceFile("<text>", text), options)


def _compile(source: Path | SourceFile, options: CompileOptions) -> CompileReport:
    errors = options.get("errors", "raise")
    if errors not in ("raise", "report"):
        raise ValueError(f"errors must be 'raise' or 'report', not {errors!r}")
    progress: Progress | None = options.get("progress")
    callbacks = Callbacks() if progress is None else Callbacks(progress=progress)
    report = compile_program(source, _settings(options), callbacks)
    if errors == "raise":
        report.raise_if_failed()
    return report


def _settings(options: CompileOptions) -> Settings:
    """The settings of a compilation. Raises TypeError or ValueError for values that no keyword takes."""
    synthesizer, algorithm = options.get("synthesizer"), options.get("algorithm")
    if synthesizer is not None and algorithm is not None and synthesizer != algorithm:
        raise TypeError("'synthesizer' and 'algorithm' are two names for one keyword: give one of them")
    emit, certificate = options.get("emit", ()), options.get("certificate")
    time_limit, link_model = options.get("time_limit"), options.get("link_model")
    if time_limit is not None and not 0 < time_limit < math.inf:
        raise ValueError(f"time_limit must be a positive number of seconds, not {time_limit!r}")
    if link_model not in (None, "store", "pipelined"):
        raise ValueError(f"link_model must be 'store' or 'pipelined', not {link_model!r}")
    return Settings(
        output=Path(options.get("output") or "."),
        only=options.get("only"),
        definitions={name: _as_text(value) for name, value in (options.get("definitions") or {}).items()},
        emit=(emit,) if isinstance(emit, str) else tuple(emit),
        synthesizer=synthesizer if synthesizer is not None else algorithm,
        seed=_whole("seed", options.get("seed"), 0),
        trials=_whole("trials", options.get("trials"), 1),
        threads=_whole("threads", options.get("threads"), 1),
        time_limit=time_limit,
        link_model=link_model,
        passes=options.get("passes"),
        prove=bool(options.get("prove", False)),
        certificate=None if certificate is None else Path(certificate),
        keep_modules=True,
    )


def _whole(name: str, value: int | None, least: int) -> int | None:
    """An integer of at least `least` and less than 2**63, or None. Raises TypeError or ValueError."""
    if value is None:
        return None
    number = operator.index(value)
    if not least <= number < 2**63:
        raise ValueError(f"{name} must be at least {least} and less than 2**63, not {value!r}")
    return number


def _as_text(value: Definition) -> str:
    """A value of a param in the syntax of `.coll`. NumPy scalars count as Python's."""
    item: Any = getattr(value, "item", None)
    plain = item() if item is not None else value
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, float):
        if not math.isfinite(plain):
            raise ValueError(f"{plain!r} is not a value of a param")
        return format(Decimal(repr(plain)), "f")
    if isinstance(plain, int | str):
        return str(plain)
    raise TypeError(f"a value of a param is an int, float, bool or str, not {type(value).__name__}")
