"""List scheduling of transfers that wait for one another, the most urgent first on each link."""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from collc.ten.arrays import BoolArray, Int32Array, Int64Array


class Work(NamedTuple):
    """Tasks as collc/synthesis/overlapped/lists.py has them, and what they need.

    rank, by_rank: int32[n], how urgent tasks are, and that turned round. first: int64[links + 1], where each link's
    part of the queue begins. taken_from, taken_to: intervals when links are taken, `taken` of State tells which.
    """

    link: Int32Array
    busy: Int64Array
    early: Int64Array
    late: Int64Array
    offsets: Int64Array
    followers: Int32Array
    rank: Int32Array
    by_rank: Int32Array
    first: Int64Array
    taken_from: Int64Array
    taken_to: Int64Array


class State(NamedTuple):
    """What a list schedule has done so far.

    waits: int32[n], for how many each task still waits. queue: int32[n], for each link a heap of ranks of length[link].
    free: int64[links], when each link is. taken: int64[links, 2], the next and the end of its intervals. times, ids:
    heap of events; ids below n: a task ends; below 2 n: it is ready; above: a link is free. counters: int64[3]:
    events, links touched at this time, tasks begun. touched, marked: [links], those. start: int64[n], the result.
    """

    waits: Int32Array
    queue: Int32Array
    length: Int32Array
    free: Int64Array
    taken: Int64Array
    times: Int64Array
    ids: Int64Array
    counters: Int64Array
    touched: Int32Array
    marked: BoolArray
    start: Int64Array


@njit(cache=True, nogil=True)
def _sift_up(keys: Int32Array, base: int, place: int) -> None:
    while place > 0:
        parent = (place - 1) // 2
        if keys[base + place] >= keys[base + parent]:
            break
        keys[base + place], keys[base + parent] = keys[base + parent], keys[base + place]
        place = parent


@njit(cache=True, nogil=True)
def _sift_down(keys: Int32Array, base: int, size: int) -> None:
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and keys[base + child + 1] < keys[base + child]:
            child += 1
        if keys[base + child] >= keys[base + place]:
            break
        keys[base + place], keys[base + child] = keys[base + child], keys[base + place]
        place = child


@njit(cache=True, nogil=True)
def _push(times: Int64Array, ids: Int64Array, size: int, time: int, number: int) -> None:
    """Adds to a heap of (time, id), which has `size` already."""
    place = size
    while place > 0:
        parent = (place - 1) // 2
        if times[parent] < time or (times[parent] == time and ids[parent] <= number):
            break
        times[place], ids[place] = times[parent], ids[parent]
        place = parent
    times[place], ids[place] = time, number


@njit(cache=True, nogil=True)
def _pop(times: Int64Array, ids: Int64Array, size: int) -> None:
    """Takes the first off a heap of (time, id) of `size`."""
    last = size - 1
    time, number = times[last], ids[last]
    place = 0
    while 2 * place + 1 < last:
        child = 2 * place + 1
        if child + 1 < last and (
            times[child + 1] < times[child] or (times[child + 1] == times[child] and ids[child + 1] < ids[child])
        ):
            child += 1
        if time < times[child] or (time == times[child] and number < ids[child]):
            break
        times[place], ids[place] = times[child], ids[child]
        place = child
    times[place], ids[place] = time, number


@njit(cache=True, nogil=True)
def _note(times: Int64Array, ids: Int64Array, counters: Int64Array, time: int, number: int) -> None:
    _push(times, ids, counters[0], time, number)
    counters[0] += 1


@njit(cache=True, nogil=True)
def _touch(touched: Int32Array, marked: BoolArray, counters: Int64Array, link: int) -> None:
    if not marked[link]:
        marked[link] = True
        touched[counters[1]] = link
        counters[1] += 1


@njit(cache=True, nogil=True)
def _queue(queue: Int32Array, length: Int32Array, first: Int64Array, link: int, rank: int) -> None:
    queue[first[link] + length[link]] = rank
    _sift_up(queue, first[link], length[link])
    length[link] += 1


@njit(cache=True, nogil=True)
def _unqueue(queue: Int32Array, length: Int32Array, first: Int64Array, link: int) -> None:
    length[link] -= 1
    queue[first[link]] = queue[first[link] + length[link]]
    _sift_down(queue, first[link], length[link])


@njit(cache=True, nogil=True)
def _happen(work: Work, state: State, now: int) -> None:
    """All that happens at a time: tasks end, those that waited for them may enter their links."""
    link, early, offsets, followers, first, rank = (
        work.link, work.early, work.offsets, work.followers, work.first, work.rank
    )  # fmt: skip
    times, ids, counters, touched, marked = state.times, state.ids, state.counters, state.touched, state.marked
    waits, queue, length = state.waits, state.queue, state.length
    n = len(link)
    while counters[0] > 0 and times[0] == now:
        number = ids[0]
        _pop(times, ids, counters[0])
        counters[0] -= 1
        if number >= 2 * n:
            _touch(touched, marked, counters, number - 2 * n)
        elif number >= n:
            on = link[number - n]
            if on < 0:
                _note(times, ids, counters, now, number - n)
            else:
                _queue(queue, length, first, on, rank[number - n])
                _touch(touched, marked, counters, on)
        else:
            if link[number] >= 0:
                _touch(touched, marked, counters, link[number])
            for place in range(offsets[number], offsets[number + 1]):
                task = followers[place]
                waits[task] -= 1
                if waits[task] > 0:
                    continue
                if early[task] > 0 or link[task] < 0:
                    _note(times, ids, counters, now + early[task], n + task)
                else:
                    _queue(queue, length, first, link[task], rank[task])
                    _touch(touched, marked, counters, link[task])


@njit(cache=True, nogil=True)
def _begin(work: Work, state: State, now: int) -> None:
    """The most urgent task enters each link that was touched, if that is free for long enough."""
    busy, late, first, by_rank, taken_from, taken_to = (
        work.busy, work.late, work.first, work.by_rank, work.taken_from, work.taken_to
    )  # fmt: skip
    times, ids, counters, touched, marked = state.times, state.ids, state.counters, state.touched, state.marked
    queue, length, free, taken, start = state.queue, state.length, state.free, state.taken, state.start
    n = len(busy)
    for place in range(counters[1]):
        link = touched[place]
        marked[link] = False
        if length[link] == 0 or free[link] > now:
            continue
        task = by_rank[queue[first[link]]]
        while taken[link, 0] < taken[link, 1] and taken_to[taken[link, 0]] <= now:
            taken[link, 0] += 1
        if taken[link, 0] < taken[link, 1] and taken_from[taken[link, 0]] < now + busy[task]:
            free[link] = taken_to[taken[link, 0]]
            _note(times, ids, counters, free[link], 2 * n + link)
            continue
        _unqueue(queue, length, first, link)
        start[task] = now
        free[link] = now + busy[task]
        counters[2] += 1
        _note(times, ids, counters, now + late[task], task)
        if late[task] != busy[task]:
            _note(times, ids, counters, free[link], 2 * n + link)
    counters[1] = 0


@njit(cache=True, nogil=True)
def list_schedule(work: Work, state: State, limit: int) -> bool:
    """Goes on until `limit` tasks or a few more have begun; whether there is more to do."""
    while state.counters[0] > 0 and state.counters[2] < limit:
        now = state.times[0]
        _happen(work, state, now)
        _begin(work, state, now)
    return state.counters[0] > 0
