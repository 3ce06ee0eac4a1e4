"""Pareto points of steps, rounds and chunks (Cai et al., "Synthesizing Optimal Collective Algorithms", SCCL).

A schedule of S steps and R rounds for blocks of C chunks takes S latencies and R/C times the time of a block on a link.
Few steps are best for small sizes, and few rounds per chunk for large ones. For each number of steps, from the fewest
up, Z3 finds the least number of rounds per chunk. This is a Pareto point if it is less than with fewer steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from time import monotonic

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, Note, SourceError
from collc.smt.script import Undecided
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import Conditions, conditions_of
from collc.synthesis.exact.sums import shorten_both_phases
from collc.synthesis.exact.synthesizer import StepSearch, exact, farthest_hops, require_steps, time_limit_of
from collc.synthesis.reductions.compose import solve, split
from collc.synthesis.task import Effort, Task
from collc.ten.arrays import Int64Array
from collc.ten.demand import ChunkTable, Demand, Run
from collc.ten.module import Module, ParetoPoint
from collc.ten.schedule import Schedule


def plan_exact(
    module: Module,
    effort: Effort,
    options: Mapping[str, int],
    other: Callable[[Task, Effort], Schedule],
) -> Module:
    """The module with schedules of the fewest steps, and with the Pareto points that the options ask for.

    The Pareto points are found first, and are in the notes. options: of `exact`, as in docs/language.md.
    other: another synthesizer, see `pareto_points`.
    """
    points: tuple[ParetoPoint, ...] = ()
    if "pareto" in options:
        rounds = options.get("extra_rounds", 0)
        points = pareto_points(module, effort, options["pareto"], rounds, lambda task: other(task, effort))
    solved = solve(module, lambda task: exact(task, effort, most=options.get("steps")))
    if len(solved.phases) > 1 and module.schedule is None:
        solved = shorten_both_phases(solved, effort)
    return replace(solved, pareto=points, notes=(*solved.notes, *point_lines(points)))


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
    task = _task_of_single_chunks(phases[0].module, phases[0].inverted)
    conditions = conditions_of(task)
    if not len(conditions):
        return ()
    require_steps(conditions)
    points: list[ParetoPoint] = []
    try:
        points.extend(
            _frontier([conditions_of(_with_chunks(task, n + 1)) for n in range(chunks)], effort, extra, other)
        )
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


def _frontier(
    problems: list[Conditions], effort: Effort, extra: int, other: Callable[[Task], Schedule] | None
) -> Iterator[ParetoPoint]:
    """The points, by steps. problems: with 1, 2, ... chunks per block. Raises Undecided if there may be more."""
    end = monotonic() + time_limit_of(effort)
    step = int(problems[0].clock.total.max())
    least = [-(-task_bound(problem.task).time // step) for problem in problems]
    ideal = min(Fraction(rounds, count) for count, rounds in enumerate(least, 1))
    known: list[int | None] = [None] * len(problems)  # steps, of one round each, of the other synthesizer's schedules
    for number, problem in enumerate(problems):
        if other is not None and not effort.stop():
            task = problem.task
            known[number] = other(task).collective_time(task.network, task.demand) // step
    searches = [StepSearch.of(problem, effort) for problem in problems]
    steps = farthest_hops(problems[0])
    best: Fraction | None = None
    while best is None or (best > ideal and Fraction(steps, len(problems)) < best):
        for ratio, count, rounds in _questions(least, steps, extra):
            if best is not None and ratio >= best:
                break
            effort.progress(0.0, f"exact: {count} chunks per block in {steps} steps and {rounds} rounds?")
            known_steps = known[count - 1]
            exists = known_steps is not None and known_steps <= steps
            if exists or searches[count - 1].ask(steps, end, rounds=rounds) is not None:
                best = ratio
                yield ParetoPoint(count, steps, rounds)
                break
        steps += 1


def _questions(least: list[int], steps: int, extra: int) -> list[tuple[Fraction, int, int]]:
    """(rounds per chunk, chunks per block, rounds) to ask for, ascending. least: lower bounds on rounds for 1, 2, ...
    chunks.
    """
    return sorted(
        (Fraction(rounds, count), count, rounds)
        for count, bound in enumerate(least, 1)
        for rounds in range(max(steps, bound), steps + extra + 1)
    )


def _task_of_single_chunks(module: Module, inverted: bool) -> Task:
    """The task of a module of one phase if all its runs had one chunk per block."""
    runs: list[Run] = []
    for run in module.demand.runs:
        table = run.pattern.expand()
        if run.standard is not None and run.standard.chunks > 1:
            ranks = np.array([family.rank for family in table.families], np.int64)
            last_index = table.index[np.arange(len(table)), ranks[table.family] - 1]
            table = _rows_of(table, np.flatnonzero(last_index == 0))
        runs.append(replace(run, pattern=table, standard=None))
    demand = Demand(tuple(runs))
    moving = np.arange(len(demand.chunks), dtype=np.int32)
    return Task(module.network, demand, module.model, moving, inverted=inverted)


def _with_chunks(task: Task, count: int) -> Task:
    """The task with `count` chunks in place of each one."""
    table = task.demand.chunks
    rows = np.repeat(np.arange(len(table)), count)
    run = replace(task.demand.runs[0], pattern=_rows_of(table, rows))
    return replace(task, demand=Demand((run,)), chunks=np.arange(len(rows), dtype=np.int32))


def _rows_of(table: ChunkTable, rows: Int64Array) -> ChunkTable:
    """The given rows of a table, which may be repeated."""
    columns = {name: getattr(table, name)[rows] for name in ("size", "pre", "post", "op", "family", "index")}
    return replace(table, **columns)
