"""What each command does, once its arguments are read."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Final

from collc.diagnostics import Diagnostic, Exit, SourceError, UsageError
from collc.terminal import progress, show_table, tell


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def _messages(diagnostics: Sequence[Diagnostic]) -> list[dict[str, object]]:
    from collc.rendering import as_json

    return as_json(diagnostics)


def compile_command(chosen: argparse.Namespace) -> Exit:
    """`collc compile`: build, verify, write."""
    from collc.driver import Settings, compile_file
    from collc.report import COLUMNS

    settings = Settings(
        output=chosen.output,
        only=chosen.schedule,
        definitions=dict(chosen.definitions),
        emit=tuple(chosen.emit),
        algorithm=chosen.algorithm,
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
    with progress(chosen.quiet) as show:
        report = compile_file(chosen.file, settings, show)
    found = [*report.diagnostics, *(d for s in report.schedules for d in s.diagnostics)]
    if chosen.json:
        _print_json(report.as_json() | {"diagnostics": _messages(found)})
    elif not chosen.quiet and not chosen.print_after and report.schedules:
        show_table(COLUMNS, [schedule.cells() for schedule in report.schedules])
        for schedule in report.schedules:
            for note in schedule.notes:
                print(f"{schedule.name}: {note}", file=sys.stderr)
    tell(found)
    return report.exit


def check_command(chosen: argparse.Namespace) -> Exit:
    """`collc check`: messages only."""
    from collc.source.elaborate import check_program

    diagnostics: tuple[Diagnostic, ...] = ()
    code = Exit.DONE
    try:
        check_program(chosen.file, dict(chosen.definitions))
    except SourceError as error:
        diagnostics, code = error.diagnostics, error.exit
    if chosen.json:
        _print_json({"diagnostics": _messages(diagnostics)})
    tell(diagnostics)
    return code


def verify_command(chosen: argparse.Namespace) -> Exit:
    """`collc verify`: every check of a file, whoever wrote it."""
    from collc.verifying import Against, verify_file

    against = Against(chosen.collective, chosen.root, chosen.profile, chosen.program, chosen.schedule)
    verdict = verify_file(chosen.file, against)
    if chosen.json:
        _print_json(verdict.as_json() | {"diagnostics": _messages(verdict.diagnostics)})
    else:
        show_table(("check", "outcome"), [*verdict.checks.items()])
    tell(verdict.diagnostics)
    return Exit.CHECK_FAILED if "failed" in verdict.checks.values() else Exit.DONE


def fmt_command(chosen: argparse.Namespace) -> Exit:
    """`collc fmt`: one canonical layout."""
    from collc.files import drafting
    from collc.source.format import format_source
    from collc.source.imports import read

    code = Exit.DONE
    for path in chosen.files:
        source = read(path, str(path))
        text = format_source(source)
        if text == source.text:
            continue
        if chosen.check:
            print(f"{path} would be laid out anew", file=sys.stderr)
            code = Exit.CHECK_FAILED
            continue
        with drafting() as draft:
            draft.new(path).write_text(text, encoding="utf-8")
            draft.publish()
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
    from collc.source.explain import explain

    print(explain(chosen.code))
    return Exit.DONE


def run_command(chosen: argparse.Namespace) -> Exit:
    """`collc run`: an MSCCL file on real data."""
    raise UsageError(Diagnostic("U0100", f"cannot run {chosen.file}"))


COMMANDS: Final[dict[str, Callable[[argparse.Namespace], Exit]]] = {
    "compile": compile_command,
    "check": check_command,
    "verify": verify_command,
    "fmt": fmt_command,
    "std": std_command,
    "explain": explain_command,
}


def run(chosen: argparse.Namespace) -> Exit:
    """The command that was chosen; raises CollcError where it cannot be done."""
    return COMMANDS[chosen.command](chosen)
