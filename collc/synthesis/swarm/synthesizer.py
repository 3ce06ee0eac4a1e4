"""Chunks of few holders, spread as in a swarm: broadcast, multicast and, backwards, reduce.

Where the chunks all come from one NPU, its links must carry different ones, and the receivers exchange them. Each
receiver asks for what is rarest (rounds.py); a few ways to choose are tried.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import conditions_of
from collc.synthesis.swarm.pipelined import earlier, stored
from collc.synthesis.swarm.problem import SwarmProblem, swarm_problem, widened
from collc.synthesis.swarm.pruned import pruned
from collc.synthesis.swarm.rounds import Found, Rule, Swarm
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import LinkModel, RowSchedule, Schedule, Transfers

TRIALS = 16
"""Rounds of attempts with random ties, at most, unless more are asked for."""

VISITS = 200_000
"""Looks of receivers at lanes up to which further rounds are made, estimated: about half a second."""

MANY = 1_000_000
"""The same from which there is one attempt only."""

NEAR = 8
"""A schedule that stores is looked at if it is longer than the best by at most one part in so many."""


def swarm(task: Task, effort: Effort, bound: int | None = None) -> Schedule:
    """A schedule of copies over links and switches, every switch as it is.

    bound: picoseconds at which to be content; None: the lower bound of the task. effort.trials: rounds of
    attempts with random ties. Raises SourceError where a postcondition cannot be reached or links have no bandwidth,
    NoSchedule where the network has too many ways from NPU to NPU, where switches leave no way, or where
    `effort.stop` asks to stop before any schedule is there.
    """
    conditions = conditions_of(task)
    if not len(conditions):
        return RowSchedule(task.model, Transfers.joined([]))
    problem = swarm_problem(conditions)
    goal = task_bound(task).time if bound is None else bound
    wide = widened(problem)
    best: Found | None = None
    for rule, stores in _rules(problem, effort):
        for each in (problem, wide) if wide is not None else (problem,):
            if effort.stop() or (best is not None and best.end <= goal):
                break
            found = _attempt(each, rule, stores, best, effort)
            if found is not None and (best is None or found.end < best.end):
                best = found
                effort.progress(min(1.0, goal / max(1, best.end)), "swarm")
    if best is None:
        raise _none(task, effort.stop())
    return RowSchedule(task.model, _transfers(problem, best))


def _attempt(problem: SwarmProblem, rule: Rule, stores: bool, best: Found | None, effort: Effort) -> Found | None:
    """A schedule by a rule; what stores is made earlier afterwards, so that it may be a little too late at first."""
    if not stores:
        limit = None if best is None else best.end - 1
        found = Swarm(problem, rule, limit).run(effort.stop)
        return None if found is None else pruned(problem, found)
    found = Swarm(stored(problem), rule, None if best is None else best.end + best.end // NEAR).run(effort.stop)
    return None if found is None else earlier(problem, pruned(problem, found))


def _rules(problem: SwarmProblem, effort: Effort) -> Iterator[tuple[Rule, bool]]:
    """What is tried, and whether links are to be taken until arrival at first; later ones have random ties."""
    alike = len(set(problem.lanes.slowest)) == 1
    kinds = ((0, False),) if alike else ((3, True), (3, False), (0, False))
    models = (True, False) if problem.conditions.task.model is LinkModel.PIPELINED else (False,)
    visits = len(kinds) * (1 + problem.missing * len(problem.lanes.links) // len(problem.have))
    if visits > MANY and effort.trials == 1:
        kinds, models = kinds[:1], models[:1]
    for trial in range(max(effort.trials, min(TRIALS, VISITS // visits)) + 1):
        for halves, fresh in kinds:
            for stores in models:
                yield Rule(halves, fresh, effort.seed * 1_000_003 + trial if trial else None), stores


def _none(task: Task, stopped: bool) -> NoSchedule:
    if stopped:
        return NoSchedule(Diagnostic("S0201", "swarm was stopped before it had a schedule", hint="give it more time"))
    message = f"switches of {task.network.name} that add up, or have few places, leave swarm no way"
    return NoSchedule(Diagnostic("S0308", message, hint="'synthesize pccl()' serves every demand"))


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
