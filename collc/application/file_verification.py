"""`collc verify`: every check of a file, whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from collc.application.limit_checks import steps_of
from collc.application.named_collectives import check_named, known_collective
from collc.base.diagnostics import CheckFailed, Diagnostic, Note, SourceError, UsageError
from collc.base.outcome import Outcome
from collc.base.units import format_time
from collc.base.wording import listed, plural
from collc.msccl.file_kinds import FileKind, kind_of
from collc.ten.module import Module

if TYPE_CHECKING:
    from collc.source.program import ScheduleRequest

Profile = Literal["executor", "old"]

_OTHERS: Final = ("send", "recv", "alltoallv", "custom")
"""Names of collectives that files may have, beside those whose results are known."""

_READ_TWICE: Final = 8 * 2**20
"""Bytes of an MSCCL file up to which it is told whether the other runtime would take it, too."""


@dataclass(frozen=True, slots=True)
class FileReport:
    """kind: "ten", "msccl" or "mscclpp". checks: each with its outcome. summary: what is in the file.

    skipped: why each skipped check was not made. refused: it could not even be read.
    """

    file: Path
    kind: str
    checks: Mapping[str, Outcome]
    summary: Mapping[str, object]
    diagnostics: tuple[Diagnostic, ...]
    refused: bool = False
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def ok(self) -> bool:
        """Whether it could be read and no check failed."""
        return not self.refused and "failed" not in self.checks.values()

    def told(self) -> str:
        """What is in the file, in words; "" where it could not be read or the checks are all that is known."""
        if not self.summary or self.kind == "mscclpp":
            return ""
        return _in_words(self.summary) if self.kind == "msccl" else _schedule_in_words(self.summary)

    def rows(self) -> list[tuple[str, str]]:
        """Each check with its outcome, for the table; of those that were skipped, why."""
        why = {name: f" ({reason})" for name, reason in self.skipped.items()}
        return [(name, f"{outcome}{why.get(name, '')}") for name, outcome in self.checks.items()]

    def as_json(self) -> dict[str, object]:
        """What `verify --json` prints."""
        return {
            "file": str(self.file),
            "kind": self.kind,
            "checks": dict(self.checks),
            "skipped": dict(self.skipped),
            "summary": dict(self.summary),
        }


def _schedule_in_words(summary: Mapping[str, Any]) -> str:
    """How large and how long a schedule is, and how good."""
    if summary["transfers"] is None:
        return ""
    parts = [f"{plural(summary['npus'], 'NPU')}, {plural(summary['links'], 'link')}"]
    parts.append(plural(summary["transfers"], "transfer"))
    if "time_ps" in summary:
        time, bound = summary["time_ps"], summary["bound_ps"]
        steps = "" if summary["steps"] is None else f" ({plural(summary['steps'], 'step')})"
        parts += [f"time {format_time(time)}{steps}", f"lower bound {format_time(bound)} ({summary['bound']})"]
        if time:
            parts.append(f"efficiency {100 * bound / time:.2f} %")
    if summary["algorithm"]:
        parts.append(f"made by {summary['algorithm']}")
    return "; ".join(parts)


def _in_words(summary: Mapping[str, Any]) -> str:
    """What an MSCCL file is, and up to which size it is free of deadlock."""
    chunks = ", ".join(f"{name} {size}" for name, size in zip("ios", summary["chunks"], strict=True))
    most, safe = summary["max_bytes"], summary["largest_safe"]
    limits = "" if most is None else f" to {most}"
    places = [words for key, words in (("outofplace", "out of place"), ("inplace", "in place")) if summary[key]]
    root = "" if summary["root"] < 0 else f", root {summary['root']}"
    parts = [
        f"{summary['coll']}{root}",
        f"{summary['ranks']} ranks, {summary['channels']} channels, {summary['threadblocks']} threadblocks, "
        f"{summary['steps']} steps",
        f"chunks: {chunks}, {summary['nchunksperloop']} in a loop",
        f"{summary['proto']}, {' and '.join(places)}, sizes from {summary['min_bytes']}{limits} bytes",
    ]
    if safe is not None:
        parts.append(f"free of deadlock up to {safe} bytes" if safe else "hangs at every size")
    if "contracts" in summary:
        taken = ", ".join(f"{profile} {outcome}" for profile, outcome in summary["contracts"].items())
        parts.append(f"contract of the runtimes: {taken}")
    return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Against:
    """What a file is to be checked against; None: what it says itself.

    collective, root: what it should do, over all NPUs. profile: for MSCCL files. program, schedule: a
    schedule of a `.coll` file, whose network and demand then count.
    """

    collective: str | None = None
    root: int | None = None
    profile: Profile = "executor"
    program: Path | None = None
    schedule: str | None = None


def verify_file(path: Path, against: Against) -> FileReport:
    """Check a `.ten`, MSCCL or MSCCL++ file.

    Raises CollcError where it cannot be read or is of another kind.
    """
    if against.collective is not None:
        known_collective(against.collective, _OTHERS)
    kind = _kind(path)
    if kind == "ten":
        return _verify_ten(path, against)
    return _with_reasons(_verify_msccl(path, against) if kind == "msccl" else _verify_plan(path, against))


def _kind(path: Path) -> FileKind:
    try:
        return kind_of(path) or "ten"
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}"
        raise UsageError(Diagnostic("U0106", message, hint="check the name and the folder")) from error


def _with_reasons(report: FileReport) -> FileReport:
    """The report with why checks were skipped; a warning where all others passed but nobody looked at the result."""
    failed = [name for name, outcome in report.checks.items() if outcome == "failed"]
    skipped = [name for name, outcome in report.checks.items() if outcome == "skipped"]
    coll, packets = report.summary.get("coll"), report.summary.get("protocol") == "LL"
    why = f"not reached: {listed(failed)} failed" if failed else f"'{coll}' does not say what is computed"
    hint = "--collective NAME says what it should do, or --program FILE.coll --schedule NAME"
    if packets and not failed:
        why, hint = "plans of packets (protocol LL) are only read", "check the same plan with the protocol Simple"
    warnings = report.diagnostics
    if skipped and not failed:
        message = f"{listed(skipped)} {'was' if len(skipped) == 1 else 'were'} not checked: {why}"
        warnings = (*warnings, Diagnostic("C0208", message, hint=hint, warning=True))
    return replace(report, skipped=dict.fromkeys(skipped, why), diagnostics=warnings)


def _verify_ten(path: Path, against: Against) -> FileReport:
    from collc.ten.files import read_module
    from collc.verification import CHECKS, verify_schedule

    try:
        module = read_module(path)
    except SourceError as error:
        return FileReport(path, "ten", dict.fromkeys(CHECKS, "skipped"), {}, error.diagnostics, refused=True)
    if against.program is not None:
        module = _as_in(module, against.program, against.schedule)
    if against.collective is not None:
        check_named(module, against.collective, against.root or 0)
    verdict = verify_schedule(module)
    summary: dict[str, object] = {
        "name": module.name,
        "npus": len(module.network.npus),
        "links": module.network.link_count,
        "chunks": len(module.demand.chunks),
        "algorithm": module.algorithm,
        "link_model": module.model.value,
        "transfers": None if module.schedule is None else len(module.schedule),
    }
    warnings: list[Diagnostic] = []
    skipped: dict[str, str] = {}
    if module.schedule is None:
        warnings.append(Diagnostic("C0205", f"{path} has no schedule: there was nothing to check", warning=True))
        skipped = dict.fromkeys(verdict.checks, "there is no schedule")
    elif verdict.ok:
        warnings += _measured(module, summary)
    told = (*verdict.diagnostics, *warnings)
    return FileReport(path, "ten", verdict.checks, summary, told, skipped=skipped)


def _measured(module: Module, summary: dict[str, object]) -> list[Diagnostic]:
    """Add time, steps and bound to a summary; warns where the file says another bound."""
    from collc.synthesis.bounds import lower_bound

    assert module.schedule is not None
    bound = lower_bound(module.network, module.demand, module.model)
    time = module.schedule.collective_time(module.network, module.demand)
    summary |= {"time_ps": time, "steps": steps_of(module, time)}
    summary |= {"bound_ps": bound.time, "bound": bound.name}
    if module.bound is None or module.bound.time <= bound.time:
        return []
    said, found = format_time(module.bound.time), format_time(bound.time)
    message = f"the file says that no schedule takes less than {said}, but collc can only show {found}"
    return [Diagnostic("C0206", message, warning=True)]


def _as_in(module: Module, program: Path, schedule: str | None) -> Module:
    """The module's schedule with the network and demand of a program."""
    request = _request(program, schedule)
    theirs, ours = request.network, module.network
    names = [[network.link_name(link) for link in range(network.link_count)] for network in (theirs, ours)]
    if names[0] != names[1]:
        message = f"the links of '{module.name}' are not those of '{theirs.name}' in {program}"
        other = next((pair for pair in zip(*names, strict=False) if pair[0] != pair[1]), None)
        told = f"{len(names[1])} links, not {len(names[0])}" if other is None else f"{other[1]}, not {other[0]}"
        raise CheckFailed(Diagnostic("V0106", message, notes=(Note(f"the file has {told}"),)))
    return replace(module, network=theirs, demand=request.demand)


def _request(program: Path, schedule: str | None) -> ScheduleRequest:
    """The schedule of a program that a file is to be checked against."""
    from collc.source.elaboration.elaborate import load_program

    requests = load_program(program, {}, schedule).schedules
    if len(requests) != 1:
        message = f"{program} has {len(requests)} schedules"
        raise UsageError(Diagnostic("U0107", message, hint="say which one with --schedule NAME"))
    return requests[0]


def _named_by(against: Against) -> tuple[Against, ScheduleRequest | None]:
    """What a file for a runtime must do: a named collective, or the schedule of a program that is none."""
    if against.program is None:
        return against, None
    request = _request(against.program, against.schedule)
    standard = request.demand.runs[0].standard if len(request.demand.runs) == 1 else None
    if standard is None or request.demand.runs[0].group.tolist() != request.network.npus.tolist():
        return against, request
    root = standard.root if standard.root >= 0 else None
    return replace(against, collective=against.collective or standard.kind, root=root), None


def _verify_msccl(path: Path, against: Against) -> FileReport:
    from dataclasses import asdict

    from collc.msccl.check import check_file, contract_of, expected_of

    against, custom = _named_by(against)
    collective = against.collective if custom is None else "custom"
    verdict = check_file(path, collective=collective, root=against.root, profile=against.profile)
    if custom is not None and verdict.summary is not None and verdict.checks["deadlock"] != "skipped":
        once = expected_of(custom.network, custom.demand)
        instances = max(1, verdict.summary.nchunksperloop // max(1, once.width))
        expected = expected_of(custom.network, custom.demand, instances)
        verdict = check_file(path, collective="custom", profile=against.profile, expected=expected)
    summary = {} if verdict.summary is None else asdict(verdict.summary)
    checks: dict[str, Outcome] = {**verdict.checks}
    if summary and path.stat().st_size <= _READ_TWICE:
        other: Profile = "old" if against.profile == "executor" else "executor"
        taken = {against.profile: checks["contract"], other: contract_of(path, other, collective)}
        summary["contracts"] = {profile: taken[profile] for profile in ("executor", "old")}
    return FileReport(path, "msccl", checks, summary, verdict.diagnostics)


def _verify_plan(path: Path, against: Against) -> FileReport:
    from dataclasses import asdict

    from collc.msccl.check import expected_of
    from collc.msccl.check_plan import check_plan

    against, custom = _named_by(against)
    verdict = check_plan(path, collective=against.collective, root=against.root)
    if custom is not None and verdict.summary is not None:
        once = expected_of(custom.network, custom.demand)
        instances = max(1, verdict.summary.chunks // max(1, once.width))
        expected = expected_of(custom.network, custom.demand, instances)
        verdict = check_plan(path, collective="custom", expected=expected)
    summary = {} if verdict.summary is None else asdict(verdict.summary)
    checks: dict[str, Outcome] = {**verdict.checks}
    return FileReport(path, "mscclpp", checks, summary, verdict.diagnostics)
