"""The commands and their options as records; an option that several commands have is declared once, here."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from collc.application.file_kinds import titles
from collc.base.diagnostics import Exit
from collc.base.options import Option
from collc.command import values as read
from collc.command.terminal import Output
from collc.passes.synthesizers import COMMON

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CommandOption:
    """An option or argument of a command. flags: as in ("-o", "--output"), or one name without dashes for an argument.

    keywords: `type`, `metavar`, `default`, ... as argparse's `add_argument` takes them.
    """

    flags: tuple[str, ...]
    help: str
    keywords: Mapping[str, Any]

    def with_help(self, text: str, **keywords: Any) -> CommandOption:  # noqa: ANN401 (as `add_argument` takes them)
        """The option with another help text, and with some keywords changed."""
        return replace(self, help=text, keywords={**self.keywords, **keywords})


def option(name: str, text: str, type: Callable[[str], Any] | None = None, **keywords: Any) -> CommandOption:  # noqa: A002, ANN401
    """An option or argument of a command.

    name: as the help shows it: "-o, --output DIR", "--count N", or "file FILE.coll" for an argument without dashes.
    text: the help. type: reads a value. keywords: further ones of argparse's `add_argument`.
    """
    flags, metavar = re.fullmatch(r"([^\s,]+(?:, [^\s,]+)*) ?(.*)", name).groups()  # pyright: ignore[reportOptionalMemberAccess]
    more = {"metavar": metavar, "type": type}
    return CommandOption(tuple(flags.split(", ")), text, keywords | {k: v for k, v in more.items() if v})


def flag(name: str, text: str) -> CommandOption:
    """An option without a value."""
    return option(name, text, action="store_true")


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, what it does in one line, its options, and what it prints or only its exit code.

    ends: whether `--time-limit` ends it without an answer; `compile` and `sweep` limit their searches instead.
    epilog: makes the text at the end of its help, which may take imports that other commands do not need.
    """

    name: str
    help: str
    options: tuple[CommandOption, ...]
    run: Callable[[argparse.Namespace], Output | Exit]
    ends: bool
    epilog: Callable[[], str] | None = None

    def add_to(self, subparsers: Any) -> argparse.ArgumentParser:  # noqa: ANN401 (argparse has no public type for it)
        """The parser of the command."""
        parser: argparse.ArgumentParser = subparsers.add_parser(self.name, help=self.help, description=self.help)
        for each in (*self.options, *([TIME_LIMIT] if self.ends else []), MEMORY_LIMIT):
            parser.add_argument(*each.flags, help=each.help, **each.keywords)
        parser.set_defaults(late_epilog=self.epilog)
        return parser


COMMANDS: Final[dict[str, Command]] = {}
"""The commands by name, in the order of the help."""


def command(
    name: str, text: str, *options: CommandOption, ends: bool = True, epilog: Callable[[], str] | None = None
) -> Callable[[Callable[[argparse.Namespace], Output | Exit]], Callable[[argparse.Namespace], Output | Exit]]:
    """A decorator that makes a function of the parsed arguments a command."""

    def register(run: Callable[[argparse.Namespace], Output | Exit]) -> Callable[[argparse.Namespace], Output | Exit]:
        COMMANDS[name] = Command(name, text, options, run, ends, epilog)
        return run

    return register


def settings_of(record: type[T], chosen: argparse.Namespace, /, **own: object) -> T:
    """The settings whose fields are the arguments of the same names; lists are tuples, definitions a mapping.

    own: the values of fields that are no argument, or another form of one.
    """
    values: dict[str, Any] = {f.name: getattr(chosen, f.name) for f in fields(record) if hasattr(chosen, f.name)}  # pyright: ignore[reportArgumentType]
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}  # pyright: ignore[reportUnknownArgumentType]
    values |= {"definitions": dict(chosen.definitions)} if "definitions" in values else {}
    return record(**values | own)


def _option_of_synthesizers(name: str, declared: Option) -> CommandOption:
    """An option of every synthesizer as an option of a command."""
    name = "--" + name.replace("_", "-")
    if declared.choices:
        return option(name, declared.meaning, choices=declared.choices)
    if declared.type == "time":
        return option(f"{name} SECONDS", declared.meaning, read.seconds_of)
    return option(f"{name} N", declared.meaning, read.number_from(declared.least or 0))


# Options of several commands

PROGRAM: Final = option("file FILE.coll", "the program; - for standard input", Path)
PROGRAMS: Final = option("files FILE.coll", "a program; - for standard input", Path, nargs="+")
RUNTIME_FILE: Final = option("file FILE", titles("run"), Path)
FOLDER: Final = option("-o, --output DIR", "folder for all files (default: this one)", Path, default=Path())
OUTPUT: Final = option("-o, --output FILE.coll", "the program to write", read.new_file)
SVG: Final = option("--svg FILE.svg", "write a picture", read.new_file)
SCHEDULE: Final = option("--schedule NAME", "only this schedule of the program")
DEFINITIONS: Final = option(
    "-D name=value",
    "the value of a param of the program, as in -D nodes=4 or -D size=9MiB; may be repeated",
    read.definition_of,
    dest="definitions",
    action="append",
    default=[],
)
SYNTHESIZER_OPTIONS: Final = {name: _option_of_synthesizers(name, declared) for name, declared in COMMON.items()}
SYNTHESIZERS: Final = option(
    "--algorithm, --synthesizer A,B",
    "synthesizers, or algorithms of std.algorithms for all runs, as in tacos,forest,ring",
    read.list_of(str),
    dest="algorithms",
    default=[],
)
CHUNKS: Final = option(
    "--chunks N|auto", "chunks per block, for all runs that take chunks; auto: collc picks the number", read.chunks_of
)
PROFILE: Final = option(
    "--profile",
    "the runtime of the MSCCL file: executor: msccl-executor-nccl (default), old: microsoft/msccl, rccl: RCCL",
    choices=("executor", "old", "rccl"),
    default="executor",
)
COLLECTIVE: Final = option("--collective NAME", "what the file must compute (default: what it says itself)")
ROOT: Final = option("--root R", "rank of the root of a rooted collective", int)
ON: Final = option("--on FILE.coll:TOPOLOGY", "the network, as a topology of a program")
SIZE: Final = option("--size BYTES", "the buffer of an MSCCL file or a plan, as in 64MiB", read.size_of)
DESIGN: Final = option("--design NAME", "only this design of the program")
GPUS_PER_NODE: Final = option("--gpus-per-node N", "GPUs of a node", read.positive)
PROCESSES: Final = (
    option("--jobs N", "processes (default: one for each core)", read.positive),
    option("--memory BYTES", "of each process, as in 4GiB (default: its part of what is free)", read.memory_of),
    option("--scheduler tcp://HOST:PORT", "use the workers of this Dask cluster instead"),
)
"""On what many independent cases run."""

JSON: Final = flag("--json", "print one JSON object on stdout")
QUIET: Final = flag("--quiet", "print only messages: no results, no notes, no progress")

TIME_LIMIT: Final = option(
    "--time-limit SECONDS", "end the command after this time, if it has no answer by then", read.seconds_of
)
MEMORY_LIMIT: Final = option(
    "--memory-limit BYTES",
    "memory that collc may take, as in 8GiB (default: nine tenths of what is free)",
    read.memory_of,
)
