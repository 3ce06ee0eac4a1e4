"""Findings of the checks of a file, each with its location, and their conversion to messages."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

from collc.base.diagnostics import CheckFailed, Diagnostic, Note, SourceFile, Span, UsageError
from collc.base.outcome import Outcome

Check = Literal["contract", "result", "deadlock", "race"]
CHECKS: Final[tuple[Check, ...]] = ("contract", "result", "deadlock", "race")
PER_CODE: Final = 12
"""Findings of one code that are kept; the others are counted."""
SPAN_LIMIT: Final = 8 * 2**20
"""Bytes of a file up to which messages carry its text and show the line."""


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A location in a file: line and column from 1 (0: unknown), and the element there.

    gpu, tb: ids in the file; step: position in the threadblock; -1: none. attribute: the attribute to point at, "" for
    the whole element.
    """

    line: int = 0
    column: int = 0
    gpu: int = -1
    tb: int = -1
    step: int = -1
    attribute: str = ""

    def __str__(self) -> str:
        parts = [("gpu", self.gpu), ("threadblock", self.tb), ("step", self.step)]
        return ", ".join(f"{name} {number}" for name, number in parts if number >= 0)


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake in a file, or one doubt (warning). expected: what should be there. also: further locations."""

    check: Check
    code: str
    message: str
    location: FileLocation = FileLocation()
    expected: str = ""
    hint: str = ""
    warning: bool = False
    also: tuple[tuple[str, FileLocation], ...] = ()


@dataclass
class Findings:
    """Findings in order. counts: of each check and code, kept or not. failed: checks with a finding that is no warning.

    broken: whether the program can't be executed, so that the other checks are skipped.
    """

    kept: list[Finding] = field(default_factory=list[Finding])
    counts: dict[tuple[Check, str], int] = field(default_factory=dict[tuple[Check, str], int])
    failed: set[Check] = field(default_factory=set[Check])
    broken: bool = False

    def add(self, finding: Finding, *, breaks: bool = False) -> None:
        """Add a finding, and keep it if it is among the first `PER_CODE` of its code. breaks: sets `broken`."""
        key = (finding.check, finding.code)
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] <= PER_CODE:
            self.kept.append(finding)
        if not finding.warning:
            self.failed.add(finding.check)
        self.broken |= breaks

    def count_more(self, check: Check, code: str, count: int) -> None:
        """Count findings without a message; at least `PER_CODE` of their code have been added before."""
        self.counts[check, code] += count

    def answers(self, ran: Set[Check]) -> dict[Check, Outcome]:
        """The outcome of every check; ran: those that were made."""
        return {check: "failed" if check in self.failed else "ok" if check in ran else "skipped" for check in CHECKS}


SummaryT_co = TypeVar("SummaryT_co", covariant=True)


@dataclass(frozen=True)
class Verdict(Generic[SummaryT_co]):
    """The answers of all checks of a file, with their findings; summary: None if the file can't be read."""

    path: Path
    checks: dict[Check, Outcome]
    findings: tuple[Finding, ...]
    diagnostics: tuple[Diagnostic, ...]
    summary: SummaryT_co | None

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return "failed" not in self.checks.values()

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The messages that are no warnings."""
        return tuple(message for message in self.diagnostics if not message.warning)

    def raise_if_unsound(self) -> None:
        """Raise CheckFailed if a runtime does not load the file, or if it hangs."""
        if "failed" in (self.checks["contract"], self.checks["deadlock"]):
            raise CheckFailed(*self.errors)


def diagnostics(findings: Findings, path: Path) -> tuple[Diagnostic, ...]:
    """The findings as messages; with spans if the file has at most `SPAN_LIMIT` bytes."""
    source = _source(path)
    lines = _Lines(path, source)
    out = [_diagnostic(finding, lines, source) for finding in findings.kept]
    for (check, code), count in findings.counts.items():
        if count > PER_CODE:
            rest = count - PER_CODE
            out.append(Diagnostic(code, f"{rest} more of this kind ({check})", warning=check not in findings.failed))
    return tuple(out)


def unreadable(path: Path, error: OSError) -> UsageError:
    """The error for a file that can't be opened."""
    message = f"cannot read {path}: {error.strerror or error}"
    return UsageError(Diagnostic("X0100", message, hint="check the name and the folder"))


def check_root(root: int | None, ranks: int, path: Path) -> None:
    """Raise UsageError (X0203) if a root that is given is not a rank of a file."""
    if root is not None and not 0 <= root < ranks:
        raise UsageError(Diagnostic("X0203", f"root {root} is not a rank of {path}: it has {ranks}"))


def errors_of(findings: Findings, path: Path) -> tuple[Diagnostic, ...]:
    """The findings that are no warnings, as messages."""
    return tuple(message for message in diagnostics(findings, path) if not message.warning)


def locate(finding: Finding, path: Path) -> tuple[int, int]:
    """Line and column of a finding, those of its attribute if it names one."""
    return _Lines(path, None).point(finding.location)[:2]


def _diagnostic(finding: Finding, lines: _Lines, source: SourceFile | None) -> Diagnostic:
    place = str(finding.location)
    message = f"{place}: {finding.message}" if place else finding.message
    notes: list[Note] = []
    span, remark = lines.span(finding.location, source)
    if remark:
        notes.append(Note(remark))
    if finding.expected:
        notes.append(Note(f"expected: {finding.expected}"))
    for text, location in finding.also:
        other, remark = lines.span(location, source)
        suffix = f" ({remark})" if remark else ""
        notes.append(Note(f"{location}: {text}{suffix}", other))
    return Diagnostic(finding.code, message, span, tuple(notes), finding.hint, finding.warning)


def _source(path: Path) -> SourceFile | None:
    try:
        if path.stat().st_size > SPAN_LIMIT:
            return None
        return SourceFile(str(path), path.read_bytes().decode("utf-8", "replace"))
    except OSError:
        return None


class _Lines:
    """The lines of a file, read again from disk if its text is too large for messages."""

    def __init__(self, path: Path, source: SourceFile | None) -> None:
        self.path: Path = path
        self.starts: list[int] | None = None
        self.lines: list[str] | None = None
        if source is not None:
            self.lines = source.text.split("\n")
            self.starts = [0]
            for line in self.lines:
                self.starts.append(self.starts[-1] + len(line) + 1)

    def line(self, number: int) -> str:
        """Line `number`, from 1; empty if there is none."""
        if self.lines is not None:
            return self.lines[number - 1] if number <= len(self.lines) else ""
        with self.path.open("rb") as stream:
            return next(islice(stream, number - 1, None), b"")[:65536].decode("utf-8", "replace").rstrip("\n")

    def point(self, location: FileLocation) -> tuple[int, int, int]:
        """Line, column and length of the element or attribute at a location."""
        if not location.line:
            return 0, 0, 0
        text = self.line(location.line)
        begin = location.column - 1
        end = text.find(">", begin)
        end = len(text) if end < 0 else end + 1
        if location.attribute:
            begin_of_attribute = text.find(f' {location.attribute}="', begin)
            if 0 <= begin_of_attribute < end:
                close = text.find('"', begin_of_attribute + len(location.attribute) + 3)
                return location.line, begin_of_attribute + 2, max(1, close - begin_of_attribute)
        return location.line, location.column, max(1, end - begin)

    def span(self, location: FileLocation, source: SourceFile | None) -> tuple[Span | None, str]:
        """A span and "", or None and `FILE:LINE:COLUMN` if the text of the file is too large for messages."""
        line, column, length = self.point(location)
        if not line:
            return None, ""
        if source is None or self.starts is None:
            return None, f"{self.path}:{line}:{column}"
        start = self.starts[line - 1] + column - 1
        return Span(source, start, start + length), ""
