"""Exact search asks Z3 for schedules in equal steps (SCCL, PPoPP 2021, section 3); the formulas are in `collc.smt`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic

from collc.smt.encoding import DeadlineEncoding
from collc.smt.problem import ChunkGoal, ScheduleProblem, edges_of
from collc.smt.script import Stopped, Undecided
from collc.smt.solution import transfers_of
from collc.smt.solver import Interrupted, SolverLimits, solve
from collc.synthesis.conditions import Conditions
from collc.synthesis.task import Effort
from collc.ten.arrays import Int64Array
from collc.ten.schedule import Transfers

SECONDS = 60.0
"""The default time limit of a search."""


def allowed(effort: Effort) -> float:
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

    def ask(self, steps: int, end: float, work: int | None = None, rounds: int | None = None) -> Transfers | None:
        """The transfers of a schedule of at most `steps` steps; None if Z3 shows that there is none.

        end: when to stop, by the monotonic clock. work: see SolverLimits. rounds: see DeadlineEncoding; with more
        rounds than steps, the result for a schedule that exists is empty.
        Raises Undecided; its text continues "no schedule was found".
        """
        try:
            encoding = DeadlineEncoding(self.problem, steps * self.step, rounds=rounds)
            text = encoding.build(self.effort.stop)
        except Stopped as why:
            raise _stopped(self.effort, end) from why
        except Undecided as why:
            raise Undecided(f"since {why}") from why
        true = answer(text, self.effort, end, work)
        if true is None:
            return None
        if rounds is not None and rounds > steps:
            return Transfers.joined([])
        return self._of_chunks(transfers_of(encoding, true))

    def _of_chunks(self, rows: Transfers) -> Transfers:
        chunk: Int64Array = self.conditions.chunk[rows.chunk].astype("int64")
        return replace(rows, chunk=chunk.astype(rows.chunk.dtype))


def answer(text: str, effort: Effort, end: float, work: int | None) -> frozenset[str] | None:
    """The constants that are true in a model of a propositional script; None if it has no model.

    end: when to stop, by the monotonic clock. work: see SolverLimits. Raises Undecided if the time or the work is used
    up, if `effort.stop` returns True, or at Ctrl-C.
    """
    limits = SolverLimits(end - monotonic(), work, effort.seed, effort.stop)
    try:
        certificate, true = solve(text, limits, propositional=True)
    except Interrupted:
        raise Undecided("before it was stopped") from None
    if certificate.answer == "unknown":
        raise _stopped(effort, end)
    return true if certificate.answer == "sat" else None


def _stopped(effort: Effort, end: float) -> Undecided:
    return Undecided(f"within {allowed(effort):g} s" if monotonic() >= end else "before it was stopped")
