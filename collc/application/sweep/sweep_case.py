"""One case of a sweep: a program compiled with some values of its params, without writing files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypedDict

from collc.application.compile.compilation import build_schedule
from collc.application.compile.compile_report import ScheduleReport
from collc.application.compile.planning import BuildInput
from collc.application.program_files import ProgramFiles, load_files
from collc.application.settings import Settings
from collc.base.diagnostics import CollcError, Diagnostic, Exit, SourceError
from collc.base.wording import did_you_mean
from collc.passes.synthesizers import searching_synthesizers
from collc.simulation.bandwidth import bandwidths
from collc.source.program import ScheduleRequest
from collc.source.standard_algorithms import StandardAlgorithms, textbook_sends

Cell = str | int | float | None
Rows = list[dict[str, Cell]]

RESULTS: Final = (
    *("network", "npus", "links", "synthesizer", "link_model", "chunks_per_block", "collective", "bytes", "steps"),
    *("transfers", "time_ps", "bound_ps", "ideal_ps", "of_ideal", "algorithm_bandwidth", "bus_bandwidth"),
    *("exit", "error", "message"),
)
"""The columns of a row that say what came out."""

_KEYS: Final = {"network": "topology", "synthesizer": "algorithm"}
"""The keys in `compile --json` of columns that have another name."""


@dataclass(frozen=True, slots=True)
class SweepCase:
    """What one case compiles. None: what the program says.

    definitions: values of params. algorithm: a synthesizer, or an algorithm of `std.algorithms` for all runs.
    schedule: the only one to compile. options: of the synthesizer, those of all cases, by name.
    """

    program: ProgramFiles
    definitions: tuple[tuple[str, str], ...]
    algorithm: str | None
    seed: int | None
    chunks: int | Literal["auto"] | None
    schedule: str | None
    options: tuple[tuple[str, Any], ...] = ()


class Outcome(TypedDict):
    """The rows of a case, one for each schedule, and the messages of errors as JSON."""

    rows: Rows
    cpu_seconds: float


def run_case(case: SweepCase) -> Outcome:
    """Compile one case; errors of any kind are in its rows."""
    import time

    began = time.process_time()
    try:
        rows = list(_rows(case))
    except Exception as error:
        rows = [_failure(case, *failure_of(error))]
    return {"rows": rows, "cpu_seconds": round(time.process_time() - began, 3)}


def failure_of(error: Exception) -> tuple[Sequence[Diagnostic], Exit]:
    """The messages and the exit code of an error of any kind that ends a case."""
    if isinstance(error, CollcError):
        return error.diagnostics, error.exit
    if isinstance(error, MemoryError):
        return [Diagnostic("U0109", "there is not enough memory for this case")], Exit.SOURCE
    return [Diagnostic("U0116", f"internal error: {type(error).__name__}: {error}")], Exit.INTERNAL


def _rows(case: SweepCase) -> Iterator[dict[str, Cell]]:
    program = load_files(case.program, dict(case.definitions), case.schedule, case.chunks)
    textbook = None if case.algorithm in searching_synthesizers() else case.algorithm
    settings = Settings(
        synthesizer=None if textbook else case.algorithm, seed=case.seed, write=False, **dict(case.options)
    )
    for request in program.schedules:
        try:
            plain = with_textbook_algorithm(replace(request, emits=()), textbook) if textbook else request
            report = build_schedule(BuildInput(plain, settings))
        except CollcError as error:
            yield _failure(case, error.diagnostics, error.exit) | {"schedule": request.name}
            continue
        yield _row(plain, report)


def with_textbook_algorithm(request: ScheduleRequest, name: str) -> ScheduleRequest:
    """The schedule with an algorithm of `std.algorithms` for all runs; if its messages meet on links, they queue.

    Raises SourceError U0143 if there is none of that name for a run, and what the algorithm raises.
    """
    runs = list(request.runs)
    for number, run in enumerate(request.demand.runs):
        standard = run.standard
        names = StandardAlgorithms.names(standard.kind) if standard is not None else ()
        if standard is None or name not in names:
            message = f"std.algorithms has no '{name}' for {run.collective}"
            hint = did_you_mean(name, names, "there are " + ", ".join(names) if names else "")
            raise SourceError(Diagnostic("U0143", message, runs[number].span, hint=hint))
        moves = textbook_sends(request.network, request.demand, number, name)
        runs[number] = replace(runs[number], algorithm=name, moves=moves, library=True)
    return replace(request, runs=tuple(runs), allow_congestion=True, synthesizer="fixed", options={})


def _row(request: ScheduleRequest, report: ScheduleReport) -> dict[str, Cell]:
    standard = request.demand.standard
    kind, size = (standard.kind, standard.size) if standard is not None else (None, None)
    rates = bandwidths(kind or "", size, len(request.demand.runs[0].group), report.time_ps)
    failed = {} if report.ok else _error([d for d in report.diagnostics if not d.warning])
    answer: dict[str, Any] = report.as_json()
    return _blank(report.name) | {
        **{name: answer[_KEYS.get(name, name)] for name in RESULTS if _KEYS.get(name, name) in answer},
        "collective": kind,
        "bytes": size,
        "algorithm_bandwidth": None if rates[0] is None else float(rates[0]),
        "bus_bandwidth": None if rates[1] is None else float(rates[1]),
        "exit": int(report.exit),
        **failed,
    }


def _blank(schedule: str | None) -> dict[str, Cell]:
    return {"schedule": schedule, **dict.fromkeys(RESULTS)}


def _failure(case: SweepCase, messages: Sequence[Diagnostic], code: Exit) -> dict[str, Cell]:
    return _blank(case.schedule) | {"exit": int(code)} | _error(messages)


def _error(messages: Sequence[Diagnostic]) -> dict[str, Cell]:
    """The code and the text of the first error, with its place."""
    if not messages:
        return {"error": "", "message": "it failed without a message"}
    first = messages[0]
    place = f"{first.span.file.name}:{first.span.line}:{first.span.column}: " if first.span is not None else ""
    return {"error": first.code, "message": place + first.message}


def lost_outcome(case: SweepCase, reason: str) -> Outcome:
    """The row of a case whose process ended each time that it was tried."""
    return {"rows": [_failure(case, [Diagnostic("U0144", reason)], Exit.INTERNAL)], "cpu_seconds": 0.0}
