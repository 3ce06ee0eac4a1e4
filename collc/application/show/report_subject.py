"""What a report shows: a schedule, or a file for a runtime, with its checks, bounds and times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from collc.application.settings import Progress
from collc.application.show.report_alternatives import Alternatives, alternatives_of
from collc.application.verify.file_report import FileReport
from collc.base.diagnostics import Diagnostic
from collc.base.rendering import folded, render
from collc.base.units import format_time, percent, shown_bytes
from collc.base.wording import plural
from collc.pictures.axes import rate_label
from collc.simulation.bandwidth import algorithm_bandwidth, bus_factor
from collc.ten.module import Module
from collc.ten.network import Network

if TYPE_CHECKING:
    from pathlib import Path

    from collc.application.compile.compile_report import ScheduleReport
    from collc.emit.output import RunRanks
    from collc.pictures.link_use import LinkUse

MOST_LISTED = 4_000_000
"""Transfers of a schedule up to which they are listed for the pictures; 512 GPUs have about a million."""

Fact = tuple[str, str, str]
"""Name, value and remark."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One schedule or file.

    name, summary: in words. facts: its numbers. bounds: lower bounds of its time, as (what, time, what sets it, time of
    the schedule / bound). checks: the outcome of each check. reasons: why some were skipped. messages: errors and
    warnings. notes: remarks. ranks: of files for runtimes, by run. network: None for a file without one. use: when
    links carry what; None where that is not known. alternatives: what the schedule is compared with. drawing:
    threadblocks of a file for a runtime, as SVG.
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
    alternatives: Alternatives | None = None
    drawing: str = ""

    @property
    def failed(self) -> list[str]:
        """The checks that failed."""
        return [name for name, outcome in self.checks.items() if outcome == "failed"]

    def message_lines(self) -> list[str]:
        """The messages as on a terminal."""
        return [render(folded((message,))) for message in folded(self.messages)]


def subject_of_report(report: ScheduleReport, network: Network, progress: Progress | None) -> Subject:
    """The subject of a schedule that was compiled and kept. Raises ValueError where it was not.

    network: that of the program, whose switches the schedule may have replaced. progress: None without alternatives.
    """
    module = report.kept_module()
    times = {"time_ps": report.time_ps, "bound_ps": report.bound_ps, "bound": report.bound, "steps": report.steps}
    times |= {"ideal_ps": report.ideal_ps, "ideal": report.ideal}
    facts = _facts(module, times, report.synthesizer or "", report.checks.get("congestion_free") == "failed")
    use, notes = _use_of(module)
    return Subject(
        name=report.name,
        summary=_summary(module),
        facts=facts,
        checks=report.checks,
        bounds=_bounds(times),
        messages=report.diagnostics,
        notes=(*report.notes, *notes),
        ranks=report.ranks,
        network=module.network,
        use=use,
        alternatives=_alternatives(module, network, use, report.checks, progress),
    )


def subject_of_module(module: Module, found: FileReport, progress: Progress | None) -> Subject:
    """The subject of a module and its checks. progress: None without alternatives."""
    facts = _facts(module, found.summary, module.algorithm, found.checks.get("congestion_free") == "failed")
    use, notes = _use_of(module)
    return Subject(
        name=module.name,
        summary=_summary(module),
        facts=facts,
        checks=found.checks,
        bounds=_bounds(found.summary),
        reasons=found.skipped,
        messages=found.diagnostics,
        notes=(*module.notes, *notes),
        network=module.network,
        use=use,
        alternatives=_alternatives(module, module.network, use, found.checks, progress),
    )


def subject_of_program(path: Path, found: FileReport, drawing: str, use: LinkUse | None, size: int | None) -> Subject:
    """The subject of a file for a runtime, its checks, and a simulation of it where there is one. size: its buffer."""
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
        drawing=drawing,
    )


def _use_of(module: Module) -> tuple[LinkUse | None, list[str]]:
    """When links carry what, and why that is not known."""
    from collc.pictures.link_use import use_of_schedule

    if module.schedule is None:
        return None, ["there is no schedule"]
    if len(module.schedule) > MOST_LISTED:
        return None, [f"{len(module.schedule)} transfers are too many to draw; the network and the checks are shown"]
    try:
        return use_of_schedule(module), []
    except ValueError as error:
        return None, [str(error)]


def _alternatives(
    module: Module, network: Network, use: LinkUse | None, checks: Mapping[str, str], progress: Progress | None
) -> Alternatives | None:
    """What to compare a correct schedule with."""
    if progress is None or use is None or not len(use) or "failed" in checks.values():
        return None
    return alternatives_of(module, network, use.time, progress)


def _summary(module: Module) -> str:
    runs = ", ".join(
        f"{run.collective} of {shown_bytes(run.standard.size)}" if run.standard else run.collective
        for run in module.demand.runs[:4]
    )
    more = f" and {len(module.demand.runs) - 4} more" if len(module.demand.runs) > 4 else ""
    network = module.network
    links = plural(network.link_count, "link")
    return f"{runs}{more} on {network.name} ({plural(len(network.npus), 'NPU')}, {links})"


def _facts(module: Module, times: Mapping[str, Any], algorithm: str, congested: bool) -> tuple[Fact, ...]:
    """The numbers of a schedule. times: as in the summary of a `FileReport`."""
    facts: list[Fact] = []
    time, bound, ideal = times.get("time_ps"), times.get("bound_ps"), times.get("ideal_ps")
    if time is not None:
        facts.append(("time", format_time(time), "not valid: links carry two chunks at once" if congested else ""))
    if bound is not None:
        facts.append(("lower bound", format_time(bound), "met" if bound == time else "with these chunks"))
    if ideal is not None and time and not congested:
        facts.append(("of ideal", percent(ideal / time), f"of {format_time(ideal)}, the ideal"))
    standard = module.demand.standard
    if time and standard is not None and not congested:
        facts += _bandwidths(standard.kind, standard.size, time, len(module.demand.runs[0].group))
    if times.get("steps") is not None:
        facts.append(("steps", str(times["steps"]), ""))
    if module.schedule is not None:
        facts.append(("transfers", f"{len(module.schedule):,}", plural(len(module.demand.chunks), "chunk")))
    facts.append(("made by", algorithm or "-", f"link model {module.model.value}"))
    return tuple(facts)


def _bounds(times: Mapping[str, Any]) -> tuple[tuple[str, str, str, str], ...]:
    """The rows of the table of bounds. times: as in the summary of a `FileReport`."""
    rows: list[tuple[str, str, str, str]] = []
    time = times.get("time_ps")
    for key, name in (("bound", "of any schedule with these chunks"), ("ideal", "ideal: of any schedule at all")):
        least = times.get(f"{key}_ps")
        if least is not None:
            ratio = "met" if least == time else f"{time / least:.4f}" if time and least else "-"
            rows.append((name, format_time(least), str(times[key]), ratio))
    return tuple(rows)


def _bandwidths(collective: str, size: int | None, time: int, ranks: int) -> list[Fact]:
    """Algorithm and bus bandwidth as nccl-tests define them, where they are known."""
    algorithm = algorithm_bandwidth(size, time) if size else None
    if algorithm is None:
        return []
    found: list[Fact] = [("algorithm bandwidth", rate_label(float(algorithm)), "size / time")]
    factor: Fraction | None = bus_factor(collective.replace("allreduce", "all_reduce"), ranks)
    if factor is not None:
        found.append(("bus bandwidth", rate_label(float(algorithm * factor)), "as nccl-tests define it"))
    return found
