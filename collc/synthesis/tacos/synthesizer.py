"""TACOS: synthesis by matching chunks to links (Won et al., "TACOS: Topology-Aware Collective Algorithm Synthesizer").

A small portfolio of rules for the choice of chunks is tried, best first, until one meets the lower bound; the best
schedule is kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.graph.matching import prioritised_matching
from collc.synthesis.bounds import task_bound
from collc.synthesis.reductions.invert import as_trees
from collc.synthesis.tacos.events import EventMatching, EventRule, MatchedTransfers, cost_levels_of
from collc.synthesis.tacos.problem import CopyProblem, copy_problem
from collc.synthesis.tacos.step_table import StepRule, matched_steps
from collc.synthesis.tacos.steps import Choose, StepRow, fewest_alternatives, matched_rows
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, StepSchedule, Transfers

SMALL = 128
"""Devices up to which the rules for small networks are tried."""

MOST_PLAIN = 50_000
"""Transfers of an attempt up to which kernels run in plain Python on small networks, so that nothing waits for
compilation.
"""

WINDOWS = (8, 32)
"""Chunks that the rule of fewest alternatives looks at in large networks."""

WINDOW_LIMIT = 4_000_000
"""Transfers up to which that rule is tried."""

NEAR = 100
"""Where times differ, the search in large problems ends at a schedule that exceeds the bound by at most 1/NEAR."""

MISSING_WORK = 5
"""Work for each chunk that a device must get, beside that of the links into the device."""

RELAYED, FEW_TARGETS = 5, 2
"""Where chunks go to at most FEW_TARGETS NPUs each, most hops are relays: an attempt takes RELAYED times the work."""

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
    problem = copy_problem(task)
    goal = task_bound(task).time if effort.bound is None else effort.bound
    if not problem.missing:
        return RowSchedule(task.model, Transfers.concatenate([]))
    content = goal if problem.uniform or problem.devices <= SMALL else goal + goal // NEAR
    work = attempt_work(problem)
    best: tuple[Schedule, int] | None = None
    for attempt in _attempts(problem, goal, effort):
        if effort.stop() or (best is not None and effort.work.is_used_up):
            break
        found = attempt.plan(None if best is None else best[1])
        effort.work.add(work)
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


def attempt_work(problem: CopyProblem) -> int:
    """The work of one attempt, as WorkMeter counts it."""
    degree = problem.network.link_count / max(1, problem.devices)
    relayed = RELAYED if problem.missing <= FEW_TARGETS * problem.count else 1
    return int(relayed * problem.missing * (MISSING_WORK + degree / 2))


def _attempts(problem: CopyProblem, goal: int, effort: Effort) -> Iterator[_Attempt]:
    """The portfolio. A schedule for the link model `store` is also valid for `pipelined`, although rarely the best."""
    stored = replace(problem, busy=problem.total)
    steps = _small_attempts if problem.devices <= SMALL else _large_attempts
    if problem.uniform:
        yield from steps(problem, goal, effort)
    elif problem.model is LinkModel.STORE:
        yield from _event_attempts(problem, goal, effort)
    else:
        yield from _event_attempts(problem, goal, effort)
        yield from steps(stored, goal, effort) if stored.uniform else _event_attempts(stored, goal, effort)


def is_compiled(devices: int, transfers: int) -> bool:
    """Whether the kernels of an attempt are compiled; the schedule is the same."""
    return devices > SMALL or transfers > MOST_PLAIN


def _large_attempts(problem: CopyProblem, goal: int, effort: Effort) -> Iterator[_Attempt]:
    """The portfolio of large networks where all transfers take equal time."""
    yield _table_attempt(problem, goal, effort, "fifo", StepRule())
    for window in WINDOWS if problem.missing <= WINDOW_LIMIT else ():
        yield _table_attempt(problem, goal, effort, f"fewest alternatives of {window}", StepRule(window))


def _small_attempts(problem: CopyProblem, goal: int, effort: Effort) -> Iterator[_Attempt]:
    """The portfolio of small networks where all transfers take equal time."""
    yield _table_attempt(problem, goal, effort, "fifo", StepRule())
    rules = (("fewest alternatives", fewest_alternatives), ("rarest matching", prioritised_matching))
    for name, rule in rules:
        yield _matching_attempt(problem, goal, name, rule, None)
    for trial in range(max(4, effort.trials)):
        for name, rule in rules:
            seed = effort.seed * 1_000_003 + trial
            yield _matching_attempt(problem, goal, f"{name}, trial {trial}", rule, seed)


def _table_attempt(problem: CopyProblem, goal: int, effort: Effort, name: str, rule: StepRule) -> _Attempt:
    """An attempt with a rule of the step kernels."""
    least = -(-goal // problem.step)

    def plan(best: int | None) -> tuple[Schedule, int] | None:
        limit = problem.missing if best is None else best // problem.step - 1
        if limit < least:
            return None
        if not is_compiled(problem.devices, problem.missing):
            table = matched_steps(problem, rule, limit, least, compile_it=False)
        else:
            go_on = _reporting(effort, name)
            table = matched_steps(problem, rule, limit, least, compile_it=True, threads=effort.threads, go_on=go_on)
        if table is None:
            return None
        return StepSchedule(problem.model, table, problem.step), len(table) * problem.step

    return _Attempt(name, plan)


def _matching_attempt(problem: CopyProblem, goal: int, name: str, choose: Choose, tie_seed: int | None) -> _Attempt:
    """An attempt with a rule of bipartite matching. tie_seed: tie-break seed; None: ties go to the lower number."""

    def plan(best: int | None) -> tuple[Schedule, int] | None:
        limit = problem.missing if best is None else best // problem.step - 1
        if limit < -(-goal // problem.step):
            return None
        rows = matched_rows(problem, choose, None if tie_seed is None else random.Random(tie_seed), limit)
        return None if rows is None else (_step_schedule(problem, rows), len(rows) * problem.step)

    return _Attempt(name, plan)


def _event_attempts(problem: CopyProblem, goal: int, effort: Effort) -> Iterator[_Attempt]:
    """The portfolio where times differ."""
    levels = cost_levels_of(problem)
    large = problem.devices > SMALL
    compile_it = is_compiled(problem.devices, problem.missing)
    matching = EventMatching(problem, levels, compile_it)

    def planned(rule: EventRule, limit: int | None) -> MatchedTransfers | None:
        if compile_it:
            return matching.transfers(rule, limit, _reporting(effort, _name(rule)))
        return matching.transfers(rule, limit)

    def attempt(rule: EventRule) -> _Attempt:
        def plan(best: int | None) -> tuple[Schedule, int] | None:
            rows = planned(rule, None if best is None else best - 1)
            return None if rows is None else (_row_schedule(problem, rows), rows.end)

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
    """A function that reports the share that is planned, and returns whether the attempt may continue."""

    def go_on(share: float) -> bool:
        effort.progress(share, f"tacos {name}")
        return not effort.stop()

    return go_on


def _step_schedule(problem: CopyProblem, rows: list[StepRow]) -> StepSchedule:
    numbers = np.append(problem.chunk.astype(np.int64), -1)
    chunks = numbers[np.array(rows, np.int64)]
    if int(numbers.max()) < np.iinfo(np.uint16).max:
        return StepSchedule(problem.model, chunks.astype(np.uint16), problem.step)
    return StepSchedule(problem.model, chunks.astype(np.uint32), problem.step)


def _row_schedule(problem: CopyProblem, rows: MatchedTransfers) -> RowSchedule:
    return RowSchedule(problem.model, Transfers.of(problem.chunk[rows.chunk], rows.link, rows.start))
