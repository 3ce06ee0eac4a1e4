"""Messages for users: the error, its position in a file, and a hint; their text for terminals and for editors; and the
exceptions that carry them, with the exit codes of the command line.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from typing import Final, Literal


@lru_cache(maxsize=4)
def line_starts(text: str) -> tuple[int, ...]:
    """Offset of the first character of each line. Cached, since many messages are about one file."""
    return (0, *(match.end() for match in re.finditer("\n", text)))


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A text that was read, and its name in messages."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Span:
    """The characters from `start` to `end` (exclusive) of a file."""

    file: SourceFile
    start: int
    end: int

    @property
    def line(self) -> int:
        """Line of the first character, from 1."""
        return bisect_right(line_starts(self.file.text), self.start)

    @property
    def column(self) -> int:
        """Column of the first character, from 1."""
        return self.start - line_starts(self.file.text)[self.line - 1] + 1

    @property
    def text(self) -> str:
        """The characters of the span."""
        return self.file.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of another one of the same file."""
        return Span(self.file, self.start, max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on a message, with or without a span of its own."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message.

    code: as in "E0203"; `collc explain` explains it. message: the error, in one line. span: its position; None if it
    concerns no part of a file. hint: how to correct it; "" for none. warning: whether it is a warning, not an error.
    """

    code: str
    message: str
    span: Span | None = None
    notes: tuple[Note, ...] = ()
    hint: str = ""
    warning: bool = False


Outcome = Literal["ok", "failed", "skipped", "allowed"]
"""`skipped`: the check did not run, because an earlier one failed or because there was nothing to check. `allowed`:
messages meet on links and wait in their queues, as the program allows."""


TAB: Final = 4
"""Columns from one tab stop to the next."""

WIDTH: Final = 160
"""The most columns of a source line that are shown; a longer line is clipped around the span."""

MOST_SHOWN: Final = 25 * WIDTH
"""Characters of a message that are shown: more than any message has that quotes no long word of a file."""

_NUMBER: Final = re.compile(r"\d+")
_OTHERS: Final = re.compile(r"and (\d+) more ")
"""The last note of a check that reports only the first errors and counts the others."""

_RED, _YELLOW, _BLUE, _CYAN, _BOLD, _END = "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;34m", "\x1b[1;36m", "\x1b[1m", "\x1b[0m"


def render(diagnostics: Sequence[Diagnostic], *, colour: bool = False) -> str:
    """The messages as text, one below the other, each with its source line and the span underlined.

    colour: whether ANSI colour codes are used.
    """
    return "\n\n".join(_message(diagnostic, colour) for diagnostic in diagnostics)


def fold_repeated(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The messages without repeated warnings.

    Of warnings that differ only in numbers and spans, the first one is kept, with a note that counts the others.
    """
    kept: dict[object, Diagnostic] = {}
    more: dict[object, int] = {}
    for number, diagnostic in enumerate(diagnostics):
        without_numbers = (diagnostic.code, _NUMBER.sub("0", diagnostic.message))
        key: object = without_numbers if diagnostic.warning else number
        counted = [int(count[1]) for note in diagnostic.notes if (count := _OTHERS.match(note.message))]
        if key in kept:
            more[key] = more.get(key, 0) + 1 + sum(counted)
        else:
            kept[key] = diagnostic
    return [
        replace(first, notes=(*first.notes, Note(f"and {more[key]} more like this"))) if key in more else first
        for key, first in kept.items()
    ]


def messages_as_json(diagnostics: Sequence[Diagnostic]) -> list[dict[str, object]]:
    """One object per message: code, severity, message, span (null if there is none), notes and hint.

    A note has a message and a span. Lines and columns start at 1; the end is the first column after the span.
    """
    return [
        {"code": d.code, "severity": _severity(d), "message": d.message}
        | _json_span(d.span)
        | {"notes": [{"message": note.message} | _json_span(note.span) for note in d.notes], "hint": d.hint or None}
        for d in diagnostics
    ]


def _severity(diagnostic: Diagnostic) -> str:
    return "warning" if diagnostic.warning else "error"


def _json_span(span: Span | None) -> dict[str, object]:
    if span is None:
        return {"file": None, "line": None, "column": None, "end_line": None, "end_column": None}
    end = Span(span.file, span.end, span.end)
    return {
        "file": span.file.name,
        "line": span.line,
        "column": span.column,
        "end_line": end.line,
        "end_column": end.column,
    }


def _paint(text: str, colour: str, wanted: bool) -> str:
    return f"{colour}{text}{_END}" if wanted and text else text


def _message(diagnostic: Diagnostic, colour: bool) -> str:
    tint = _YELLOW if diagnostic.warning else _RED
    head = _paint(f"{_severity(diagnostic)}[{diagnostic.code}]", tint, colour)
    lines = [head + _paint(f": {printable(diagnostic.message)}", _BOLD, colour)]
    if diagnostic.span is not None:
        lines += _excerpt(diagnostic.span, "^", tint, colour)
    for note in diagnostic.notes:
        lines.append(f"{_paint('note:', _BLUE, colour)} {printable(note.message)}")
        lines += _excerpt(note.span, "-", _BLUE, colour) if note.span is not None else []
    if diagnostic.hint:
        lines.append(f"{_paint('help:', _CYAN, colour)} {printable(diagnostic.hint)}")
    return "\n".join(lines)


def _excerpt(span: Span, mark: str, tint: str, colour: bool) -> list[str]:
    """The span as file:line:column, its first source line, and marks below the characters."""
    text = span.file.text
    starts = line_starts(text)
    number = span.line
    begin = starts[number - 1]
    end = starts[number] - 1 if number < len(starts) else len(text)
    line = text[begin:end].rstrip("\r")
    first = min(span.start - begin, len(line))
    last = min(max(span.end - begin, first + 1), max(len(line), first + 1))
    line, first, last = _clip(line, first, last)
    before = _expand_tabs(line[:first], 0)
    marked = _expand_tabs(line[first:last], len(before))
    shown = before + marked + _expand_tabs(line[last:], len(before) + len(marked))
    below = " " * _columns(before) + _paint(mark * max(1, _columns(marked)), tint, colour)
    gutter = str(number)
    bar = _paint("|", _BLUE, colour)
    pad = " " * len(gutter)
    more = f" {_paint('...', tint, colour)}" if span.end > end + 1 else ""
    return [
        f"{pad}{_paint('-->', _BLUE, colour)} {printable(span.file.name)}:{number}:{span.column}",
        f"{pad} {bar}",
        f"{_paint(gutter, _BLUE, colour)} {bar} {shown}".rstrip(),
        f"{pad} {bar} {below}{more}",
    ]


def _clip(line: str, first: int, last: int) -> tuple[str, int, int]:
    """At most WIDTH characters of a line around the characters from `first` to `last`, and their new positions."""
    if len(line) <= WIDTH:
        return line, first, last
    start = max(0, min(first - WIDTH // 4, len(line) - WIDTH))
    lead = "..." if start else ""
    clipped = line[start : start + WIDTH]
    tail = "..." if start + WIDTH < len(line) else ""
    shift = len(lead) - start
    return f"{lead}{clipped}{tail}", first + shift, min(last + shift, len(lead) + len(clipped))


def printable(text: str) -> str:
    """The text in one line of at most MOST_SHOWN characters, with control characters and line breaks replaced, so that
    what it quotes can neither control a terminal nor look like another message.
    """
    clipped = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
    return "".join(c if c.isprintable() else "\ufffd" for c in clipped)


def _expand_tabs(text: str, column: int) -> str:
    """The text with tabs as spaces and other control characters replaced. column: the column of the first character."""
    out: list[str] = []
    for character in text:
        piece = " " * (TAB - column % TAB) if character == "\t" else printable(character)
        out.append(piece)
        column += _columns(piece)
    return "".join(out)


def _columns(text: str) -> int:
    """Columns that a text occupies on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class Exit(IntEnum):
    """Exit codes of the command line."""

    DONE = 0
    SOURCE = 1
    USAGE = 2
    NO_SCHEDULE = 3
    CHECK_FAILED = 4
    INTERNAL = 5


class CollcError(Exception):
    """An error that the user can correct. `str` gives its messages as the command line prints them."""

    exit: Exit = Exit.SOURCE

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics: tuple[Diagnostic, ...] = diagnostics

    def __str__(self) -> str:
        return render(self.diagnostics)


class SourceError(CollcError):
    """The program has an error, or demands something impossible."""


class UsageError(CollcError):
    """An argument of the command line or a keyword of the Python API is wrong."""

    exit: Exit = Exit.USAGE


class NoSchedule(CollcError):
    """No schedule exists, or none was found within the time limit."""

    exit: Exit = Exit.NO_SCHEDULE


class CheckFailed(CollcError):
    """A schedule or file fails a check."""

    exit: Exit = Exit.CHECK_FAILED
