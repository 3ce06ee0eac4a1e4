"""A TEN module: what passes take and return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, Schedule
from collc.ten.transfer_table import transfer_frame, transfer_table


@dataclass(frozen=True, slots=True)
class Bound:
    """A time that no schedule can beat: picoseconds, and what sets it ("in-degree of npu[0, 0]")."""

    time: int
    name: str


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """A schedule that exists, while none is better in steps and in rounds a chunk at once (SCCL, section 2).

    chunks: of each block of the collective. steps: a chunk goes over one link in each. rounds: of all steps; in a
    round, a link carries one chunk.
    """

    chunks: int
    steps: int
    rounds: int


@dataclass(frozen=True, eq=False)
class Phase:
    """A copy-only part of a module's problem.

    inverted: it is solved on reversed links and runs backwards in time (PCCL, section 4.4).
    start: picoseconds at which its schedule begins in the schedule of the whole.
    """

    module: Module
    inverted: bool
    start: int = 0


@dataclass(frozen=True, eq=False)
class Module:
    """A network, a demand and, after synthesis, a schedule, with how it came about.

    relays: switches pass each arrival on once, as is so where runtimes send from NPU to NPU.
    planned: runs whose transfers are in the schedule; None for all of them.
    phases: where the demand has reductions and they are being synthesized: the copy-only problems
    whose schedules the pass `invert` turns back and joins; else ().
    pareto: the points that exact search was asked for, by steps.
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

        Columns: chunk, run, source, target, link (numbers), start_ps, end_ps (picoseconds), reduce, size_bytes.
        Raises ValueError where there is no schedule.
        """
        return transfer_table(self.network, self.demand, self._scheduled())

    def to_frame(self, library: Literal["pandas", "polars"] | None = None, *, names: bool = False) -> Any:  # noqa: ANN401
        """The same table as a data frame of pandas, or of polars where pandas is not installed.

        library: "pandas" or "polars". names: with the names of chunks, devices and links in place of their numbers.
        Raises ImportError where the library is not installed, ValueError where there is no schedule.
        """
        return transfer_frame(self.network, self.demand, self._scheduled(), library, names=names)

    def _scheduled(self) -> Schedule:
        """The schedule. Raises ValueError where there is none."""
        if self.schedule is None:
            raise ValueError(f"module {self.name} has no schedule")
        return self.schedule

    def __repr__(self) -> str:
        schedule = "no schedule" if self.schedule is None else f"{len(self.schedule)} transfers"
        by = f" by {self.algorithm}" if self.algorithm else ""
        return f"<Module {self.name}: {self.network!r}, {self.demand!r}, {schedule}{by}>"

    def with_schedule(self, schedule: Schedule, algorithm: str) -> Module:
        """The module with a schedule."""
        return replace(self, schedule=schedule, algorithm=algorithm)
