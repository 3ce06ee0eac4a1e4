"""`collc sweep`: a program compiled for all combinations of values of its params, algorithms and seeds."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from collc.application.program_files import ProgramOutline, read_program
from collc.application.settings import Progress
from collc.application.sweep.sweep_case import RESULTS, Outcome, Rows, SweepCase, lost_outcome
from collc.application.sweep.sweep_table import SweepPlot, SweepTable, check_format, checked_plot, write_chart
from collc.base.diagnostics import Diagnostic, Exit, SourceError, UsageError
from collc.base.wording import did_you_mean, phrase, plural
from collc.parallel.processes import Lost, Processes, results_of
from collc.passes.synthesizers import searching_synthesizers

MOST_CASES: Final = 1_000_000
"""The most cases of a sweep."""

RUN_CASE: Final = "collc.application.sweep.sweep_case:run_case"


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """What is swept, and how.

    definitions: by param, the texts of its values. algorithms, seeds, chunks: the values of each; () for what the
    program says. schedule: the only one to compile. trials, threads, time_limit, link_model: of all cases.
    output: the table. plot: a chart of it. timings: whether the table has the CPU seconds of each case, which differ
    from run to run. processes: that run the cases.
    """

    definitions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    algorithms: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    chunks: tuple[int | Literal["auto"], ...] = ()
    schedule: str | None = None
    trials: int | None = None
    threads: int | None = None
    time_limit: float | None = None
    link_model: str | None = None
    output: Path | None = None
    plot: SweepPlot | None = None
    timings: bool = False
    processes: Processes = field(default_factory=Processes)


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The table of a sweep, and remarks: how many cases a sweep that was killed had done before."""

    table: SweepTable
    notes: tuple[str, ...] = ()

    @property
    def exit(self) -> Exit:
        """The exit code of the first row that failed."""
        return next((Exit(int(row["exit"] or 0)) for row in self.table.rows if row["exit"]), Exit.DONE)

    def failures(self) -> list[Diagnostic]:
        """A warning if some rows failed, with the first error."""
        failed = [row for row in self.table.rows if row["exit"]]
        if not failed:
            return []
        first = failed[0]
        message = f"{len(failed)} of {plural(len(self.table.rows), 'row')} failed"
        hint = f"the first one: [{first['error']}] {first['message']}"
        return [Diagnostic("U0145", message, hint=hint, warning=True)]


def sweep_program(path: Path, settings: SweepSettings, progress: Progress) -> SweepReport:
    """Compile all cases, in parallel, and write the table.

    Raises SourceError if the program cannot be read, UsageError if the settings do not fit it. What one case
    raises is in its row. A journal beside the output has the cases that are done; it is removed in the end.
    """
    if settings.output is not None:
        check_format(settings.output)
    outline = read_program(path)
    check_names(outline, [name for name, _ in settings.definitions], settings.schedule, settings.algorithms)
    if not outline.schedules:
        hint = "a schedule says what to build: schedule s on t { run all_gather(t.npus, size: 9MiB) }"
        raise SourceError(Diagnostic("U0207", "there is nothing to sweep: the program has no schedule", hint=hint))
    plot = settings.plot
    if plot is not None:
        plot = checked_plot(plot, {column_of(name): values for name, values in settings.definitions})
    cases = _cases(outline, settings)
    report = _run_cases(cases, outline, settings, progress)
    if plot is not None:
        write_chart(report.table, plot, f"{Path(outline.files.shown).name}: all cases")
    return report


def _run_cases(
    cases: Sequence[SweepCase], outline: ProgramOutline, settings: SweepSettings, progress: Progress
) -> SweepReport:
    """The table of all cases, which is written if there is an output."""
    from collc.parallel.journal import journal_of, opened_journal

    by_key = {_key(case): case for case in cases}
    notes: list[str] = []
    basis = outline.files.digest()
    output = settings.output
    with nullcontext() if output is None else opened_journal(journal_of(output), basis) as journal:
        if journal is not None:
            before = len(by_key.keys() & journal.done.keys())
            if before:
                notes.append(f"{before} of {plural(len(cases), 'case')} were done by an earlier run")
            if journal.restarted:
                notes.append("the journal of another program or version was dropped")
        results = results_of(RUN_CASE, by_key, settings.processes, progress, "case", journal)
        for key, result in results.items():
            if isinstance(result, Lost):
                results[key] = lost_outcome(by_key[key], result.reason)
        table = _table(cases, [results[_key(case)] for case in cases], settings)
        if output is not None and journal is not None:
            table.write(output)
            journal.remove()
    return SweepReport(table, tuple(notes))


def check_names(
    outline: ProgramOutline, params: Sequence[str], schedule: str | None, algorithms: Sequence[str]
) -> None:
    """Raise SourceError E0224 for a param and UsageError U0110 for a schedule that a program does not have.

    Also UsageError U0102 for a name that no synthesizer or algorithm of `std.algorithms` has.
    """
    for name in params:
        if name not in outline.params:
            hint = did_you_mean(name, outline.params)
            message = f"definition of {name}: the program has no param '{name}'"
            raise SourceError(Diagnostic("E0224", message, hint=hint))
    if schedule is not None and schedule not in outline.schedules:
        hint = did_you_mean(schedule, outline.schedules)
        message = f"{outline.files.shown} has no schedule '{schedule}'"
        raise UsageError(Diagnostic("U0110", message, hint=hint))
    from collc.source.standard_library import textbook_names

    known = list(dict.fromkeys([*searching_synthesizers(), *textbook_names()]))
    for name in algorithms:
        if name not in known or name == "fixed":
            hint = did_you_mean(name, known, f"there are {phrase(known)}")
            raise UsageError(Diagnostic("U0102", f"there is no synthesizer or algorithm named '{name}'", hint=hint))


def _cases(outline: ProgramOutline, settings: SweepSettings) -> list[SweepCase]:
    """All cases, in the order of the table: the last param, then algorithms, seeds and chunks vary fastest.

    Raises UsageError U0146 if there are too many.
    """
    names = [name for name, _ in settings.definitions]
    others = [values or (None,) for values in (settings.algorithms, settings.seeds, settings.chunks)]
    values: list[Sequence[Any]] = [*(texts for _, texts in settings.definitions), *others]
    count = math.prod(map(len, values))
    if count > MOST_CASES:
        message = f"{count:,} cases exceed the limit of {MOST_CASES:,}"
        raise UsageError(Diagnostic("U0146", message, hint="sweep fewer values at once"))
    options = tuple((name, getattr(settings, name)) for name in ("trials", "threads", "time_limit", "link_model"))
    return [
        SweepCase(
            outline.files, tuple(zip(names, texts, strict=True)), algorithm, seed, number, settings.schedule, options
        )
        for *texts, algorithm, seed, number in itertools.product(*values)
    ]


def _key(case: SweepCase) -> str:
    """What the result of a case depends on besides the program."""
    return json.dumps([case.definitions, case.algorithm, case.seed, case.chunks, case.schedule, case.options])


def _table(cases: Iterable[SweepCase], outcomes: Iterable[Outcome], settings: SweepSettings) -> SweepTable:
    rows: Rows = []
    for case, outcome in zip(cases, outcomes, strict=True):
        asked = {
            **{column_of(name): value for name, value in case.definitions},
            **({"algorithm": case.algorithm} if settings.algorithms else {}),
            **({"seed": case.seed} if settings.seeds else {}),
            **({"chunks": case.chunks} if settings.chunks else {}),
        }
        for row in outcome["rows"]:
            timing = {"cpu_seconds": outcome["cpu_seconds"]} if settings.timings else {}
            rows.append({"schedule": row["schedule"]} | asked | row | timing)
    return SweepTable.of(rows, [column_of(name) for name, _ in settings.definitions])


def column_of(param: str) -> str:
    """The column of a param; another name if a column of the results has that of the param."""
    return f"param_{param}" if param in (*RESULTS, "schedule", "algorithm", "seed", "chunks", "cpu_seconds") else param
