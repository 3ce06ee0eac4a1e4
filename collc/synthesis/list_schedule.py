"""List schedules of transfers that wait for one another, improved by scheduling forwards and backwards in turn.

On each link the most urgent task goes first. A task is the more urgent, the earlier it starts in a schedule that is
made backwards from the end. In the schedule made backwards, the task that ends last in the previous schedule goes first
(forward-backward improvement, as for projects with limited resources: Li and Willis, "An iterative scheduling technique
for resource-constrained project scheduling", EJOR 1992).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from collc.kernels.compiled import BATCH, is_long, numbers, runs_compiled, version_of, word_shape, zeros
from collc.kernels.overlapped_lists import ListProgress, TaskTable, UrgencyOrder, list_schedule
from collc.synthesis.task import COMPILED_TIMES, Effort
from collc.synthesis.timeline import Timeline, interval_table
from collc.ten.arrays import Int32Array, Int64Array

TURNS = 4
"""Schedules backwards and forwards again, at most."""

ALL_TURNS = 1 + 2 * TURNS
"""Schedules in all, with the first one."""

LONG = 1_000_000
"""Tasks from which there is one such turn only."""

TASK_WORK = 3
"""Work of a task in a schedule, as WorkMeter counts it in plain Python; about that of growing a tree to it, too."""


@dataclass(frozen=True, eq=False)
class Tasks:
    """n transfers that wait for one another.

    link: int32[n], -1 for a task that takes no time and no link. busy, total: int64[n], picoseconds that the link is
    busy, and until the chunk has arrived. before, after: int32[edges]; `after` waits for `before`. links: how many the
    network has.
    """

    link: Int32Array
    busy: Int64Array
    total: Int64Array
    before: Int32Array
    after: Int32Array
    links: int

    def __len__(self) -> int:
        return len(self.link)

    def reverse(self) -> Tasks:
        """The tasks with time reversed."""
        return replace(self, before=self.after, after=self.before)


@dataclass(frozen=True, eq=False)
class _OneWay:
    """The tasks in one direction of time, as the kernel takes them.

    waits: int32[n], for how many others each task waits. compile_it: whether the kernel is compiled.
    """

    tasks: Tasks
    table: TaskTable
    early: Int64Array
    waits: Int32Array
    compile_it: bool

    @staticmethod
    def of(tasks: Tasks, early: Int64Array, late: Int64Array, compile_it: bool) -> _OneWay:
        """early, late: int64[n], see TaskTable."""
        offsets = np.zeros(len(tasks) + 1, np.int64)
        np.cumsum(np.bincount(tasks.before, minlength=len(tasks)), out=offsets[1:])
        followers = tasks.after[np.argsort(tasks.before, kind="stable")]
        waits = np.bincount(tasks.after, minlength=len(tasks)).astype(np.int32)
        columns = (tasks.link, tasks.busy, early, late, offsets, followers)
        table = TaskTable(*(numbers(column, compile_it) for column in columns))
        return _OneWay(tasks, table, early, waits, compile_it)


def best_starts(
    tasks: Tasks, reserved: dict[int, Timeline], effort: Effort, turns: int = TURNS
) -> tuple[int, Int64Array] | None:
    """(picoseconds until all chunks have arrived, int64[n], start of each task), or None if stopped before that.

    The first schedule serves tasks in the order of their numbers. turns: schedules backwards and forwards again,
    at most; at most one of many tasks. effort: counts the work, and may stop it.
    """
    work = TASK_WORK * len(tasks)
    compile_it = runs_compiled(list_schedule, ALL_TURNS * work)
    if is_long(ALL_TURNS * work):
        effort.work.add_compiler()
        work //= COMPILED_TIMES
    loads = np.zeros(tasks.links + 1, np.int64)  # the last is that of tasks without a link
    np.add.at(loads, tasks.link, tasks.busy)
    least = int(loads.max())
    forward = _OneWay.of(tasks, np.zeros_like(tasks.total), tasks.total, compile_it)
    backward = _OneWay.of(tasks.reverse(), tasks.total - tasks.busy, tasks.busy, compile_it)
    rank = np.arange(len(tasks), dtype=np.int32)
    best: tuple[int, Int64Array] | None = None
    for _ in range(1 + (turns if len(tasks) < LONG else min(turns, 1))):
        effort.work.add(work)
        start = _starts(forward, rank, reserved, effort)
        if start is None:
            break
        end = int((start + tasks.total).max(initial=0))
        if best is not None and end >= best[0]:
            break
        best = end, start
        if end <= least or not turns or effort.stop():
            break
        effort.work.add(work)
        mirrored = _starts(backward, _ranks_by(-(start + tasks.total)), {}, effort)
        if mirrored is None:
            break
        whole = int((mirrored + tasks.busy).max(initial=0))
        start = whole - mirrored - tasks.busy
        if not reserved and whole < best[0]:
            best = whole, start
        rank = _ranks_by(start)
    return best


def _ranks_by(key: Int64Array) -> Int32Array:
    """int32[n]: the position of each in ascending order of key."""
    rank = np.empty(len(key), np.int32)
    rank[np.argsort(key, kind="stable")] = np.arange(len(key), dtype=np.int32)
    return rank


def _starts(side: _OneWay, rank: Int32Array, reserved: dict[int, Timeline], effort: Effort) -> Int64Array | None:
    """int64[n]: when each task enters its link, the one of lowest rank first; None if stopped."""
    run = version_of(list_schedule, side.compile_it)
    order, words = _order(side.tasks, rank, side.compile_it)
    progress = _progress(side, words, order.first_word, reserved)
    more = True
    while more:
        if effort.stop():
            return None
        more = run(side.table, order, progress, progress.counters[1] + BATCH)
    return np.asarray(progress.start, np.int64)


def _order(tasks: Tasks, rank: Int32Array, compile_it: bool) -> tuple[UrgencyOrder, int]:
    """The order of the tasks of each link by rank, and how many words the sets of ready positions have in all."""
    linked = np.flatnonzero(tasks.link >= 0)
    linked = linked[np.lexsort((rank[linked], tasks.link[linked]))]
    count = np.bincount(tasks.link[linked], minlength=tasks.links)
    first = np.cumsum(count) - count
    position = np.zeros(len(tasks), np.int32)
    position[linked] = np.arange(len(linked)) - first[tasks.link[linked]]
    _, shift, mask = word_shape(int(count.max(initial=0)), compile_it)
    words = (count + mask) >> shift
    order = UrgencyOrder(
        position=numbers(position, compile_it),
        tasks=numbers(linked, compile_it),
        first=numbers(first, compile_it),
        first_word=numbers(np.cumsum(words) - words, compile_it),
        shift=shift,
        mask=mask,
    )
    return order, int(words.sum())


def _progress(side: _OneWay, words: int, first_word: Sequence[int], reserved: dict[int, Timeline]) -> ListProgress:
    """The begin of a list schedule: the tasks that wait for nothing are ready after their `early`."""
    n, links, large = len(side.tasks), side.tasks.links, side.compile_it
    first, starts, ends = interval_table(reserved, range(links))
    times, events = np.zeros((2, 2 * n + links), np.int64)
    ready = np.flatnonzero(side.waits == 0)
    ready = ready[np.argsort(side.early[ready], kind="stable")]
    times[: len(ready)], events[: len(ready)] = side.early[ready], n + ready

    return ListProgress(
        waits=numbers(side.waits.copy(), large),
        ready=zeros(words, large),
        lowest=numbers(np.array(first_word, np.int64), large),
        queued=zeros(links, large),
        free=zeros(links, large),
        intervals=numbers(np.stack([first[:-1], first[1:]], axis=1).ravel(), large),
        starts=numbers(starts, large),
        ends=numbers(ends, large),
        times=numbers(times, large),
        numbers=numbers(events, large),
        counters=numbers(np.array([len(ready), 0]), large),
        touched=zeros(links, large),
        marked=zeros(links, large),
        start=zeros(n, large),
    )
