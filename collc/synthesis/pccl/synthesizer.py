"""PCCL: earliest-arrival pathfinding per condition over the TEN (Won et al., "PCCL: Process-Group-aware ...").

Conditions are planned one after another, those with the longest distance first, in random order among equals. Each
takes the path of earliest arrival that the reserved intervals of the links allow, found by A* guided by the distance on
empty links. For a chunk that several NPUs want, a tree grows from all NPUs that have the chunk so far. Searches over
minimal paths only, and over any paths, are both tried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice, product
from threading import Event

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.graph.distances import UNREACHABLE
from collc.kernels.compiled import is_compiled
from collc.kernels.pccl_steps import NEVER, plan_by_steps
from collc.kernels.pccl_times import plan_by_times
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import Conditions, conditions_of, equal_pipelined_transfers, equal_transfers
from collc.synthesis.pccl.planning_order import PlanningOrder, RaisedOrders, farthest_first, nearest_targets_first
from collc.synthesis.pccl.step_search import StepSearch, retimed
from collc.synthesis.pccl.time_search import TimeSearch
from collc.synthesis.task import Effort, Task
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.schedule import RowSchedule, Schedule, StepSchedule, Transfers

Stop = Callable[[], bool]

PLAIN_WORK = 600_000
"""Microseconds of plain Python before a kernel is compiled."""

STEP_HOP, TIMES_HOP, TREE_TARGET, TREE_LINK = 3, 12, 12, 1 / 6
"""Microseconds of plain Python, about: for a hop by steps and in exact time, for chunks of one target each; for others,
for each hop to a target, and each link that the searches from all who have the chunk so far look at.
"""

COMPILED_STEPS, COMPILED_TIMES = 15, 6
"""How many times less work compiled code takes, by steps and in exact time."""

BOUND_WORK = 300_000
"""Conditions up to which the lower bound is computed, so that the search can end if a schedule meets it."""

MANY_CONDITIONS, VERY_MANY_CONDITIONS = 2_000, 20_000
"""Conditions from which 2 % or 1 % above the bound is good enough, unless several trials are asked for."""

NEARBY = 2
"""Hops up to which a target is reached over non-minimal paths if that is restricted to near targets."""

FEW_HOPS, TRIALS_OF_FEW = 2_000, 8
"""Hops up to which at least TRIALS_OF_FEW trials are made, since they take little time."""

MANY_HOPS = 100_000
"""Hops from which a trial uses one planning order only: rotated if there are switches, else random."""

VERY_MANY_HOPS = 1_000_000
"""Hops from which a second attempt is made only if `trials` asks for it."""

FRESH_TRIALS, RAISED_CHAINS = 4, 2
"""Trials that use random orders, at most; and how many of the best of these the other trials improve."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A schedule, and the work of finding it."""

    schedule: Schedule
    work: int


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One run of a search.

    limit: hops up to which a target is reached over non-minimal paths. compile_it: whether the plain budget is spent.
    chain: gives the order in place of `order`.
    """

    name: str
    order: PlanningOrder
    search: _Search
    limit: int
    compile_it: bool
    chain: RaisedOrders | None = None

    def plan(self, stop: Stop) -> _Found | None:
        """What is found in its order; None if asked to stop."""
        order = self.order if self.chain is None else self.chain.next()
        found = self.search.run(self.limit, order, stop, self.compile_it)
        if self.chain is not None and found is not None:
            self.chain.note_schedule(found.schedule)
        return found


@dataclass(frozen=True, slots=True)
class _Planned:
    """An attempt with what it found, and the time of that in picoseconds."""

    attempt: _Attempt
    schedule: Schedule
    time: int
    work: int


def pccl(task: Task, effort: Effort) -> Schedule:
    """A schedule of copies by earliest-arrival search; networks may have switches.

    Raises SourceError if a postcondition cannot be reached, NoSchedule if `effort.stop` asks to stop before
    there is any schedule.
    """
    conditions = conditions_of(task)
    if not len(conditions):
        return RowSchedule(task.model, Transfers.concatenate([]))
    goal = effort.bound if effort.bound is not None else task_bound(task).time if len(conditions) <= BOUND_WORK else 0
    good_enough = goal * _good_enough(len(conditions), effort) // 100
    best: _Planned | None = None
    for planned in _attempted(_Portfolio(conditions, effort), effort):
        effort.work.add(planned.work)
        if best is None or planned.time < best.time:
            best = planned
            effort.progress(min(1.0, goal / max(1, best.time)), f"pccl {planned.attempt.name}")
        if best.time <= good_enough or effort.work.is_used_up:
            break
    else:
        effort.work.finish()
    if best is None:
        raise NoSchedule(Diagnostic("S0201", "stopped before pccl had found a schedule", hint="give it more time"))
    return best.schedule


def _attempted(portfolio: _Portfolio, effort: Effort) -> Iterator[_Planned]:
    """All trials: the first ones in random orders, the others in orders that are raised from the best of these."""
    task = portfolio.conditions.task
    best: list[_Planned] = []
    for attempt, found in _run(portfolio.fresh_attempts(), effort, effort.threads):
        planned = _Planned(attempt, found.schedule, _time(found.schedule, task), found.work)
        if portfolio.trials > 1:
            best = sorted([*best, planned], key=lambda other: other.time)[:RAISED_CHAINS]
        yield planned
    count = portfolio.size * (portfolio.trials - portfolio.fresh)
    for attempt, found in _run(portfolio.raised_attempts(best, count), effort, min(effort.threads, len(best))):
        yield _Planned(attempt, found.schedule, _time(found.schedule, task), found.work)


def _good_enough(conditions: int, effort: Effort) -> int:
    """Percent of the bound at which the search ends."""
    if conditions < MANY_CONDITIONS or effort.trials > 1:
        return 100
    return 102 if conditions < VERY_MANY_CONDITIONS else 101


def _run(attempts: Iterator[_Attempt], effort: Effort, threads: int) -> Iterator[tuple[_Attempt, _Found]]:
    """What the attempts find, in their order, until asked to stop.

    The first attempt runs alone, since its schedule often is good enough; then up to `threads` run at once.
    """
    if threads <= 1:
        for attempt in attempts:
            found = None if effort.stop() else attempt.plan(effort.stop)
            if found is None:
                return
            yield attempt, found
        return
    enough = Event()

    def stop() -> bool:
        return enough.is_set() or effort.stop()

    with ThreadPoolExecutor(threads) as pool:
        running: deque[tuple[_Attempt, Future[_Found | None]]] = deque()
        width = 1
        try:
            while True:
                for attempt in islice(attempts, width - len(running)):
                    running.append((attempt, pool.submit(attempt.plan, stop)))
                if not running or stop():
                    return
                attempt, future = running.popleft()
                found = future.result()
                if found is None:
                    return
                width = threads
                yield attempt, found
        finally:
            enough.set()


def _time(schedule: Schedule, task: Task) -> int:
    if isinstance(schedule, StepSchedule):
        return len(schedule.chunk) * schedule.step
    return schedule.collective_time(task.network, task.demand)


class _Portfolio:
    """The attempts of all trials.

    trials, fresh: how many trials, and how many of them use random orders. size: attempts of a trial.
    """

    def __init__(self, conditions: Conditions, effort: Effort) -> None:
        columns: list[int] = np.flatnonzero(np.bincount(conditions.column)).tolist()
        to = {column: conditions.times_to(column) for column in columns}
        self.conditions = conditions
        self._distance = np.zeros(len(conditions), np.int64)
        for column in columns:
            self._distance = np.where(conditions.column == column, conditions.farthest(to[column]), self._distance)
        hops = int(self._distance.sum()) // int(conditions.clock.total.max())
        self.trials = effort.trials if hops > FEW_HOPS else max(effort.trials, TRIALS_OF_FEW)
        self.fresh = max(1, min(FRESH_TRIALS, self.trials // 2))
        self._searches = _searches(conditions, to, hops, _tree_work(conditions))
        self._rotations, self._limits = _rotations(conditions, hops), _limits(conditions, hops, self.trials)
        self.size = len(self._searches) * len(self._rotations) * len(self._limits)
        self._rng = np.random.default_rng(effort.seed)

    def fresh_attempts(self) -> Iterator[_Attempt]:
        """The attempts of the first trials, the most promising first."""
        for _, rotated in product(range(self.fresh), self._rotations):
            order = farthest_first(self.conditions, self._distance, self._rng, rotated)
            planning = PlanningOrder(order, self._rng.integers(0, 1 << 62, len(self.conditions)))
            for limit_name, limit in self._limits:
                for search_name, search in self._searches:
                    name = f"{'rotated' if rotated else 'random'} order, {limit_name}, {search_name}"
                    yield _Attempt(name, planning, search, limit, search.budget.spent_by_one_more())

    def raised_attempts(self, planned: list[_Planned], count: int) -> Iterator[_Attempt]:
        """Yields `count` attempts that refine the given ones round-robin.

        At most one refinement of each runs at a time.
        """
        chains = [RaisedOrders(self.conditions, self._distance, one.attempt.order, one.schedule) for one in planned]
        for number in range(count if planned else 0):
            chain, one = chains[number % len(planned)], planned[number % len(planned)]
            name, compile_it = f"{one.attempt.name}, better order", one.attempt.search.budget.spent_by_one_more()
            yield replace(one.attempt, name=name, compile_it=compile_it, chain=chain)


def _tree_work(conditions: Conditions) -> int:
    """Microseconds that plain Python takes for one schedule of chunks with several targets; 0 if each has one."""
    if conditions.one_target_each:
        return 0
    network = conditions.task.network
    sizes = np.diff(conditions.wanting_offsets).astype(np.float64)
    hops = (2 if network.has_switches else 1) * float(sizes.sum())
    links = np.minimum(sizes / 2 * network.link_count / network.device_count, network.link_count)
    return int(TREE_TARGET * hops + TREE_LINK * float((sizes * links).sum()))


def _searches(
    conditions: Conditions, to: dict[int, Int64Array], hops: int, tree_work: int
) -> list[tuple[str, _Search]]:
    """By steps if all transfers take equal time, else in exact time; if links are pipelined, both.

    hops: of all chunks, to the farthest target of each. tree_work: see `_tree_work`.
    """
    by_steps, by_times = (tree_work or hop * hops for hop in (STEP_HOP, TIMES_HOP))
    wanting = nearest_targets_first(conditions, to)
    in_steps = len(to) == 1 and not _switches_matter(conditions) and _starts_at_once(conditions)
    if in_steps and equal_transfers(conditions):
        return [("steps", _ByStep(conditions, wanting, to, by_steps))]
    found: list[tuple[str, _Search]] = []
    if (
        in_steps
        and conditions.one_target_each
        and equal_pipelined_transfers(conditions)
        and len(conditions.holders) == len(conditions)
    ):
        found.append(("steps retimed", _ByStep(conditions, wanting, to, by_steps, retimed=True)))
    if not found or hops < VERY_MANY_HOPS:
        found.append(("times", _ByTime(conditions, wanting, to, by_times)))
    return found


def _rotations(conditions: Conditions, hops: int) -> tuple[bool, ...]:
    """Whether rotated, for each planning order of a trial."""
    if not conditions.one_target_each:
        return (False,)
    if hops < MANY_HOPS:
        return (False, True)
    return (conditions.task.network.has_switches and hops < VERY_MANY_HOPS,)


def _limits(conditions: Conditions, hops: int, trials: int) -> list[tuple[str, int]]:
    """For each attempt of a trial, how many hops away a target may be to be reached over non-minimal paths; with names.

    With switches, the search over minimal paths is first: a non-minimal path over a switch occupies links that others
    need.
    """
    near, none, always = ("any hop nearby", NEARBY), ("nearer hops", 0), ("any hop", NEVER)
    found = [none, near, always] if conditions.task.network.has_switches else [near, always, none]
    few = (hops >= VERY_MANY_HOPS and trials == 1) or (hops >= MANY_HOPS and _switches_matter(conditions))
    return found[:1] if few else found


def _switches_matter(conditions: Conditions) -> bool:
    """Whether a switch can refuse a chunk: because its buffer is full, or because it sends the chunk already."""
    network = conditions.task.network
    used = np.isin(np.arange(network.npu_count, network.device_count), network.target)
    limited = bool((network.buffers[used] >= 0).any())
    multicast = bool(network.multicast[used].all()) and not conditions.task.relays
    return bool(used.any()) and (limited or not (conditions.one_target_each or multicast))


def _starts_at_once(conditions: Conditions) -> bool:
    """Whether all chunks are at their holders at the start, and nothing is reserved."""
    task = conditions.task
    return not conditions.release.any() and (task.reserved is None or not len(task.reserved))


class _PlainBudget:
    """The work that plain Python may still do. Compiled code finds the same, so this decides only the time."""

    def __init__(self, cost: int) -> None:
        """cost: of each search."""
        self._cost, self._left = cost, PLAIN_WORK

    def spent_by_one_more(self) -> bool:
        """Whether there is too little left for one more search, which pays its cost."""
        self._left -= self._cost
        return self._left < 0


def _is_worth_compiling(budget_is_spent: bool, kernel: Callable[..., object]) -> bool:
    return budget_is_spent or is_compiled(kernel)


class _ByStep:
    """The search by steps; the schedule is a step-by-link table or, retimed, each transfer as early as it can be."""

    def __init__(
        self,
        conditions: Conditions,
        wanting: Int32Array,
        to: dict[int, Int64Array],
        work: int,
        retimed: bool = False,
    ) -> None:
        """work: microseconds that plain Python takes for one schedule."""
        self._conditions, self._retimed = conditions, retimed
        self.budget = _PlainBudget(work)
        (times,) = to.values()
        self._search = StepSearch.of(conditions, wanting, times)

    def run(self, limit: int, order: PlanningOrder, stop: Stop, compile_it: bool) -> _Found | None:
        """The schedule of an order; None if asked to stop."""
        found = self._search.table(limit, order, stop, _is_worth_compiling(compile_it, plan_by_steps))
        if found is None:
            return None
        table, work = found
        clock, network, model = self._conditions.clock, self._conditions.task.network, self._conditions.task.model
        kind, column = int(network.kind[0]), int(self._conditions.column[0])
        busy, total = int(clock.busy[kind, column]), int(clock.total[kind, column])
        if self._retimed:
            schedule = RowSchedule(model, Transfers.of(*retimed(table, busy, total)))
        else:
            schedule = StepSchedule(model, table, total)
        return _Found(schedule, work // COMPILED_STEPS if compile_it else work)


class _ByTime:
    """The search in exact time."""

    def __init__(self, conditions: Conditions, wanting: Int32Array, to: dict[int, Int64Array], work: int) -> None:
        """work: microseconds that plain Python takes for one schedule."""
        self._model = conditions.task.model
        self.budget = _PlainBudget(work)
        self._search = TimeSearch.of(conditions, wanting, to)
        self._hop = self._search.total.max(axis=1)

    def run(self, limit: int, order: PlanningOrder, stop: Stop, compile_it: bool) -> _Found | None:
        """The schedule of an order; None if asked to stop."""
        near = self._hop * limit if limit < NEVER else np.full(len(self._hop), UNREACHABLE)
        found = self._search.transfers(near, order, stop, _is_worth_compiling(compile_it, plan_by_times))
        if found is None:
            return None
        transfers, work = found
        return _Found(RowSchedule(self._model, transfers), work // COMPILED_TIMES if compile_it else work)


_Search = _ByStep | _ByTime
