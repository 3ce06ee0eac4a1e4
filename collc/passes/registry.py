"""What a pass is, and which there are.

A pass is a frozen dataclass whose fields are its options; `run` takes a module and returns one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Protocol

from collc.base.diagnostics import CheckFailed, Diagnostic, SourceError, Span
from collc.synthesis.task import Effort, Task
from collc.ten.algorithm import AlgorithmSends
from collc.ten.module import Module, ParetoPoint
from collc.ten.schedule import RowSchedule, Schedule, Transfers


@dataclass(frozen=True, eq=False)
class Hand:
    """A run whose algorithm was written by hand: its name, its moves and where it stands."""

    algorithm: str
    moves: AlgorithmSends
    span: Span


@dataclass(frozen=True, slots=True)
class Context:
    """What passes may know beside the module.

    hand: by run, what was written by hand. effort: seed, trials and threads where a pass does not
    say, and how to report progress. allow_congestion: congestion is no failure.
    """

    hand: Mapping[int, Hand] = field(default_factory=dict[int, Hand])
    effort: Effort = field(default_factory=Effort)
    allow_congestion: bool = False


class Pass(Protocol):
    """One step from module to module."""

    name: ClassVar[str]

    def run(self, module: Module, context: Context) -> Module:
        """The module with the pass applied.

        Raises CollcError where it cannot be.
        """
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Lays out the runs whose algorithms were written by hand."""

    name: ClassVar[str] = "fixed"

    def run(self, module: Module, context: Context) -> Module:
        """See Pass."""
        from collc.synthesis.fixed.layout import lay_out

        parts = [
            lay_out(module.network, module.demand, run, hand.moves, module.model, hand.span)
            for run, hand in context.hand.items()
        ]
        names = dict.fromkeys(hand.algorithm for hand in context.hand.values())
        laid_out = replace(
            module,
            schedule=RowSchedule(module.model, Transfers.joined(parts)),
            algorithm="+".join(names),
        )
        everything = len(context.hand) == len(module.demand.runs)
        return laid_out if everything else replace(laid_out, planned=frozenset(context.hand))


@dataclass(frozen=True, slots=True)
class Synthesis(ABC):
    """A pass that synthesizes; what it does not say is taken from the context."""

    name: ClassVar[str] = ""
    seed: int | None = None
    trials: int | None = None
    threads: int | None = None

    def effort(self, context: Context) -> Effort:
        """The context's effort with this pass's options."""
        own = {key: value for key in ("seed", "trials", "threads") if (value := getattr(self, key)) is not None}
        return replace(context.effort, **own)

    @abstractmethod
    def run(self, module: Module, context: Context) -> Module:
        """See Pass."""


@dataclass(frozen=True, slots=True)
class Way(Synthesis):
    """A way of synthesis, applied to each copy-only phase."""

    @abstractmethod
    def solve(self, task: Task, effort: Effort) -> Schedule:
        """A schedule for a copy-only task."""

    def run(self, module: Module, context: Context) -> Module:
        """See Pass; `invert` makes one schedule of the phases."""
        from collc.synthesis.reductions.compose import solve

        effort = self.effort(context)
        solved = solve(module, lambda task: self.solve(task, effort))
        algorithm = f"{module.algorithm}+{self.name}" if module.algorithm else self.name
        return replace(solved, algorithm=algorithm, seed=effort.seed)


@dataclass(frozen=True, slots=True)
class Tacos(Way):
    """Link-chunk matching on the TEN."""

    name: ClassVar[str] = "tacos"

    def solve(self, task: Task, effort: Effort) -> Schedule:
        """See Way."""
        from collc.synthesis.tacos import tacos

        return tacos(task, effort)


@dataclass(frozen=True, slots=True)
class Pccl(Way):
    """Earliest-arrival pathfinding on the TEN."""

    name: ClassVar[str] = "pccl"

    def solve(self, task: Task, effort: Effort) -> Schedule:
        """See Way."""
        from collc.synthesis.pccl import pccl

        return pccl(task, effort)


@dataclass(frozen=True, slots=True)
class Symmetric(Way):
    """The schedule of one NPU, moved by the translations of a Cayley graph."""

    name: ClassVar[str] = "symmetric"

    def solve(self, task: Task, effort: Effort) -> Schedule:
        """See Way."""
        from collc.synthesis.symmetric import symmetric

        return symmetric(task, effort)


@dataclass(frozen=True, slots=True)
class Exact(Way):
    """Least steps, proved by Z3.

    steps: at most so many in each phase. pareto: also find the Pareto points for up to so many chunks a block, with
    extra_rounds rounds more than steps.
    """

    name: ClassVar[str] = "exact"
    steps: int | None = None
    pareto: int | None = None
    extra_rounds: int | None = None

    def run(self, module: Module, context: Context) -> Module:
        """See Pass; the points are found first, and told in the notes."""
        points, notes = self._points(module, context)
        solved = Way.run(self, module, context)
        if len(solved.phases) > 1 and module.schedule is None:
            from collc.synthesis.exact.sums import shortened

            solved = shortened(solved, self.effort(context))
        return replace(solved, pareto=points, notes=(*solved.notes, *notes))

    def _points(self, module: Module, context: Context) -> tuple[tuple[ParetoPoint, ...], list[str]]:
        if self.pareto is None:
            return (), []
        from collc.synthesis.exact.pareto import pareto_points, told
        from collc.synthesis.tacos import tacos

        effort = self.effort(context)
        extra = self.extra_rounds or 0
        points = pareto_points(module, effort, self.pareto, extra, lambda task: tacos(task, effort))
        return points, told(points)

    def solve(self, task: Task, effort: Effort) -> Schedule:
        """See Way."""
        from collc.synthesis.exact import exact

        return exact(task, effort, most=self.steps)


@dataclass(frozen=True, slots=True)
class Hierarchical(Way):
    """One dimension of a network after another."""

    name: ClassVar[str] = "hierarchical"

    def solve(self, task: Task, effort: Effort) -> Schedule:
        """See Way."""
        from collc.synthesis.by_dimension.hierarchical import hierarchical

        return hierarchical(task, effort)


@dataclass(frozen=True, slots=True)
class Themis(Way):
    """One dimension after another, in an order of each chunk's own."""

    name: ClassVar[str] = "themis"

    def solve(self, task: Task, effort: Effort) -> Schedule:
        """See Way."""
        from collc.synthesis.by_dimension.themis import themis

        return themis(task, effort)


@dataclass(frozen=True, slots=True)
class Swarm(Way):
    """What few hold, rarest first, over links and switches."""

    name: ClassVar[str] = "swarm"

    def solve(self, task: Task, effort: Effort) -> Schedule:
        """See Way."""
        from collc.synthesis.swarm import swarm

        return swarm(task, effort)


@dataclass(frozen=True, slots=True)
class Auto(Synthesis):
    """Picks among the other ways by demand and network."""

    name: ClassVar[str] = "auto"

    def run(self, module: Module, context: Context) -> Module:
        """See Pass."""
        from collc.synthesis.auto.synthesizer import auto

        return auto(module, self.effort(context))


@dataclass(frozen=True, slots=True)
class Overlapped(Synthesis):
    """All-Reduce over balanced spanning trees, up and down at once."""

    name: ClassVar[str] = "overlapped"

    def run(self, module: Module, context: Context) -> Module:
        """See Pass."""
        from collc.synthesis.overlapped import overlap

        effort = self.effort(context)
        algorithm = f"{module.algorithm}+{self.name}" if module.algorithm else self.name
        return replace(overlap(module, effort), algorithm=algorithm, seed=effort.seed)


@dataclass(frozen=True, slots=True)
class Invert:
    """Turns the schedules of inverse problems back, and joins the phases of reductions."""

    name: ClassVar[str] = "invert"

    def run(self, module: Module, context: Context) -> Module:
        """See Pass."""
        from collc.synthesis.reductions.compose import join

        return join(module) if module.phases else module


@dataclass(frozen=True, slots=True)
class Unwind:
    """Replaces every switch by direct links, from each of its NPUs to the next `degree` ones."""

    name: ClassVar[str] = "unwind"
    degree: int = 1

    def run(self, module: Module, context: Context) -> Module:
        """See Pass."""
        from collc.ten.transform import unwound

        try:
            return replace(module, network=unwound(module.network, self.degree))
        except ValueError as error:
            message = f"the switches of {module.network.name} cannot be unwound: {error}"
            raise SourceError(Diagnostic("C0202", message, hint="synthesize over the switches as they are")) from error


@dataclass(frozen=True, slots=True)
class Verify:
    """Checks the schedule; a module that fails goes no further."""

    name: ClassVar[str] = "verify"

    def run(self, module: Module, context: Context) -> Module:
        """See Pass."""
        from collc.verification import verify_schedule

        verdict = verify_schedule(module)
        failed = {name for name, outcome in verdict.checks.items() if outcome == "failed"}
        if failed - ({"congestion_free"} if context.allow_congestion else set()):
            raise CheckFailed(*verdict.diagnostics)
        return module


_KINDS: Final = (
    Fixed,
    Unwind,
    Auto,
    Tacos,
    Pccl,
    Symmetric,
    Exact,
    Hierarchical,
    Themis,
    Swarm,
    Overlapped,
    Invert,
    Verify,
)

PASSES: Final[dict[str, type[Pass]]] = {kind.name: kind for kind in _KINDS}
"""All passes by name."""

SYNTHESIZERS: Final = tuple(name for name, kind in PASSES.items() if issubclass(kind, Synthesis))
"""The passes that synthesize."""
