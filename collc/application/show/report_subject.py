"""What a report shows: a schedule, or a file for a runtime, with its checks, bounds and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from collc.application.settings import Progress
from collc.application.verify.file_report import FileReport
from collc.base.diagnostics import Diagnostic, SourceError, fold_repeated, render
from collc.base.units import format_time, percent, shown_bytes
from collc.base.wording import plural
from collc.pictures.axes import rate_label
from collc.simulation.bandwidth import bandwidths
from collc.ten.module import Module
from collc.ten.network import Network

if TYPE_CHECKING:
    from pathlib import Path

    from collc.application.compare.alternatives import Alternative
    from collc.application.compile.compile_report import ScheduleReport
    from collc.emit.output import RunRanks
    from collc.pictures.link_use import LinkUse
    from collc.pictures.picture import Picture

MOST_NPUS: Final = 64
"""NPUs up to which alternatives are simulated: 3 s of CPU time; All-Reduce over 128 takes 11 s."""

MOST_LISTED: Final = 4_000_000
"""Transfers of a schedule up to which they are listed for the pictures; 512 GPUs have about a million."""

Fact = tuple[str, str, str]
"""Name, value and remark."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One schedule or file.

    name, summary: in words. facts: its numbers. bounds: lower bounds of its time, as (what, time, what sets it, time of
    the schedule / bound). checks: the outcome of each check. reasons: why some were skipped. messages: errors and
    warnings. notes: remarks. ranks: of files for runtimes, by run. network: None for a file without one. use: when
    links carry what; None if that is not known. alternatives: what the schedule is compared with, by time. remark: why
    it is compared with nothing. threadblocks: of a file for a runtime.
    """

    name: str
    summary: str
    facts: tuple[Fact, ...]
    checks: Mapping[str, str]
    bounds: tuple[tuple[str, str, str, str], ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    messages: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()
    ranks: tuple[RunRanks, ...] = ()
    network: Network | None = None
    use: LinkUse | None = None
    alternatives: tuple[Alternative, ...] = ()
    remark: str = ""
    threadblocks: Picture | None = None

    @property
    def failed_checks(self) -> list[str]:
        """The checks that failed."""
        return [name for name, outcome in self.checks.items() if outcome == "failed"]

    def message_lines(self) -> list[str]:
        """The messages as on a terminal."""
        return [render(fold_repeated((message,))) for message in fold_repeated(self.messages)]


def subject_of_report(report: ScheduleReport, network: Network, progress: Progress | None) -> Subject:
    """The subject of a schedule that was compiled and kept. Raises ValueError if it was not.

    network: of the program, whose switches the schedule may have replaced. progress: None without alternatives.
    """
    subject = _subject_of(report.kept_module(), network, report.as_json(), report.checks, report.notes, progress)
    return replace(subject, messages=report.diagnostics, ranks=report.ranks)


def subject_of_module(module: Module, report: FileReport, progress: Progress | None) -> Subject:
    """The subject of a module and its checks. progress: None without alternatives."""
    subject = _subject_of(module, module.network, report.summary, report.checks, module.notes, progress)
    return replace(subject, messages=report.diagnostics, reasons=report.skipped)


def _subject_of(
    module: Module,
    network: Network,
    numbers: Mapping[str, Any],
    checks: Mapping[str, str],
    notes: Sequence[str],
    progress: Progress | None,
) -> Subject:
    """The subject of a module. numbers: its time, bounds and steps, as in `verify --json` and `compile --json`."""
    use, reason = _use_of(module)
    alternatives: tuple[Alternative, ...] = ()
    remark = ""
    if progress is not None and use is not None and len(use) and "failed" not in checks.values():
        alternatives, remark = alternatives_of(module, network, progress)
    return Subject(
        name=module.name,
        summary=_summary(module),
        facts=_facts(module, numbers, checks.get("congestion_free") == "failed"),
        checks=checks,
        bounds=_bounds(numbers),
        notes=(*notes, reason) if reason else tuple(notes),
        network=module.network,
        use=use,
        alternatives=alternatives,
        remark=remark,
    )


def alternatives_of(module: Module, network: Network, progress: Progress) -> tuple[tuple[Alternative, ...], str]:
    """The alternatives to a schedule, by time; or none and the reason in words. network: of the program."""
    from collc.application.compare.alternatives import simulated_alternatives

    if len(network.npus) > MOST_NPUS:
        return (), f"Alternatives are simulated for up to {MOST_NPUS} NPUs here; 'collc compare' takes more."
    try:
        alternatives = list(simulated_alternatives(module, network, progress))
    except SourceError as error:
        return (), f"There are no alternatives: {error.diagnostics[0].message}."
    return tuple(sorted(alternatives, key=lambda one: (one.time_ps is None, one.time_ps or 0))), ""


def subject_of_program(
    path: Path, found: FileReport, threadblocks: Picture | None, use: LinkUse | None, size: int | None
) -> Subject:
    """The subject of a file for a runtime, its checks, and a simulation of it if there is one. size: its buffer."""
    facts: list[Fact] = []
    if use is not None:
        facts.append(("time", format_time(use.time), "simulated, congestion-aware"))
        facts += _bandwidths(str(found.summary.get("coll") or ""), size, use.time, len(use.network.npus))
    return Subject(
        name=str(found.summary.get("name") or path.name),
        summary=found.description() or f"{path.name}, {found.kind}",
        facts=tuple(facts),
        checks=found.checks,
        reasons=found.skipped,
        messages=found.diagnostics,
        network=None if use is None else use.network,
        use=use,
        threadblocks=threadblocks,
    )


def _use_of(module: Module) -> tuple[LinkUse | None, str]:
    """When links carry what; or None and why that is not known."""
    from collc.pictures.link_use import use_of_schedule

    if module.schedule is None:
        return None, "there is no schedule"
    if len(module.schedule) > MOST_LISTED:
        return None, f"{len(module.schedule)} transfers are too many to draw; the network and the checks are shown"
    try:
        return use_of_schedule(module), ""
    except ValueError as error:
        return None, str(error)


def _summary(module: Module) -> str:
    runs = ", ".join(
        f"{run.collective} of {shown_bytes(run.standard.size)}" if run.standard else run.collective
        for run in module.demand.runs[:4]
    )
    more = f" and {len(module.demand.runs) - 4} more" if len(module.demand.runs) > 4 else ""
    network = module.network
    links = plural(network.link_count, "link")
    return f"{runs}{more} on {network.name} ({plural(len(network.npus), 'NPU')}, {links})"


def _facts(module: Module, numbers: Mapping[str, Any], congested: bool) -> tuple[Fact, ...]:
    """The numbers of a schedule with their names."""
    facts: list[Fact] = []
    time, bound, ideal = numbers.get("time_ps"), numbers.get("bound_ps"), numbers.get("ideal_ps")
    if time is not None:
        facts.append(("time", format_time(time), "not valid: links carry two chunks at once" if congested else ""))
    if bound is not None:
        facts.append(("lower bound", format_time(bound), "met" if bound == time else "with these chunks"))
    if ideal is not None and time and not congested:
        facts.append(("of ideal", percent(ideal / time), f"of {format_time(ideal)}, the ideal"))
    standard = module.demand.standard
    if time and standard is not None and not congested:
        facts += _bandwidths(standard.kind, standard.size, time, len(module.demand.runs[0].group))
    if numbers.get("steps") is not None:
        facts.append(("steps", str(numbers["steps"]), ""))
    if module.schedule is not None:
        facts.append(("transfers", f"{len(module.schedule):,}", plural(len(module.demand.chunks), "chunk")))
    facts.append(("made by", numbers.get("algorithm") or "-", f"link model {module.model.value}"))
    return tuple(facts)


def _bounds(numbers: Mapping[str, Any]) -> tuple[tuple[str, str, str, str], ...]:
    """The rows of the table of bounds."""
    rows: list[tuple[str, str, str, str]] = []
    time = numbers.get("time_ps")
    for key, name in (("bound", "of any schedule with these chunks"), ("ideal", "ideal: of any schedule at all")):
        least = numbers.get(f"{key}_ps")
        if least is not None:
            ratio = "met" if least == time else f"{time / least:.4f}" if time and least else "-"
            rows.append((name, format_time(least), str(numbers[key]), ratio))
    return tuple(rows)


def _bandwidths(collective: str, size: int | None, time: int, ranks: int) -> list[Fact]:
    """Algorithm and bus bandwidth as nccl-tests define them, if they are known."""
    rates = bandwidths(collective.replace("allreduce", "all_reduce"), size, ranks, time)
    names = (("algorithm bandwidth", "size / time"), ("bus bandwidth", "as nccl-tests define it"))
    return [
        (name, rate_label(float(rate)), remark)
        for (name, remark), rate in zip(names, rates, strict=True)
        if rate is not None
    ]
