"""The command line: runs a command, and reports what ends it early."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final

from collc.base.diagnostics import CollcError, Diagnostic, Exit
from collc.command.arguments import parse_arguments

_MEMORY_HINTS: Final = {
    "compile": "compile one schedule at a time with --schedule NAME, or a smaller network",
    "run": "run fewer elements with --count N",
}
"""What to try where memory is short, by command."""

_RESULTS: Final = {"compile": "schedules", "design": "designs"}
"""What the JSON of a command lists besides messages, by command."""

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as in shells."""


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
        results = _RESULTS.get(command)
        empty: dict[str, object] = {results: []} if results else {}
        answer = empty if partial is None else partial.as_json()
        print(json.dumps(answer | {"diagnostics": as_json([*earlier, *messages])}, indent=2))
    print_messages(messages)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Raises nothing but SystemExit, after `--help` and `--version`.

    arguments: the words after "collc"; None: those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        chosen = parse_arguments(words)
        if chosen is None:
            return int(Exit.DONE)
        from collc.command import commands

        return int(commands.run(chosen))
    except BrokenPipeError:
        sys.stderr.close()
        return int(Exit.DONE)
    except (Exception, KeyboardInterrupt) as error:
        return _report_error(error, words)


if __name__ == "__main__":
    raise SystemExit(main())
