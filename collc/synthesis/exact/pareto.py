"""Pareto points of steps, rounds and chunks (Cai et al., "Synthesizing Optimal Collective Algorithms", SCCL).

A schedule of S steps and R rounds for blocks of C chunks takes S latencies and R/C times a block's time on a link. Few
steps are best for small sizes, few rounds a chunk for large ones. For each number of steps, from the fewest on, Z3 is
asked for the least rounds a chunk; a point counts if that is less than with fewer steps.
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
    """The Pareto points for 1 .. `chunks` chunks a block, by steps; with at most `extra` rounds more than steps.

    other: another synthesizer; Z3 is not asked for schedules that it finds.
    What the demand says of chunks a block does not count. A collective that reduces and spreads again (All-Reduce)
    has two phases, each with points of its own. Raises SourceError for these, for what `exact` does not take;
    NoSchedule, with the points found so far, where the time is over or `effort.stop` asks to stop.
    """
    phases = split(module)
    if len(phases) != 1:
        message = (
            "the Pareto points of two phases are no points of the whole, and this demand has reductions, then copies"
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
    """A line for each point."""
    lines: list[str] = []
    for point in points:
        ratio = Fraction(point.rounds, point.chunks)
        plural = "s" * (point.chunks > 1)
        lines.append(
            f"Pareto point: {point.chunks} chunk{plural} a block, {point.steps} steps, {point.rounds} rounds "
            f"({ratio} rounds a chunk)"
        )
    return lines


@dataclass(frozen=True, eq=False)
class _ParetoSearch:
    """One phase's problem, for any number of chunks a block."""

    task: Task
    effort: Effort
    other: Callable[[Task], Schedule] | None

    @staticmethod
    def of(module: Module, effort: Effort, inverted: bool, other: Callable[[Task], Schedule] | None) -> _ParetoSearch:
        """Raises SourceError where there are no equal steps."""
        demand = Demand(tuple(replace(run, pattern=_single(run), standard=None) for run in module.demand.runs))
        moving = np.arange(len(demand.chunks), dtype=np.int32)
        task = Task(module.network, demand, module.model, moving, inverted=inverted)
        conditions = conditions_of(task)
        if len(conditions):
            require_steps(conditions)
        return _ParetoSearch(task, effort, other)

    def frontier(self, chunks: int, extra: int, end: float) -> Iterator[ParetoPoint]:
        """The points, by steps. Raises Undecided where it is not known whether there are more."""
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
                self.effort.progress(0.0, f"exact: {count} chunks a block in {steps} steps and {rounds} rounds?")
                known = found[count - 1] <= steps
                if known or searches[count - 1].ask(steps, end, rounds=rounds) is not None:
                    best = ratio
                    yield ParetoPoint(count, steps, rounds)
                    break
            steps += 1

    def times(self, count: int) -> Task:
        """The problem with so many chunks where there was one."""
        table = self.task.demand.chunks
        rows = np.repeat(np.arange(len(table)), count)
        run = replace(self.task.demand.runs[0], pattern=_taken(table, rows))
        return replace(self.task, demand=Demand((run,)), chunks=np.arange(len(rows), dtype=np.int32))

    def _found(self, problem: Conditions) -> int:
        """The steps, of one round each, that the other synthesizer takes; 2**62 if there is none."""
        if self.other is None or self.effort.stop():
            return 1 << 62
        schedule = self.other(problem.task)
        time = schedule.collective_time(problem.task.network, problem.task.demand)
        return time // int(problem.clock.total.max())

    def _least_rounds(self, problem: Conditions) -> int:
        step = int(problem.clock.total.max())
        return -(-task_bound(problem.task).time // step)


def _cheapest_first(least: list[int], steps: int, extra: int) -> list[tuple[Fraction, int, int]]:
    """(rounds a chunk, chunks a block, rounds) to ask for. least: rounds that 1, 2, ... chunks take at least."""
    asked: list[tuple[Fraction, int, int]] = []
    for count, bound in enumerate(least, 1):
        asked += [(Fraction(rounds, count), count, rounds) for rounds in range(max(steps, bound), steps + extra + 1)]
    return sorted(asked)


def _single(run: Run) -> ChunkTable:
    """The chunks of a run as if it had one chunk a block."""
    table = run.pattern.expand()
    if run.standard is None or run.standard.chunks == 1:
        return table
    ranks = np.array([family.rank for family in table.families], np.int64)
    last = table.index[np.arange(len(table)), ranks[table.family] - 1]
    return _taken(table, np.flatnonzero(last == 0))


def _taken(table: ChunkTable, rows: Int64Array) -> ChunkTable:
    """Some rows of a table, also more than once."""
    return replace(
        table,
        size=table.size[rows],
        pre=table.pre[rows],
        post=table.post[rows],
        op=table.op[rows],
        family=table.family[rows],
        index=table.index[rows],
    )
