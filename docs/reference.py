"""The pages of the site that are made from the code: commands, messages, std, the Python API, programs."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import collc
from collc.base.resources import standard_library, starters
from collc.codes import Code, catalogue
from collc.command import cli
from collc.command.options import COMMANDS, MEMORY_LIMIT, TIME_LIMIT, Command, CommandOption
from collc.pictures.network_picture import network_picture
from collc.source.elaboration.elaborate import load_program
from collc.source.standard_library import std_entries

ROOT = Path(__file__).parent.parent

WIDTH = 88
"""Characters of a signature in one line."""


def plain(text: str) -> str:
    """A text as Markdown in which nothing but `code` has a meaning."""
    parts = re.split(r"(`[^`\n]+`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([\\*_<>\[\]{}|#])", r"\\\1", p) for p in parts)


def fenced(text: str, kind: str) -> str:
    """A block of code."""
    return f"```{kind}\n{text.strip(chr(10))}\n```"


def commands_page() -> str:
    """A section for each command, with its options."""
    sections = (_command_section(command) for command in COMMANDS.values())
    return "\n\n".join(["# Command line", plain(cli.EXIT_CODES), *sections]) + "\n"


def _command_section(command: Command) -> str:
    options = (*command.options, *([TIME_LIMIT] if command.ends else []), MEMORY_LIMIT)
    rows = [f"| `{_form(each)}` | {plain(each.help)} |" for each in options]
    epilog = [plain(command.epilog())] if command.epilog is not None else []
    head = f"## collc {command.name}\n\n{plain(command.help[0].upper() + command.help[1:])}."
    return "\n\n".join([head, "\n".join(["| argument | meaning |", "|---|---|", *rows]), *epilog])


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


def gallery() -> dict[str, str]:
    """The files of the gallery: a page with the programs of `examples/` and `starters/`, and their networks as SVG."""
    files: dict[str, str] = {}
    parts = ["# Gallery", "Programs with their networks. `collc new` writes those named starter."]
    for path in [*sorted((ROOT / "examples").glob("*.coll")), *starters().values()]:
        folder = path.parent.name.removesuffix("s")
        program = load_program(path)
        parts.append(f"## {path.stem}{'' if folder == 'example' else f' ({folder})'}")
        networks = {id(request.network): request for request in (*program.schedules, *program.designs)}
        for number, request in enumerate(networks.values()):
            name = f"{folder}-{path.stem}-{number}.svg"
            files[name] = network_picture(request.network).file()
            parts.append(f"![the network of {plain(request.name)}]({name})")
        parts.append(fenced(path.read_text(encoding="utf-8"), "coll"))
    return files | {"gallery.md": "\n\n".join(parts) + "\n"}


PAGES: dict[str, Callable[[], str]] = {
    "commands": commands_page,
    "messages": messages_page,
    "std": std_page,
    "python": python_page,
}
"""Name of a page in the folder `reference` of the site -> what makes its text."""
