"""Schedules with the fewest steps, by Z3, for small problems (Cai et al., SCCL, PPoPP 2021; formulas in `collc.smt`).

For each number of steps, from the lower bound up, Z3 is asked for a schedule. The first one that exists has the fewest
steps, since every smaller number was refuted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.graph.digraph import Digraph
from collc.graph.distances import distances_to
from collc.smt.encoding import DeadlineEncoding
from collc.smt.problem import ChunkGoal, ScheduleProblem, edges_of
from collc.smt.script import Stopped, Undecided
from collc.smt.solution import transfers_of
from collc.smt.solver import Interrupted, SolverLimits, solve
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import Conditions, conditions_of, equal_transfers
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import LinkModel, RowSchedule, Schedule, Transfers

SECONDS: Final = 60.0
"""The default time limit of a search."""


def exact(task: Task, effort: Effort, most: int | None = None) -> Schedule:
    """A schedule that is proved to have the fewest steps.

    most: the largest number of steps to try. Raises SourceError if transfers take different times, links are reserved,
    chunks are available late, or the network has switches; NoSchedule at the time limit, and if more than `most` steps
    are needed.
    """
    conditions = conditions_of(task)
    if not len(conditions):
        return RowSchedule(task.model, Transfers.concatenate([]))
    require_steps(conditions)
    step = int(conditions.clock.total.max())
    farthest_hops(conditions)
    end = monotonic() + time_limit_of(effort)
    search = StepSearch.of(conditions, effort)
    steps = max(1, -(-task_bound(task).time // step))
    while most is None or steps <= most:
        effort.progress(0.0, f"exact: looking for {steps} steps")
        try:
            transfers = search.ask(steps, end)
        except Undecided as why:
            message = f"no schedule was found {why}; none exists with fewer than {steps} steps"
            hint = "give it more time, or use another synthesizer"
            raise NoSchedule(Diagnostic("S0201", message, hint=hint)) from why
        if transfers is not None:
            return RowSchedule(task.model, transfers)
        steps += 1
    raise NoSchedule(Diagnostic("S0201", f"there is no schedule of {most} steps: it takes at least {steps}"))


def farthest_hops(conditions: Conditions) -> int:
    """The largest number of hops from the nearest holder of a chunk to an NPU that must receive it.

    Raises SourceError if there is no path.
    """
    network = conditions.task.network
    length = np.ones(network.link_count, np.int64)
    return int(conditions.farthest(distances_to(Digraph.of(network), length, conditions.targets)).max())


def require_steps(conditions: Conditions) -> None:
    """Raise SourceError unless transfers take equal time, links are direct, and links and chunks are free at 0."""
    task = conditions.task
    reason = ""
    if task.model is not LinkModel.STORE or not equal_transfers(conditions):
        reason = "links and chunks that all take equal time, with link model 'store'"
    elif task.network.has_switches:
        reason = "direct links; unwind the switches"
    elif conditions.release.any() or (task.reserved is not None and len(task.reserved)):
        reason = "all links and chunks free from the start"
    if reason:
        raise SourceError(Diagnostic("S0304", f"exact search needs {reason}", hint="use auto, tacos or pccl instead"))


def time_limit_of(effort: Effort) -> float:
    """Seconds that a search may take."""
    return SECONDS if effort.time_limit is None else effort.time_limit


@dataclass(frozen=True, eq=False)
class StepSearch:
    """Asks Z3 for schedules of some conditions, in equal steps of `step` picoseconds."""

    conditions: Conditions
    problem: ScheduleProblem
    step: int
    effort: Effort

    @staticmethod
    def of(conditions: Conditions, effort: Effort) -> StepSearch:
        """The search for conditions. All transfers must take equal time, and the network must have no switches."""
        clock, network = conditions.clock, conditions.task.network
        goals: list[ChunkGoal] = []
        for k, column in enumerate(conditions.column.tolist()):
            holders, wanting = conditions.row(k)
            goals.append(ChunkGoal(frozenset(holders.tolist()), frozenset(wanting.tolist()), column, reduced=False))
        busy, total = clock.busy.tolist(), clock.total.tolist()
        problem = ScheduleProblem(network, edges_of(network), tuple(goals), busy, total, {})
        return StepSearch(conditions, problem, int(clock.total.max()), effort)

    def ask(self, steps: int, end: float, rounds: int | None = None) -> Transfers | None:
        """The transfers of a schedule of at most `steps` steps; None if Z3 shows that there is none.

        end: when to stop, by the monotonic clock. rounds: see DeadlineEncoding; with more rounds than steps, the
        result for a schedule that exists is empty.
        Raises Undecided; its text continues "no schedule was found".
        """
        try:
            encoding = DeadlineEncoding(self.problem, steps * self.step, rounds=rounds)
            text = encoding.build(self.effort.stop)
        except Stopped as why:
            raise _undecided_at(end, self.effort) from why
        except Undecided as why:
            raise Undecided(f"since {why}") from why
        true = find_model(text, self.effort, end)
        if true is None:
            return None
        if rounds is not None and rounds > steps:
            return Transfers.concatenate([])
        rows = transfers_of(encoding, true)
        return replace(rows, chunk=self.conditions.chunk[rows.chunk].astype(rows.chunk.dtype))


def find_model(text: str, effort: Effort, end: float) -> frozenset[str] | None:
    """The constants that are true in a model of a propositional script; None if it has no model.

    end: when to stop, by the monotonic clock. Raises Undecided if the time is used up, if
    `effort.stop` returns True, or at Ctrl-C.
    """
    limits = SolverLimits(end - monotonic(), seed=effort.seed, stop=effort.stop)
    try:
        certificate, true = solve(text, limits, propositional=True)
    except Interrupted:
        raise Undecided("before it was stopped") from None
    except Undecided as why:
        raise Undecided(f"since {why}") from why
    if certificate.answer == "unknown":
        raise _undecided_at(end, effort)
    return true if certificate.answer == "sat" else None


def _undecided_at(end: float, effort: Effort) -> Undecided:
    over = monotonic() >= end
    return Undecided(f"within {time_limit_of(effort):g} s" if over else "before it was stopped")
