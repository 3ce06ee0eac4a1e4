"""The report of a compilation: for programs as attributes and JSON, for people as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from collc.application.reports import Reports, html_of
from collc.base.diagnostics import Diagnostic, Exit, Outcome
from collc.base.tables import Column, Table, table_of
from collc.base.units import format_time, percent
from collc.ten.module import Module, ParetoPoint

if TYPE_CHECKING:
    import numpy as np

    from collc.emit.output import RunRanks
    from collc.ten.module import Library

SCHEDULE_CHECKS: Final = ("causality", "congestion_free", "delivered", "reductions", "switches")
"""The checks of every schedule, made before any file is written."""

_JSON_KEYS: Final = (
    *("name", "topology", "npus", "devices", "links", "chunks", "transfers", "steps", "time_ps", "bound_ps", "bound"),
    *("efficiency", "ideal_ps", "ideal", "of_ideal", "chunks_per_block", "algorithm", "seed", "link_model"),
)
"""The keys of `compile --json` whose values are attributes. Keys that are here are never removed or renamed."""

_ATTRIBUTES: Final = {"transfers": "transfer_count", "algorithm": "synthesizer"}
"""The attributes that have another name."""


@dataclass(frozen=True, slots=True)
class ShorterSchedule:
    """A schedule that Z3 found and that is shorter than the one synthesized.

    time_ps: its time in picoseconds. file: None if it was not written. module: None if it was not kept.
    """

    time_ps: int
    file: Path | None = None
    module: Module | None = None


@dataclass(frozen=True, slots=True)
class Optimality:
    """Whether a schedule is optimal (no schedule of its demand is shorter), and why, in words."""

    answer: Literal["proved", "refuted", "undecided"]
    reason: str
    shorter: ShorterSchedule | None = None

    def as_json(self) -> dict[str, object]:
        """The value of "optimal" in `compile --json`."""
        better = self.shorter
        file = None if better is None or better.file is None else str(better.file)
        shorter = None if better is None else {"file": file, "time_ps": better.time_ps}
        return {"answer": self.answer, "reason": self.reason, "shorter": shorter}


@dataclass(frozen=True, slots=True, repr=False)
class ScheduleReport:
    """The report of one schedule. What compilation did not reach is None or empty.

    Attributes
    ----------
    name: of the schedule in the program.
    topology: name of the network.
    npus, devices, links, chunks: how many the network and the demand have; removed devices do not count.
    link_model: "store" or "pipelined".
    transfer_count: number of transfers; "transfers" in `compile --json`.
    steps: None if links or chunks differ, or if the link model is not `store`.
    time_ps: the time of the schedule, in picoseconds, with the launch. launch_ps: the part of it, and of bounds, that
    is the launch.
    run_times_ps: of several runs, when the last chunk of each has arrived, in picoseconds; else ().
    bound_ps: the lower bound for the chunks as given. bound: what sets it, as in "the links into npu[0, 0]".
    ideal_ps: the lower bound for any number of chunks, on the network of the program. ideal: what sets it, as in "the
    NICs of node 3".
    chunks_per_block: the `chunks` of all runs, given or picked by collc; None if they differ or have none.
    synthesizer: its name, or the names of the algorithms written by hand; "algorithm" in `compile --json`.
    seed: the seed of the synthesizer.
    seconds: how long compilation took.
    checks: the outcome of each check.
    files: the files that were written.
    notes: remarks for people.
    ranks: the NPU of each rank of the files for runtimes, by run, if these are not all NPUs in their order.
    pareto: the Pareto points that the program asked for, by steps.
    optimal: whether the schedule is optimal, if the program or the caller asked.
    diagnostics: errors and warnings.
    exit: the exit code that this schedule leads to.
    module: network, demand and schedule, if the caller keeps modules (the Python API does).
    """

    name: str
    topology: str
    npus: int
    devices: int
    links: int
    chunks: int
    link_model: str
    transfer_count: int | None = None
    steps: int | None = None
    time_ps: int | None = None
    launch_ps: int = 0
    run_times_ps: tuple[int, ...] = ()
    bound_ps: int | None = None
    bound: str | None = None
    ideal_ps: int | None = None
    ideal: str | None = None
    chunks_per_block: int | None = None
    synthesizer: str | None = None
    seed: int | None = None
    seconds: float = 0.0
    checks: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    ranks: tuple[RunRanks, ...] = ()
    pareto: tuple[ParetoPoint, ...] = ()
    optimal: Optimality | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    exit: Exit = Exit.DONE
    module: Module | None = None

    @property
    def ok(self) -> bool:
        """Whether the schedule was found, passed all checks and was written."""
        return self.exit is Exit.DONE

    @property
    def efficiency(self) -> float | None:
        """bound_ps / time_ps; 1 if nothing has to move, None if congestion makes time_ps meaningless."""
        return self._share_of_time(self.bound_ps)

    @property
    def of_ideal(self) -> float | None:
        """ideal_ps / time_ps; 1 if nothing has to move, None if congestion makes time_ps meaningless."""
        return self._share_of_time(self.ideal_ps)

    def _share_of_time(self, least: int | None) -> float | None:
        if self.time_ps is None or least is None or self.checks.get("congestion_free") == "failed":
            return None
        return least / self.time_ps if self.time_ps else 1.0

    def transfers(self) -> np.recarray[Any, np.dtype[np.record]]:
        """The transfers of the schedule as a NumPy record array: `Module.transfers`. Raises ValueError without one."""
        return self.kept_module().transfers()

    def to_frame(self, library: Library | None = None, *, names: bool = False) -> Any:  # noqa: ANN401
        """The transfers as a data frame: `Module.to_frame`. Raises ValueError without a schedule."""
        return self.kept_module().to_frame(library, names=names)

    def kept_module(self) -> Module:
        """The module. Raises ValueError if there is none."""
        if self.module is None:
            raise ValueError(f"the report of '{self.name}' has no module: its schedule was not found or not kept")
        return self.module

    def as_json(self) -> dict[str, object]:
        """One element of "schedules" in `compile --json`."""
        return {
            **{key: getattr(self, _ATTRIBUTES.get(key, key)) for key in _JSON_KEYS},
            "seconds": round(self.seconds, 6),
            "checks": dict(self.checks),
            "files": [str(path) for path in self.files],
            "notes": list(self.notes),
            **({"launch_ps": self.launch_ps} if self.launch_ps else {}),
            **({"run_times_ps": list(self.run_times_ps)} if self.run_times_ps else {}),
            **({"ranks": [run.as_json() for run in self.ranks]} if self.ranks else {}),
            **({"optimal": self.optimal.as_json()} if self.optimal else {}),
            **({"pareto": [asdict(point) for point in self.pareto]} if self.pareto else {}),
        }

    def bound_in_words(self) -> str | None:
        """The lower bound, its name, and whether the schedule meets it."""
        if self.bound_ps is None:
            return None
        met = ", met" if self.efficiency == 1 else ""
        return f"{format_time(self.bound_ps)}{met} ({self.bound})"

    def checks_in_words(self) -> str:
        """The checks that failed, else how many passed ("10 ok, congestion allowed"); "-" if none was made."""
        passed = sum(outcome == "ok" for outcome in self.checks.values())
        failed = [name for name, outcome in self.checks.items() if outcome == "failed"]
        allowed = ", congestion allowed" if "allowed" in self.checks.values() else ""
        return "failed: " + ", ".join(failed) if failed else f"{passed} ok{allowed}" if passed else "-"

    def __repr__(self) -> str:
        if self.time_ps is None:
            return f"<ScheduleReport {self.name}: no schedule>"
        steps = "" if self.steps is None else f" in {self.steps} steps"
        ideal = "" if self.of_ideal is None else f", {percent(self.of_ideal)} of ideal"
        time = format_time(self.time_ps)
        return f"<ScheduleReport {self.name}: {self.synthesizer}, {time}{steps}{ideal}, {self.checks_in_words()}>"

    def _repr_html_(self) -> str:
        """The row of the schedule, and its moving picture if its transfers can be drawn."""
        from collc.pictures.link_use import drawn_use
        from collc.pictures.moving_picture import clip_of
        from collc.pictures.page import Moving, frame_of

        use = None if self.module is None else drawn_use(self.module)[0]
        frame = frame_of(Moving(self.name, [clip_of(use, self.name)])) if use else ""
        return html_of(table_of(COLUMNS, [self]), self.diagnostics) + frame


COLUMNS: Final[Sequence[Column[ScheduleReport]]] = (
    Column("schedule", "", lambda report: report.name),
    Column("network", "", lambda r: f"{r.topology} ({r.npus} NPUs, {r.links} links)"),
    Column("synthesizer", "", lambda report: report.synthesizer or None),
    Column("steps", "", lambda report: report.steps),
    Column("time", "", lambda report: report.time_ps, format_time),
    Column("bound with these chunks", "", lambda report: report.bound_in_words()),
    Column("of ideal (any chunks)", "", lambda report: report.of_ideal, percent),
    Column("checks", "", lambda report: report.checks_in_words()),
    Column("files", "", lambda report: ", ".join(map(str, report.files)) or None),
)
"""The columns of the table of schedules."""


@dataclass(frozen=True, slots=True, repr=False)
class CompileReport(Reports[ScheduleReport]):
    """The report of a compilation: its schedules by name or in order, and messages that belong to no schedule.

    files: written for all schedules together, as the index of fallbacks.
    """

    noun: ClassVar[str] = "schedule"
    schedules: tuple[ScheduleReport, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    files: tuple[Path, ...] = ()

    @property
    def parts(self) -> tuple[ScheduleReport, ...]:
        """The schedules."""
        return self.schedules

    @property
    def all_diagnostics(self) -> tuple[Diagnostic, ...]:
        """All messages, with the messages of each schedule."""
        return (*self.diagnostics, *(message for schedule in self.schedules for message in schedule.diagnostics))

    def table(self) -> Table:
        """A row for each schedule."""
        return table_of(COLUMNS, self.schedules)

    def as_json(self) -> dict[str, object]:
        """The object that `compile --json` prints."""
        schedules = [schedule.as_json() for schedule in self.schedules]
        return {"schedules": schedules, **({"files": [str(path) for path in self.files]} if self.files else {})}
