"""The report of `collc verify` on one file or module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collc.base.diagnostics import CheckFailed, Diagnostic, Outcome, SourceError, fold_repeated, render
from collc.base.tables import html_table
from collc.base.units import format_time, percent
from collc.base.wording import phrase, plural


def reasons_of(checks: Mapping[str, Outcome], reason: str = "", *, unreadable: bool = False) -> dict[str, str]:
    """Why each skipped check was not made: `reason`, used if no check failed and the file could be read."""
    failed = [name for name, outcome in checks.items() if outcome == "failed"]
    if unreadable:
        reason = "the file cannot be read"
    elif failed:
        reason = f"not reached: {phrase(failed)} failed"
    return {name: reason for name, outcome in checks.items() if outcome == "skipped"}


@dataclass(frozen=True, slots=True, repr=False)
class FileReport:
    """The checks of a file or module, and what it contains.

    Attributes
    ----------
    file: None if a module was checked that is in no file.
    kind: "ten", "msccl", "run", "mscclpp" or "chakra".
    checks: the outcome of each check.
    skipped: why each skipped check was not made.
    summary: sizes, names and times, as `verify --json` prints them; empty if the file could not be read.
    diagnostics: errors and warnings.
    unreadable: the file could not be read.
    """

    file: Path | None
    kind: str
    checks: Mapping[str, Outcome]
    summary: Mapping[str, object]
    diagnostics: tuple[Diagnostic, ...]
    unreadable: bool = False
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def ok(self) -> bool:
        """Whether the file could be read and no check failed."""
        return not self.unreadable and "failed" not in self.checks.values()

    def raise_if_failed(self) -> None:
        """Raise CheckFailed (or SourceError for an unreadable file) with all errors if the file is not right."""
        if not self.ok:
            errors = [message for message in self.diagnostics if not message.warning]
            raise (SourceError if self.unreadable else CheckFailed)(*errors)

    def description(self) -> str:
        """The summary in words; "" if there is none, or if it says no more than the checks."""
        if not self.summary or self.kind in ("mscclpp", "chakra"):
            return ""
        return _describe_msccl(self.summary) if self.kind in ("msccl", "run") else _describe_schedule(self.summary)

    def rows(self) -> list[tuple[str, str]]:
        """A row for each check: its name and outcome, with the reason if it was skipped."""
        reasons = {name: f" ({reason})" for name, reason in self.skipped.items()}
        return [(name, f"{outcome}{reasons.get(name, '')}") for name, outcome in self.checks.items()]

    def as_json(self) -> dict[str, object]:
        """The object that `verify --json` prints, without its messages."""
        return {
            "file": None if self.file is None else str(self.file),
            "kind": self.kind,
            "checks": dict(self.checks),
            "skipped": dict(self.skipped),
            "summary": dict(self.summary),
        }

    def __repr__(self) -> str:
        failed = [name for name, outcome in self.checks.items() if outcome == "failed"]
        passed = sum(outcome == "ok" for outcome in self.checks.values())
        outcome = "unreadable" if self.unreadable else f"failed: {', '.join(failed)}" if failed else f"{passed} ok"
        return f"<FileReport {self.file or self.summary.get('name', '')}: {self.kind}, {outcome}>"

    def _repr_html_(self) -> str:
        remarks = [text for text in (self.description(), render(fold_repeated(self.diagnostics))) if text]
        return html_table(("check", "outcome"), self.rows(), remarks)


def _describe_schedule(summary: Mapping[str, Any]) -> str:
    """Size, time, lower bound and origin of a schedule; "" if the module has none."""
    if summary["transfers"] is None:
        return ""
    parts = [f"{plural(summary['npus'], 'NPU')}, {plural(summary['links'], 'link')}"]
    parts.append(plural(summary["transfers"], "transfer"))
    if "time_ps" in summary:
        time, bound = summary["time_ps"], summary["bound_ps"]
        steps = "" if summary["steps"] is None else f" ({plural(summary['steps'], 'step')})"
        met = ", met" if time == bound else ""
        parts += [f"time {format_time(time)}{steps}", f"lower bound {format_time(bound)}{met} ({summary['bound']})"]
        if time:
            parts.append(f"{percent(summary['ideal_ps'] / time)} of ideal ({summary['ideal']})")
    if summary["algorithm"]:
        parts.append(f"made by {summary['algorithm']}")
    return "; ".join(parts)


def _describe_msccl(summary: Mapping[str, Any]) -> str:
    """Collective, size and limits of an MSCCL file, and up to which size it is free of deadlock."""
    chunks = ", ".join(f"{name} {size}" for name, size in zip("ios", summary["chunks"], strict=True))
    most, safe = summary["max_bytes"], summary["largest_safe"]
    limits = "" if most is None else f" to {most}"
    places = [words for key, words in (("outofplace", "out of place"), ("inplace", "in place")) if summary[key]]
    root = "" if summary["root"] < 0 else f", root {summary['root']}"
    parts = [
        f"{summary['coll']}{root}",
        ", ".join(plural(summary[f"{noun}s"], noun) for noun in ("rank", "channel", "threadblock", "step")),
        f"chunks: {chunks}, nchunksperloop {summary['nchunksperloop']}",
        f"{summary['proto']}, {' and '.join(places)}, sizes from {summary['min_bytes']}{limits} bytes",
    ]
    if safe is not None:
        parts.append(f"free of deadlock up to {safe} bytes" if safe else "hangs at every size")
    if "contracts" in summary:
        accepted = ", ".join(f"{profile} {outcome}" for profile, outcome in summary["contracts"].items())
        parts.append(f"contract of the runtimes: {accepted}")
    return "; ".join(parts)
