"""What may come next in a command line, which argcomplete offers in bash, zsh and fish."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from collc.base.diagnostics import CollcError
from collc.command.cli import parsers

if TYPE_CHECKING:
    from collc.source.parsing.syntax import Statement

_DECLARATIONS: Final = {
    "definitions": ("Param",),
    "schedule": ("ScheduleDeclaration",),
    "design": ("Design",),
    "topology": ("TopologyInstance", "TopologyTemplate"),
    "on": ("TopologyInstance", "TopologyTemplate"),
}
"""Argument -> the classes of the statements (collc/source/parsing/syntax.py) whose names it takes."""


def complete() -> None:
    """Answer the shell, which asks through the environment (`_ARGCOMPLETE`), and end the process."""
    argcomplete: Any = import_module("argcomplete")
    argcomplete.autocomplete(completing_parser(), always_complete_options=False)


def completing_parser() -> argparse.ArgumentParser:
    """The parser of the command line, in which each argument without choices says what it may be."""
    parser, of_command = parsers()
    for each in of_command.values():
        for action in each._actions:  # pyright: ignore[reportPrivateUsage] (argcomplete reads `completer` of each action)
            if action.nargs != 0 and action.choices is None:
                action.completer = _candidates  # pyright: ignore[reportAttributeAccessIssue]
    return parser


def _candidates(prefix: str, action: argparse.Action, parsed_args: argparse.Namespace, **_: object) -> dict[str, str]:
    """The values that an argument may have, each with a description ("" for none).

    prefix: what is typed of the value. parsed_args: what was typed before it.
    """
    metavar = str(action.metavar or "")
    words: dict[str, str] = dict.fromkeys(re.findall(r"(?:^|\|)([a-z]\w*)(?=\||$)", metavar), "")
    file, colon, _name = prefix.rpartition(":")
    if "TOPOLOGY" in metavar and colon:
        declared = _declarations_in(Path(file), action.dest)
        return {f"{file}:{statement.name.name}": _head(statement) for statement in declared}
    if kind := re.search(r"\b(?:FILE(\.\w+)?|DIR)\b", metavar):
        return words | _names(action) | _paths(prefix, kind[1] or "" if kind[0] != "DIR" else None)
    if action.dest in _DECLARATIONS:
        equals = "=" if action.dest == "definitions" else ""
        return {
            f"{node.name.name}{equals}": _head(node) for node in _declarations_in(_program(parsed_args), action.dest)
        }
    before = prefix.rpartition(",")
    listed = before[0] + before[1] if "," in metavar else ""
    return words | {listed + name: text for name, text in _names(action).items()}


def _paths(prefix: str, suffix: str | None) -> dict[str, str]:
    """Paths that begin with a prefix: folders, and files with a suffix ("" for all files, None for none)."""
    folder = prefix.rpartition("/")[0] + "/" if "/" in prefix else ""
    paths: dict[str, str] = {}
    with suppress(OSError):
        for path in sorted(Path(folder or ".").expanduser().iterdir()):
            if path.name.startswith(".") and not prefix.removeprefix(folder).startswith("."):
                continue
            if path.is_dir():
                paths[f"{folder}{path.name}/"] = ""
            elif suffix is not None and path.name.endswith(suffix):
                paths[folder + path.name] = ""
    return paths


def _program(chosen: argparse.Namespace) -> Path | None:
    """The program that a command line names."""
    for name in ("program", "file", "files"):
        value: Path | list[Path] | None = getattr(chosen, name, None)
        if value:
            return value[-1] if isinstance(value, list) else value
    topology: str | None = getattr(chosen, "topology", None)
    return Path(topology.partition(":")[0]) if topology else None


def _declarations_in(path: Path | None, argument: str) -> Iterable[Any]:
    """The statements of a program that declare what an argument names; none if it has an error."""
    from collc.base.reading import read_text
    from collc.source.limits import MAX_BYTES
    from collc.source.parsing.parse import parse

    if path is None or str(path) == "-" or not path.is_file():
        return ()
    try:
        statements = parse(read_text(path, limit=MAX_BYTES)).statements
    except CollcError:
        return ()
    return [node for node in statements if type(node).__name__ in _DECLARATIONS[argument]]


def _head(statement: Statement) -> str:
    """The first line of a statement."""
    return statement.span.text.partition("\n")[0].rstrip(" {")


def _names(action: argparse.Action) -> dict[str, str]:
    """The names, each with a description, that an argument takes whatever the program."""
    from collc.codes import catalogue
    from collc.emit.kinds import EMIT_KINDS
    from collc.machines.kinds import import_kinds
    from collc.passes.synthesizers import searching_synthesizers
    from collc.source.standard_library import std_entries, textbook_names

    match action.dest, bool(action.option_strings):
        case (("emit" | "kinds"), True):
            return dict.fromkeys(EMIT_KINDS, "")
        case (("synthesizer" | "algorithms"), True):
            return dict.fromkeys((*searching_synthesizers(), *textbook_names()), "")
        case "name", False:
            return {entry.name: entry.summary for entry in std_entries()}
        case "code", False:
            return {code: entry.title for code, entry in catalogue().items()}
        case "words", False:
            return {kind.name: kind.file for kind in import_kinds().values()}
        case _:
            return {}
