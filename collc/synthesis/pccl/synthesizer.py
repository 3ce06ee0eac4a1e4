"""PCCL: earliest-arrival pathfinding per condition over the TEN (Won et al., "PCCL: Process-Group-aware ...").

Conditions are planned one after another, the farthest first, in random order among equals; each takes
the path of earliest arrival that the links taken so far leave, by A* guided by the distance on empty
links. A chunk with several who want it grows a tree from all who have it so far. Both "only hops that
come nearer" and "any hop" are tried.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from threading import Event

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.graph.distances import UNREACHABLE
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import Conditions, alike, alike_pipelined, conditions_of
from collc.synthesis.pccl import steps as pccl_steps
from collc.synthesis.pccl import times as pccl_times
from collc.synthesis.pccl.blame import Chain
from collc.synthesis.pccl.rows import Rows, in_order
from collc.synthesis.pccl.steps import NEVER, StepProblem
from collc.synthesis.pccl.times import TimesProblem
from collc.synthesis.task import Effort, Task
from collc.ten.arrays import Int64Array
from collc.ten.schedule import RowSchedule, Schedule, StepSchedule, Transfers

Stop = Callable[[], bool]
Way = Callable[[int, Rows, Stop], Schedule | None]
"""A search: hops up to which a target is reached by any hops, rows in their order, and whether to stop."""

PLAIN_WORK = 200_000
"""Hops by steps up to which plain Python is used before the compiled search is worth loading."""

TIMES_WORK = 4
"""What a hop in exact time costs plain Python, in hops by steps."""

BOUND_WORK = 300_000
"""Conditions up to which the lower bound is worked out to know when to stop."""

MANY, LARGE = 2_000, 20_000
"""Conditions from which 2 % or 1 % above the bound is good enough, unless more trials are asked for."""

NEARBY = 2
"""Hops up to which a target is reached by any hops, where farther ones are by hops that come nearer."""

PLENTY = 100_000
"""Hops from which a trial takes only the order that suits: rotated where there are switches, else random."""

ENOUGH = 1_000_000
"""Hops from which a second attempt is made only where asked for by `trials`."""

TINY, TINY_TRIALS = 2_000, 8
"""Hops up to which at least so many trials are made, since they cost next to nothing."""


FRESH, CHAINS = 4, 2
"""Trials at most that take orders of their own; of their searches, how many of the best the others go on from."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One search: what it is called, its rows, and the search itself, which gives None where asked to stop."""

    name: str
    rows: Rows
    search: Callable[[Rows, Stop], Schedule | None]

    def plan(self, stop: Stop) -> Schedule | None:
        """The schedule of its rows."""
        return self.search(self.rows, stop)


@dataclass(frozen=True, slots=True)
class _Found:
    """An attempt, and what came of it."""

    attempt: _Attempt
    schedule: Schedule
    time: int


def pccl(task: Task, effort: Effort, bound: int | None = None) -> Schedule:
    """A schedule of copies by earliest-arrival search; networks may have switches.

    bound: picoseconds at which to be content; None: the lower bound of the task.
    Raises SourceError where a postcondition cannot be reached, NoSchedule where `effort.stop` asks to
    stop before any schedule is there.
    """
    conditions = conditions_of(task)
    if not len(conditions):
        return RowSchedule(task.model, Transfers.joined([]))
    goal = bound if bound is not None else task_bound(task).time if len(conditions) <= BOUND_WORK else 0
    content = goal * _content(len(conditions), effort) // 100
    best: _Found | None = None
    for found in _searched(_Plan(conditions, effort), effort):
        if best is None or found.time < best.time:
            best = found
            effort.progress(min(1.0, goal / max(1, best.time)), f"pccl {found.attempt.name}")
        if best.time <= content:
            break
    if best is None:
        raise NoSchedule(Diagnostic("S0201", "stopped before pccl had found a schedule", hint="give it more time"))
    return best.schedule


def _searched(plan: _Plan, effort: Effort) -> Iterator[_Found]:
    """What all trials find: the first try every way, the further ones better orders for the ways that were best."""
    task = plan.conditions.task
    first: list[_Found] = []
    for attempt, schedule in _planned(plan.attempts(), effort, effort.threads):
        found = _Found(attempt, schedule, _time(schedule, task))
        if plan.trials > 1:
            first = sorted([*first, found], key=lambda other: other.time)[:CHAINS]
        yield found
    count = plan.size * (plan.trials - plan.fresh)
    for attempt, schedule in _planned(plan.improved(first, count), effort, min(effort.threads, len(first))):
        yield _Found(attempt, schedule, _time(schedule, task))


def _content(conditions: int, effort: Effort) -> int:
    """Percent of the bound that is good enough."""
    if conditions < MANY or effort.trials > 1:
        return 100
    return 102 if conditions < LARGE else 101


def _planned(attempts: Iterator[_Attempt], effort: Effort, threads: int) -> Iterator[tuple[_Attempt, Schedule]]:
    """The schedules of the attempts in their order, until asked to stop.

    The first is planned alone, since it often is enough; then up to so many at once.
    """
    if threads <= 1:
        for attempt in attempts:
            schedule = None if effort.stop() else attempt.plan(effort.stop)
            if schedule is None:
                return
            yield attempt, schedule
        return
    enough = Event()

    def stop() -> bool:
        return enough.is_set() or effort.stop()

    with ThreadPoolExecutor(threads) as pool:
        running: deque[tuple[_Attempt, Future[Schedule | None]]] = deque()
        width = 1
        try:
            while True:
                for attempt in islice(attempts, width - len(running)):
                    running.append((attempt, pool.submit(attempt.plan, stop)))
                if not running or stop():
                    return
                attempt, future = running.popleft()
                schedule = future.result()
                if schedule is None:
                    return
                width = threads
                yield attempt, schedule
        finally:
            enough.set()


def _time(schedule: Schedule, task: Task) -> int:
    if isinstance(schedule, StepSchedule):
        return len(schedule.chunk) * schedule.step
    return schedule.collective_time(task.network, task.demand)


class _Plan:
    """What is tried. fresh, trials: how many with orders of their own, and altogether; size: attempts in each."""

    def __init__(self, conditions: Conditions, effort: Effort) -> None:
        columns: list[int] = np.flatnonzero(np.bincount(conditions.column)).tolist()
        to = {column: conditions.times_to(column) for column in columns}
        self.conditions = conditions
        self._far = np.zeros(len(conditions), np.int64)
        for column in columns:
            self._far = np.where(conditions.column == column, conditions.far(to[column]), self._far)
        hops = int(self._far.sum()) // int(conditions.clock.total.max())
        self.trials = effort.trials if hops > TINY else max(effort.trials, TINY_TRIALS)
        self.fresh = max(1, min(FRESH, self.trials // 2))
        self._ways = _ways(conditions, to, hops)
        self._orders, self._detours = _orders(conditions, hops), _detours(conditions, hops, self.trials)
        self.size = len(self._ways) * len(self._orders) * len(self._detours)
        self._rng = np.random.default_rng(effort.seed)

    def attempts(self) -> Iterator[_Attempt]:
        """The searches of the first trials, the most promising first."""
        c = self.conditions
        for _, rotated in product(range(self.fresh), self._orders):
            order = in_order(c, self._far, self._rng, rotated)
            salt = self._rng.integers(0, 1 << 62, len(c))
            rows = Rows(order, salt, c.holder_offsets, c.holders, c.wanting_offsets, c.wanting)
            for words, detour in self._detours:
                for name, way in self._ways:
                    title = f"{'rotated' if rotated else 'random'} order, {words}, {name}"
                    yield _Attempt(title, rows, partial(way, detour))

    def improved(self, found: list[_Found], count: int) -> Iterator[_Attempt]:
        """So many searches that go on from what was found, in turn; at most one of each may be under way at once."""
        chains = [Chain(self.conditions, self._far, one.attempt.rows, one.schedule) for one in found]
        for number in range(count if found else 0):
            chain, one = chains[number % len(found)], found[number % len(found)]
            yield replace(
                one.attempt, name=f"{one.attempt.name}, better order", search=chain.searched(one.attempt.search)
            )


def _ways(conditions: Conditions, to: dict[int, Int64Array], hops: int) -> list[tuple[str, Way]]:
    """By steps where all transfers are alike, else by times; where links are pipelined, both."""
    on_grid = len(to) == 1 and not _switches_matter(conditions) and _starts_at_once(conditions)
    if on_grid and alike(conditions):
        return [("steps", _Steps(conditions, to, hops))]
    found: list[tuple[str, Way]] = []
    if on_grid and conditions.single and alike_pipelined(conditions) and len(conditions.holders) == len(conditions):
        found.append(("steps retimed", _Steps(conditions, to, hops, retimed=True)))
    if not found or hops < ENOUGH:
        found.append(("times", _Times(conditions, to, hops)))
    return found


def _orders(conditions: Conditions, hops: int) -> tuple[bool, ...]:
    """Whether rotated, for each order that a trial takes."""
    if not conditions.single:
        return (False,)
    return (False, True) if hops < PLENTY else (conditions.task.network.has_switches and hops < ENOUGH,)


def _detours(conditions: Conditions, hops: int, trials: int) -> list[tuple[str, int]]:
    """How a trial goes about hops that come no nearer, in words, and up to how many hops from a target it takes them.

    Links beyond a switch are another's way to it, so with switches, nearer hops are tried first.
    """
    near, none, always = ("any hop nearby", NEARBY), ("nearer hops", 0), ("any hop", NEVER)
    found = [none, near, always] if conditions.task.network.has_switches else [near, always, none]
    few = (hops >= ENOUGH and trials == 1) or (hops >= PLENTY and _switches_matter(conditions))
    return found[:1] if few else found


def _switches_matter(conditions: Conditions) -> bool:
    """Whether a switch can refuse a chunk: for want of room, or since it sends it already."""
    network = conditions.task.network
    used = np.isin(np.arange(network.npu_count, network.device_count), network.target)
    limited = bool((network.buffers[used] >= 0).any())
    multicast = bool(network.multicast[used].all()) and not conditions.task.relays
    return bool(used.any()) and (limited or not (conditions.single or multicast))


def _starts_at_once(conditions: Conditions) -> bool:
    """Whether all chunks are there at the start, and nothing is reserved."""
    task = conditions.task
    return not conditions.release.any() and (task.reserved is None or not len(task.reserved))


def _compiled(plain: bool, kernel: str) -> bool:
    return not plain or f"collc.kernels.{kernel}" in sys.modules


class _Work:
    """What plain Python may still do; both searches find the same, so that it is only a question of time."""

    def __init__(self, cost: int) -> None:
        """cost: of each search."""
        self._cost, self._left = cost, PLAIN_WORK

    def is_plain(self) -> bool:
        """Whether there is enough left for one more search, which it takes."""
        self._left -= self._cost
        return self._left >= 0


class _Steps:
    """A way by steps, where all transfers are alike; the result is a grid, or, retimed, each as soon as it can go."""

    def __init__(self, conditions: Conditions, to: dict[int, Int64Array], hops: int, retimed: bool = False) -> None:
        self._conditions, self._work, self._retimed = conditions, _Work(hops), retimed
        (times,) = to.values()
        self._problem = StepProblem.of(conditions, times)

    def __call__(self, detour: int, rows: Rows, stop: Stop) -> Schedule | None:
        compiled = _compiled(self._work.is_plain(), "pccl_steps")
        search = pccl_steps.search_compiled if compiled else pccl_steps.search_plain
        grid = search(self._problem, rows, detour, stop)
        if grid is None:
            return None
        clock, network, model = self._conditions.clock, self._conditions.task.network, self._conditions.task.model
        kind, column = int(network.kind[0]), int(self._conditions.column[0])
        busy, total = int(clock.busy[kind, column]), int(clock.total[kind, column])
        if self._retimed:
            return RowSchedule(model, Transfers.of(*pccl_steps.retimed(grid, busy, total)))
        return StepSchedule(model, grid, total)


class _Times:
    """A way in exact time, for all else."""

    def __init__(self, conditions: Conditions, to: dict[int, Int64Array], hops: int) -> None:
        self._work, self._model = _Work(hops * TIMES_WORK), conditions.task.model
        self._problem = TimesProblem.of(conditions, to)
        self._hop = self._problem.total.max(axis=1)

    def __call__(self, detour: int, rows: Rows, stop: Stop) -> Schedule | None:
        compiled = _compiled(self._work.is_plain(), "pccl_times")
        search = pccl_times.search_compiled if compiled else pccl_times.search_plain
        near = self._hop * detour if detour < NEVER else np.full(len(self._hop), UNREACHABLE)
        found = search(self._problem, rows, near, stop)
        return None if found is None else RowSchedule(self._model, found)
