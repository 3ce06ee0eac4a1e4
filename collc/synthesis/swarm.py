"""Chunks of few holders, spread as in a swarm: broadcast, multicast and, backwards, reduce."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collc.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import conditions_of
from collc.synthesis.swarm_problem import SwarmProblem, swarm_problem
from collc.synthesis.swarm_rounds import Found, Rule, Swarm
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import RowSchedule, Schedule, Transfers

TRIALS = 4
"""Attempts with random ties, at least."""


def swarm(task: Task, effort: Effort, bound: int | None = None) -> Schedule:
    """A schedule of copies over links and switches.

    bound: picoseconds at which to be content; None: the lower bound of the task.
    """
    goal = task_bound(task).time if bound is None else bound
    conditions = conditions_of(task)
    if not len(conditions):
        return RowSchedule(task.model, Transfers.joined([]))
    problem = swarm_problem(conditions)
    best: Found | None = None
    for rule in _rules(problem, effort):
        if effort.stop():
            break
        found = Swarm(problem, rule, None if best is None else best.end - 1).run(effort.stop)
        import os
        if os.environ.get("SW"): print("   ", rule, found and found.end/1e6)
        if found is not None and (best is None or found.end < best.end):
            best = found
            if best.end <= goal:
                break
    if best is None:
        raise NoSchedule(Diagnostic("S0201", "swarm was stopped before it had a schedule", hint="give it more time"))
    return RowSchedule(task.model, _transfers(problem, best))


def _rules(problem: SwarmProblem, effort: Effort) -> Iterator[Rule]:
    kinds = ((0, False),) if len(set(problem.lanes.slowest)) == 1 else ((3, True), (3, False), (0, False))
    for trial in range(max(TRIALS, effort.trials) + 1):
        for factor, fresh in kinds:
            yield Rule(factor, fresh, effort.seed * 1_000_003 + trial if trial else None)


def _transfers(problem: SwarmProblem, found: Found) -> Transfers:
    lanes, conditions = problem.lanes, problem.conditions
    chunks: list[int] = []
    links: list[int] = []
    starts: list[int] = []
    column: list[int] = conditions.column.tolist()
    for row, lane, start in zip(found.row, found.lane, found.start, strict=True):
        offsets = lanes.start[column[row]][lane]
        chunks += [row] * len(offsets)
        links += lanes.links[lane]
        starts += [start + offset for offset in offsets]
    return Transfers.of(conditions.chunk[np.array(chunks)], np.array(links), np.array(starts, np.int64))
