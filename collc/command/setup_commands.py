"""The commands of the first minutes: a starter program, completion in the shell, and what is installed."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from collc.base.diagnostics import Diagnostic, Exit, UsageError, printable
from collc.base.resources import starters
from collc.base.tables import Table
from collc.base.wording import phrase
from collc.command import options as shared
from collc.command.options import command, option
from collc.command.terminal import FILE_WIDTH, Output, table_text

KINDS: Final = ("cluster", "mesh", "collective", "design")
"""Of starter programs, in `starters/`."""


@command(
    "new",
    f"write a commented starter program: {phrase(KINDS, 'or')}",
    option("kind KIND", "what the program is about (default: list the kinds)", choices=KINDS, nargs="?"),
    option("file FILE.coll", "the program to write (default: KIND.coll)", Path, nargs="?"),
    ends=False,
)
def new_command(chosen: argparse.Namespace) -> Exit:
    """`collc new`: a starter program. Raises UsageError U0152 if there is a file of that name."""
    from collc.base.atomic_files import write_file

    texts = {kind: starters()[kind].read_text(encoding="utf-8") for kind in KINDS}
    if chosen.kind is None:
        rows = [(kind, text.partition("\n")[0].removeprefix("# ")) for kind, text in texts.items()]
        print(table_text(Table(("kind", "program"), rows), FILE_WIDTH))
        return Exit.DONE
    file: Path = chosen.file or Path(f"{chosen.kind}.coll")
    if file.exists():
        hint = f"name another one: collc new {chosen.kind} FILE.coll"
        raise UsageError(Diagnostic("U0152", f"there is a file {file} already", hint=hint))
    write_file(file, texts[chosen.kind].replace(f"{chosen.kind}.coll", file.name))
    name = printable(str(file))
    print(f"{name} written; its first lines say what to do with it", file=sys.stderr)
    return Exit.DONE


@command(
    "completion",
    "print the code that makes a shell complete the command line of collc",
    option("shell SHELL", "bash, zsh or fish", choices=("bash", "zsh", "fish")),
    ends=False,
    epilog=lambda: (
        'In ~/.bashrc or ~/.zshrc (there after compinit): eval "$(collc completion bash)". For fish: collc '
        "completion fish > ~/.config/fish/completions/collc.fish"
    ),
)
def completion_command(chosen: argparse.Namespace) -> Exit:
    """`collc completion`: code for a shell, which calls collc for each completion. Raises UsageError U0141."""
    try:
        argcomplete: Any = import_module("argcomplete")
    except ImportError as error:
        hint = "install it with: python -m pip install argcomplete"
        raise UsageError(Diagnostic("U0141", "completion needs the package 'argcomplete'", hint=hint)) from error
    print(argcomplete.shellcode(["collc"], shell=chosen.shell))
    return Exit.DONE


@command("doctor", "show what is installed and whether it works, for reports of errors", shared.JSON)
def doctor_command(chosen: argparse.Namespace) -> Output:  # noqa: ARG001 (all commands take it)
    """`collc doctor`: the parts of the installation, each tried; exit code 4 if one fails."""
    from collc.application.doctor.installation import COLUMNS, examine
    from collc.base.tables import records_of, table_of

    parts = examine()
    failed = any(part.outcome == "failed" for part in parts)
    return Output(
        lambda: {"parts": records_of(COLUMNS, parts)},
        [table_of(COLUMNS, parts)],
        exit=Exit.CHECK_FAILED if failed else Exit.DONE,
    )
