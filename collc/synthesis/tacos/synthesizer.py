"""TACOS: synthesis by matching chunks to links (Won et al., "TACOS: Topology-Aware Collective Algorithm Synthesizer").

A small portfolio of rules for the choice of chunks is tried, best first, until one meets the lower bound; the best
schedule is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.kernels.compiled import BATCH, is_long
from collc.synthesis.bounds import task_bound
from collc.synthesis.reductions.compose import as_trees
from collc.synthesis.tacos.events import EventMatching, EventRule, MatchedTransfers, cost_levels_of
from collc.synthesis.tacos.problem import CopyProblem, copy_problem
from collc.synthesis.tacos.step_table import empty_table, matched_steps
from collc.synthesis.task import COMPILED_TIMES, RANDOM_TRIALS, Effort, Task
from collc.ten.arrays import StepTable
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, StepSchedule, Transfers

SMALL = 128
"""Devices of a small network, at most."""

MOST_BY_EVENTS = 4_000_000
"""Transfers up to which events are tried in large networks if all transfers take equal time: their schedules are up to
3 % shorter on tori and hypercubes.
"""

NEAR = 100
"""If times differ, the search in large problems ends at a schedule that exceeds the bound by at most 1/NEAR."""

MISSING_WORK = 5
"""Work for each chunk that a device must get, beside that of the links that are looked at."""

LOOKS = 6
"""Links that are looked at in one unit of work: most are busy, or bring nothing."""

SLACKS = (0, 10, 30, 60, 100, 200)
"""Deadlines for the component rule, in thousandths above the bound."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One rule: its name, and what it plans: a schedule and its picoseconds, None if no better than a given time."""

    name: str
    plan: Callable[[int | None], tuple[Schedule, int] | None]


def tacos(task: Task, effort: Effort) -> Schedule:
    """A schedule of copies over direct links by link-chunk matching.

    effort.trials beyond the first add
    rounds of the portfolio with random ties. Raises SourceError if a postcondition cannot be reached or the network has
    switches, NoSchedule if `effort.stop` asks to stop before there is any schedule.
    """
    problem = copy_problem(task, lambda edges: effort.spend(edges, STOPPED))
    goal = task_bound(task).time if effort.bound is None else effort.bound()
    if not problem.missing_count:
        return RowSchedule(task.model, Transfers.concatenate([]))
    content = goal if problem.uniform or problem.devices <= SMALL else goal + goal // NEAR
    if is_long(plain_work(problem)):
        effort.work.add_compiler()
    best: tuple[Schedule, int] | None = None
    for attempt in _attempts(problem, goal, effort):
        if effort.stop() or (best is not None and effort.work.is_used_up):
            break
        planned = attempt.plan(None if best is None else best[1])
        if planned is not None and (best is None or planned[1] < best[1]):
            best = planned
            effort.progress(min(1.0, goal / max(1, planned[1])), f"tacos {attempt.name}")
            if planned[1] <= content:
                break
    if best is None:
        raise NoSchedule(STOPPED)
    if len(problem.sets) == len(task.demand.chunks.sets):
        return best[0]
    clock = Clock.of(task.network, task.demand, task.model)
    return RowSchedule(task.model, as_trees(best[0].transfers, task.network, task.demand, clock))


STOPPED = Diagnostic("S0201", "tacos was stopped before it had a schedule", hint="give it more time")


def plain_work(problem: CopyProblem) -> int:
    """Microseconds that plain Python takes for one attempt by events if half of the links into a device are looked at
    for each chunk.
    """
    return int(problem.missing_count * (MISSING_WORK + problem.network.link_count / max(1, problem.devices) / 2))


def _attempts(problem: CopyProblem, goal: int, effort: Effort) -> Iterator[_Attempt]:
    """The portfolio. A schedule for the link model `store` is also valid for `pipelined`, although rarely the best."""
    if not problem.uniform and problem.model is LinkModel.PIPELINED:
        yield from _event_attempts(problem, goal, effort)
        problem = replace(problem, busy=problem.total)
    if problem.uniform and problem.devices > SMALL:
        yield _step_attempt(problem, goal, effort)
        if problem.missing_count > MOST_BY_EVENTS:
            return
    yield from _event_attempts(problem, goal, effort)


def _step_attempt(problem: CopyProblem, goal: int, effort: Effort) -> _Attempt:
    """First come, first served in steps, for large networks if all transfers take equal time."""
    least = -(-goal // problem.step)

    def plan(best: int | None) -> tuple[Schedule, int] | None:
        limit = problem.missing_count if best is None else best // problem.step - 1
        if limit < least:
            return None
        looks = least * problem.network.link_count  # each step looks at all links, also at those with nothing to send
        report = _report_of(effort, "fifo")
        work = max(problem.missing_count // COMPILED_TIMES, looks * 100_000 // BATCH)

        def go_on(share: float) -> bool:
            return report(share, int(share * work))

        table = matched_steps(problem, limit, least, effort.threads, go_on)
        return None if table is None else _in_steps(problem, table)

    return _Attempt("fifo", plan)


def _event_attempts(problem: CopyProblem, goal: int, effort: Effort) -> Iterator[_Attempt]:
    """The portfolio of rules for events; if all transfers take equal time, deadlines do not matter."""
    levels = cost_levels_of(problem)
    large = problem.devices > SMALL
    compile_it = is_long(plain_work(problem))
    times = COMPILED_TIMES if compile_it else 1
    matching = EventMatching(problem, levels, compile_it)

    def attempt(rule: EventRule, name: str) -> _Attempt:
        def plan(best: int | None) -> tuple[Schedule, int] | None:
            report = _report_of(effort, name)

            def go_on(share: float, looks: int) -> bool:
                planned = round(share * problem.missing_count)
                return report(share, (MISSING_WORK * planned + looks // LOOKS) // times)

            rows = matching.transfers(rule, None if best is None else best - 1, go_on)
            return None if rows is None else _as_schedule(problem, rows)

        return _Attempt(name, plan)

    slacks = SLACKS if levels.count > 1 else SLACKS[:1]
    trials = max(RANDOM_TRIALS, effort.trials) if problem.uniform and not large else max(1, effort.trials)
    for trial in range(trials):
        seed = effort.seed * 1_000_003 + trial if trial else None
        for slack in slacks:
            for fifo in ((True, False) if large or problem.uniform else (False, True)) if seed is None else (False,):
                if not (fifo and large and problem.uniform):  # `matched_steps` finds the same sooner
                    name = "fifo" if fifo else "fewest alternatives"
                    yield attempt(EventRule(fifo, goal + goal * slack // 1000, seed), name)


def _report_of(effort: Effort, name: str) -> Callable[[float, int], bool]:
    """A function that reports the share that is planned, counts the work of the attempt so far, and returns whether it
    may continue.
    """
    counted = 0

    def go_on(share: float, work: int) -> bool:
        nonlocal counted
        effort.progress(share, f"tacos {name}")
        effort.work.add(work - counted)
        counted = work
        return not effort.stop()

    return go_on


def _as_schedule(problem: CopyProblem, rows: MatchedTransfers) -> tuple[Schedule, int]:
    """A schedule of matched transfers, by steps if all transfers take equal time; and its picoseconds."""
    chunk = problem.chunk[rows.chunk]
    if not problem.uniform:
        return RowSchedule(problem.model, Transfers.of(chunk, rows.link, rows.start)), rows.end
    table = empty_table(rows.end // problem.step, problem.network.link_count, problem)
    table.fill(np.iinfo(table.dtype).max)
    table[rows.start // problem.step, rows.link] = chunk
    return _in_steps(problem, table)


def _in_steps(problem: CopyProblem, table: StepTable) -> tuple[Schedule, int]:
    return StepSchedule(problem.model, table, problem.step), len(table) * problem.step
