"""When links and places in switches are taken, in exact time, compiled.

The same as collc/synthesis/pccl/busy.py, with one row of a table for each link or switch.
"""

from __future__ import annotations

from numba import njit

from collc.ten.arrays import Int64Array


@njit(cache=True, nogil=True)
def _first_above(values: Int64Array, count: int, bound: int) -> int:
    """The first place, of so many, whose value is above a bound; values ascend."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if values[middle] > bound:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def next_free(starts: Int64Array, ends: Int64Array, count: int, time: int, length: int) -> int:
    """The first time from `time` on at which a link is free for so long."""
    if count == 0 or ends[count - 1] <= time:
        return time
    k = _first_above(ends, count, time)
    while k < count and starts[k] < time + length:
        time = max(time, ends[k])
        k += 1
    return time


@njit(cache=True, nogil=True)
def last_free(starts: Int64Array, ends: Int64Array, count: int, time: int, latest: int, length: int) -> int:
    """The last start from `time` to `latest` at which a link is free for so long; `time` must be one."""
    while latest > time:
        k = _first_above(starts, count, latest + length - 1) - 1
        if k < 0 or ends[k] <= latest:
            return latest
        latest = starts[k] - length
    return time


@njit(cache=True, nogil=True)
def take(starts: Int64Array, ends: Int64Array, count: int, start: int, end: int) -> int:
    """Takes an interval of a link, which may overlap others; how many intervals there are then."""
    low = _first_above(ends, count, start - 1)
    high = _first_above(starts, count, end)
    if low < high:
        start, end = min(start, starts[low]), max(end, ends[high - 1])
    shift = low + 1 - high
    if shift > 0:
        for k in range(count - 1, high - 1, -1):
            starts[k + shift] = starts[k]
            ends[k + shift] = ends[k]
    elif shift < 0:
        for k in range(high, count):
            starts[k + shift] = starts[k]
            ends[k + shift] = ends[k]
    starts[low] = start
    ends[low] = end
    return count + shift


@njit(cache=True, nogil=True)
def refuses(times: Int64Array, held: Int64Array, count: int, size: int, start: int, end: int, least: int) -> int:
    """-1 where a place is free from start to end; else when, after it is full, one is free for `least`."""
    k = _first_above(times, count, end - 1) - 1
    while held[k] < size:
        if times[k] <= start:
            return -1
        k -= 1
    free = times[k + 1]
    while k + 1 < count and times[k + 1] < free + least:
        k += 1
        if held[k] >= size:
            free = times[k + 1]
    return free


@njit(cache=True, nogil=True)
def _split(times: Int64Array, held: Int64Array, count: int, time: int) -> int:
    k = _first_above(times, count, time - 1)
    if k < count and times[k] == time:
        return count
    for i in range(count - 1, k - 1, -1):
        times[i + 1] = times[i]
        held[i + 1] = held[i]
    times[k] = time
    held[k] = held[k - 1]
    return count + 1


@njit(cache=True, nogil=True)
def take_place(times: Int64Array, held: Int64Array, count: int, start: int, end: int) -> int:
    """Takes a place of a switch; how many times there are then."""
    count = _split(times, held, count, start)
    count = _split(times, held, count, end)
    for k in range(_first_above(times, count, start - 1), _first_above(times, count, end - 1)):
        held[k] += 1
    return count
