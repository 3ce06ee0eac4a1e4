"""Reserved intervals of links, occupied buffer slots and planned transfers, for the search in exact time.

The functions call the methods of the timelines that all synthesizers share. Compiled code has tables instead, with a
row for each link or switch.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from collc.kernels.compiled import compiled_as, inline, trailing_zeros, without_references
from collc.ten.arrays import Int64Array, StepTable

LinkTable = namedtuple("LinkTable", "starts ends counts steps")
"""Reserved intervals of links: int64[links, n] starts and ends, ascending and apart; counts: int64[links + 1], how
many each has, and the most of any so far.

If all transfers take one step, `steps` is used in their place: int64[links, words], else without words. Bit
`step & 63` of word `step >> 6` is 1 if the link is free; words before number counts[link] are 0.
"""


class BufferTable(NamedTuple):
    """Occupied slots of switches: from times[switch, k] on, occupied[switch, k]; both int64[switches, n].

    counts: int64[switches + 1], how many times there are, and the most so far. size: int64[switches], slots; -1 for no
    limit. scanned: int64[switches], how many of these times have been looked at one after another so far.
    """

    times: Int64Array
    occupied: Int64Array
    counts: Int64Array
    size: Int64Array
    scanned: Int64Array


class TransferTable(NamedTuple):
    """Planned transfers: int64[n, 3], condition, link and start. count: int64[1], how many there are.

    If all transfers take one step, `table` is used in place of rows: [steps, links], conditions, its largest number for
    none; else without links. count: steps that are used.
    """

    rows: Int64Array
    count: Int64Array
    table: StepTable


Links = Any
"""A LinkTable in compiled code; in plain Python a list of Timelines or StepTimelines (collc/synthesis/timeline.py)."""

Buffers = Any
"""A BufferTable in compiled code; in plain Python SlotTimelines by switch, of those that have a limit."""

PlannedTransfers = Any
"""A TransferTable in compiled code; in plain Python a list of (condition, link, start)."""


@without_references
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


def _longer(table: Any, axis: int, length: int, fill: int) -> Any:  # noqa: ANN401
    """A table of some length along an axis or, if that is more, of its own, with a number in the new cells."""
    rows, columns = table.shape
    if (rows, columns)[axis] >= length:
        return table
    more = np.full((length, columns) if axis == 0 else (rows, length), fill, table.dtype)
    for row in range(rows):  # an assignment of slices takes three seconds to compile
        for column in range(columns):
            more[row, column] = table[row, column]
    return more


@without_references
def _has_room_in_tables(links: LinkTable, buffers: BufferTable, planned: TransferTable, hops: int, end: int) -> bool:
    if planned.table.shape[1] > 0:
        return end <= len(planned.table) and end <= 64 * links.steps.shape[1]
    is_full = planned.count[0] + hops > len(planned.rows) or links.counts[-1] >= links.starts.shape[1]
    return not is_full and buffers.counts[-1] + 2 <= buffers.times.shape[1]


@compiled_as(_has_room_in_tables)
def has_room(_links: Links, _buffers: Buffers, _planned: PlannedTransfers, _hops: int, _end: int) -> bool:
    """Whether one more path of some hops that arrives before `_end` has room."""
    return True


def _with_room_in_tables(
    links: LinkTable, buffers: BufferTable, planned: TransferTable, hops: int, end: int
) -> tuple[LinkTable, BufferTable, TransferTable]:
    if planned.table.shape[1] > 0:
        if end > len(planned.table):
            planned = TransferTable(
                planned.rows,
                planned.count,
                _longer(planned.table, 0, end + end // 8, np.iinfo(planned.table.dtype).max),
            )
        if end > 64 * links.steps.shape[1]:
            steps = _longer(links.steps, 1, 2 * links.steps.shape[1] + (end >> 6), -1)
            links = LinkTable(links.starts, links.ends, links.counts, steps)
        return links, buffers, planned
    if planned.count[0] + hops > len(planned.rows):
        planned = TransferTable(_longer(planned.rows, 0, 2 * len(planned.rows) + hops, 0), planned.count, planned.table)
    room = links.starts.shape[1]
    if links.counts[-1] >= room:
        starts, ends = _longer(links.starts, 1, 2 * room, 0), _longer(links.ends, 1, 2 * room, 0)
        links = LinkTable(starts, ends, links.counts, links.steps)
    room = buffers.times.shape[1]
    if buffers.counts[-1] + 2 > room:
        times, occupied = _longer(buffers.times, 1, 2 * room, 0), _longer(buffers.occupied, 1, 2 * room, 0)
        buffers = BufferTable(times, occupied, buffers.counts, buffers.size, buffers.scanned)
    return links, buffers, planned


@compiled_as(_with_room_in_tables)
def with_room(
    links: Links, buffers: Buffers, planned: PlannedTransfers, _hops: int, _end: int
) -> tuple[Links, Buffers, PlannedTransfers]:
    """Links, buffers and planned transfers with room for one more path of some hops that arrives before `_end`."""
    return links, buffers, planned


@inline
def _next_free_step(links: LinkTable, link: int, step: int) -> int:
    word, words = step >> 6, links.steps.shape[1]
    if word >= words:
        return step
    gaps = links.steps[link, word] >> (step & 63)
    if gaps:
        return step + trailing_zeros(gaps)
    word = max(links.counts[link], word + 1)
    while word < words and links.steps[link, word] == 0:
        word += 1
    return (word << 6) + (trailing_zeros(links.steps[link, word]) if word < words else 0)


@inline
def _next_free_in_table(links: LinkTable, link: int, time: int, length: int) -> int:
    if links.steps.shape[1] > 0:
        return _next_free_step(links, link, time)
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


@without_references
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


@inline
def _reserve_in_table(links: LinkTable, link: int, start: int, end: int) -> None:
    count = links.counts[link]
    if links.steps.shape[1] > 0:
        words = links.steps[link]
        words[start >> 6] ^= 1 << (start & 63)
        while count < len(words) and words[count] == 0:
            count += 1
        links.counts[link] = count
        return
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
    links.counts[-1] = max(links.counts[-1], count + shift)


@compiled_as(_reserve_in_table)
def reserve(links: Links, link: int, start: int, end: int) -> None:
    """Reserves an interval of a link, which may overlap others."""
    links[link].reserve(start, end)


@without_references
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


@without_references
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


@without_references
def _occupy_in_table(buffers: BufferTable, switch: int, start: int, end: int) -> None:
    count = buffers.counts[switch]
    times, occupied = buffers.times[switch], buffers.occupied[switch]
    count = _split(times, occupied, count, start)
    count = _split(times, occupied, count, end)
    first, after = first_above(times, count, start - 1), first_above(times, count, end - 1)
    buffers.scanned[switch] += after - first
    for k in range(first, after):
        occupied[k] += 1
    buffers.counts[switch] = count
    buffers.counts[-1] = max(buffers.counts[-1], count)


@compiled_as(_occupy_in_table)
def occupy(buffers: Buffers, switch: int, start: int, end: int) -> None:
    """Occupies a slot of a switch."""
    buffers[switch].reserve(start, end)


@inline
def _record_in_table(planned: TransferTable, condition: int, link: int, start: int) -> None:
    if planned.table.shape[1] > 0:
        planned.table[start, link] = condition
        planned.count[0] = max(planned.count[0], start + 1)
        return
    row = planned.count[0]
    planned.rows[row, 0], planned.rows[row, 1], planned.rows[row, 2] = condition, link, start
    planned.count[0] = row + 1


@compiled_as(_record_in_table)
def record(planned: PlannedTransfers, condition: int, link: int, start: int) -> None:
    """Adds a transfer to what is planned."""
    planned.append((condition, link, start))


def with_reserved(
    links: Links, buffers: Buffers, planned: PlannedTransfers, reserved: Sequence[Any], held: Sequence[Any]
) -> tuple[Links, Buffers]:
    """Reserves intervals (link, start, end) and occupies slots (switch, start, end); returns (links, buffers)."""
    for i in range(len(reserved)):
        links, buffers, planned = with_room(links, buffers, planned, 0, 0)
        reserve(links, reserved[i][0], reserved[i][1], reserved[i][2])
    for i in range(len(held)):
        links, buffers, planned = with_room(links, buffers, planned, 0, 0)
        occupy(buffers, held[i][0], held[i][1], held[i][2])
    return links, buffers
