"""What the checker has to say about a file: findings with their place, and their collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from collc.base.diagnostics import Diagnostic, Note, SourceFile, Span, UsageError

Check = Literal["contract", "result", "deadlock", "race"]
CHECKS: Final[tuple[Check, ...]] = ("contract", "result", "deadlock", "race")
PER_CODE: Final = 12
"""Findings of one code that are listed; the rest are counted."""
SPAN_LIMIT: Final = 8 * 2**20
"""Bytes of a file up to which its text travels with messages, so that they can show the line."""


@dataclass(frozen=True, slots=True)
class FileLocation:
    """Where in the file: line and column from 1 (0: no place), and what stands there.

    gpu, tb, step: numbers as the file gives them (step: position in the threadblock), -1: none.
    attribute: the attribute meant, to point at it rather than at its element.
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
    """One thing wrong (or doubtful: warning) in a file. `expected` says what should be there."""

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
    """Findings in order, at most `PER_CODE` of one code kept; `broken` when the rest can't be judged."""

    kept: list[Finding] = field(default_factory=list[Finding])
    counts: dict[tuple[Check, str], int] = field(default_factory=dict[tuple[Check, str], int])
    failed: set[Check] = field(default_factory=set[Check])
    broken: bool = False

    def add(self, finding: Finding, *, breaks: bool = False) -> None:
        """Keep a finding; `breaks`: the program can't be run, so that other checks are skipped."""
        key = (finding.check, finding.code)
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] <= PER_CODE:
            self.kept.append(finding)
        if not finding.warning:
            self.failed.add(finding.check)
        self.broken |= breaks

    def more(self, check: Check, code: str, count: int) -> None:
        """Count findings that nobody words, after at least `PER_CODE` of their kind."""
        self.counts[check, code] += count


def diagnostics(findings: Findings, path: Path) -> tuple[Diagnostic, ...]:
    """The findings as messages for users, with spans where the file is small enough to carry along."""
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


def errors_of(findings: Findings, path: Path) -> tuple[Diagnostic, ...]:
    """The findings that are no mere warnings, as messages for users."""
    return tuple(told for told in diagnostics(findings, path) if not told.warning)


def locate(finding: Finding, path: Path) -> tuple[int, int]:
    """Line and column of a finding, pointing at its attribute where it has one."""
    return _Lines(path, None).point(finding.location)[:2]


def _diagnostic(finding: Finding, lines: _Lines, source: SourceFile | None) -> Diagnostic:
    where = str(finding.location)
    message = f"{where}: {finding.message}" if where else finding.message
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
    """Lines of the file, looked up for the few places that messages name."""

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
        """Line `number`, from 1; empty where there is none."""
        if self.lines is not None:
            return self.lines[number - 1] if number <= len(self.lines) else ""
        with self.path.open("rb") as stream:
            return next(islice(stream, number - 1, None), b"")[:65536].decode("utf-8", "replace").rstrip("\n")

    def point(self, location: FileLocation) -> tuple[int, int, int]:
        """Line, column and length of what a place means."""
        if not location.line:
            return 0, 0, 0
        text = self.line(location.line)
        begin = location.column - 1
        end = text.find(">", begin)
        end = len(text) if end < 0 else end + 1
        if location.attribute:
            at = text.find(f' {location.attribute}="', begin)
            if 0 <= at < end:
                close = text.find('"', at + len(location.attribute) + 3)
                return location.line, at + 2, max(1, close - at)
        return location.line, location.column, max(1, end - begin)

    def span(self, location: FileLocation, source: SourceFile | None) -> tuple[Span | None, str]:
        """A span, or where the file is too big to carry its place in words."""
        line, column, length = self.point(location)
        if not line:
            return None, ""
        if source is None or self.starts is None:
            return None, f"{self.path}:{line}:{column}"
        start = self.starts[line - 1] + column - 1
        return Span(source, start, start + length), ""
