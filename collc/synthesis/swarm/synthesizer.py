"""Synthesis by rarest-first spreading, for chunks that few NPUs hold: broadcast, multicast and, inverted, reduce.

Where all chunks come from one NPU, its links must carry different ones, which the receivers then exchange. Each
receiver asks for the rarest chunk (spread.py). Several rules are tried, and the best schedule is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.base.memory import require_for_search
from collc.kernels.compiled import LOAD_TIME
from collc.kernels.rarest_first import SEND_WORK
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import conditions_of
from collc.synthesis.swarm.growth import grow
from collc.synthesis.swarm.plans import PathTransfers, as_stored, moved_earlier, prune
from collc.synthesis.swarm.problem import SwarmProblem, swarm_problem, with_all_relays
from collc.synthesis.swarm.spread import PATHS_LOOKED_AT, SERVE_WORK, Spread, SpreadRule
from collc.synthesis.swarm.switch_paths import SwitchPaths, has_many_paths, repeaters_of
from collc.synthesis.task import COMPILED_TIMES, RANDOM_TRIALS, TRIAL_WORK, Effort, Task
from collc.ten.schedule import LinkModel, RowSchedule, Schedule, Transfers

PLAIN_WORK = LOAD_TIME // 3
"""Work of one attempt, or of a search so far, from which attempts are compiled; in plain Python it takes as long as
loading the compiler.
"""

COPY_BYTES = 300
"""Memory for each chunk that an NPU must get: what is planned, what comes, and the transfers."""

NEAR = 8
"""A schedule for `store` that will be moved earlier may be longer than the best one by at most 1/NEAR of its
time."""


def swarm(task: Task, effort: Effort) -> Schedule:
    """A schedule of copies over links and switches, which are not unwound.

    effort.trials: rounds of attempts
    with random ties. Raises SourceError if a postcondition cannot be reached or links have no bandwidth, NoSchedule if
    the network has too many switch paths, its switches leave no schedule, or there is none yet when `effort.stop` asks
    to stop or the most work is done.
    """
    conditions = conditions_of(task)
    if not len(conditions):
        return RowSchedule(task.model, Transfers.concatenate([]))
    best = grow(conditions, repeaters_of(task), effort)
    if best is not None and has_many_paths(task.network):
        effort.work.finish()
        return RowSchedule(task.model, best[1])
    tables = 3 * task.network.device_count * len(conditions) // 1_000  # bytes, a thousand in a microsecond
    effort.work.add_setup(tables)
    if tables and effort.work.is_exceeded:
        raise NoSchedule(STOPPED)
    problem = swarm_problem(conditions, lambda edges: effort.spend(edges, STOPPED))
    require_for_search(COPY_BYTES * problem.missing_count, f"{problem.missing_count:,} copies of chunks")
    goal = task_bound(task).time if effort.bound is None else effort.bound()
    attempts = _Attempts(problem, effort)
    most = effort.work.spent + TRIAL_WORK * effort.trials
    for number, (rule, stores) in enumerate(_rules(problem, effort)):
        for wide in attempts.widths:
            first = number == 0 and not wide
            used_up = not first and (effort.work.is_used_up or effort.work.spent >= most)
            if effort.stop() or (best is not None and (best[0] <= goal or used_up)):
                break
            planned = attempts.plan_by(rule, wide, stores, None if best is None else best[0])
            if planned is not None and (best is None or planned.end < best[0]):
                best = planned.end, _transfers(problem, planned)
                effort.progress(min(1.0, goal / max(1, best[0])), "swarm")
    if best is None:
        raise _no_schedule(task, effort)
    return RowSchedule(task.model, best[1])


def _work_of_copy(paths: SwitchPaths) -> int:
    """The work of a copy in an attempt, about.

    After a chunk is sent, the receivers are looked at again to which its source has a path, and those that share a link
    with the path; about half of them, since events come together.
    """
    users: dict[int, set[int]] = {}
    for target, links in zip(paths.target, paths.links, strict=True):
        for link in links:
            users.setdefault(link, set()).add(target)
    fed = Counter(paths.source)
    touched = sum(fed[source] for source in paths.source) + sum(
        len(users[link]) for links in paths.links for link in links
    )
    count = max(1, len(paths.links))
    return SEND_WORK + touched * (SERVE_WORK + fed.total() // max(1, len(fed)) // PATHS_LOOKED_AT) // (2 * count)


class _Attempts:
    """The attempts on one problem, in plain Python while they are few and small, then compiled.

    widths: whether attempts may use all NPUs as relays, to be tried one after the other.
    """

    def __init__(self, problem: SwarmProblem, effort: Effort) -> None:
        wide = with_all_relays(problem)
        self.widths = (False,) if wide is None else (False, True)
        self._problem, self._effort = problem, effort
        self._variants = {(False, False): problem} | ({} if wide is None else {(True, False): wide})
        self._spreads: dict[tuple[bool, bool, bool], Spread] = {}
        self._can_be_compiled = Spread.can_be_compiled(problem)
        relayed = 0 if wide is None else int(wide.welcome.sum())
        each = _work_of_copy(problem.paths) if self._can_be_compiled else 0
        self._large = {
            with_relays
            for with_relays in self.widths
            if (problem.missing_count + with_relays * relayed) * each >= PLAIN_WORK
        }

    def plan_by(self, rule: SpreadRule, wide: bool, stores: bool, end: int | None) -> PathTransfers | None:
        """A schedule by a rule; None if it would be no better than the best so far. end: when that ends, picoseconds.

        stores: plan for the link model `store`, then move the transfers earlier.
        """
        most = None if end is None else end + end // NEAR if stores else end - 1
        if (wide, stores) not in self._variants:
            self._variants[wide, stores] = as_stored(self._variants[wide, False])
        planned = self._run(rule, most, (wide, stores))
        if planned is None:
            return None
        no_relays = not wide and self._problem.missing_count == len(self._problem.conditions.wanting)
        kept = planned if no_relays else prune(self._problem, planned)
        return moved_earlier(self._problem, kept) if stores else kept

    def _run(self, rule: SpreadRule, most: int | None, variant: tuple[bool, bool]) -> PathTransfers | None:
        work = self._effort.work
        is_long = work.compiles or variant[0] in self._large or work.spent - work.setup >= PLAIN_WORK
        compile_it = self._can_be_compiled and is_long
        key, times = (*variant, compile_it), COMPILED_TIMES if compile_it else 1
        if compile_it:
            work.add_compiler()
        if key not in self._spreads:
            self._spreads[key] = Spread(self._variants[variant], compile_it)
        search = self._spreads[key]
        left = None if work.remainder is None else times * work.remainder
        planned = search.run(rule, most, self._effort.stop, left)
        work.add(search.work // times)
        return planned


def _rules(problem: SwarmProblem, effort: Effort) -> Iterator[tuple[SpreadRule, bool]]:
    """The rules to try, and whether to plan for the link model `store` first, which is seldom better at first; rounds
    after the first break ties at random.
    """
    alike = len(set(problem.paths.slowest)) == 1
    half_ratios = (0,) if alike else (3, 0)
    models = (False, True) if problem.conditions.task.model is LinkModel.PIPELINED else (False,)
    for trial in range(max(effort.trials, RANDOM_TRIALS) + 1):
        for half_ratio in half_ratios:
            for stores in models:
                yield SpreadRule(half_ratio, effort.seed * 1_000_003 + trial if trial else None), stores


STOPPED = Diagnostic("S0201", "swarm was stopped before it had a schedule", hint="give it more time")


def _no_schedule(task: Task, effort: Effort) -> NoSchedule:
    if effort.stop():
        return NoSchedule(STOPPED)
    message = f"swarm finds no schedule through the switches of {task.network.name} that reduce or have small buffers"
    return NoSchedule(Diagnostic("S0308", message, hint="use 'synthesize pccl()', which supports every demand"))


def _transfers(problem: SwarmProblem, planned: PathTransfers) -> Transfers:
    """The transfers on the links of the paths."""
    paths, conditions = problem.paths, problem.conditions
    chunks: list[int] = []
    links: list[int] = []
    starts: list[int] = []
    column: list[int] = conditions.column.tolist()
    for row, path, start in zip(planned.row, planned.path, planned.start, strict=True):
        offsets = paths.start[column[row]][path]
        chunks += [row] * len(offsets)
        links += paths.links[path]
        starts += [start + offset for offset in offsets]
    return Transfers.of(conditions.chunk[np.array(chunks)], np.array(links), np.array(starts, np.int64))
