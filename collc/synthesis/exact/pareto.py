"""Pareto points of steps, rounds and chunks (Cai et al., "Synthesizing Optimal Collective Algorithms", SCCL).

A schedule of S steps and R rounds for blocks of C chunks takes S latencies and R/C times the time of a block on a link.
Few steps are best for small sizes, and few rounds per chunk for large ones. For each number of steps, from the fewest
up, Z3 finds the least number of rounds per chunk. This is a Pareto point if it is less than with fewer steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from time import monotonic

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, Note, SourceError
from collc.smt.script import Undecided
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import Conditions, conditions_of
from collc.synthesis.exact.search import StepSearch, allowed
from collc.synthesis.exact.synthesizer import farthest_hops, require_steps
from collc.synthesis.reductions.compose import split
from collc.synthesis.task import Effort, Task
from collc.ten.arrays import Int64Array
from collc.ten.demand import ChunkTable, Demand, Run
from collc.ten.module import Module, ParetoPoint
from collc.ten.schedule import Schedule


def pareto_points(
    module: Module, effort: Effort, chunks: int, extra: int, other: Callable[[Task], Schedule] | None = None
) -> tuple[ParetoPoint, ...]:
    """The Pareto points for 1 .. `chunks` chunks per block, by steps, with at most `extra` rounds more than steps.

    The number of chunks per block in the demand is ignored. other: another synthesizer; Z3 is not asked about numbers
    of steps for which it finds a schedule.
    Raises SourceError for a collective of two phases (All-Reduce), each of which has points of its own, and for demands
    that `exact` does not support; NoSchedule, with the points found so far, at the time limit or if `effort.stop`
    returns True.
    """
    phases = split(module)
    if len(phases) != 1:
        message = (
            "the Pareto points of two phases are not points of the whole, and this demand has reductions, then copies"
        )
        raise SourceError(Diagnostic("S0304", message, hint="ask for those of its Reduce-Scatter and its All-Gather"))
    search = _ParetoSearch.of(phases[0].module, effort, phases[0].inverted, other)
    points: list[ParetoPoint] = []
    end = monotonic() + allowed(effort)
    try:
        points.extend(search.frontier(chunks, extra, end))
    except Undecided as why:
        notes = tuple(Note(line) for line in point_lines(points)) or (Note("no point was found"),)
        hint = "give it more time, fewer chunks or fewer extra rounds"
        message = f"not all Pareto points were found {why}"
        raise NoSchedule(Diagnostic("S0201", message, None, notes, hint)) from why
    return tuple(points)


def point_lines(points: Sequence[ParetoPoint]) -> list[str]:
    """One line of the report for each point."""
    lines: list[str] = []
    for point in points:
        ratio = Fraction(point.rounds, point.chunks)
        plural = "s" * (point.chunks > 1)
        lines.append(
            f"Pareto point: {point.chunks} chunk{plural} per block, {point.steps} steps, {point.rounds} rounds "
            f"({ratio} rounds per chunk)"
        )
    return lines


@dataclass(frozen=True, eq=False)
class _ParetoSearch:
    """The problem of one phase, for any number of chunks per block. task: with one chunk per block."""

    task: Task
    effort: Effort
    other: Callable[[Task], Schedule] | None

    @staticmethod
    def of(module: Module, effort: Effort, inverted: bool, other: Callable[[Task], Schedule] | None) -> _ParetoSearch:
        """The search for a module of one phase. Raises SourceError unless all transfers take equal time."""
        demand = Demand(tuple(replace(run, pattern=_single(run), standard=None) for run in module.demand.runs))
        moving = np.arange(len(demand.chunks), dtype=np.int32)
        task = Task(module.network, demand, module.model, moving, inverted=inverted)
        conditions = conditions_of(task)
        if len(conditions):
            require_steps(conditions)
        return _ParetoSearch(task, effort, other)

    def frontier(self, chunks: int, extra: int, end: float) -> Iterator[ParetoPoint]:
        """The points, by steps. end: when to stop, by the monotonic clock. Raises Undecided if there may be more."""
        problems = [conditions_of(self.times(count)) for count in range(1, chunks + 1)]
        if not len(problems[0]):
            return
        least = [self._least_rounds(problem) for problem in problems]
        ideal = min(Fraction(rounds, count) for count, rounds in enumerate(least, 1))
        best: Fraction | None = None
        found = [self._found(problem) for problem in problems]
        steps = farthest_hops(problems[0])
        searches = [StepSearch.of(problem, self.effort) for problem in problems]
        while best is None or (best > ideal and Fraction(steps, chunks) < best):
            for ratio, count, rounds in _cheapest_first(least, steps, extra):
                if best is not None and ratio >= best:
                    break
                self.effort.progress(0.0, f"exact: {count} chunks per block in {steps} steps and {rounds} rounds?")
                known = found[count - 1] <= steps
                if known or searches[count - 1].ask(steps, end, rounds=rounds) is not None:
                    best = ratio
                    yield ParetoPoint(count, steps, rounds)
                    break
            steps += 1

    def times(self, count: int) -> Task:
        """The task with `count` chunks in place of each one."""
        table = self.task.demand.chunks
        rows = np.repeat(np.arange(len(table)), count)
        run = replace(self.task.demand.runs[0], pattern=_selected(table, rows))
        return replace(self.task, demand=Demand((run,)), chunks=np.arange(len(rows), dtype=np.int32))

    def _found(self, problem: Conditions) -> int:
        """The number of steps, of one round each, of the other synthesizer's schedule; 2**62 without a synthesizer."""
        if self.other is None or self.effort.stop():
            return 1 << 62
        schedule = self.other(problem.task)
        time = schedule.collective_time(problem.task.network, problem.task.demand)
        return time // int(problem.clock.total.max())

    def _least_rounds(self, problem: Conditions) -> int:
        """A lower bound on the number of rounds."""
        step = int(problem.clock.total.max())
        return -(-task_bound(problem.task).time // step)


def _cheapest_first(least: list[int], steps: int, extra: int) -> list[tuple[Fraction, int, int]]:
    """(rounds per chunk, chunks per block, rounds) to ask for. least: lower bounds on rounds for 1, 2, ... chunks."""
    asked: list[tuple[Fraction, int, int]] = []
    for count, bound in enumerate(least, 1):
        asked += [(Fraction(rounds, count), count, rounds) for rounds in range(max(steps, bound), steps + extra + 1)]
    return sorted(asked)


def _single(run: Run) -> ChunkTable:
    """The chunks of a run if it had one chunk per block."""
    table = run.pattern.expand()
    if run.standard is None or run.standard.chunks == 1:
        return table
    ranks = np.array([family.rank for family in table.families], np.int64)
    last = table.index[np.arange(len(table)), ranks[table.family] - 1]
    return _selected(table, np.flatnonzero(last == 0))


def _selected(table: ChunkTable, rows: Int64Array) -> ChunkTable:
    """The given rows of a table, which may be repeated."""
    return replace(
        table,
        size=table.size[rows],
        pre=table.pre[rows],
        post=table.post[rows],
        op=table.op[rows],
        family=table.family[rows],
        index=table.index[rows],
    )
