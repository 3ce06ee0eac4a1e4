"""The result of elaboration: the schedules that a program asks for, each with its network and its demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from collc.base.diagnostics import Span
from collc.base.options import OptionValue
from collc.ten.algorithm import AlgorithmSends
from collc.ten.arrays import Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.parts import Part
from collc.ten.training import Constraint, PartCosts, Workload


@dataclass(frozen=True, eq=False)
class RunRequest:
    """One `run` statement.

    algorithm, moves: of a run with `using`, the name of the algorithm and its sends, with the chunk numbers of the
    whole demand; else None. library: whether the algorithm is one of the standard library.
    """

    span: Span
    algorithm: str | None
    moves: AlgorithmSends | None
    library: bool = False


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """One check of a `verify` statement.

    name: "optimal", "time", "steps", "congestion_free", ... For "time" and "steps": the comparison
    (`<`, `<=`, `==`, `>=`, `>`) and limit (picoseconds or steps), or, relative to the bound, limit times bound.
    """

    name: str
    span: Span
    operator: str = ""
    limit: Fraction = Fraction(0)
    of_bound: bool = False


@dataclass(frozen=True, slots=True)
class EmitRequest:
    """One file to write: its kind ("ten", "msccl", ...), its name or None for the default name, and its options."""

    kind: str
    path: str | None
    options: dict[str, OptionValue]
    span: Span


@dataclass(frozen=True, eq=False)
class ChunkChoice:
    """Other numbers of chunks for some runs of a schedule.

    automatic: whether collc is to pick the number, for the runs with `chunks: auto`; otherwise it is for all runs of
    standard collectives that take `chunks`. numbers: those per block that divide the size of each of these runs,
    ascending. request: the schedule with one of these numbers; raises SourceError if that has too many chunks.
    """

    automatic: bool
    numbers: tuple[int, ...]
    request: Callable[[int], ScheduleRequest]


@dataclass(frozen=True, eq=False)
class FailureSets:
    """The failures that a schedule has to be ready for.

    parts: those that may fail, each once. names: the row of `parts` for each name. members: for each number of parts
    that fail together, int64[members, number], ascending rows of `parts`, each member once. request: the schedule
    without some parts; raises SourceError if it has no meaning then. span: of the first statement.
    """

    parts: tuple[Part, ...]
    names: Mapping[str, int]
    members: tuple[Int64Array, ...]
    request: Callable[[tuple[Part, ...]], ScheduleRequest]
    span: Span


@dataclass(frozen=True, eq=False)
class ScheduleRequest:
    """A schedule to build. synthesizer: "auto" if the program does not say.

    choice: None if no run takes `chunks`. If it is automatic, the demand has one chunk per block. failures: None
    without a `failures` statement.
    """

    name: str
    span: Span
    network: Network
    demand: Demand
    runs: tuple[RunRequest, ...]
    synthesizer: str
    synthesizer_span: Span
    options: dict[str, OptionValue]
    checks: tuple[CheckRequest, ...]
    emits: tuple[EmitRequest, ...]
    allow_congestion: bool
    choice: ChunkChoice | None = None
    failures: FailureSets | None = None

    @property
    def is_handwritten(self) -> bool:
        """Whether an algorithm of the program, not a synthesizer, plans one of the runs."""
        return any(run.moves is not None for run in self.runs)


@dataclass(frozen=True, slots=True)
class TrainedWorkload:
    """A workload that a design optimizes for, with its weight in the objective."""

    workload: Workload
    weight: Fraction
    span: Span


@dataclass(frozen=True, slots=True)
class RequiredConstraint:
    """A linear constraint of a design, and its place: the `require` statement."""

    constraint: Constraint
    span: Span


@dataclass(frozen=True, slots=True)
class Deadline:
    """The longest time that a design allows, in picoseconds, and its place: the `require` statement."""

    time: Fraction
    span: Span


@dataclass(frozen=True, eq=False)
class DesignRequest:
    """A design to find: the bandwidth of each dimension of a network.

    network: its `axes` are the dimensions (`graph/coordinates.py`). One without has a single dimension of `kind`, its
    template, over all NPUs. network_span: the place of its name in the design. objective: "time", "cost" or "time *
    cost". tiers: the cost tier of each dimension, () for the defaults. prices: of the parts of all tiers. deadlines: of
    the weighted times of all workloads together.
    """

    name: str
    span: Span
    network: Network
    network_span: Span
    kind: str
    train: tuple[TrainedWorkload, ...]
    constraints: tuple[RequiredConstraint, ...]
    deadlines: tuple[Deadline, ...]
    objective: str
    objective_span: Span
    tiers: tuple[str, ...]
    prices: Mapping[str, PartCosts]
    emits: tuple[EmitRequest, ...]


@dataclass(frozen=True, eq=False)
class Program:
    """An elaborated program."""

    schedules: tuple[ScheduleRequest, ...]
    workloads: tuple[Workload, ...] = ()
    designs: tuple[DesignRequest, ...] = ()
