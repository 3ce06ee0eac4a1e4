"""The command line: reads the arguments, runs a command, and reports what ends it early."""

from __future__ import annotations

import argparse
import errno
import io
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from typing import Final, NoReturn, TextIO

from collc.application.file_kinds import with_other_kind
from collc.base.diagnostics import CollcError, Diagnostic, Exit, NoSchedule, UsageError, messages_as_json
from collc.base.exit_codes import INTERRUPTED
from collc.base.interrupts import OutOfTime, ended_after
from collc.base.memory import gibibytes, limited_memory, memory_limit
from collc.base.trusted_folders import UntrustedFolder
from collc.base.wording import did_you_mean, phrase
from collc.command import commands, machine_commands, setup_commands
from collc.command.options import COMMANDS
from collc.command.terminal import Output, drop_output, internal_error, print_messages, print_output
from collc.version import __version__

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 an error in the program; 2 in the command line; "
    "3 no schedule or design exists or none was found; 4 a check failed; "
    "5 an error in collc itself; 130 interrupted by Ctrl-C. "
    "The first Ctrl-C during synthesis keeps the best schedule found so far; the second one ends collc."
)

MODULES: Final = (commands, machine_commands, setup_commands)
"""The modules that register commands, in the order of the help."""

_MEMORY_HINTS: Final = {
    "compile": "compile one schedule at a time with --schedule NAME, or a smaller network",
    "run": "run fewer elements with --count N",
}
"""What to try if memory is short, by command."""

_FULL: Final = "free some space, or write to another disk; TMPDIR=DIR says where temporary files are"

_SYSTEM_HINTS: Final = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "allow larger files (ulimit -f), or write to another disk",
    errno.EMFILE: "allow more open files: ulimit -n",
    errno.EROFS: "write to another folder",
}
"""What to try if the system refuses, by its error number."""

_RESULTS: Final = {"compile": "schedules", "design": "designs"}
"""What the JSON of a command lists besides messages, by command."""


def _messages_of(
    error: BaseException | None, command: str, partial: bool, limit: int | None = None
) -> tuple[Sequence[Diagnostic], int]:
    """The messages about an error that ended a command, and the exit code.

    partial: some schedules were compiled and written before. limit: the bytes of memory that there were at most.
    """
    if isinstance(error, CollcError):
        return error.diagnostics, int(error.exit)
    if isinstance(error, KeyboardInterrupt):
        rest = "what was built before it was kept" if partial else "nothing was written"
        rest = "the same command goes on after what was done" if command == "tune" else rest
        return [Diagnostic("U0115", f"interrupted: {rest}")], INTERRUPTED
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return [_out_of_memory(error, command, limit)], int(Exit.SOURCE)
    if isinstance(error, UnicodeEncodeError):
        message = f"{error.object!a} cannot be written in the encoding of the locale, {error.encoding}"
        hint = "use a locale with UTF-8 (LC_ALL=C.UTF-8), or set PYTHONUTF8=1"
        return [Diagnostic("U0139", message, hint=hint)], int(Exit.USAGE)
    if isinstance(error, OSError):
        where = error.filename if error.filename is not None else "standard output or a temporary file"
        message = f"cannot read or write {where}: {error.strerror or error}"
        return [Diagnostic("U0138", message, hint=_SYSTEM_HINTS.get(error.errno or 0, ""))], int(Exit.USAGE)
    return [internal_error(error)], int(Exit.INTERNAL)


def _out_of_memory(error: BaseException, command: str, limit: int | None) -> Diagnostic:
    """The message about memory that was refused, with its size if NumPy asked for it."""
    hint = _MEMORY_HINTS.get(command, "use a machine with more, or a smaller network")
    known = re.match(r"Unable to allocate ([\d.]+ [KMGTPE]iB)", str(error))
    message = f"not enough memory: an array of {known[1]} is needed" if known else "there is not enough memory for this"
    if limit is not None:
        message += f", and the limit is {gibibytes(limit)}"
        hint += "; or allow more with --memory-limit"
    return Diagnostic("U0109", message, hint=hint)


def _report_error(error: BaseException, words: Sequence[str], limit: int | None) -> int:
    """Print what ended a command early, as JSON too if that was asked for; returns the exit code.

    limit: the bytes of memory that the command had at most.
    """
    partial = error.report if isinstance(error, commands.CompilationEnded) else None
    command = words[0] if words else ""
    cause = error if partial is None else error.__cause__
    messages, code = _messages_of(cause, command, partial is not None, limit)
    named = with_other_kind(messages, command)
    messages, code = named, code if named is messages else int(Exit.USAGE)
    if "--json" in words:
        earlier = partial.all_diagnostics if partial is not None else ()
        results = _RESULTS.get(command)
        empty: dict[str, object] = {results: []} if results else {}
        answer = empty if partial is None else partial.as_json()
        answer |= {"diagnostics": messages_as_json([*earlier, *messages])}
        messages = [*messages, *_unwritten(json.dumps(answer, indent=2))]
    try:
        print_messages(messages)
    except BrokenPipeError:
        sys.stderr.close()
    return code


def _unwritten(answer: str) -> Sequence[Diagnostic]:
    """Print the answer of a command that failed. Returns the message if stdout does not take it."""
    try:
        print(answer, flush=True)
    except BrokenPipeError:
        drop_output()
    except OSError as error:
        drop_output()
        return _messages_of(error, "", partial=False)[0]
    return ()


class _Parser(argparse.ArgumentParser):
    """A parser that raises UsageError U0100 instead of ending the process, and makes its epilog when it is shown."""

    def format_help(self) -> str:
        late_epilog: Callable[[], str] | None = self.get_default("late_epilog")
        self.epilog = self.epilog if late_epilog is None else late_epilog()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        raise UsageError(Diagnostic("U0100", message, hint=f"'{self.prog} --help' lists what there is"))


def parsers(name: str = "") -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the command line, and the parser of each command, or only of the one with a name."""
    description = "Schedules for collective communication: synthesized, verified, and written for MSCCL and MSCCL++."
    parser = _Parser(prog="collc", description=description, epilog=EXIT_CODES)
    parser.add_argument("--version", action="version", version=f"collc {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    wanted = {name: COMMANDS[name]} if name in COMMANDS else COMMANDS
    return parser, {each: command.add_to(subparsers) for each, command in wanted.items()}


def parse_arguments(words: Sequence[str]) -> argparse.Namespace | None:
    """The parsed arguments, with the command's name in `command`; None without words, after printing the help.

    Raises UsageError U0100 if the arguments are wrong, SystemExit after `--help` and `--version`.
    """
    parser, of_command = parsers(words[0] if words else "")
    if not words:
        parser.print_help(sys.stdout)
        return None
    if not words[0].startswith("-") and words[0] not in of_command:
        hint = did_you_mean(words[0], COMMANDS, f"the commands are {phrase(COMMANDS)}")
        raise UsageError(Diagnostic("U0100", f"there is no command '{words[0]}'", hint=hint))
    chosen, unknown = parser.parse_known_args(words)
    if unknown:
        own = of_command[chosen.command]
        known = re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", own.format_help())
        flag = unknown[0].partition("=")[0]
        hint = did_you_mean(flag, known, f"'{own.prog} --help' lists what there is")
        raise UsageError(Diagnostic("U0100", f"'{own.prog}' does not take '{unknown[0]}'", hint=hint))
    return chosen


def run_command(chosen: argparse.Namespace) -> Exit:
    """Run the chosen command and print its output; returns the exit code.

    Raises CollcError, also NoSchedule S0207 if the time of the command is over.
    """
    command = COMMANDS[chosen.command]
    limit = chosen.time_limit if command.ends else None
    try:
        with nullcontext() if limit is None else ended_after(limit):
            output = command.run(chosen)
    except OutOfTime:
        message = f"stopped at the time limit of {limit:g} s: there is no answer yet"
        hint = "give it more time with --time-limit, or use a smaller file"
        raise NoSchedule(Diagnostic("S0207", message, hint=hint)) from None
    if not isinstance(output, Output):
        return output
    print_output(output, as_json=chosen.json, quiet=getattr(chosen, "quiet", False))
    return output.exit


def _prepare_streams() -> None:
    """Replace closed standard streams, so that no file gets their numbers, and write what an encoding lacks escaped."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(_open_as(number), mode, encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper) and name != "stdin" and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _open_as(number: int) -> int:
    """The null device, opened under the number of a closed stream."""
    opened = os.open(os.devnull, os.O_RDWR)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    return number


def _show_warning(message: Warning | str, category: type[Warning], *place: object) -> None:
    """Print a Python warning: one about a folder as a message of collc, any other as Python does."""
    if issubclass(category, UntrustedFolder):
        hint = "close it with chmod go-w, or set NUMBA_CACHE_DIR to a folder of your own"
        print_messages([Diagnostic("U0149", str(message), hint=hint, warning=True)])
    else:
        sys.stderr.write(warnings.formatwarning(message, category, str(place[0]), int(str(place[1]))))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Raises nothing but SystemExit, after `--help` and `--version`.

    arguments: the words after "collc"; None: the words of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    code = int(Exit.DONE)
    with warnings.catch_warnings(), ExitStack() as limits:
        warnings.showwarning = _show_warning
        try:
            chosen = parse_arguments(words)
            if chosen is not None:
                limits.enter_context(limited_memory(chosen.memory_limit))
                code = int(run_command(chosen))
            sys.stdout.flush()
        except BrokenPipeError:
            drop_output()
            sys.stderr.close()
            return code
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT) and error.filename is None:
                drop_output()
            limit = memory_limit()
            limits.close()
            return _report_error(error, words, limit)
        except (Exception, KeyboardInterrupt) as error:
            limit = memory_limit()
            limits.close()  # there may be no memory left for the message
            return _report_error(error, words, limit)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
