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
from itertools import islice
from threading import Event

import numpy as np
from numpy.typing import NDArray

from collc.diagnostics import Diagnostic, NoSchedule
from collc.synthesis import pccl_slots, pccl_steps
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import Conditions, alike, alike_pipelined, conditions_of
from collc.synthesis.pccl_slots import DEPTH_BITS, SlotProblem
from collc.synthesis.pccl_times import search_times
from collc.synthesis.routing import FAR
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import RowSchedule, Schedule, StepSchedule, Transfers

Times = NDArray[np.int64]
Stop = Callable[[], bool]

PLAIN_WORK = 60_000
"""Hops of all trials up to which plain Python is faster than loading the compiled search."""

BOUND_WORK = 300_000
"""Conditions up to which the lower bound is worked out to know when to stop."""

LARGE = 20_000
"""Conditions from which 1 % above the bound is good enough, unless more trials are asked for."""

PLENTY = 100_000
"""Hops from which a trial takes only the order that suits: rotated where there are switches, else random."""

ENOUGH = 1_000_000
"""Hops from which a second attempt is made only where asked for by `trials`."""

TINY, TINY_TRIALS = 2_000, 8
"""Hops up to which at least so many trials are made, since they cost next to nothing."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One search: what it is called, and the search itself, which gives None where asked to stop."""

    name: str
    plan: Callable[[Stop], Schedule | None]


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
    content = goal * 101 // 100 if len(conditions) >= LARGE and effort.trials == 1 else goal
    best: tuple[int, Schedule] | None = None
    for name, schedule in _planned(_attempts(conditions, effort), effort):
        time = _time(schedule, task)
        if best is None or time < best[0]:
            best = time, schedule
            effort.progress(min(1.0, goal / max(1, time)), f"pccl {name}")
        if best[0] <= content:
            break
    if best is None:
        raise NoSchedule(Diagnostic("S0201", "stopped before pccl had found a schedule", hint="give it more time"))
    return best[1]


def _planned(attempts: Iterator[_Attempt], effort: Effort) -> Iterator[tuple[str, Schedule]]:
    """The schedules of the attempts in their order, up to `effort.threads` planned at once, until asked to stop."""
    if effort.threads == 1:
        for attempt in attempts:
            schedule = None if effort.stop() else attempt.plan(effort.stop)
            if schedule is None:
                return
            yield attempt.name, schedule
        return
    enough = Event()

    def stop() -> bool:
        return enough.is_set() or effort.stop()

    with ThreadPoolExecutor(effort.threads) as pool:
        running: deque[tuple[str, Future[Schedule | None]]] = deque()
        try:
            while True:
                for attempt in islice(attempts, effort.threads - len(running)):
                    running.append((attempt.name, pool.submit(attempt.plan, stop)))
                if not running or stop():
                    return
                name, future = running.popleft()
                schedule = future.result()
                if schedule is None:
                    return
                yield name, schedule
        finally:
            enough.set()


def _time(schedule: Schedule, task: Task) -> int:
    if isinstance(schedule, StepSchedule):
        return len(schedule.chunk) * schedule.step
    return schedule.collective_time(task.network, task.demand)


def _attempts(conditions: Conditions, effort: Effort) -> Iterator[_Attempt]:
    """Both searches of each trial: by steps where all transfers are alike, by slots where chunks are, else by times."""
    rng = np.random.default_rng(effort.seed)
    columns = np.unique(conditions.column).tolist()
    to = {column: conditions.times_to(column) for column in columns}
    far = np.zeros(len(conditions), np.int64)
    for column in columns:
        far = np.where(conditions.column == column, conditions.far(to[column]), far)
    by_slots = len(columns) == 1 and not _switches_matter(conditions)
    uniform = by_slots and alike(conditions) and _on_grid(conditions)
    hops = int(far.sum()) // int(conditions.clock.total.max())
    problem, unit = _slot_problem(conditions, to[columns[0]], uniform) if by_slots else (None, 0)
    stored = _stored(conditions) if by_slots else None
    trials = effort.trials if hops > TINY else max(effort.trials, TINY_TRIALS)
    plain = hops * trials <= PLAIN_WORK and not _compiled_is_loaded(uniform)
    for trial in range(trials):
        for rotated in _orders(conditions, hops):
            order = _order(conditions, far, rng, rotated)
            salt = rng.integers(0, 1 << 62, len(conditions))
            for nearer in (True, False):
                words = f"{'rotated' if rotated else 'random'} order, {'nearer hops' if nearer else 'any hop'}"
                if problem is not None and (nearer or trial or hops < ENOUGH):
                    search = _Search(conditions, replace(problem, order=order, salt=salt), unit, nearer, hops, plain)
                    plan = search.by_steps if uniform else search.by_slots
                    yield _Attempt(f"{words}, {'steps' if uniform else 'slots'}", plan)
                if stored is not None and (nearer or trial or hops < ENOUGH):
                    again, step = _slot_problem(stored, to[columns[0]], uniform=True)
                    search = _Search(conditions, replace(again, order=order, salt=salt), step, nearer, hops, plain)
                    yield _Attempt(f"{words}, steps retimed", search.by_steps_retimed)
                if not uniform and (problem is None or hops < PLAIN_WORK):
                    yield _Attempt(f"{words}, intervals", _by_times(conditions, to, order, salt, nearer))


def _orders(conditions: Conditions, hops: int) -> tuple[bool, ...]:
    """Whether rotated, for each order that a trial takes."""
    if not conditions.single:
        return (False,)
    if hops < PLENTY:
        return False, True
    network = conditions.task.network
    return (bool((network.target >= network.npu_count).any()) and hops < ENOUGH,)


def _compiled_is_loaded(uniform: bool) -> bool:
    """Whether something before has loaded the compiled search, so that even a small problem need not wait for it."""
    return f"collc.kernels.{'pccl_steps' if uniform else 'pccl_slots'}" in sys.modules


def _order(conditions: Conditions, far: Times, rng: np.random.Generator, rotated: bool) -> NDArray[np.int32]:
    """The farthest first; among equals at random or, rotated, by how far the target's number is ahead of the source's.

    Where all sends of one distance are planned together, every NPU sends once and receives once: what
    switches and full connection suit.
    """
    ties = rng.random(len(conditions))
    if not rotated:
        return np.lexsort((ties, -far)).astype(np.int32)
    devices = conditions.task.network.device_count
    rank = np.zeros(devices, np.int64)
    members = np.unique(np.concatenate([conditions.holders, conditions.wanting]))
    rank[members] = np.arange(len(members))
    first = conditions.holders[conditions.holder_offsets[:-1]]
    ahead = (rank[conditions.wanting] - rank[first]) % len(members)
    return np.lexsort((ties, rng.permutation(len(members))[ahead], -far)).astype(np.int32)


def _switches_matter(conditions: Conditions) -> bool:
    """Whether a switch can refuse a chunk: for want of room, or since it sends it already."""
    network = conditions.task.network
    used = np.isin(np.arange(network.npu_count, network.device_count), network.target)
    limited = bool((network.buffers[used] >= 0).any())
    return bool(used.any()) and (limited or not (conditions.single or bool(network.multicast[used].all())))


def _stored(conditions: Conditions) -> Conditions | None:
    """The conditions as if links were busy until arrival, where such a grid can be retimed; else None."""
    if not (conditions.single and alike_pipelined(conditions) and _on_grid(conditions)):
        return None
    if len(conditions.holders) > len(conditions):
        return None
    clock = conditions.clock
    return replace(conditions, clock=replace(clock, busy=clock.total))


def _on_grid(conditions: Conditions) -> bool:
    task = conditions.task
    return not conditions.release.any() and (task.reserved is None or not len(task.reserved))


def _slot_problem(conditions: Conditions, to: Times, uniform: bool) -> tuple[SlotProblem, int]:
    """The problem in units of time that divide all it counts in, and the unit in picoseconds; its order is open."""
    network, clock = conditions.task.network, conditions.clock
    column = int(conditions.column[0])
    slot, total = clock.busy[network.kind, column], clock.total[network.kind, column]
    unit = int(np.gcd.reduce(np.concatenate([slot, total, conditions.release]))) if len(slot) else 1
    to = np.where(to >= FAR, 1 << 40, to // unit)
    farthest = int(to[to < 1 << 40].max(initial=0))
    bits = max(1, (network.device_count - 1).bit_length())
    offsets, links = network.out_links
    taken = (np.empty(0, np.int32), np.empty(0, np.int32)) if uniform else _taken_slots(conditions, slot)
    problem = SlotProblem(
        order=np.empty(0, np.int32),
        salt=np.empty(0, np.int64),
        holder_offsets=conditions.holder_offsets,
        holders=conditions.holders,
        wanting_offsets=conditions.wanting_offsets,
        wanting=conditions.wanting,
        release=conditions.release // unit,
        to=to,
        target_row=conditions.target_row,
        offsets=offsets,
        links=links,
        target=network.target,
        slot=slot // unit,
        total=total // unit,
        taken=taken,
        shift=max(0, farthest.bit_length() - DEPTH_BITS),
        node_bits=bits,
    )
    return problem, unit


def _taken_slots(conditions: Conditions, slot: Times) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The slots that reserved transfers touch, as (link, slot)."""
    reserved = conditions.task.reserved
    links: list[int] = []
    slots: list[int] = []
    if reserved is not None:
        ends = reserved.start + conditions.clock.busy_of(reserved)
        for link, start, end in zip(reserved.link.tolist(), reserved.start.tolist(), ends.tolist(), strict=True):
            touched = range(max(0, start) // int(slot[link]), -(-end // int(slot[link])))
            links += [link] * len(touched)
            slots += touched
    return np.array(links, np.int32), np.array(slots, np.int32)


@dataclass(frozen=True, eq=False)
class _Search:
    """A search by steps or slots. hops: of all conditions together. plain: whether in plain Python."""

    conditions: Conditions
    problem: SlotProblem
    unit: int
    nearer: bool
    hops: int
    plain: bool

    @property
    def words(self) -> int:
        """Slots that each link will need, by 64."""
        return max(2, int(self.hops / max(1, len(self.problem.target)) * 1.1) // 64 + 1)

    def by_steps(self, stop: Stop) -> Schedule | None:
        """A grid, where all transfers are alike."""
        chunk, chunks = self.conditions.chunk, len(self.conditions.task.demand.chunks)
        if self.plain:
            grid = pccl_steps.search_plain(self.problem, chunk, chunks, self.nearer, stop)
        else:
            grid = pccl_steps.search_compiled(self.problem, chunk, chunks, self.words, self.nearer, stop)
        step = int(self.problem.slot[0]) * self.unit
        return None if grid is None else StepSchedule(self.conditions.task.model, grid, step)

    def by_steps_retimed(self, stop: Stop) -> Schedule | None:
        """Rows, where all transfers are alike and links pipelined: the grid, each transfer as soon as it can go."""
        stored = self.by_steps(stop)
        if not isinstance(stored, StepSchedule):
            return None
        clock, network = self.conditions.clock, self.conditions.task.network
        kind, column = int(network.kind[0]), int(self.conditions.column[0])
        rows = pccl_steps.retimed(stored.chunk, int(clock.busy[kind, column]), int(clock.total[kind, column]))
        return RowSchedule(self.conditions.task.model, Transfers.of(*rows))

    def by_slots(self, stop: Stop) -> Schedule | None:
        """Rows, where chunks are alike but not links."""
        if self.plain:
            found = pccl_slots.search_plain(self.problem, self.nearer, stop)
        else:
            found = pccl_slots.search_compiled(self.problem, self.words, self.nearer, stop)
        if found is None:
            return None
        row, link, slot = found
        start = slot * self.problem.slot[link] * self.unit
        return RowSchedule(self.conditions.task.model, Transfers.of(self.conditions.chunk[row], link, start))


def _by_times(
    conditions: Conditions, to: dict[int, Times], order: NDArray[np.int32], salt: Times, nearer: bool
) -> Callable[[Stop], Schedule | None]:
    def plan(stop: Stop) -> Schedule | None:
        found = search_times(conditions, to, order, salt, nearer, stop)
        return None if found is None else RowSchedule(conditions.task.model, found)

    return plan
