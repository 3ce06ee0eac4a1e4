"""Messages for users: what is wrong, where in which file, and what to try."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache


@lru_cache(maxsize=4)
def line_starts(text: str) -> tuple[int, ...]:
    """Offset of the first character of each line. Cached for the last texts, since many messages are about one file."""
    return (0, *(match.end() for match in re.finditer("\n", text)))


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A text that was read: the name that messages show, and the text."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Span:
    """A place: the characters from `start` to `end` (exclusive) of a file."""

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
        """The place from here to the end of another place of the same file."""
        return Span(self.file, self.start, max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Note:
    """Another place that a message is about, or a remark without a place."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message.

    code: as in "E0203"; `collc explain` explains it. message: what is wrong, in one line. span: where, None where that
    is no place in a file. hint: what to try, "" for nothing. warning: whether it is a warning and not an error.
    """

    code: str
    message: str
    span: Span | None = None
    notes: tuple[Note, ...] = ()
    hint: str = ""
    warning: bool = False
