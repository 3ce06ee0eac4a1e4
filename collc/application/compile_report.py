"""What a compilation tells about each schedule: for machines as JSON, for people as a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from collc.base.diagnostics import Diagnostic, Exit
from collc.base.outcome import Outcome
from collc.base.units import format_time
from collc.ten.module import ParetoPoint

STRUCTURAL = ("causality", "congestion_free", "delivered", "reductions", "switches")
"""The checks that every schedule passes before anything is written."""

OF_FILES = ("contract", "result", "deadlock", "race")
"""The checks of a file for a runtime, read back."""


@dataclass(frozen=True, slots=True)
class Optimal:
    """Whether a schedule is as short as can be: "proved", "refuted" or "undecided", and why, in words.

    shorter, time: where a shorter schedule is that was found, and its picoseconds.
    """

    answer: Literal["proved", "refuted", "undecided"]
    reason: str
    shorter: Path | None = None
    time: int | None = None

    def as_json(self) -> dict[str, object]:
        """What `compile --json` says of it."""
        shorter = None if self.shorter is None else {"file": str(self.shorter), "time_ps": self.time}
        return {"answer": self.answer, "reason": self.reason, "shorter": shorter}


@dataclass(frozen=True, slots=True)
class ScheduleReport:
    """One schedule of a file, built or not.

    time, bound: picoseconds. steps: None where links or chunks differ or the model is not `store`.
    exit: what it contributes to the exit code. Fields are None where compilation did not get so far.
    """

    name: str
    topology: str
    npus: int
    devices: int
    links: int
    chunks: int
    link_model: str
    transfers: int | None = None
    steps: int | None = None
    time: int | None = None
    bound: int | None = None
    bound_name: str | None = None
    algorithm: str | None = None
    seed: int | None = None
    seconds: float = 0.0
    checks: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    pareto: tuple[ParetoPoint, ...] = ()
    optimal: Optimal | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    exit: Exit = Exit.DONE

    @property
    def efficiency(self) -> float | None:
        """Bound / time; 1 where nothing has to move, None where congestion makes the time mean nothing."""
        if self.time is None or self.bound is None or self.checks.get("congestion_free") == "failed":
            return None
        return self.bound / self.time if self.time else 1.0

    def as_json(self) -> dict[str, object]:
        """The keys that `compile --json` promises, times in picoseconds."""
        return {
            "name": self.name,
            "topology": self.topology,
            "npus": self.npus,
            "devices": self.devices,
            "links": self.links,
            "chunks": self.chunks,
            "transfers": self.transfers,
            "steps": self.steps,
            "time_ps": self.time,
            "bound_ps": self.bound,
            "bound": self.bound_name,
            "efficiency": self.efficiency,
            "algorithm": self.algorithm,
            "seed": self.seed,
            "link_model": self.link_model,
            "seconds": round(self.seconds, 6),
            "checks": dict(self.checks),
            "files": [str(path) for path in self.files],
            "notes": list(self.notes),
            **({"optimal": self.optimal.as_json()} if self.optimal else {}),
            **({"pareto": [asdict(point) for point in self.pareto]} if self.pareto else {}),
        }

    def cells(self) -> tuple[str, ...]:
        """A row of the table for people, under `COLUMNS`."""
        efficiency = self.efficiency
        passed = sum(outcome == "ok" for outcome in self.checks.values())
        failed = [name for name, outcome in self.checks.items() if outcome == "failed"]
        return (
            self.name,
            f"{self.topology} ({self.npus} NPUs, {self.links} links)",
            self.algorithm or "-",
            "-" if self.steps is None else str(self.steps),
            "-" if self.time is None else format_time(self.time),
            "-" if self.bound is None else f"{format_time(self.bound)} ({self.bound_name})",
            "-" if efficiency is None else f"{100 * efficiency:.2f} %",
            "failed: " + ", ".join(failed) if failed else f"{passed} ok" if passed else "-",
            ", ".join(str(path) for path in self.files) or "-",
        )


COLUMNS = ("schedule", "network", "algorithm", "steps", "time", "lower bound", "efficiency", "checks", "files")


@dataclass(frozen=True, slots=True)
class CompileReport:
    """All schedules of a file, and messages that belong to none of them."""

    schedules: tuple[ScheduleReport, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def exit(self) -> Exit:
        """The exit code of the first schedule that failed."""
        return next((s.exit for s in self.schedules if s.exit is not Exit.DONE), Exit.DONE)

    @property
    def told(self) -> tuple[Diagnostic, ...]:
        """All messages."""
        return (*self.diagnostics, *(told for schedule in self.schedules for told in schedule.diagnostics))

    def as_json(self) -> dict[str, object]:
        """One object, as `compile --json` prints it."""
        return {"schedules": [schedule.as_json() for schedule in self.schedules]}
