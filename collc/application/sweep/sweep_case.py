"""One case of a sweep: a program compiled with some values of its params, without writing files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal, TypedDict

from collc.application.compile.compile_report import ScheduleReport
from collc.application.compile.planning import BuildInput
from collc.application.compile.schedule_build import build_schedule
from collc.application.program_files import ProgramFiles, load_files
from collc.application.settings import Settings
from collc.base.diagnostics import CollcError, Diagnostic, Exit, SourceError
from collc.base.wording import did_you_mean
from collc.passes.synthesizers import searching_synthesizers
from collc.simulation.bandwidth import algorithm_bandwidth, bus_factor
from collc.source.program import ScheduleRequest
from collc.source.standard_algorithms import StandardAlgorithms
from collc.synthesis.auto.textbook import hierarchical_shape

Cell = str | int | float | None
Rows = list[dict[str, Cell]]

RESULTS: Final = (
    "network",
    "npus",
    "links",
    "synthesizer",
    "link_model",
    "chunks_per_block",
    "collective",
    "bytes",
    "steps",
    "transfers",
    "time_ps",
    "bound_ps",
    "ideal_ps",
    "of_ideal",
    "algorithm_bandwidth",
    "bus_bandwidth",
    "exit",
    "error",
    "message",
)
"""The columns of a row that say what came out."""


@dataclass(frozen=True, slots=True)
class SweepCase:
    """What one case compiles. None: what the program says.

    definitions: values of params. algorithm: a synthesizer, or an algorithm of `std.algorithms` for all runs.
    schedule: the only one to compile.
    """

    program: ProgramFiles
    definitions: tuple[tuple[str, str], ...]
    algorithm: str | None
    seed: int | None
    chunks: int | Literal["auto"] | None
    schedule: str | None
    trials: int | None = None
    threads: int | None = None
    time_limit: float | None = None
    link_model: str | None = None


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
    except CollcError as error:
        rows = [_failure(case, error.diagnostics, error.exit)]
    except MemoryError:
        message = "there is not enough memory for this case"
        rows = [_failure(case, [Diagnostic("U0109", message)], Exit.SOURCE)]
    except Exception as error:
        rows = [
            _failure(case, [Diagnostic("U0116", f"internal error: {type(error).__name__}: {error}")], Exit.INTERNAL)
        ]
    return {"rows": rows, "cpu_seconds": round(time.process_time() - began, 3)}


def _rows(case: SweepCase) -> Iterator[dict[str, Cell]]:
    program = load_files(case.program, dict(case.definitions), case.schedule, case.chunks)
    textbook = None if case.algorithm in searching_synthesizers() else case.algorithm
    settings = Settings(
        synthesizer=None if textbook else case.algorithm,
        seed=case.seed,
        trials=case.trials,
        threads=case.threads,
        time_limit=case.time_limit,
        link_model=case.link_model,
        write=False,
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
    """The schedule with an algorithm of `std.algorithms` for all runs; where its messages meet on links, they queue.

    Raises SourceError U0143 where there is none of that name for a run, and what the algorithm raises.
    """
    runs = list(request.runs)
    for number, run in enumerate(request.demand.runs):
        standard = run.standard
        names = StandardAlgorithms.names(standard.kind) if standard is not None else ()
        if standard is None or name not in names:
            message = f"std.algorithms has no '{name}' for {run.collective}"
            hint = did_you_mean(name, names, "there are " + ", ".join(names) if names else "")
            raise SourceError(Diagnostic("U0143", message, runs[number].span, hint=hint))
        shape = hierarchical_shape(request.network, len(run.group)) if name == "hierarchical" else ()
        sends = StandardAlgorithms.sends(standard, len(run.group), name, shape)
        moves = sends.placed(run.group, int(request.demand.first_chunk[number]))
        runs[number] = replace(runs[number], algorithm=name, moves=moves, library=True)
    return replace(request, runs=tuple(runs), allow_congestion=True, synthesizer="fixed", options={})


def _row(request: ScheduleRequest, report: ScheduleReport) -> dict[str, Cell]:
    standard = request.demand.standard
    size = standard.size if standard is not None else None
    rate = algorithm_bandwidth(size, report.time_ps) if size and report.time_ps else None
    factor = bus_factor(standard.kind, len(request.demand.runs[0].group)) if standard is not None else None
    failed = {} if report.ok else _error([d for d in report.diagnostics if not d.warning])
    return _blank(report.name) | {
        "network": report.topology,
        "npus": report.npus,
        "links": report.links,
        "synthesizer": report.synthesizer,
        "link_model": report.link_model,
        "chunks_per_block": report.chunks_per_block,
        "collective": standard.kind if standard is not None else None,
        "bytes": size,
        "steps": report.steps,
        "transfers": report.transfer_count,
        "time_ps": report.time_ps,
        "bound_ps": report.bound_ps,
        "ideal_ps": report.ideal_ps,
        "of_ideal": report.of_ideal,
        "algorithm_bandwidth": _float(rate),
        "bus_bandwidth": _float(rate * factor) if rate is not None and factor is not None else None,
        "exit": int(report.exit),
        **failed,
    }


def _float(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _blank(schedule: str | None) -> dict[str, Cell]:
    return {"schedule": schedule, **dict.fromkeys(RESULTS)}


def _failure(case: SweepCase, messages: tuple[Diagnostic, ...] | list[Diagnostic], code: Exit) -> dict[str, Cell]:
    return _blank(case.schedule) | {"exit": int(code)} | _error(list(messages))


def _error(messages: list[Diagnostic]) -> dict[str, Cell]:
    """The code and the text of the first error, with its place."""
    if not messages:
        return {"error": "", "message": "it failed without a message"}
    first = messages[0]
    place = f"{first.span.file.name}:{first.span.line}:{first.span.column}: " if first.span is not None else ""
    return {"error": first.code, "message": place + first.message}


def lost(case: SweepCase, reason: str) -> Outcome:
    """The row of a case whose process ended each time that it was tried."""
    return {"rows": [_failure(case, [Diagnostic("U0144", reason)], Exit.INTERNAL)], "cpu_seconds": 0.0}
