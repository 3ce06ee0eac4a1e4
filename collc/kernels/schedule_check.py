"""The hot loops of the schedule check: overlaps on links, and the replay of chunks with contributions as bits."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collc.kernels.cached_jit import jit, jit_of_called
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, UInt8Array, UInt64Array

LATEST = 2**61
"""Picoseconds up to which twice an arrival and a flag fit into 64 bits."""


@jit()
def overlaps(
    chunk: Int32Array,
    link: Int32Array,
    start: Int64Array,
    busy: Int64Array,
    size_of: Int32Array,
    kind: Int32Array,
    links: int,
    limit: int,
) -> tuple[int, Int64Array, Int64Array]:
    """Rows, by start, that begin before the row before them on their link has left it: (count, earlier, later).

    At most `limit` pairs of rows are found.
    """
    last = np.full(links, -1, np.int64)
    earlier, later = np.empty(limit, np.int64), np.empty(limit, np.int64)
    count = 0
    for row in range(len(chunk)):
        on = link[row]
        before = last[on]
        if before >= 0 and start[row] < start[before] + busy[kind[on], size_of[chunk[before]]] and count < limit:
            earlier[count], later[count] = before, row
            count += 1
        last[on] = row
    return count, earlier, later


@jit()
def by_chunk(chunk: Int32Array, chunks: int) -> tuple[Int64Array, Int32Array]:
    """The rows of each chunk, in order, as (offsets int64[chunks + 1], rows int32)."""
    offsets = np.zeros(chunks + 1, np.int64)
    for number in chunk:
        offsets[number + 1] += 1
    for number in range(chunks):
        offsets[number + 1] += offsets[number]
    next_free = offsets[:-1].copy()
    rows = np.empty(len(chunk), np.int32)
    for row in range(len(chunk)):
        rows[next_free[chunk[row]]] = row
        next_free[chunk[row]] += 1
    return offsets, rows


class Rows(NamedTuple):
    """All transfers, by start. Their links: source, target, kind. npus: devices from this number on are switches.

    passes: bool[devices], switches that pass on any number of arrivals; another holds one copy and one partial of a
    chunk at a time here. filled: int64[rows] or empty; written for each row out of a switch: when the chunk arrived
    there.
    """

    link: Int32Array
    start: Int64Array
    reduce: BoolArray
    source: Int32Array
    target: Int32Array
    kind: Int32Array
    npus: int
    passes: BoolArray
    filled: Int64Array


class Scratch(NamedTuple):
    """Memory of a replay.

    seen: int64[devices], value: uint64[devices, words]: the contributions that a device holds, valid if seen[device] is
    the number of the chunk. queue: int32[4, devices], the first and last positions of the partials, and of the copies,
    that a switch holds, -1 for none. after: int32[transfers], the next position in the queue that one is in. arrival,
    key: int64[transfers]. carried: uint64[transfers, words], what each transfer brings.
    """

    seen: Int64Array
    value: UInt64Array
    queue: Int32Array
    after: Int32Array
    arrival: Int64Array
    key: Int64Array
    carried: UInt64Array


@jit_of_called()
def _arrive(value: UInt64Array, brought: UInt64Array, reduce: bool) -> bool:
    """Store or combine what arrives; False if a contribution arrives twice."""
    for word in range(len(brought)):
        if reduce and value[word] & brought[word]:
            return False
        value[word] = value[word] | brought[word] if reduce else brought[word]
    return True


@jit_of_called()
def _leaves(value: UInt64Array, full: UInt64Array, reduce: bool) -> bool:
    """Whether there is something to send, and the complete sum if it is a `send`."""
    some, complete = False, True
    for word in range(len(full)):
        some |= value[word] != 0
        complete &= value[word] == full[word]
    return some and (reduce or complete)


@jit_of_called()
def _begin(device: int, tag: int, seen: Int64Array, value: UInt64Array, queue: Int32Array) -> None:
    if seen[device] != tag:
        seen[device] = tag
        for word in range(value.shape[1]):  # an assignment of slices takes a second to compile
            value[device, word] = 0
        for end in range(len(queue)):
            queue[end, device] = -1


@jit_of_called()
def _enter(position: int, reduce: bool, device: int, passes: BoolArray, queue: Int32Array, after: Int32Array) -> bool:
    """Put an arrival at the end of a switch's queue; False if it may not wait there beside the one before."""
    first = 0 if reduce else 2
    last = queue[first + 1, device]
    if queue[first, device] < 0:
        queue[first, device] = position
    elif not passes[device]:
        return False
    else:
        after[last] = position
    after[position] = -1
    queue[first + 1, device] = position
    return True


@jit_of_called()
def _passed_on(reduce: bool, device: int, queue: Int32Array, after: Int32Array) -> int:
    """Take the first of a switch's queue: its position, -1 if there is none."""
    first = 0 if reduce else 2
    position = queue[first, device]
    if position >= 0:
        queue[first, device] = after[position]
    return position


@jit_of_called()
def _order(rows: Int32Array, all_rows: Rows, total: Int64Array, scratch: Scratch) -> Int64Array:
    """The positions of rows in order of arrival, copies first, then by link; writes their times to `scratch.arrival`.

    It is empty if a transfer takes no time, or an arrival is LATEST or later.
    """
    link, arrival, key = all_rows.link, scratch.arrival, scratch.key[: len(rows)]
    ascending = True
    for position, row in enumerate(rows):
        taken = total[all_rows.kind[link[row]]]
        arrival[position] = all_rows.start[row] + taken
        if taken <= 0 or arrival[position] >= LATEST:
            return np.empty(0, np.int64)
        key[position] = 2 * arrival[position] + all_rows.reduce[row]
        ascending &= position == 0 or key[position - 1] < key[position]
    if ascending:
        return np.arange(len(rows))
    order = np.argsort(key, kind="mergesort")
    for last in range(1, len(order)):
        place, position = last, order[last]
        while place and key[order[place - 1]] == key[position] and link[rows[order[place - 1]]] > link[rows[position]]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = position
    return order


@jit_of_called()
def _depart(
    position: int, rows: Int32Array, all_rows: Rows, full: UInt64Array, copy: bool, scratch: Scratch, tag: int
) -> int:
    """Let a row begin: how many partials leave a switch by it; -1 if it carries nothing, or what it must not."""
    link, _, reduce, source, target, _, npus, _, filled = all_rows
    seen, value, queue, after, arrival, _, carried = scratch
    row, words = rows[position], len(full)
    partial, a, b = reduce[row], source[link[row]], target[link[row]]
    _begin(a, tag, seen, value, queue)
    _begin(b, tag, seen, value, queue)
    if copy and partial:
        return -1
    if a < npus:
        for word in range(words):
            carried[position, word] = value[a, word]
    else:
        came = _passed_on(partial, a, queue, after)
        if came < 0 or (partial and source[link[rows[came]]] == b):
            return -1
        if len(filled):
            filled[row] = arrival[came]
        for word in range(words):
            carried[position, word] = carried[came, word]
    return (partial and a >= npus) if _leaves(carried[position], full, partial) else -1


@jit_of_called()
def _is_right(
    rows: Int32Array,
    all_rows: Rows,
    total: Int64Array,
    pre: Int32Array,
    post: Int32Array,
    copy: bool,
    scratch: Scratch,
    tag: int,
) -> bool:
    """Whether the transfers of a chunk are right: each carries something, every contribution arrives once, and switches
    pass on what arrives, the oldest first.
    """
    link, start, reduce, _, target, _, npus, passes, _ = all_rows
    seen, value, queue, after, arrival, _, carried = scratch
    words = 1 if copy else (len(pre) + 63) // 64
    full = np.zeros(words, np.uint64)
    for number, device in enumerate(pre):
        bit = 0 if copy else number
        _begin(device, tag, seen, value, queue)
        value[device, bit // 64] = np.uint64(1) << np.uint64(bit % 64)
        full[bit // 64] |= value[device, bit // 64]
    order = _order(rows, all_rows, total, scratch)
    arrived, waiting = 0, 0
    for position in range(len(rows) + 1):
        now = start[rows[position]] if position < len(rows) else LATEST
        while arrived < len(order) and arrival[order[arrived]] <= now:
            came = order[arrived]
            partial, device = reduce[rows[came]], target[link[rows[came]]]
            if device < npus:
                good = _arrive(value[device, :words], carried[came, :words], partial)
            else:
                good = _enter(came, partial, device, passes, queue, after)
                waiting += partial
            if not good:
                return False
            arrived += 1
        left = _depart(position, rows, all_rows, full, copy, scratch, tag) if position < len(rows) else 0
        if left < 0:
            return False
        waiting -= left
    missing = waiting + len(rows) - arrived + (len(pre) == 0)
    for device in post:
        missing += seen[device] != tag or not _leaves(value[device, :words], full, False)
    return missing == 0


@jit()
def screen(
    low: int,
    high: int,
    offsets: Int64Array,
    order: Int32Array,
    all_rows: Rows,
    total: Int64Array,
    size_of: Int32Array,
    op: NDArray[np.int8],
    pre: Int32Array,
    post: Int32Array,
    sets: Int64Array,
    members: Int32Array,
) -> UInt8Array:
    """uint8[high - low]: 0 if a chunk is right, 1 if it needs the exact check, for chunks low .. high - 1."""
    doubtful = np.zeros(high - low, np.uint8)
    devices, most, words = len(all_rows.passes), 0, 1
    for chunk in range(low, high):
        most = max(most, offsets[chunk + 1] - offsets[chunk])
        if op[chunk]:
            words = max(words, (sets[pre[chunk] + 1] - sets[pre[chunk]] + 63) // 64)
    scratch = Scratch(
        np.full(devices, -1, np.int64),
        np.zeros((devices, words), np.uint64),
        np.full((4, devices), -1, np.int32),
        np.empty(most, np.int32),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty((most, words), np.uint64),
    )
    for chunk in range(low, high):
        rows = order[offsets[chunk] : offsets[chunk + 1]]
        before = members[sets[pre[chunk]] : sets[pre[chunk] + 1]]
        after = members[sets[post[chunk]] : sets[post[chunk] + 1]]
        times = total[:, size_of[chunk]]
        doubtful[chunk - low] = not _is_right(rows, all_rows, times, before, after, op[chunk] == 0, scratch, chunk)
    return doubtful
