"""The command line: arguments in, messages and exit codes out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from collc.base.diagnostics import CollcError, Diagnostic, Exit, UsageError
from collc.base.options import Option
from collc.base.synthesizers import COMMON, SYNTHESIZERS
from collc.version import __version__

_CODES: Final = (
    "Exit codes: 0 done, 1 an error in the source, 2 in the command line, 3 no schedule exists or none was found, "
    "4 a check failed, 5 an error in collc itself. The first Ctrl-C while a schedule is sought keeps the best so far."
)

_MEMORY_HINTS: Final = {
    "compile": "compile one schedule at a time with --schedule NAME, or a smaller network",
    "run": "run fewer elements with --count N",
}
"""What to try where memory is short, by command."""

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as in shells."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(Diagnostic("U0100", message, hint=f"'{self.prog} --help' lists what there is"))


def _definition(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name.strip().isidentifier() and value.strip()):
        raise argparse.ArgumentTypeError(f"-D takes name=value, not {text!r}")
    return name.strip(), value.strip()


def _number(least: int) -> Callable[[str], int]:
    """A reader of whole numbers from `least` to 2**63 - 1."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = -1
        if not least <= value < 2**63:
            raise argparse.ArgumentTypeError(
                f"a whole number of at least {least} and below 2**63 is expected, not {text!r}"
            )
        return value

    return read


_positive: Final = _number(1)


def _synthesizer_argument(parser: argparse.ArgumentParser, name: str, option: Option) -> None:
    """An option of the synthesizers as an option of the command line."""
    flag = "--" + name.replace("_", "-")
    if option.choices:
        parser.add_argument(flag, choices=option.choices, help=option.meaning)
    elif option.type == "time":
        parser.add_argument(flag, type=_seconds, metavar="SECONDS", help=option.meaning)
    else:
        parser.add_argument(flag, type=_number(option.least or 0), metavar="N", help=option.meaning)


def _compile_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE.coll")
    add("-o", "--output", type=Path, default=Path(), metavar="DIR", help="folder for the files (default: here)")
    add("--schedule", metavar="NAME", help="only this schedule of the file")
    add("-D", dest="definitions", action="append", type=_definition, default=[], metavar="name=value")
    add("--emit", action="append", default=[], metavar="KIND", help="write this kind of file too: ten, msccl, mscclpp")
    add("--synthesizer", "--algorithm", metavar="NAME", help="synthesize with this: " + ", ".join(SYNTHESIZERS))
    for name, option in COMMON.items():
        _synthesizer_argument(parser, name, option)
    add("--passes", metavar="PIPELINE", help='run these passes instead, as in "tacos{seed=7},invert,verify"')
    add("--print-after", action="append", default=[], metavar="PASS", help="print the module after it, as .ten text")
    add("--prove", action="store_true", help="prove all properties with Z3, and look for a shorter schedule")
    add("--certificate", type=Path, metavar="FILE", help="write what Z3 was asked, as SMT-LIB text")
    add("--json", action="store_true", help="one JSON object on stdout")
    add("--quiet", action="store_true", help="no table, no progress; errors only")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"a positive number of seconds is expected, not {text!r}")
    return value


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.coll")
    parser.add_argument("-D", dest="definitions", action="append", type=_definition, default=[], metavar="name=value")
    parser.add_argument("--json", action="store_true", help="messages as JSON on stdout")


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE.ten|FILE.xml")
    add("--collective", metavar="NAME", help="what an MSCCL file should do (default: what it says it does)")
    add("--root", type=int, metavar="R", help="rank of the root of a rooted collective")
    add("--profile", choices=("executor", "old"), default="executor", help="the runtime that will load an MSCCL file")
    add("--program", type=Path, metavar="FILE.coll", help="check a .ten file against a schedule of this program")
    add("--schedule", metavar="NAME", help="the schedule of the program")
    add("--json", action="store_true", help="one JSON object on stdout")


def _fmt_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.coll")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 4 where a file would change")


def _std_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="show this one")


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", metavar="CODE", help="of a message, as in E0203")


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE")
    add("--dtype", default="float32", metavar="TYPE", help="of the elements: float32, int32, ...")
    add("--op", metavar="OP", help="of reductions: sum, prod, max, min (default: what the file says, else sum)")
    add("--count", type=_positive, metavar="N", help="elements, as NCCL counts them (default: few)")
    add("--runs", type=_positive, default=1, metavar="N", help="times, each with data and timing of its own")
    add("--threads", action="store_true", help="a real thread per threadblock instead of a random order")
    add("--collective", metavar="NAME", help="what it should compute (default: what it says)")
    add("--seed", type=_number(0), default=0, metavar="N", help="of data and timing")
    add("--root", type=int, metavar="R", help="rank of the root of a rooted collective")
    add("--profile", choices=("executor", "old"), default="executor", help="the runtime that will load it")
    add("--json", action="store_true", help="one JSON object on stdout")


def _inspect_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, metavar="FILE")
    add("--profile", choices=("executor", "old"), default="executor", help="the runtime that will load it")
    add("--svg", type=Path, metavar="FILE.svg", help="draw it")
    add("--json", action="store_true", help="one JSON object on stdout")


COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "compile": ("build the schedules of a program, verify them and write their files", _compile_arguments),
    "check": ("check syntax, names, types and units of a program; synthesize nothing", _check_arguments),
    "verify": ("check a schedule or an MSCCL file, ours or not", _verify_arguments),
    "run": ("run an MSCCL file or plan on random data and compare with NumPy", _run_arguments),
    "inspect": ("show what is in an MSCCL file or plan", _inspect_arguments),
    "fmt": ("lay programs out in the canonical way", _fmt_arguments),
    "std": ("list the standard library, or show one of it", _std_arguments),
    "explain": ("tell more about the code of a message", _explain_arguments),
}


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="collc", description="Schedules for collective communication, proved correct.", epilog=_CODES)
    parser.add_argument("--version", action="version", version=f"collc {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (summary, add_arguments) in COMMANDS.items():
        add_arguments(commands.add_parser(name, help=summary, description=summary))
    return parser


def _messages_of(error: BaseException | None, command: str, partial: bool) -> tuple[Sequence[Diagnostic], int]:
    """The messages about an error that ended a command, and the exit code.

    partial: some schedules were compiled and written before.
    """
    if isinstance(error, CollcError):
        return error.diagnostics, int(error.exit)
    if isinstance(error, KeyboardInterrupt):
        rest = "what was built before it was kept" if partial else "nothing was written"
        return [Diagnostic("U0115", f"interrupted: {rest}")], INTERRUPTED
    if isinstance(error, MemoryError):
        hint = _MEMORY_HINTS.get(command, "use a machine with more, or a smaller network")
        return [Diagnostic("U0109", "there is not enough memory for this", hint=hint)], int(Exit.SOURCE)
    from collc.command.terminal import internal_error

    return [internal_error(error)], int(Exit.INTERNAL)


def _report_error(error: BaseException, words: Sequence[str]) -> int:
    """Print what ended a command early, as JSON too where that was asked for; returns the exit code."""
    from collc.command.commands import CompilationEnded
    from collc.command.terminal import print_messages

    partial = error.report if isinstance(error, CompilationEnded) else None
    command = words[0] if words else ""
    messages, code = _messages_of(error if partial is None else error.__cause__, command, partial is not None)
    if "--json" in words:
        from collc.base.rendering import as_json

        earlier = partial.all_diagnostics if partial is not None else ()
        empty: dict[str, object] = {"schedules": []} if command == "compile" else {}
        answer = empty if partial is None else partial.as_json()
        print(json.dumps(answer | {"diagnostics": as_json([*earlier, *messages])}, indent=2))
    print_messages(messages)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. No exception leaves it."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        chosen = _parser().parse_args(words)
        from collc.command import commands

        return int(commands.run(chosen))
    except BrokenPipeError:
        sys.stderr.close()
        return int(Exit.DONE)
    except (Exception, KeyboardInterrupt) as error:
        return _report_error(error, words)


if __name__ == "__main__":
    raise SystemExit(main())
