"""A TEN module: what passes take and return."""

from __future__ import annotations

from dataclasses import dataclass, replace

from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, Schedule


@dataclass(frozen=True, slots=True)
class Bound:
    """A time that no schedule can beat: picoseconds, and what sets it ("in-degree of npu[0, 0]")."""

    time: int
    name: str


@dataclass(frozen=True, eq=False)
class Phase:
    """A copy-only part of a module's problem.

    inverted: it is solved on reversed links and runs backwards in time (PCCL, section 4.4).
    """

    module: Module
    inverted: bool


@dataclass(frozen=True, eq=False)
class Module:
    """A network, a demand and, after synthesis, a schedule, with how it came about.

    phases: where the demand has reductions and they are being synthesized: the copy-only problems
    whose schedules the pass `invert` turns back and joins; else ().
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
    phases: tuple[Phase, ...] = ()

    def with_schedule(self, schedule: Schedule, algorithm: str) -> Module:
        """The module with a schedule."""
        return replace(self, schedule=schedule, algorithm=algorithm)
