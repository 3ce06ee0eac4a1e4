"""The command line: runs a command, and reports what ends it early."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, TextIO

from collc.base.diagnostics import CollcError, Diagnostic, Exit
from collc.base.exit_codes import INTERRUPTED
from collc.base.memory import gibibytes, limited_memory, memory_limit
from collc.command.arguments import parse_arguments
from collc.command.terminal import drop_output

_MEMORY_HINTS: Final = {
    "compile": "compile one schedule at a time with --schedule NAME, or a smaller network",
    "run": "run fewer elements with --count N",
}
"""What to try where memory is short, by command."""

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
        return [Diagnostic("U0115", f"interrupted: {rest}")], INTERRUPTED
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return [_out_of_memory(error, command, limit)], int(Exit.SOURCE)
    if isinstance(error, UnicodeEncodeError):
        message = f"{error.object!a} cannot be written in the encoding of the locale, {error.encoding}"
        hint = "use a locale with UTF-8 (LC_ALL=C.UTF-8), or set PYTHONUTF8=1"
        return [Diagnostic("U0139", message, hint=hint)], int(Exit.USAGE)
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename is not None else ""
        return [Diagnostic("U0138", f"cannot read or write{where}: {error.strerror or error}")], int(Exit.USAGE)
    from collc.command.terminal import internal_error

    return [internal_error(error)], int(Exit.INTERNAL)


def _out_of_memory(error: BaseException, command: str, limit: int | None) -> Diagnostic:
    """The message about memory that was refused, with its size where NumPy asked for it."""
    hint = _MEMORY_HINTS.get(command, "use a machine with more, or a smaller network")
    known = re.match(r"Unable to allocate ([\d.]+ [KMGTPE]iB)", str(error))
    message = f"not enough memory: an array of {known[1]} is needed" if known else "there is not enough memory for this"
    if limit is not None:
        message += f", and the limit is {gibibytes(limit)}"
        hint += "; or allow more with --memory-limit"
    return Diagnostic("U0109", message, hint=hint)


def _report_error(error: BaseException, words: Sequence[str], limit: int | None) -> int:
    """Print what ended a command early, as JSON too where that was asked for; returns the exit code.

    limit: the bytes of memory that the command had at most.
    """
    from collc.command.commands import CompilationEnded
    from collc.command.terminal import print_messages

    partial = error.report if isinstance(error, CompilationEnded) else None
    command = words[0] if words else ""
    cause = error if partial is None else error.__cause__
    messages, code = _messages_of(cause, command, partial is not None, limit)
    if "--json" in words:
        from collc.base.rendering import as_json

        earlier = partial.all_diagnostics if partial is not None else ()
        results = _RESULTS.get(command)
        empty: dict[str, object] = {results: []} if results else {}
        answer = empty if partial is None else partial.as_json()
        answer |= {"diagnostics": as_json([*earlier, *messages])}
        messages = [*messages, *_unwritten(json.dumps(answer, indent=2))]
    try:
        print_messages(messages)
    except BrokenPipeError:
        sys.stderr.close()
    return code


def _unwritten(answer: str) -> Sequence[Diagnostic]:
    """Print the answer of a command that failed. Returns the message where stdout does not take it."""
    try:
        print(answer, flush=True)
    except BrokenPipeError:
        drop_output()
    except OSError as error:
        drop_output()
        return _messages_of(error, "", partial=False)[0]
    return ()


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Raises nothing but SystemExit, after `--help` and `--version`.

    arguments: the words after "collc"; None: those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    code = int(Exit.DONE)
    with ExitStack() as limits:
        try:
            chosen = parse_arguments(words)
            if chosen is not None:
                from collc.command import commands

                limits.enter_context(limited_memory(chosen.memory_limit))
                code = int(commands.run(chosen))
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
