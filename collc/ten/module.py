"""TEN modules, the intermediate representation that all passes take and return (docs/ten.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from collc.base.tables import html_table
from collc.base.units import format_time
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, Schedule
from collc.ten.transfer_table import transfer_frame, transfer_table


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound on the time of every schedule, in picoseconds, and what sets it ("the links into npu[0, 0]")."""

    time: int
    name: str


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """A schedule that is Pareto-optimal: none has fewer steps without more rounds per chunk (SCCL, section 2).

    chunks: per block of the collective. steps: in each step a chunk crosses one link. rounds: of all steps together;
    in a round, a link carries one chunk.
    """

    chunks: int
    steps: int
    rounds: int


@dataclass(frozen=True, eq=False)
class Phase:
    """A copy-only part of a demand with reductions.

    module: the part as a module of its own. inverted: it is solved on reversed links, and its schedule is then
    reversed in time (PCCL, section 4.4). start: picoseconds at which its schedule begins in that of the demand.
    forward: the reversed schedule, if it is computed already.
    """

    module: Module
    inverted: bool
    start: int = 0
    forward: Schedule | None = None


@dataclass(frozen=True, eq=False)
class Module:
    """A network, a demand and, after synthesis, a schedule, with how it was made.

    model: the link model for which a schedule is made. algorithm: the synthesizer or the algorithm that made the
    schedule. seed: its tie-break seed. notes: remarks for the report.
    relays: switches forward each arrival once, as in runtimes, which send from NPU to NPU.
    planned: the runs whose transfers are in the schedule; None for all runs.
    phases: the copy-only parts of a demand with reductions while they are being synthesized, otherwise ();
    the pass `invert` inverts and joins their schedules.
    pareto: the Pareto points of exact search, by steps, if the program asks for them.
    """

    name: str
    network: Network
    demand: Demand
    model: LinkModel = LinkModel.STORE
    schedule: Schedule | None = None
    algorithm: str = ""
    seed: int | None = None
    bound: Bound | None = None
    notes: tuple[str, ...] = ()
    relays: bool = False
    planned: frozenset[int] | None = None
    phases: tuple[Phase, ...] = ()
    pareto: tuple[ParetoPoint, ...] = ()

    def transfers(self) -> np.recarray[Any, np.dtype[np.record]]:
        """The transfers of the schedule as a NumPy record array, one row each, in order of start, link and chunk.

        Columns: chunk, run, source, target, link (numbers), start_ps, end_ps (picoseconds), reduce, relayed (a link or
        -1), kept, size_bytes.
        Raises ValueError if there is no schedule.
        """
        return transfer_table(self.network, self.demand, self._require_schedule())

    def to_frame(self, library: Literal["pandas", "polars"] | None = None, *, names: bool = False) -> Any:  # noqa: ANN401
        """The same table as a data frame of pandas, or of polars if pandas is not installed.

        library: "pandas" or "polars". names: with the names of chunks, devices and links in place of their numbers.
        Raises ImportError if the library is not installed, ValueError if there is no schedule.
        """
        return transfer_frame(self.network, self.demand, self._require_schedule(), library, names=names)

    def collective_time(self) -> int:
        """Picoseconds that the schedule takes. Raises ValueError if there is none."""
        return self._time

    @cached_property
    def _time(self) -> int:
        """Computed once: a search compares its best schedule with each other one."""
        return self._require_schedule().collective_time(self.network, self.demand)

    def _require_schedule(self) -> Schedule:
        """The schedule. Raises ValueError if there is none."""
        if self.schedule is None:
            raise ValueError(f"module {self.name} has no schedule")
        return self.schedule

    def __repr__(self) -> str:
        schedule = "no schedule" if self.schedule is None else f"{len(self.schedule)} transfers"
        by = f" by {self.algorithm}" if self.algorithm else ""
        return f"<Module {self.name}: {self.network!r}, {self.demand!r}, {schedule}{by}>"

    def _repr_html_(self) -> str:
        """A row for each part, for notebooks."""
        schedule = self.schedule
        rows = [
            ("network", repr(self.network)),
            ("demand", repr(self.demand)),
            ("schedule", "-" if schedule is None else f"{len(schedule)} transfers, link model {schedule.model.value}"),
            ("synthesizer", self.algorithm or "-"),
            ("lower bound", "-" if self.bound is None else f"{format_time(self.bound.time)} ({self.bound.name})"),
        ]
        return html_table(("module", self.name), rows)

    def with_schedule(self, schedule: Schedule, algorithm: str) -> Module:
        """The module with a schedule."""
        return replace(self, schedule=schedule, algorithm=algorithm)
