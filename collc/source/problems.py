"""Collecting messages, and making good ones."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from collc.diagnostics import Diagnostic, Note, SourceError, Span

MAX_PROBLEMS = 200
"""Messages kept of one program."""


MAX_NOTES = 4
"""Notes of one message before no more places are added to it."""


class Poisoned(Exception):
    """Something was already told to be wrong; what depends on it stays silent."""


@dataclass(eq=False)
class Problems:
    """Messages found so far, each once."""

    found: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def add(self, *diagnostics: Diagnostic) -> None:
        """Keep messages, in order; what was already said about a place is not repeated."""
        for new in diagnostics:
            seen = any(d.code == new.code and d.span == new.span and d.message == new.message for d in self.found)
            if not seen and len(self.found) < MAX_PROBLEMS:
                self.found.append(new)

    @contextmanager
    def collect(self) -> Generator[None]:
        """Keep the messages of what stops inside."""
        try:
            yield
        except SourceError as error:
            self.add(*error.diagnostics)
        except Poisoned:
            pass

    @property
    def errors(self) -> bool:
        """Whether anything found is more than a warning."""
        return any(not d.warning for d in self.found)

    def stop(self) -> None:
        """Raise SourceError with everything found, if anything is an error."""
        if self.errors:
            raise SourceError(*self.found)


def fail(
    code: str, message: str, span: Span | None, *notes: Note | None, hint: str = "", cause: Exception | None = None
) -> SourceError:
    """An error with one message, to be raised."""
    error = SourceError(Diagnostic(code, message, span, tuple(n for n in notes if n is not None), hint))
    error.__cause__ = cause
    return error


def in_place_of(error: SourceError, library: bool, span: Span, note: str) -> SourceError:
    """An error inside of something that was used at a place, told with that place.

    library: what was used is of the standard library; then the place comes first, since nobody edits that.
    """
    told: list[Diagnostic] = []
    for d in error.diagnostics:
        if len(d.notes) > MAX_NOTES or (d.span is not None and d.span.file is span.file and d.span.start == span.start):
            told.append(d)
        elif library and d.span is not None and d.span.file is not span.file:
            told.append(replace(d, span=span, notes=(Note("found here", d.span), *d.notes)))
        else:
            told.append(replace(d, notes=(*d.notes, Note(note, span))))
    return SourceError(*told)


def _distance(a: str, b: str, limit: int) -> int:
    """Edits (insert, delete, replace, swap neighbours) from one name to another; limit + 1 where more."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        new = [i]
        for j, y in enumerate(b, 1):
            best = min(row[j] + 1, new[j - 1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                best = min(best, before[j - 2] + 1)
            new.append(best)
        before, row = row, new
    return row[-1]


def near(name: str, known: Iterable[str]) -> str | None:
    """The known name that is closest to a mistyped one, None where none is close."""
    limit = 1 if len(name) <= 4 else 2
    if len(name) > 100:
        return None
    ranked = sorted((_distance(name.lower(), k.lower(), limit), k) for k in set(known) if k != name)
    return ranked[0][1] if ranked and ranked[0][0] <= limit else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The hint for an unknown name."""
    close = near(name, known)
    return f"did you mean '{close}'?" if close is not None else otherwise


def listed(names: Iterable[str], joint: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    items = list(names)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {joint} {items[-1]}" if items else "none"


def plural(count: int, noun: str) -> str:
    """`1 chunk`, `3 chunks`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
