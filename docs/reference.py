"""The pages of the site that are made from the code: commands, messages, formats, std, the Python API."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import collc
from collc.application.file_kinds import FILE_KINDS
from collc.base.resources import standard_library
from collc.codes import Code, catalogue
from collc.command import cli
from collc.command.options import COMMANDS, MEMORY_LIMIT, TIME_LIMIT, Command, CommandOption
from collc.emit.kinds import EMIT_KINDS
from collc.machines.kinds import import_kinds
from collc.source.standard_library import std_entries

WIDTH = 88
"""Characters of a signature in one line."""


def plain(text: str) -> str:
    """A text as Markdown in which nothing but `code` has a meaning."""
    parts = re.split(r"(`[^`\n]+`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([\\*_<>\[\]{}|#])", r"\\\1", p) for p in parts)


def fenced(text: str, kind: str) -> str:
    """A block of code."""
    return f"```{kind}\n{text.strip(chr(10))}\n```"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def commands_page() -> str:
    """A section for each command, with its options."""
    sections = (_command_section(command) for command in COMMANDS.values())
    return "\n\n".join(["# Command line", plain(cli.EXIT_CODES), *sections]) + "\n"


def _command_section(command: Command) -> str:
    options = (*command.options, *([TIME_LIMIT] if command.ends else []), MEMORY_LIMIT)
    arguments = markdown_table(["argument", "meaning"], [(f"`{_form(each)}`", plain(each.help)) for each in options])
    epilog = [plain(command.epilog())] if command.epilog is not None else []
    head = f"## collc {command.name}\n\n{plain(command.help[0].upper() + command.help[1:])}."
    return "\n\n".join([head, arguments, *epilog])


def _form(option: CommandOption) -> str:
    """An option as one writes it: `-o, --output DIR`, `--theme light|dark`, or `FILE.coll` for an argument."""
    choices = option.keywords.get("choices")
    value = "|".join(choices) if choices else option.keywords.get("metavar") or ""
    flags = [flag for flag in option.flags if flag.startswith("-")]
    if option.keywords.get("action") is argparse.BooleanOptionalAction:
        flags += [flag.replace("--", "--no-") for flag in flags]
    return f"{', '.join(flags)} {value}".strip().replace("|", "\\|")


def messages_page() -> str:
    """A section for each code of the catalogue of messages."""
    return "\n\n".join(["# Messages", *map(_message_section, catalogue().values())]) + "\n"


def _message_section(code: Code) -> str:
    parts = [f"({code.code.lower()})=\n## {code.code}: {plain(code.title)}", plain(code.explanation.strip())]
    for title, program in (("Wrong:", code.wrong), ("Right:", code.right)):
        parts += [title, fenced(program, "coll")] if program else []
    return "\n\n".join(parts)


def std_page() -> str:
    """The source of each declaration of the standard library, by module."""
    entries = std_entries()
    parts = ["# The standard library", "`collc std` lists it, and `collc std NAME` prints one declaration."]
    for module in standard_library():
        inside = [entry for entry in entries if entry.module == f"std.{module}"]
        parts.append(f"## std.{module}")
        parts += [f"### {plain(entry.signature)}\n\n{fenced(entry.source, 'coll')}" for entry in inside]
        if not inside:
            parts.append(fenced(standard_library()[module].read_text(encoding="utf-8"), "coll"))
    return "\n\n".join(parts) + "\n"


def python_page() -> str:
    """Signatures and docstrings of all names that `collc` exports."""
    parts = ["# Python API", "[collc from Python](../python.md) shows how these are used."]
    for name in collc.__all__:
        if not name.startswith("_"):
            parts += _described(f"collc.{name}", getattr(collc, name))
    return "\n\n".join(parts) + "\n"


def _described(name: str, item: object) -> Iterator[str]:
    """The section of a function or class; the public methods and properties of a class follow it."""
    yield f"## {name}"
    yield from _documented(name, item)
    if isinstance(item, type):
        for own, member in sorted(vars(item).items()):
            if not own.startswith("_") and inspect.getdoc(member) and not isinstance(member, type):
                function = getattr(member, "fget", None) or getattr(member, "__func__", member)
                if callable(function) or isinstance(member, property):
                    yield f"### {plain(own)}"
                    yield from _documented(own, function)


def _documented(name: str, item: object) -> Iterator[str]:
    if callable(item):
        yield fenced(_call(name, inspect.signature(item)), "python")
    yield plain(inspect.getdoc(item) or "")


def _call(name: str, signature: inspect.Signature) -> str:
    """A name with its signature; in a line for each parameter if one line would be too long."""
    text = re.sub(r"""(: |-> )(['"])(.*?)\2""", r"\1\3", f"{name}{signature}")
    if len(text) <= WIDTH:
        return text
    parameters = re.sub(r"(?<=[(,]) ?(?=\*,|\*{0,2}[a-z_]+[:,=)])(?![^\[]*\])", "\n    ", text)
    return re.sub(r"\)(?= ->|$)", "\n)", parameters)


def formats_page() -> str:
    """What `emit` writes, with its options; which commands take which files; what `collc import` reads."""
    written, options = list[Sequence[str]](), list[Sequence[str]]()
    for kind in EMIT_KINDS.values():
        file = "a folder" if kind.output == "folder" else f"`NAME.{kind.suffix or kind.name}`"
        file += ", one for each run" if kind.output == "files" else ""
        written.append((f"`{kind.name}`", plain(kind.help), file, ", ".join(kind.checks)))
        options += [(f"`{kind.name}`", f"`{name}`", plain(each.meaning)) for name, each in kind.options.items()]
    commands = ("verify", "simulate", "run", "inspect", "show")
    read = [
        (plain(kind.title), *("yes" if getattr(kind, command) else "" for command in commands))
        for kind in FILE_KINDS.values()
    ]
    imported = [(f"`{kind.name}`", kind.file, kind.contains) for kind in import_kinds().values()]
    parts = [
        "# Formats",
        "## What `emit` writes",
        markdown_table(["kind", "what", "file", "read back and checked"], written),
        "The options of these statements:",
        markdown_table(["kind", "option", "meaning"], options),
        "[ten.md](../ten.md) describes `.ten`, [msccl.md](../msccl.md) the files for MSCCL and MSCCL++, "
        "[running.md](../running.md) run files, and [simulation.md](../simulation.md#writing-traces) traces.",
        "## Which commands read what",
        markdown_table(["file", *(f"`{command}`" for command in commands)], read),
        "`compile` and `check` take programs. `collc verify` also names the files that it does not check.",
        "## What `collc import` reads",
        markdown_table(["kind", "file", "contains"], imported),
        "[machines.md](../machines.md) has the options.",
    ]
    return "\n\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "commands": commands_page,
    "messages": messages_page,
    "std": std_page,
    "python": python_page,
    "formats": formats_page,
}
"""Name of a page in the folder `reference` of the site -> what makes its text."""
