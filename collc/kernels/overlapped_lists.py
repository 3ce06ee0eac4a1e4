"""List scheduling of transfers that wait for one another: the most urgent one first on each link.

n tasks, L links. Written for plain Python on lists and for Numba on arrays (collc/kernels/compiled.py). Events are
numbered: task k ends, n + k: task k is ready, 2 n + l: link l is free.

The tasks of a link are numbered by urgency, from 0 (their positions). Those that are ready are a set of positions, so
the most urgent is the lowest bit.
"""

from __future__ import annotations

import heapq
from collections import namedtuple
from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

import numpy as np

from collc.kernels.compiled import trailing_zeros

TaskTable = namedtuple("TaskTable", "link busy early late offsets followers")
"""Tasks and who waits for whom; times in picoseconds.

link: [n], -1 for a task without a link. busy: [n], how long a task keeps its link busy. early, late: [n], how long
a task must be ready before it enters its link, and how long after that its followers may go on.
offsets: [n + 1], followers: those who wait for each task (CSR).
"""


class UrgencyOrder(NamedTuple):
    """The order of the tasks of each link.

    position: [n]. tasks: int64[tasks with a link], by link, then by position; the tasks of link l begin at first[l].
    first_word: [L], the first word of each link's set of ready positions; shift, mask: see compiled.py.
    """

    position: Sequence[int]
    tasks: Sequence[int]
    first: Sequence[int]
    first_word: Sequence[int]
    shift: int
    mask: int


class ListProgress(NamedTuple):
    """A list schedule as far as it has got.

    waits: [n], the tasks that each one still waits for. ready: words of ready positions. lowest: [L], a word before
    which a link has nothing ready. queued: [L], how many tasks are ready. free: [L], when a link is.
    intervals: [2 L], for each link the number of the next reserved interval and of the one after its last. starts,
    ends: of the reserved intervals, picoseconds. times, numbers: [2 n + L], a heap of events. counters: [2], how many
    events there are and how many tasks have started. touched, marked: [L], scratch space for the links to look at.
    start: [n], the result.
    """

    waits: MutableSequence[int]
    ready: MutableSequence[int]
    lowest: MutableSequence[int]
    queued: MutableSequence[int]
    free: MutableSequence[int]
    intervals: MutableSequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    times: MutableSequence[int]
    numbers: MutableSequence[int]
    counters: MutableSequence[int]
    touched: MutableSequence[int]
    marked: MutableSequence[int]
    start: MutableSequence[int]


def list_schedule(table: TaskTable, order: UrgencyOrder, progress: ListProgress, limit: int) -> bool:
    """Goes on until `limit` tasks or a few more have started. Returns whether there is more to do."""
    times, numbers, counters = progress.times, progress.numbers, progress.counters
    events = [(np.int64(0), np.int64(0))]
    events.pop()
    for k in range(counters[0]):
        events.append((times[k], numbers[k]))  # noqa: PERF401 (Numba has no extend with a generator)
    while len(events) > 0 and counters[1] < limit:
        now = events[0][0]
        count = _apply_events(table, order, progress, events, now)
        _start_tasks(table, order, progress, events, now, count)
    counters[0] = len(events)
    for k in range(len(events)):
        times[k], numbers[k] = events[k]
    return len(events) > 0


def _apply_events(
    table: TaskTable, order: UrgencyOrder, progress: ListProgress, events: list[tuple[int, int]], now: int
) -> int:
    """Applies all events of a time. Returns how many links are in `touched`."""
    link, _, early, _, offsets, followers = table
    position, _, _, first_word, shift, mask = order
    waits, ready, lowest, queued, _, _, _, _, _, _, _, touched, marked, _ = progress
    n = len(link)
    count = 0
    while len(events) > 0 and events[0][0] == now:
        _, number = heapq.heappop(events)
        on = -1
        low, high = number - n, number - n + 1
        if number >= 2 * n:
            on, high = number - 2 * n, low
        elif number < n:
            on, low, high = link[number], offsets[number], offsets[number + 1]
        if on >= 0 and marked[on] == 0:
            marked[on] = 1
            touched[count] = on
            count += 1
        for place in range(low, high):
            task = place
            if number < n:
                task = followers[place]
                waits[task] -= 1
                if waits[task] > 0:
                    continue
                if early[task] > 0:
                    heapq.heappush(events, (now + early[task], n + task))
                    continue
            on = link[task]
            if on < 0:
                heapq.heappush(events, (now, task + 0))
                continue
            word = first_word[on] + (position[task] >> shift)
            ready[word] |= 1 << (position[task] & mask)
            if word < lowest[on] or queued[on] == 0:
                lowest[on] = word
            queued[on] += 1
            if marked[on] == 0:
                marked[on] = 1
                touched[count] = on
                count += 1
    return count


def _start_tasks(
    table: TaskTable,
    order: UrgencyOrder,
    progress: ListProgress,
    events: list[tuple[int, int]],
    now: int,
    count: int,
) -> None:
    """Starts the most urgent ready task of each of the `count` touched links, if the link is free for long enough."""
    _, busy, _, late, _, _ = table
    _, tasks, first, first_word, shift, _ = order
    _, ready, lowest, queued, free, intervals, starts, ends, _, _, counters, touched, marked, start = progress
    n = len(busy)
    for place in range(count):
        link = touched[place]
        marked[link] = 0
        if queued[link] == 0 or free[link] > now:
            continue
        word = lowest[link]
        while ready[word] == 0:
            word += 1
        lowest[link] = word
        bits = ready[word]
        task = tasks[first[link] + ((word - first_word[link]) << shift) + trailing_zeros(bits)]
        length = busy[task]
        number = intervals[2 * link]
        while number < intervals[2 * link + 1] and ends[number] <= now:
            number += 1
        intervals[2 * link] = number
        if number < intervals[2 * link + 1] and starts[number] < now + length:
            free[link] = ends[number]
            heapq.heappush(events, (free[link], 2 * n + link))
            continue
        ready[word] = bits & (bits - 1)
        queued[link] -= 1
        counters[1] += 1
        start[task] = now
        free[link] = now + length
        heapq.heappush(events, (now + late[task], task))
        if late[task] != length:
            heapq.heappush(events, (free[link], 2 * n + link))
