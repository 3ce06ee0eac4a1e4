"""The reports of several schedules or designs of a program: by name or in order, with one exit code."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from collc.base.diagnostics import (
    CheckFailed,
    CollcError,
    Diagnostic,
    Exit,
    NoSchedule,
    SourceError,
    fold_repeated,
    render,
)
from collc.base.tables import Table, html_table
from collc.base.wording import did_you_mean, phrase

_ERRORS: Final[dict[Exit, type[CollcError]]] = {Exit.NO_SCHEDULE: NoSchedule, Exit.CHECK_FAILED: CheckFailed}


class NamedReport(Protocol):
    """The report of one schedule or design."""

    @property
    def name(self) -> str:
        """Its name in the program."""
        ...

    @property
    def exit(self) -> Exit:
        """The exit code that it leads to."""
        ...


R = TypeVar("R", bound=NamedReport)


class Reports(Generic[R]):
    """Reports by name or in order. noun: what each report is about."""

    noun: ClassVar[str]

    @property
    @abstractmethod
    def parts(self) -> tuple[R, ...]:
        """The reports."""

    @property
    @abstractmethod
    def all_diagnostics(self) -> tuple[Diagnostic, ...]:
        """All messages, with the messages of each report."""

    @abstractmethod
    def table(self) -> Table:
        """The table for people."""

    @property
    def exit(self) -> Exit:
        """The exit code of the first report that failed."""
        return next((report.exit for report in self.parts if report.exit is not Exit.DONE), Exit.DONE)

    @property
    def ok(self) -> bool:
        """Whether none failed."""
        return self.exit is Exit.DONE

    def raise_if_failed(self) -> None:
        """Raise SourceError, NoSchedule or CheckFailed with all errors if one failed."""
        if not self.ok:
            errors = [message for message in self.all_diagnostics if not message.warning]
            raise _ERRORS.get(self.exit, SourceError)(*errors)

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[R]:
        return iter(self.parts)

    def __contains__(self, name: object) -> bool:
        return any(report.name == name for report in self.parts)

    def __getitem__(self, name: str | int) -> R:
        """The report of that name, or at that place. Raises KeyError, with the names that there are; IndexError."""
        if isinstance(name, int):
            return self.parts[name]
        for report in self.parts:
            if report.name == name:
                return report
        names = [report.name for report in self.parts]
        hint = did_you_mean(name, names, f"the {self.noun}s are {phrase(names)}" if names else "there is none")
        raise KeyError(f"no {self.noun} is named '{name}'; {hint}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(map(repr, self.parts)) or f'no {self.noun}s'}>"

    def _repr_html_(self) -> str:
        return html_of(self.table(), self.all_diagnostics)


def html_of(table: Table, messages: Sequence[Diagnostic]) -> str:
    """A table with messages below it, for notebooks."""
    return html_table(table.columns, table.rows, [render(fold_repeated(messages))] if messages else [])
