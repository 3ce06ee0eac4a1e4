"""Collecting the messages of a program."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from collc.base.diagnostics import Diagnostic, Note, SourceError, Span

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
