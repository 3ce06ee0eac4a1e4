"""Findings of the checks of a file, each with its location, and their conversion to messages."""

from __future__ import annotations

import re
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

from collc.base.diagnostics import CheckFailed, Diagnostic, Note, Outcome, SourceFile, Span, UsageError

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
    spans = _Spans(path)
    out = [_diagnostic(finding, spans) for finding in findings.kept]
    for (check, code), count in findings.counts.items():
        if count > PER_CODE:
            rest = count - PER_CODE
            out.append(Diagnostic(code, f"{rest} more of this kind ({check})", warning=check not in findings.failed))
    return tuple(out)


def unreadable_file(path: Path, error: OSError) -> UsageError:
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


def _diagnostic(finding: Finding, spans: _Spans) -> Diagnostic:
    place = str(finding.location)
    message = f"{place}: {finding.message}" if place else finding.message
    span, remark = spans.span(finding.location)
    notes = [Note(remark)] if remark else []
    if finding.expected:
        notes.append(Note(f"expected: {finding.expected}"))
    for text, location in finding.also:
        other, remark = spans.span(location)
        suffix = f" ({remark})" if remark else ""
        notes.append(Note(f"{location}: {text}{suffix}", other))
    return Diagnostic(finding.code, message, span, tuple(notes), finding.hint, finding.warning)


class _Spans:
    """The text of a file, and where its lines begin; no text if it is too large for messages or can't be read."""

    def __init__(self, path: Path) -> None:
        self.path: Path = path
        self.source: SourceFile | None = None
        with suppress(OSError):
            if path.stat().st_size <= SPAN_LIMIT:
                self.source = SourceFile(str(path), path.read_bytes().decode("utf-8", "replace"))
        text = "" if self.source is None else self.source.text
        self.starts: list[int] = [0, *(match.end() for match in re.finditer("\n", text))]

    def span(self, location: FileLocation) -> tuple[Span | None, str]:
        """The span of an element or attribute and "", or None and `FILE:LINE:COLUMN` of the element without a text."""
        if not location.line:
            return None, ""
        if self.source is None:
            return None, f"{self.path}:{location.line}:{location.column}"
        text, number = self.source.text, min(location.line, len(self.starts))
        begin = self.starts[number - 1] + location.column - 1
        line_end = [*self.starts, len(text) + 1][number] - 1
        end = text.find(">", begin, line_end) + 1 or line_end
        name = f' {location.attribute}="'
        attribute = text.find(name, begin, end) if location.attribute else -1
        if attribute >= 0:
            begin, end = attribute + 1, text.find('"', attribute + len(name)) + 1
        return Span(self.source, begin, max(begin + 1, end)), ""
