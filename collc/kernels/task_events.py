"""Tasks that wait for one another, and messages that queue at links, event by event.

Written for plain Python on lists and for Numba on arrays (collc/kernels/compiled.py). A message takes its hops one
after another, all of it at a time; each link carries one message after another, in the order in which they reach it.

Events are (time, order, number, hop). number k, hop 0: task k starts; hop h: it has taken h hops (a local task: it is
done); number -1 - l: link l is free. Events of one time happen in order of `order`, which is the rank of the task
(`ranked`), or counts the events as they are created, as ASTRA-sim does.
"""

from __future__ import annotations

import heapq
from collections import namedtuple
from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

import numpy as np

from collc.kernels.compiled import inline

Events = list[tuple[int, int, int, int]]

START, SENT, DONE = 0, 1, 2
"""Phases of a task that others wait for: it starts, its message has left the sender, it is done."""


TaskTable = namedtuple("TaskTable", "duration hops link busy delay edges followers start_rank hop_rank parallel")
"""n tasks with H hops in all, on L links. Times in one unit, picoseconds or nanoseconds.

duration: [n], of a task without hops. hops: [n + 1], where the hops of each task begin. link, busy, delay: [H],
the link of a hop, how long the message occupies it, and how long it takes to its other end.
parallel: [L], the next of the links among which a message takes the one that is free first, in a circle; the link
itself if it is alone.
edges: [3 n + 1], followers: who waits for phase p of task k, from edges[3 k + p] on.
start_rank, hop_rank: [n], orders of the events of a task if `ranked`, each at least 0; [0] otherwise.
"""


class TaskProgress(NamedTuple):
    """What has happened so far.

    waits: [n], the phases that a task still waits for. ready, asked: [n], the last of those that have happened, SENT
    left out in `asked`; `asked` is later when a task reached its current link. start, end: [n], -1 before.
    begin, taken: [H], when a message enters a link, and which. hop: [n], the current hop. free, freed_order: [L], time
    and order of the event that frees a link. first, last: [L], the queue of a link, -1: empty; behind: [n], who is next
    in the same queue. Links among which messages choose have one queue, that of the last in number.
    waited: [L], time that messages waited for a link. issued: [n], a stack of tasks to start now, the
    first of them on top; counters: [3], the number of events, of tasks on the stack and of tasks done.
    """

    waits: MutableSequence[int]
    ready: MutableSequence[int]
    asked: MutableSequence[int]
    start: MutableSequence[int]
    end: MutableSequence[int]
    begin: MutableSequence[int]
    taken: MutableSequence[int]
    hop: MutableSequence[int]
    free: MutableSequence[int]
    freed_order: MutableSequence[int]
    first: MutableSequence[int]
    last: MutableSequence[int]
    behind: MutableSequence[int]
    waited: MutableSequence[int]
    issued: MutableSequence[int]
    counters: MutableSequence[int]


def run_tasks(table: TaskTable, progress: TaskProgress, ranked: bool) -> int:
    """Runs all tasks that can run. Returns how many are done."""
    duration, hops, link, _, _, _, _, _, _, parallel = table
    waits, _, asked, start, end, _, _, hop_of, free, freed, _, last, _, _, issued, counters = progress
    events = [(np.int64(0), np.int64(0), np.int64(0), np.int64(0))]
    events.pop()
    for k in range(len(duration) - 1, -1, -1):
        if waits[k] == 0:
            _issue(table, progress, events, k, 0, ranked)
    now, order = 0, -1
    while counters[1] > 0 or len(events) > 0:
        if counters[1] > 0:
            counters[1] -= 1
            number, hop = issued[counters[1]], 0
        else:
            now, order, number, hop = heapq.heappop(events)
        if number < 0:
            _serve(table, progress, events, -1 - number, now, ranked)
            continue
        if hop == 0:
            start[number] = now
            _release(table, progress, events, number, START, now, now, ranked)
        if hop < hops[number + 1] - hops[number]:
            on = _free_link(parallel, free, freed, link[hops[number] + hop], now, order)
            asked[number] = now if hop > 0 else asked[number]
            if on < 0 or last[_queue_of(parallel, on)] >= 0:
                _queue(table, progress, events, link[hops[number] + hop], number)
                hop_of[number] = hop
            else:
                _enter(table, progress, events, number, hop, on, now, ranked)
        elif hop == 0 and duration[number] > 0:
            _push(table, progress, events, now + duration[number], number, 1, ranked)
        else:
            end[number] = now
            counters[2] += 1
            _finish(table, progress, events, number, now, ranked)
    return counters[2]


@inline
def _queue_of(parallel: Sequence[int], on: int) -> int:
    """The link whose queue a link serves: the last of those among which messages choose."""
    queue, other = on, parallel[on]
    while other != on:
        queue, other = max(queue, other), parallel[other]
    return queue


@inline
def _free_link(
    parallel: Sequence[int], free: Sequence[int], freed: Sequence[int], wanted: int, now: int, order: int
) -> int:
    """The first idle link from the wanted one on; -1 if all are occupied."""
    on, soonest, left = wanted, -1, True
    while left:
        if soonest < 0 and not (now < free[on] or (now == free[on] and order < freed[on])):
            soonest = on
        on = parallel[on]
        left = soonest < 0 and on != wanted
    return soonest


@inline
def _enter(
    table: TaskTable, progress: TaskProgress, events: Events, number: int, hop: int, on: int, now: int, ranked: bool
) -> None:
    """A message enters a link, which is idle."""
    here = table.hops[number] + hop
    counters, free = progress.counters, progress.free
    progress.begin[here], progress.taken[here] = now, on
    progress.waited[on] += now - progress.asked[number]
    _push(table, progress, events, now + table.delay[here], number, hop + 1, ranked)
    free[on] = now + table.busy[here]
    if not ranked:
        progress.freed_order[on] = counters[0]
        counters[0] += 1
    if progress.last[_queue_of(table.parallel, on)] >= 0:
        heapq.heappush(events, (free[on], progress.freed_order[on], -1 - on, 0))
    if hop == 0:
        _release(table, progress, events, number, SENT, free[on], now, ranked)


@inline
def _serve(table: TaskTable, progress: TaskProgress, events: Events, on: int, now: int, ranked: bool) -> None:
    """The next message enters a link that is free, unless another link has served the queue."""
    first, last, behind = progress.first, progress.last, progress.behind
    queue = _queue_of(table.parallel, on)
    number = first[queue]
    if number >= 0 and now >= progress.free[on]:
        first[queue], last[queue] = behind[number], last[queue] if behind[number] >= 0 else -1
        _enter(table, progress, events, number, progress.hop[number], on, now, ranked)


@inline
def _finish(table: TaskTable, progress: TaskProgress, events: Events, number: int, now: int, ranked: bool) -> None:
    """A task is done; one without hops has nothing to send."""
    if table.hops[number + 1] == table.hops[number]:
        _release(table, progress, events, number, SENT, now, now, ranked)
    _release(table, progress, events, number, DONE, now, now, ranked)


@inline
def _queue(table: TaskTable, progress: TaskProgress, events: Events, wanted: int, number: int) -> None:
    """A message waits for a link. Only if one does, there is an event that frees the link."""
    parallel, free, freed = table.parallel, progress.free, progress.freed_order
    last, behind = progress.last, progress.behind
    queue = _queue_of(parallel, wanted)
    if last[queue] < 0:
        progress.first[queue] = number
        on, more = wanted, True
        while more:
            heapq.heappush(events, (free[on], freed[on], -1 - on, 0))
            on = parallel[on]
            more = on != wanted
    else:
        behind[last[queue]] = number
    last[queue], behind[number] = number, -1


@inline
def _push(
    table: TaskTable, progress: TaskProgress, events: Events, time: int, number: int, hop: int, ranked: bool
) -> None:
    """Adds the event that a task has taken a hop."""
    if ranked:
        heapq.heappush(events, (time, table.hop_rank[number], number, hop))
    else:
        heapq.heappush(events, (time, progress.counters[0], number, hop))
        progress.counters[0] += 1


@inline
def _issue(table: TaskTable, progress: TaskProgress, events: Events, number: int, now: int, ranked: bool) -> None:
    """Lets a task start that waits for nothing any more: as an event, or at once, as ASTRA-sim does."""
    ready, counters = progress.ready, progress.counters
    if ranked:
        heapq.heappush(events, (ready[number], table.start_rank[number], number, 0))
    elif ready[number] > now:
        heapq.heappush(events, (ready[number], counters[0], number, 0))
        counters[0] += 1
    else:
        progress.issued[counters[1]] = number
        counters[1] += 1


@inline
def _release(
    table: TaskTable, progress: TaskProgress, events: Events, number: int, phase: int, time: int, now: int, ranked: bool
) -> None:
    """A phase of a task happens at `time`, now or later: those that wait for it wait for one thing less."""
    waits, ready, asked = progress.waits, progress.ready, progress.asked
    for edge in range(table.edges[3 * number + phase + 1] - 1, table.edges[3 * number + phase] - 1, -1):
        task = table.followers[edge]
        if time > ready[task]:
            ready[task] = time
        if phase != SENT and time > asked[task]:
            asked[task] = time
        waits[task] -= 1
        if waits[task] == 0:
            _issue(table, progress, events, task, now, ranked)
