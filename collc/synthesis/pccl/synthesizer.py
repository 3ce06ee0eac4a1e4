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
from collc.kernels.compiled import LOAD_TIME, MOST_PLAIN, STEP_TIME, runs_compiled
from collc.kernels.pccl_times import WORK, plan_by_times
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import Conditions, conditions_of, equal_transfers
from collc.synthesis.pccl.planning_order import PlanningOrder, RaisedOrders, farthest_first, nearest_targets_first
from collc.synthesis.pccl.search import PathSearch
from collc.synthesis.task import COMPILED_TIMES, Effort, Task, WorkMeter
from collc.ten.schedule import LinkModel, RowSchedule, Schedule, Transfers

Stop = Callable[[], bool]

HOP = 2 * STEP_TIME
"""Microseconds of plain Python, about, for a hop to a target: links to minimal paths are few."""

NEARBY = 2
"""Hops up to which a target is reached over non-minimal paths if that is restricted to near targets."""

FEW_HOPS, TRIALS_OF_FEW = 2_000, 8
"""Hops up to which at least TRIALS_OF_FEW trials are made, since they take little time; for more, a schedule 2 % above
the bound ends a single trial.
"""

MANY_HOPS = 300_000
"""Hops from which a trial makes one attempt only, in a planning order that is rotated if there are switches."""

RAISED_CHAINS = 2
"""How many of the best first trials the other trials improve."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One run of a search.

    hops: hops up to which a target is reached over non-minimal paths. compile_it: whether plain Python is used up.
    chain: gives the order in place of `order`.
    """

    name: str
    order: PlanningOrder
    search: PathSearch
    hops: int
    compile_it: bool
    chain: RaisedOrders | None = None


@dataclass(frozen=True, slots=True)
class _Planned:
    """The schedule of an attempt, None if it was given up, its time in picoseconds, and its work."""

    attempt: _Attempt
    schedule: Schedule | None
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
    if _plain_work(conditions, 0) > MOST_PLAIN:
        effort.work.add_compiler()
    into, wanted = (
        np.bincount(devices, minlength=task.network.device_count)
        for devices in (task.network.target, conditions.wanting)
    )
    busiest = int((wanted // np.maximum(1, into)).max())  # all links have room for as many transfers
    tables = (len(conditions.targets) + busiest) * task.network.link_count // COMPILED_TIMES
    if effort.work.remainder is not None and tables > effort.work.remainder:  # a turn does not even begin
        effort.work.add_setup(tables)
    if effort.work.is_exceeded:
        raise NoSchedule(STOPPED)
    goal = task_bound(task).time if effort.bound is None else effort.bound()
    portfolio = _Portfolio(conditions, effort)
    slack = 0 if portfolio.trials > 1 else goal // 50
    best: _Planned | None = None
    for planned in _planned_trials(portfolio, effort):
        if best is None or planned.time < best.time:
            best = planned
            effort.progress(min(1.0, goal / max(1, best.time)), f"pccl {planned.attempt.name}")
        if best.time <= goal + slack or effort.work.is_used_up:
            break
    else:
        effort.work.finish()
    if best is None or best.schedule is None:
        raise NoSchedule(STOPPED)
    return best.schedule


STOPPED = Diagnostic("S0201", "stopped before pccl had found a schedule", hint="give it more time")


def _planned_trials(portfolio: _Portfolio, effort: Effort) -> Iterator[_Planned]:
    """All trials: the first ones in random orders, the others in orders that are raised from the best of these."""
    best: list[_Planned] = []
    for planned in _run(portfolio, portfolio.fresh_attempts(), effort, effort.threads):
        if portfolio.trials > 1:
            best = sorted([*best, planned], key=lambda other: other.time)[:RAISED_CHAINS]
        yield planned
    count = portfolio.size * (portfolio.trials - portfolio.fresh)
    yield from _run(portfolio, portfolio.raised_attempts(best, count), effort, min(effort.threads, len(best)))


def _run(portfolio: _Portfolio, attempts: Iterator[_Attempt], effort: Effort, threads: int) -> Iterator[_Planned]:
    """What the attempts find, in their order, until asked to stop or the most work is done.

    Counts their work when their turn comes, however many run ahead, so that it does not depend on `threads`.
    """
    meter = effort.work
    for planned in _run_all(portfolio, attempts, effort, threads):
        if planned.attempt.compile_it:
            meter.add_compiler()
        left = meter.remainder
        meter.add(planned.work if left is None else min(planned.work, left))
        if planned.schedule is None or meter.is_exceeded:
            return
        yield planned


def _run_all(portfolio: _Portfolio, attempts: Iterator[_Attempt], effort: Effort, threads: int) -> Iterator[_Planned]:
    """What the attempts find, in their order, until asked to stop.

    The first attempt runs alone, since its schedule often is good enough; then up to `threads` run at once.
    """
    enough = Event()

    def stop() -> bool:
        return enough.is_set() or effort.stop()

    if threads <= 1:
        for attempt in attempts:
            if stop():
                return
            yield portfolio.plan(attempt, stop, _work_left(attempt, effort.work))
        return
    with ThreadPoolExecutor(threads) as pool:
        running: deque[Future[_Planned]] = deque()
        width = 1
        try:
            while True:
                for attempt in islice(attempts, width - len(running)):
                    running.append(pool.submit(portfolio.plan, attempt, stop, _work_left(attempt, effort.work)))
                if not running or stop():
                    return
                yield running.popleft().result()
                width = threads
        finally:
            enough.set()


def _work_left(attempt: _Attempt, meter: WorkMeter) -> int | None:
    """The most work that an attempt may take, after the compiler is loaded if it needs that; None: any amount."""
    loads = attempt.compile_it and not meter.compiles
    return None if meter.remainder is None else meter.remainder - loads * LOAD_TIME


class _Portfolio:
    """The attempts of all trials, in plain Python until that is used up; compiled code finds the same.

    trials, fresh: how many trials, and how many of them use random orders. size: attempts of a trial.
    """

    def __init__(self, conditions: Conditions, effort: Effort) -> None:
        columns: list[int] = np.flatnonzero(np.bincount(conditions.column)).tolist()
        to = {column: conditions.times_to(column) for column in columns}
        self._conditions = conditions
        self._distance = np.zeros(len(conditions), np.int64)
        for column in columns:
            self._distance = np.where(conditions.column == column, conditions.farthest(to[column]), self._distance)
        hops = int(self._distance.sum()) // int(conditions.clock.total.max())
        self.trials = effort.trials if hops > FEW_HOPS else max(effort.trials, TRIALS_OF_FEW)
        self.fresh = max(1, self.trials // 2)
        wanting = nearest_targets_first(conditions, to)
        self._searches = [PathSearch.of(conditions, wanting, to, each) for each in _in_steps(conditions, hops)]
        self._work, self._plain_work = _plain_work(conditions, hops), MOST_PLAIN
        self._rotations, self._limits = _rotations(conditions, hops), _limits(conditions, hops, self.trials)
        self.size = len(self._searches) * len(self._rotations) * len(self._limits)
        self._rng = np.random.default_rng(effort.seed)

    def fresh_attempts(self) -> Iterator[_Attempt]:
        """The attempts of the first trials, the most promising first."""
        for _, rotated in product(range(self.fresh), self._rotations):
            order = farthest_first(self._conditions, self._distance, self._rng, rotated)
            planning = PlanningOrder(order, self._rng.integers(0, 1 << 62, len(self._conditions)))
            for (limit, hops), search in product(self._limits, self._searches):
                name = f"{'rotated' if rotated else 'random'} order, {limit}, {'steps' if search.step else 'times'}"
                yield _Attempt(name, planning, search, hops, self._compiles_next())

    def raised_attempts(self, planned: list[_Planned], count: int) -> Iterator[_Attempt]:
        """Yields `count` attempts that refine the given ones round-robin.

        At most one refinement of each runs at a time.
        """
        firsts = [(first.attempt, first.schedule) for first in planned if first.schedule is not None]
        chains = [RaisedOrders(self._conditions, self._distance, attempt.order, made) for attempt, made in firsts]
        for number in range(count if planned else 0):
            chain, (attempt, _) = chains[number % len(planned)], firsts[number % len(planned)]
            name, compile_it = f"{attempt.name}, better order", self._compiles_next()
            yield replace(attempt, name=name, compile_it=compile_it, chain=chain)

    def _compiles_next(self) -> bool:
        """Whether too little plain Python is left for one more schedule, which pays its cost."""
        self._plain_work -= self._work
        return self._plain_work < 0

    def plan(self, attempt: _Attempt, stop: Stop, left: int | None) -> _Planned:
        """What an attempt finds, until asked to stop. left: the most work that it may take; None: any amount."""
        chain, compile_it = attempt.chain, attempt.compile_it
        if left is not None and left <= 0:
            return _Planned(attempt, None, 0, 0)
        order = attempt.order if chain is None else chain.next()
        times = COMPILED_TIMES if compile_it else 1
        schedule, work = attempt.search.schedule(
            attempt.hops,
            order,
            stop,
            compile_it or runs_compiled(plan_by_times, 0),
            UNREACHABLE // WORK if left is None else left * times,
        )
        if schedule is None:
            return _Planned(attempt, None, 0, work // times)
        if chain is not None:
            chain.note_schedule(schedule)
        time = schedule.collective_time(self._conditions.task.network, self._conditions.task.demand)
        return _Planned(attempt, schedule, time, work // times)


def _plain_work(conditions: Conditions, hops: int) -> int:
    """Microseconds that plain Python takes for one schedule. hops: of all chunks, to the farthest target of each.

    If chunks have several targets, searches begin at all who have the chunk so far, and look at the links of these.
    """
    if conditions.one_target_each:
        return HOP * hops
    network = conditions.task.network
    sizes = np.diff(conditions.wanting_offsets).astype(np.float64)
    hops = (2 if network.has_switches else 1) * int(sizes.sum())
    links = np.minimum(sizes / 2 * network.link_count / network.device_count, network.link_count)
    return HOP * hops + int((sizes * links).sum()) // WORK


def _rotations(conditions: Conditions, hops: int) -> tuple[bool, ...]:
    """Whether rotated, for each planning order of a trial."""
    if not conditions.one_target_each:
        return (False,)
    if hops < MANY_HOPS:
        return (False, True)
    return (conditions.task.network.has_switches,)


def _limits(conditions: Conditions, hops: int, trials: int) -> list[tuple[str, int]]:
    """For each attempt of a trial, how many hops away a target may be to be reached over non-minimal paths; with names.

    With switches, the search over minimal paths is first: a non-minimal path over a switch occupies links that others
    need.
    """
    network = conditions.task.network
    near, none, always = ("any hop nearby", NEARBY), ("nearer hops", 0), ("any hop", network.device_count)
    limits = [none, near, always] if network.has_switches else [near, always, none]
    few = hops >= MANY_HOPS and (trials == 1 or _switches_matter(conditions))
    return limits[:1] if few else limits


def _switches_matter(conditions: Conditions) -> bool:
    """Whether a switch can refuse a chunk: because its buffer is full, or because it sends the chunk already."""
    network = conditions.task.network
    used = np.isin(np.arange(network.npu_count, network.device_count), network.target)
    limited = bool((network.buffers[used] >= 0).any())
    multicast = bool(network.multicast[used].all()) and not conditions.task.relays
    return bool(used.any()) and (limited or not (conditions.one_target_each or multicast))


def _in_steps(conditions: Conditions, hops: int) -> list[bool]:
    """Whether searches count in steps: if all transfers take equal time. Of few hops over pipelined links one does and
    one does not, if each chunk has one holder and one target, so that a schedule in steps can be retimed; of many hops,
    that would take up to three times as long as one in picoseconds.
    """
    task = conditions.task
    starts_at_once = not conditions.release.any() and (task.reserved is None or not len(task.reserved))
    if not starts_at_once or _switches_matter(conditions) or not equal_transfers(conditions):
        return [False]
    if task.model is LinkModel.STORE:
        return [True]
    is_direct = conditions.one_target_each and len(conditions.holders) == len(conditions)
    return [True, False] if is_direct and hops < MANY_HOPS else [False]
