"""`collc lab`: a schedule of a program on an emulated network, measured against its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from collc.application.lab.link_delays import LINK_COLUMNS, LinkDelay, link_delays, use_of_measurement
from collc.application.settings import Progress
from collc.application.show.report_page import report_page
from collc.application.simulate.module_simulation import simulated_alternatives
from collc.application.simulate.simulating import compiled_module
from collc.base.atomic_files import write_file
from collc.base.diagnostics import CheckFailed, CollcError, Diagnostic, UsageError
from collc.base.tables import Column, Table, records_of, table_of
from collc.base.units import format_time, percent, shown_bytes, shown_rate
from collc.base.wording import SHOWN, did_you_mean, in_short, plural
from collc.lab.emulated_network import check_machine
from collc.lab.gloo import measure_gloo, why_no_gloo
from collc.lab.laboratory import Experiment, Failure, Laboratory, Measurement, reroute
from collc.lab.mpi import measure_mpich, why_no_mpich
from collc.msccl.communicators import communicators_of
from collc.msccl.lowering.lower import lower
from collc.msccl.options import MscclOptions, Profile
from collc.msccl.program import Program
from collc.pictures.link_use import use_of_simulation
from collc.pictures.page import Block, Facts, Figure, Panel, Section
from collc.pictures.picture import Picture
from collc.pictures.schedule_pictures import gantt_picture
from collc.ten.module import Module
from collc.ten.network import Network


@dataclass(frozen=True, slots=True)
class LabSettings:
    """What is measured.

    schedule, definitions: of the program. rate: bytes per second of all links together. seconds: that the plan takes.
    runs: how many are measured, after one that is not. textbook, gloo, mpich: whether textbook algorithms, or the
    collectives of gloo or MPICH, run, too. fail, at: a link that is taken away, `source -> target`, and how many
    seconds after the start. output: the page to write.
    """

    schedule: str | None = None
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])
    rate: Fraction = Fraction(37_500_000)
    seconds: float = 1.0
    runs: int = 3
    textbook: bool = False
    gloo: bool = False
    mpich: bool = False
    fail: str | None = None
    at: float = 0.5
    output: Path | None = None


@dataclass(frozen=True, eq=False)
class LabResult:
    """The runs of an algorithm, or the reason why there are none. times: in seconds, if there is nothing but these."""

    name: str
    experiment: Experiment | None = None
    runs: tuple[Measurement, ...] = ()
    reason: str = ""
    times: tuple[float, ...] = ()

    @property
    def predicted_time(self) -> float | None:
        """Seconds of the plan."""
        return None if self.experiment is None else self.experiment.plan.time_ps / 1e12

    @property
    def measured_time(self) -> float | None:
        """Seconds: the median of the runs."""
        return median(self._seconds) if self._seconds else None

    @property
    def ratio(self) -> float | None:
        """The measured time over the predicted one."""
        return self.measured_time / self.predicted_time if self.measured_time and self.predicted_time else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """The shortest and the longest run."""
        return (min(self._seconds), max(self._seconds)) if self._seconds else None

    @property
    def middle(self) -> Measurement:
        """The median run; of an even number, the later one of two."""
        return sorted(self.runs, key=lambda run: run.seconds)[len(self.runs) // 2]

    @property
    def _seconds(self) -> Sequence[float]:
        return [run.seconds for run in self.runs] or self.times

    @property
    def ok(self) -> bool:
        """Whether all outputs of all runs were right."""
        return not any(run.wrong for run in self.runs)


def _seconds(seconds: float) -> str:
    return format_time(round(seconds * 1e6) * 10**6)


_COLUMNS: Final[Sequence[Column[LabResult]]] = (
    Column("algorithm", "algorithm", lambda row: row.name),
    Column("predicted", "predicted_s", lambda row: row.predicted_time, _seconds),
    Column("measured", "measured_s", lambda row: row.measured_time, _seconds),
    Column("ratio", "ratio", lambda row: row.ratio, "{:.3f}".format),
    Column("runs", "runs_s", lambda row: row.spread, lambda ends: f"{_seconds(ends[0])} to {_seconds(ends[1])}"),
    Column("results", "ok", lambda row: row.ok if row.runs else None, lambda ok: "match NumPy" if ok else "WRONG"),
    Column("remark", "reason", lambda row: row.reason or None),
)


@dataclass(frozen=True, eq=False)
class LabReport:
    """What `collc lab` measured. results: of the schedule itself first. links: of its median run, the latest first."""

    schedule: str
    results: tuple[LabResult, ...]
    links: tuple[LinkDelay, ...]

    @property
    def ok(self) -> bool:
        """Whether all results were right."""
        return all(result.ok for result in self.results)

    @property
    def own(self) -> Experiment:
        """The experiment of the schedule itself."""
        assert self.results[0].experiment is not None
        return self.results[0].experiment

    @property
    def cpu(self) -> float:
        """The share of the processors that was busy, the mean over all runs."""
        return float(np.mean([run.cpu for result in self.results for run in result.runs]))

    def as_json(self) -> dict[str, object]:
        """The object that `lab --json` prints, without its messages."""
        return {
            "schedule": self.schedule,
            "network": self.own.network.name,
            "share_of_bandwidth": float(self.own.share),
            "chunk_bytes": self.own.program.chunk_bytes,
            "cpu": self.cpu,
            "algorithms": records_of(_COLUMNS, self.results),
            "links": records_of(LINK_COLUMNS, self.links),
        }

    def tables(self) -> list[Table]:
        """The times, and the links that were latest."""
        return [table_of(_COLUMNS, self.results), table_of(LINK_COLUMNS, self.links[:SHOWN])]

    def notes(self) -> list[str]:
        """The scale of the experiment."""
        own = self.own
        used = {link for path in own.paths for link in path}
        rates = sorted({own.network.kinds[int(own.network.kind[link])].bandwidth or Fraction(0) for link in used})
        rate_texts = " and ".join(dict.fromkeys(shown_rate(Fraction(round(rate))) for rate in rates))
        scale = f"scale: {plural(len(used), 'link')} of {rate_texts}, 1/{round(1 / own.share):,} of the bandwidths"
        size = f"a chunk has {shown_bytes(own.program.chunk_bytes)}; latencies and limits of NPUs are left out"
        load = f"the processors were busy for {percent(self.cpu)} of the time"
        return [f"{scale}; {size}", load + ("; links may be late because of that" if self.cpu > 0.85 else "")]


def run_lab(path: Path, settings: LabSettings, progress: Progress) -> LabReport:
    """Run a schedule of a program on an emulated network.

    Raises UsageError (X0210) if this machine cannot make one, (X0213) for an unknown link, (X0215) for a schedule that
    cannot run there, CheckFailed (X0211) if the network cannot be made, (X0212) if a link carries nothing, (X0214) if
    the run ends before the link is taken away, and what the compilation and the lowering raise.
    """
    check_machine()
    progress(None, "compiling the schedule")
    module, network = compiled_module(path, settings.schedule, settings.definitions)
    if module.schedule is None:
        raise CheckFailed(Diagnostic("C0205", f"{path} has no schedule: there is nothing to run"))
    module, network = _of_run(module, network)
    try:
        own = Experiment.of_seconds(*_lower(module, network), settings.rate, settings.seconds)
    except OverflowError as error:
        hint = "choose a higher --rate, or fewer --seconds"
        raise UsageError(Diagnostic("X0215", "the times of the lab exceed 64 bits", hint=hint)) from error
    failure = None if settings.fail is None else Failure(_link_named(own, settings.fail), settings.at)
    progress(None, "measuring the schedule")
    results = [_measure(module.algorithm or "this schedule", own, settings.runs, failure)]
    if settings.textbook:
        results += _textbook(own, module, network, settings, progress)
    if settings.gloo:
        progress(None, "measuring gloo")
        results.append(_library("gloo", why_no_gloo(own), lambda: measure_gloo(own, settings.runs)))
    if settings.mpich:
        progress(None, "measuring MPICH")
        results.append(_library("MPICH", why_no_mpich(own), lambda: measure_mpich(own, settings.runs)))
    report = LabReport(module.name, tuple(results), link_delays(own, results[0].middle))
    if settings.output is not None:
        write_page(path.name, report, settings.output)
    return report


def _of_run(module: Module, network: Network) -> tuple[Module, Network]:
    """The module of the one run, and the network of the source, in which the members of its group come first.

    Raises UsageError (X0215) for a schedule of several collectives, or one that sends nothing, SourceError (M0114) if
    it passes NPUs outside the group.
    """
    runs = len(module.demand.runs)
    if runs != 1:
        text = f"'collc lab' runs one collective, and '{module.name}' has {runs}"
        raise UsageError(Diagnostic("X0215", text, hint="write a schedule of each alone"))
    if not module.schedule:
        raise UsageError(Diagnostic("X0215", f"'{module.name}' sends nothing: there is nothing to measure"))
    (planned,), (built,) = (communicators_of(each, module.demand) for each in (module.network, network))
    return planned.module(module), built.network


def write_page(title: str, report: LabReport, output: Path) -> None:
    """Write the page with the links over time, planned and in the median run."""
    write_file(output, report_page(title, [_section(report)]))


def _lower(module: Module, network: Network) -> tuple[Program, Module]:
    """The program of a schedule, and its module on the network with its switches. network: of the source."""
    program = lower(module, MscclOptions(profile=Profile.RUN))
    if module.network.unwound:
        return reroute(program, network), replace(module, network=network)
    return program, module


def _measure(name: str, experiment: Experiment, runs: int, failure: Failure | None = None) -> LabResult:
    """The runs of an experiment. The first one finds connections that have not been used, and does not count."""
    with Laboratory(experiment) as lab:
        first = lab.run(failure)
        return LabResult(name, experiment, (first,) if failure else tuple(lab.run() for _ in range(runs)))


def _textbook(
    own: Experiment, module: Module, network: Network, settings: LabSettings, progress: Progress
) -> Iterator[LabResult]:
    """The textbook algorithms that the runtime can express, on as many bytes over the same links."""
    for other in simulated_alternatives(module, module.network, progress):
        if other.module is None:
            yield LabResult(other.name, reason=other.reason)
            continue
        try:
            program, scheduled = _lower(other.module, network)
            elements = max(1, own.elements * own.file.chunks_per_loop // program.chunks_per_loop)
            yield _measure(other.name, Experiment.of(program, scheduled, own.share, elements), settings.runs)
        except CollcError as error:
            yield LabResult(other.name, reason=_reason_of(error))


def _library(name: str, reason: str, measure: Callable[[], tuple[float, ...]]) -> LabResult:
    """The collective of a library, on as many bytes over the same links. reason: why it cannot run, "" if it can."""
    try:
        return LabResult(name, reason=reason, times=() if reason else measure())
    except CollcError as error:
        return LabResult(name, reason=_reason_of(error))


def _reason_of(error: CollcError) -> str:
    return error.diagnostics[0].message if error.diagnostics else "it fails"


def _link_named(experiment: Experiment, text: str) -> int:
    """The link of a text as `link a -> b`, which the schedule uses. Raises UsageError (X0213)."""
    used = sorted({link for path in experiment.paths for link in path})
    names = {experiment.network.link_name(link): link for link in used}
    wanted = " ".join(text.removeprefix("link ").split())
    if wanted not in names:
        hint = did_you_mean(wanted, names, f"it uses {in_short(list(names))}")
        raise UsageError(Diagnostic("X0213", f"the schedule uses no link '{wanted}'", hint=hint))
    return names[wanted]


def pictures(report: LabReport) -> tuple[Picture, Picture]:
    """The links over time, planned and in the median run, on one clock."""
    plan = use_of_simulation(report.own.plan)
    measured = use_of_measurement(report.own, report.results[0].middle)
    time = max(plan.time, measured.time)
    return gantt_picture(replace(plan, time=time), "Plan"), gantt_picture(replace(measured, time=time), "Measured")


def _section(report: LabReport) -> Section:
    """The plan and the median run."""
    planned, measured = pictures(report)
    charts = (
        Figure(planned, "Each bar is a message that occupies a link."),
        Figure(measured, "From a message's first bytes to its last."),
    )
    own = report.results[0]
    facts = Facts(
        [
            ("predicted", _seconds(own.predicted_time or 0), ""),
            ("measured", _seconds(own.measured_time or 0), f"median of {plural(len(own.runs), 'run')}"),
            ("ratio", f"{own.ratio or 0:.3f}", ""),
        ]
    )
    summary: list[Block] = [facts, *report.tables()]
    badge = ("results match NumPy", "ok") if report.ok else ("results are wrong", "failed")
    text = "; ".join(report.notes())
    return Section(report.schedule, text, badge, [Panel("Summary", summary), Panel("Links over time", charts)])
