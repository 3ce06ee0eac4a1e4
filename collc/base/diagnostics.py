"""Exceptions with messages for users, and the exit codes of the command line."""

from __future__ import annotations

from enum import IntEnum

from collc.base.messages import Diagnostic, Note, SourceFile, Span
from collc.base.rendering import render

__all__ = [
    "CheckFailed",
    "CollcError",
    "Diagnostic",
    "Exit",
    "NoSchedule",
    "Note",
    "SourceError",
    "SourceFile",
    "Span",
    "UsageError",
]


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
