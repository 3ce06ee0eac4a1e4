"""Reserved intervals of links, occupied buffer slots and planned transfers, for the search in exact time.

The functions call the methods of the timelines that all synthesizers share. Compiled code has tables instead, with a
row for each link or switch. Tables grow as needed, so what adds something returns the table to use from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from collc.kernels.compiled import compiled_as
from collc.ten.arrays import Int64Array


class LinkTable(NamedTuple):
    """Reserved intervals of links: int64[links, n] starts and ends, ascending and apart; counts: int64[links]."""

    starts: Int64Array
    ends: Int64Array
    counts: Int64Array


class BufferTable(NamedTuple):
    """Occupied slots of switches: from times[switch, k] on, occupied[switch, k]; both int64[switches, n].

    counts: int64[switches], how many times there are. size: int64[switches], slots; -1 for no limit. scanned:
    int64[switches], how many of these times have been looked at one after another so far.
    """

    times: Int64Array
    occupied: Int64Array
    counts: Int64Array
    size: Int64Array
    scanned: Int64Array


class TransferTable(NamedTuple):
    """Planned transfers: int64[n, 3], condition, link and start. count: int64[1], how many there are."""

    rows: Int64Array
    count: Int64Array


Links = Any
"""A LinkTable in compiled code; in plain Python a list of collc.synthesis.timeline.Timeline."""

Buffers = Any
"""A BufferTable in compiled code; in plain Python SlotTimelines by switch, of those that have a limit."""

PlannedTransfers = Any
"""A TransferTable in compiled code; in plain Python a list of (condition, link, start)."""


def first_above(values: Int64Array, count: int, bound: int) -> int:
    """The first of `count` ascending values that is above a bound."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if values[middle] > bound:
            high = middle
        else:
            low = middle + 1
    return low


def _wider(table: Int64Array) -> Int64Array:
    """A table with twice as many columns."""
    more = np.zeros((table.shape[0], table.shape[1] * 2), np.int64)
    more[:, : table.shape[1]] = table
    return more


def _next_free_in_table(links: LinkTable, link: int, time: int, length: int) -> int:
    starts, ends, count = links.starts[link], links.ends[link], links.counts[link]
    if count == 0 or ends[count - 1] <= time:
        return time
    k = first_above(ends, count, time)
    while k < count and starts[k] < time + length:
        time = max(time, ends[k])
        k += 1
    return time


@compiled_as(_next_free_in_table)
def next_free(links: Links, link: int, time: int, length: int) -> int:
    """The first start from `time` on from which a link is free for `length`."""
    return links[link].next_free(time, length)


def _last_free_in_table(links: LinkTable, link: int, time: int, latest: int, length: int) -> int:
    starts, ends, count = links.starts[link], links.ends[link], links.counts[link]
    while latest > time:
        k = first_above(starts, count, latest + length - 1) - 1
        if k < 0 or ends[k] <= latest:
            return latest
        latest = starts[k] - length
    return time


@compiled_as(_last_free_in_table)
def last_free(links: Links, link: int, time: int, latest: int, length: int) -> int:
    """The last start from `time` to `latest` from which a link is free for `length`; `time` must be one."""
    return links[link].last_free(time, latest, length)


def _reserve_in_table(links: LinkTable, link: int, start: int, end: int) -> LinkTable:
    count = links.counts[link]
    if count == links.starts.shape[1]:
        links = LinkTable(_wider(links.starts), _wider(links.ends), links.counts)
    starts, ends = links.starts[link], links.ends[link]
    low = first_above(ends, count, start - 1)
    high = first_above(starts, count, end)
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
    links.counts[link] = count + shift
    return links


@compiled_as(_reserve_in_table)
def reserve(links: Links, link: int, start: int, end: int) -> Links:
    """Reserves an interval of a link, which may overlap others; returns the links."""
    links[link].reserve(start, end)
    return links


def _full_until_in_table(buffers: BufferTable, switch: int, start: int, end: int, least: int) -> int:
    times, occupied = buffers.times[switch], buffers.occupied[switch]
    count, size = buffers.counts[switch], buffers.size[switch]
    k = last = first_above(times, count, end - 1) - 1
    while occupied[k] < size:
        if times[k] <= start:
            buffers.scanned[switch] += last - k
            return -1
        k -= 1
    free = times[k + 1]
    buffers.scanned[switch] += last - 2 * k
    while k + 1 < count and times[k + 1] < free + least:
        k += 1
        if occupied[k] >= size:
            free = times[k + 1]
    buffers.scanned[switch] += k
    return free


@compiled_as(_full_until_in_table)
def full_until(buffers: Buffers, switch: int, start: int, end: int, least: int) -> int:
    """-1 where a slot is free from start to end; else when, after the buffer is full, one is free for `least`."""
    return buffers[switch].full_until(start, end, least)


def _split(times: Int64Array, occupied: Int64Array, count: int, time: int) -> int:
    """Makes `time` one of the times; how many there are then."""
    k = first_above(times, count, time - 1)
    if k < count and times[k] == time:
        return count
    for i in range(count - 1, k - 1, -1):
        times[i + 1] = times[i]
        occupied[i + 1] = occupied[i]
    times[k] = time
    occupied[k] = occupied[k - 1]
    return count + 1


def _occupy_in_table(buffers: BufferTable, switch: int, start: int, end: int) -> BufferTable:
    count = buffers.counts[switch]
    if count + 2 > buffers.times.shape[1]:
        buffers = BufferTable(
            _wider(buffers.times), _wider(buffers.occupied), buffers.counts, buffers.size, buffers.scanned
        )
    times, occupied = buffers.times[switch], buffers.occupied[switch]
    count = _split(times, occupied, count, start)
    count = _split(times, occupied, count, end)
    first, after = first_above(times, count, start - 1), first_above(times, count, end - 1)
    buffers.scanned[switch] += after - first
    for k in range(first, after):
        occupied[k] += 1
    buffers.counts[switch] = count
    return buffers


@compiled_as(_occupy_in_table)
def occupy(buffers: Buffers, switch: int, start: int, end: int) -> Buffers:
    """Occupies a slot of a switch; returns the buffers."""
    buffers[switch].reserve(start, end)
    return buffers


def _record_in_table(planned: TransferTable, condition: int, link: int, start: int) -> TransferTable:
    rows, count = planned.rows, planned.count[0]
    if count == len(rows):
        more = np.zeros((2 * len(rows), 3), np.int64)
        more[:count] = rows
        planned = TransferTable(more, planned.count)
    planned.rows[count, 0] = condition
    planned.rows[count, 1] = link
    planned.rows[count, 2] = start
    planned.count[0] = count + 1
    return planned


@compiled_as(_record_in_table)
def record(planned: PlannedTransfers, condition: int, link: int, start: int) -> PlannedTransfers:
    """Adds a transfer to what is planned; returns what is planned."""
    planned.append((condition, link, start))
    return planned


def with_reserved(
    links: Links, buffers: Buffers, reserved: Sequence[Any], held: Sequence[Any]
) -> tuple[Links, Buffers]:
    """Reserves intervals (link, start, end) and occupies slots (switch, start, end); returns (links, buffers)."""
    for i in range(len(reserved)):
        links = reserve(links, reserved[i][0], reserved[i][1], reserved[i][2])
    for i in range(len(held)):
        buffers = occupy(buffers, held[i][0], held[i][1], held[i][2])
    return links, buffers
