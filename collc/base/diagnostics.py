"""What is told to users: places in files, messages, and the errors that carry them."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache


class Exit(IntEnum):
    """Exit codes of the command line."""

    DONE = 0
    SOURCE = 1
    USAGE = 2
    NO_SCHEDULE = 3
    CHECK_FAILED = 4
    INTERNAL = 5


@lru_cache(maxsize=4)
def line_starts(text: str) -> tuple[int, ...]:
    """Where each line of a text begins; kept for the last few texts, so that many messages cost one search each."""
    return (0, *(match.end() for match in re.finditer("\n", text)))


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that was read: its name as messages show it, and its text."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Span:
    """Characters start .. end - 1 of a file."""

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
        """The characters themselves."""
        return self.file.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """From here to the end of another place of the same file."""
        return Span(self.file, self.start, max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Note:
    """One more place involved, or a remark (span None)."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message: its code ("E0203"), what is wrong in one line, where, and what to try."""

    code: str
    message: str
    span: Span | None = None
    notes: tuple[Note, ...] = ()
    hint: str = ""
    warning: bool = False


class CollcError(Exception):
    """Anything that stops collc for a reason that a user can act on."""

    exit: Exit = Exit.SOURCE

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("; ".join(d.message for d in diagnostics))
        self.diagnostics: tuple[Diagnostic, ...] = diagnostics


class SourceError(CollcError):
    """The program is wrong, or asks for the impossible."""


class UsageError(CollcError):
    """The command line is wrong."""

    exit: Exit = Exit.USAGE


class NoSchedule(CollcError):
    """No schedule exists, or none was found in the time given."""

    exit: Exit = Exit.NO_SCHEDULE


class CheckFailed(CollcError):
    """A schedule or file fails a check."""

    exit: Exit = Exit.CHECK_FAILED
