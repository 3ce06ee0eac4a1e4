"""Messages for users: the error, its position in a file, and a hint; and the outcomes of checks."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal


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
