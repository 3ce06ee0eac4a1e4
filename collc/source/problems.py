"""Collects the messages about one program."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from collc.base.diagnostics import Diagnostic, NoSchedule, Note, SourceError, Span
from collc.base.wording import SHOWN, did_you_mean, phrase
from collc.source.parsing.expressions import Node

MAX_PROBLEMS = 200
"""Messages that are kept of one program; more are dropped."""

NO_SCHEDULE = frozenset({"E0412"})
"""Codes of requests that are written correctly, but that no schedule can meet: on this network there is no path."""


class AlreadyReported(Exception):
    """Raised by what depends on something whose error was already reported, so that there is no second message."""


@dataclass(eq=False)
class Problems:
    """The messages found so far, without duplicates. failures: number of blocks that ended with an error."""

    found: list[Diagnostic] = field(default_factory=list[Diagnostic])
    failures: int = 0

    def add(self, *diagnostics: Diagnostic) -> None:
        """Append messages that are new: no earlier one has the same code, place and text."""
        for new in diagnostics:
            seen = any(d.code == new.code and d.span == new.span and d.message == new.message for d in self.found)
            if not seen and len(self.found) < MAX_PROBLEMS:
                self.found.append(new)

    @contextmanager
    def collect(self) -> Generator[None]:
        """Run a block; if it raises SourceError, keep its messages and go on after the block.

        Raises what `stop` raises if MAX_PROBLEMS messages were found.
        """
        try:
            yield
        except (SourceError, AlreadyReported) as error:
            self.failures += 1
            self.add(*(error.diagnostics if isinstance(error, SourceError) else ()))
        if len(self.found) >= MAX_PROBLEMS:
            self.stop()  # nobody reads more, and the search for near names takes long

    @contextmanager
    def collect_all(self) -> Generator[None]:
        """Run a block that collects messages. Raises AlreadyReported after it if there were any."""
        before = self.failures
        yield
        if self.failures > before:
            raise AlreadyReported

    def stop(self) -> None:
        """Raise what was found, if anything: NoSchedule if all codes are in NO_SCHEDULE, else SourceError."""
        if self.found:
            raise (NoSchedule if {d.code for d in self.found} <= NO_SCHEDULE else SourceError)(*self.found)


def fail(code: str, message: str, span: Span | None, *notes: Note | None, hint: str = "") -> SourceError:
    """A SourceError with one message; the caller raises it. Notes that are None are left out."""
    return SourceError(Diagnostic(code, message, span, tuple(n for n in notes if n is not None), hint))


def unknown_name_error(code: str, what: str, name: str, known: Iterable[str], span: Span) -> SourceError:
    """The error for a name that is none of the known ones; what: what it should be, such as "reduction"."""
    names = list(known)
    return fail(code, f"unknown {what} '{name}'", span, hint=did_you_mean(name, names, f"there are {phrase(names)}"))


def check_single(first: Node | None, node: Node, code: str, message: str) -> None:
    """Raise SourceError for a statement if there was one of its kind before."""
    if first is not None:
        raise fail(code, message, node.span, Note("first here", first.span))


def at_use(
    error: SourceError, library: bool, span: Span, note: str, arguments: Mapping[str, Span] | None = None
) -> SourceError:
    """An error inside of a template, collective or algorithm, with the place where that is used.

    library: the error is in a file of the standard library, which nobody edits: the place of the use comes first.
    arguments: the places of the arguments by the names of their parameters; if a parameter alone is what is wrong,
    the place is that of its argument.
    """
    located: list[Diagnostic] = []
    for d in error.diagnostics:
        if len(d.notes) > SHOWN or (d.span is not None and d.span.file is span.file and d.span.start == span.start):
            located.append(d)
        elif library and d.span is not None and d.span.file is not span.file:
            use = (arguments or {}).get(d.span.text, span)
            located.append(replace(d, span=use, notes=(Note("found here", d.span), *d.notes)))
        else:
            located.append(replace(d, notes=(*d.notes, Note(note, span))))
    return SourceError(*located)
