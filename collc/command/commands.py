"""What each command does, once its arguments are read."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from collc.base.diagnostics import Diagnostic, Exit, NoSchedule, SourceError
from collc.command.terminal import progress, show_table, tell

if TYPE_CHECKING:
    from collc.application.compile_report import CompileReport, ScheduleReport
    from collc.msccl.running.run_file import RunReport


def _print_json(answer: Mapping[str, object], diagnostics: Sequence[Diagnostic] = ()) -> None:
    from collc.base.rendering import as_json

    print(json.dumps({**answer, "diagnostics": as_json(diagnostics)}, indent=2))


class Unfinished(Exception):
    """`collc compile` ended early, for the reason in `__cause__`.

    report: the schedules that were built before. In text it has been shown; as JSON it waits for the reason.
    """

    def __init__(self, report: CompileReport) -> None:
        super().__init__()
        self.report: CompileReport = report


def compile_command(chosen: argparse.Namespace) -> Exit:
    """`collc compile`: build, verify, write. Raises Unfinished where it ends early, with a schedule built."""
    from collc.application.compilation import Settings, compile_file
    from collc.application.compile_report import CompileReport

    settings = Settings(
        output=chosen.output,
        only=chosen.schedule,
        definitions=dict(chosen.definitions),
        emit=tuple(chosen.emit),
        synthesizer=chosen.synthesizer,
        seed=chosen.seed,
        trials=chosen.trials,
        threads=chosen.threads,
        time_limit=chosen.time_limit,
        link_model=chosen.link_model,
        passes=chosen.passes,
        print_after=tuple(chosen.print_after),
        prove=chosen.prove,
        certificate=chosen.certificate,
    )
    built: list[ScheduleReport] = []
    try:
        with progress(chosen.quiet) as show:
            report = compile_file(chosen.file, settings, show, done=built.append)
    except (Exception, KeyboardInterrupt) as error:
        if not built:
            raise
        early = CompileReport(tuple(built))
        if not chosen.json:
            show_compiled(early, chosen)
        raise Unfinished(early) from error
    show_compiled(report, chosen)
    return report.exit


def show_compiled(report: CompileReport, chosen: argparse.Namespace) -> None:
    """Show what came of a compilation."""
    from collc.application.compile_report import COLUMNS

    found = report.told
    if chosen.json:
        _print_json(report.as_json(), found)
    elif not chosen.quiet and not chosen.print_after and report.schedules:
        show_table(COLUMNS, [schedule.cells() for schedule in report.schedules])
        for schedule in report.schedules:
            for note in schedule.notes:
                print(f"{schedule.name}: {note}", file=sys.stderr)
    tell(found)


def check_command(chosen: argparse.Namespace) -> Exit:
    """`collc check`: messages only."""
    from collc.source.elaboration.elaborate import load_program

    diagnostics: tuple[Diagnostic, ...] = ()
    code = Exit.DONE
    try:
        load_program(chosen.file, dict(chosen.definitions))
    except (SourceError, NoSchedule) as error:
        diagnostics, code = error.diagnostics, error.exit
    if chosen.json:
        _print_json({}, diagnostics)
    tell(diagnostics)
    return code


def verify_command(chosen: argparse.Namespace) -> Exit:
    """`collc verify`: every check of a file, whoever wrote it."""
    from collc.application.file_verification import Against, verify_file

    against = Against(chosen.collective, chosen.root, chosen.profile, chosen.program, chosen.schedule)
    verdict = verify_file(chosen.file, against)
    if chosen.json:
        _print_json(verdict.as_json(), verdict.diagnostics)
    elif not verdict.refused:
        show_table(("check", "outcome"), verdict.rows())
        if words := verdict.told():
            print(textwrap.fill(words, 80, break_long_words=False, break_on_hyphens=False))
    tell(verdict.diagnostics)
    return Exit.DONE if verdict.ok else Exit.CHECK_FAILED


def fmt_command(chosen: argparse.Namespace) -> Exit:
    """`collc fmt`: one canonical layout."""
    from collc.base.atomic_files import write_file
    from collc.base.reading import read_text
    from collc.source.formatting.format import format_source
    from collc.source.parsing.parse import MAX_BYTES

    code = Exit.DONE
    for path in chosen.files:
        source = read_text(path, limit=MAX_BYTES)
        text = format_source(source)
        if text == source.text:
            continue
        if chosen.check:
            print(f"{path} would be laid out anew", file=sys.stderr)
            code = Exit.CHECK_FAILED
            continue
        write_file(path, text)
        print(f"{path} laid out anew", file=sys.stderr)
    return code


def std_command(chosen: argparse.Namespace) -> Exit:
    """`collc std`: the standard library."""
    from collc.source.std_listing import std_entries, std_source

    if chosen.name is not None:
        print(std_source(chosen.name))
        return Exit.DONE
    entries = std_entries()
    wide = max(len(entry.signature) for entry in entries if len(entry.signature) < 50)
    module = ""
    for entry in entries:
        if entry.module != module:
            module = entry.module
            print(f"\n{module}" if module else module)
        print(f"  {entry.signature:<{wide}}  {entry.summary}")
    return Exit.DONE


def explain_command(chosen: argparse.Namespace) -> Exit:
    """`collc explain`: more about a code."""
    from collc.codes.explain import explain

    print(explain(chosen.code))
    return Exit.DONE


def run_command(chosen: argparse.Namespace) -> Exit:
    """`collc run`: an MSCCL file or an MSCCL++ plan on random data, compared with NumPy."""
    from collc.application.named_collectives import known_collective
    from collc.msccl.file_kinds import kind_of_program
    from collc.msccl.running.run_file import run_file
    from collc.msccl.running.run_plan import run_plan_file

    if chosen.collective is not None:
        known_collective(chosen.collective, ("custom",))
    names = ("dtype", "count", "seed", "runs", "op", "collective", "root")
    settings = {name: getattr(chosen, name) for name in names}
    if kind_of_program(chosen.file) == "mscclpp":
        reports = run_plan_file(chosen.file, threads=chosen.threads, **settings)
    else:
        reports = run_file(chosen.file, profile=chosen.profile, threads=chosen.threads, **settings)
    if chosen.json:
        _print_json({"runs": [asdict(report) | {"ok": report.ok} for report in reports]})
    else:
        columns = ("placement", "seed", "dtype", "op", "count", "messages", "outcome", "largest error")
        show_table(columns, [_run_row(report) for report in reports])
    return Exit.DONE if all(report.ok for report in reports) else Exit.CHECK_FAILED


def _run_row(report: RunReport) -> tuple[str, ...]:
    outcome = "as NumPy says"
    if report.hung:
        gpu, tb, step = report.hung[0]
        outcome = f"hangs: gpu {gpu}, tb {tb}, step {step} and {len(report.hung) - 1} more wait for ever"
    elif report.wrong:
        first = report.wrong[0]
        outcome = f"wrong: rank {first.rank}, chunk {first.chunk}: {first.got} is not {first.expected}"
    placement = "in place" if report.inplace else "out of place"
    data = report.dtype, report.op or "-", str(report.count)
    return placement, str(report.seed), *data, str(report.messages), outcome, f"{report.error:.1e}"


def inspect_command(chosen: argparse.Namespace) -> Exit:
    """`collc inspect`: what is in an MSCCL file or an MSCCL++ plan."""
    from collc.base.atomic_files import write_file
    from collc.msccl.inspecting.inspect_file import inspection_of

    found = inspection_of(chosen.file, chosen.profile)
    if chosen.svg is not None:
        write_file(chosen.svg, found.svg())
    if chosen.json:
        _print_json(found.as_json())
        return Exit.DONE
    show_table(*found.table())
    totals = ", ".join(f"{name} {value}" for name, value in found.totals().items())
    print(textwrap.fill(totals, 80, break_long_words=False, break_on_hyphens=False))
    return Exit.DONE


COMMANDS: Final[dict[str, Callable[[argparse.Namespace], Exit]]] = {
    "compile": compile_command,
    "check": check_command,
    "verify": verify_command,
    "run": run_command,
    "inspect": inspect_command,
    "fmt": fmt_command,
    "std": std_command,
    "explain": explain_command,
}


def run(chosen: argparse.Namespace) -> Exit:
    """The command that was chosen; raises CollcError where it cannot be done."""
    return COMMANDS[chosen.command](chosen)
