"""TACOS: synthesis by matching chunks to links (Won et al., "TACOS: Topology-Aware Collective Algorithm Synthesizer").

A small portfolio of rules for the choice within a matching is tried, best first, until one meets the
lower bound; the best schedule is kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.bounds import task_bound
from collc.synthesis.reductions.invert import as_trees
from collc.synthesis.tacos.events import EventMatching, EventRule, MatchedTransfers
from collc.synthesis.tacos.grid import grid_steps
from collc.synthesis.tacos.levels import cost_levels_of
from collc.synthesis.tacos.problem import CopyProblem, copy_problem
from collc.synthesis.tacos.steps import Row, chosen_steps, fewest_alternatives, fifo_steps, rarest_matching
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, StepSchedule, Transfers

SMALL = 128
"""Devices up to which plain Python is used, so that nothing waits for compilation."""

WINDOWS = (8, 32)
"""Chunks that the compiled rule of fewest alternatives looks at."""

LOOKING = 4_000_000
"""Transfers up to which that rule is tried."""

NEAR = 100
"""Where times differ, large problems are content within one part in so many of the bound."""

SLACKS = (0, 10, 30, 60, 100, 200)
"""Deadlines for the component rule, in thousandths above the bound."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One rule: its name, and what it plans (None where that is no better than a time in picoseconds)."""

    name: str
    plan: Callable[[int | None], tuple[Schedule, int] | None]


def tacos(task: Task, effort: Effort, bound: int | None = None) -> Schedule:
    """A schedule of copies over direct links by link-chunk matching.

    bound: picoseconds at which to be content; None: the lower bound of the task. effort.trials beyond
    the first add rounds of the portfolio with random ties.
    Raises SourceError where a postcondition cannot be reached or the network has switches, NoSchedule
    where `effort.stop` asks to stop before any schedule is there.
    """
    problem = copy_problem(task)
    goal = task_bound(task).time if bound is None else bound
    if not problem.missing:
        return RowSchedule(task.model, Transfers.joined([]))
    content = goal if problem.uniform or problem.devices <= SMALL else goal + goal // NEAR
    best: tuple[Schedule, int] | None = None
    for attempt in _attempts(problem, goal, effort):
        if effort.stop():
            break
        found = attempt.plan(None if best is None else best[1])
        if found is not None and (best is None or found[1] < best[1]):
            best = found
            effort.progress(min(1.0, goal / max(1, found[1])), f"tacos {attempt.name}")
            if found[1] <= content:
                break
    if best is None:
        raise NoSchedule(Diagnostic("S0201", "tacos was stopped before it had a schedule", hint="give it more time"))
    if len(problem.sets) == len(task.demand.chunks.sets):
        return best[0]
    clock = Clock.of(task.network, task.demand, task.model)
    return RowSchedule(task.model, as_trees(best[0].transfers, task.network, task.demand, clock))


def _attempts(problem: CopyProblem, goal: int, effort: Effort) -> Iterator[_Attempt]:
    """The portfolio. A schedule that stores is one that pipelines, too, if hardly the best."""
    stored = replace(problem, busy=problem.total)
    steps = _small_attempts if problem.devices <= SMALL else _large_attempts
    if problem.uniform:
        yield from steps(problem, goal, effort)
    elif problem.model is LinkModel.STORE:
        yield from _event_attempts(problem, goal, effort)
    else:
        yield from _event_attempts(problem, goal, effort)
        yield from steps(stored, goal, effort) if stored.uniform else _event_attempts(stored, goal, effort)


def _large_attempts(problem: CopyProblem, goal: int, effort: Effort) -> Iterator[_Attempt]:
    """The portfolio of compiled rules where all transfers take equal time."""
    least = -(-goal // problem.step)

    def attempt(name: str, window: int) -> _Attempt:
        def plan(best: int | None) -> tuple[Schedule, int] | None:
            limit = problem.missing if best is None else best // problem.step - 1
            go_on = _reporting(effort, name)
            grid = grid_steps(problem, limit, least, window, effort.threads, go_on) if limit >= least else None
            if grid is None:
                return None
            return StepSchedule(problem.model, grid, problem.step), len(grid) * problem.step

        return _Attempt(name, plan)

    yield attempt("fifo", 0)
    for window in WINDOWS if problem.missing <= LOOKING else ():
        yield attempt(f"fewest alternatives of {window}", window)


def _small_attempts(problem: CopyProblem, goal: int, effort: Effort) -> Iterator[_Attempt]:
    """The portfolio where all transfers take equal time."""
    least = -(-goal // problem.step)

    def attempt(name: str, steps: Callable[[int], list[Row] | None]) -> _Attempt:
        def plan(best: int | None) -> tuple[Schedule, int] | None:
            limit = problem.missing if best is None else best // problem.step - 1
            rows = steps(limit) if limit >= least else None
            return None if rows is None else (_grid(problem, rows), len(rows) * problem.step)

        return _Attempt(name, plan)

    def chosen(name: str, rule: Callable[..., list[int]], seed: int | None) -> _Attempt:
        def steps(limit: int) -> list[Row] | None:
            return chosen_steps(problem, rule, None if seed is None else random.Random(seed), limit)

        return attempt(name, steps)

    yield attempt("fifo", lambda limit: fifo_steps(problem, limit))
    rules = (("fewest alternatives", fewest_alternatives), ("rarest matching", rarest_matching))
    for name, rule in rules:
        yield chosen(name, rule, None)
    for trial in range(max(4, effort.trials)):
        for name, rule in rules:
            yield chosen(f"{name}, trial {trial}", rule, effort.seed * 1_000_003 + trial)


def _event_attempts(problem: CopyProblem, goal: int, effort: Effort) -> Iterator[_Attempt]:
    """The portfolio where times differ."""
    levels = cost_levels_of(problem)
    large = problem.devices > SMALL
    matching = EventMatching(problem, levels, compile_it=large)

    def planned(rule: EventRule, limit: int | None) -> MatchedTransfers | None:
        if large:
            return matching.transfers(rule, limit, _reporting(effort, _name(rule)))
        return matching.transfers(rule, limit)

    def attempt(rule: EventRule) -> _Attempt:
        def plan(best: int | None) -> tuple[Schedule, int] | None:
            rows = planned(rule, None if best is None else best - 1)
            return None if rows is None else (_rows(problem, rows), rows.end)

        return _Attempt(_name(rule), plan)

    slacks = SLACKS if levels.count > 1 else SLACKS[:1]
    for trial in range(max(1, effort.trials)):
        seed = effort.seed * 1_000_003 + trial if trial else None
        for slack in slacks:
            for fifo in ((False, True) if not large else (True, False)) if seed is None else (False,):
                yield attempt(EventRule(fifo, goal + goal * slack // 1000, seed))


def _name(rule: EventRule) -> str:
    return "fifo" if rule.fifo else "fewest alternatives"


def _reporting(effort: Effort, name: str) -> Callable[[float], bool]:
    """Shows how far an attempt is; whether it may go on."""

    def go_on(share: float) -> bool:
        effort.progress(share, f"tacos {name}")
        return not effort.stop()

    return go_on


def _grid(problem: CopyProblem, rows: list[Row]) -> StepSchedule:
    numbers = np.append(problem.chunk.astype(np.int64), -1)
    chunks = numbers[np.array(rows, np.int64)]
    if int(numbers.max()) < np.iinfo(np.uint16).max:
        return StepSchedule(problem.model, chunks.astype(np.uint16), problem.step)
    return StepSchedule(problem.model, chunks.astype(np.uint32), problem.step)


def _rows(problem: CopyProblem, rows: MatchedTransfers) -> RowSchedule:
    return RowSchedule(problem.model, Transfers.of(problem.chunk[rows.chunk], rows.link, rows.start))
