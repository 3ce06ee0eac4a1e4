"""Replay of reductions with contributions as bits, for those that do not follow a single tree."""

import numpy as np

from collc.kernels.cached_jit import jit
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, UInt8Array, UInt64Array

LATEST = 2**61
"""Picoseconds up to which twice an arrival and a flag fit into 64 bits."""


@jit()
def _arrive(value: UInt64Array, brought: UInt64Array, reduce: bool) -> bool:
    """Store or combine what arrives; False if a contribution arrives twice."""
    for word in range(len(brought)):
        if reduce and value[word] & brought[word]:
            return False
        value[word] = value[word] | brought[word] if reduce else brought[word]
    return True


@jit()
def _leaves(value: UInt64Array, full: UInt64Array, reduce: bool) -> bool:
    """Whether there is something to send, and the complete sum if it is a `send`."""
    some, complete = False, True
    for word in range(len(full)):
        some |= value[word] != 0
        complete &= value[word] == full[word]
    return some and (reduce or complete)


@jit()
def _begin(device: int, tag: int, seen: Int64Array, value: UInt64Array, queue: Int32Array) -> None:
    if seen[device] != tag:
        seen[device] = tag
        value[device, :] = 0
        queue[:, device] = -1


@jit()
def _enter(position: int, reduce: bool, device: int, queue: Int32Array, after: Int32Array, arrival: Int64Array) -> bool:
    """Put an arrival at the end of a switch's queue; False if another partial arrives at the same time.

    queue: int32[4, devices], the first and last positions of partials, and those of copies, -1 for none.
    """
    first = 0 if reduce else 2
    last = queue[first + 1, device]
    if queue[first, device] < 0:
        queue[first, device] = position
    elif reduce and arrival[last] == arrival[position]:
        return False
    else:
        after[last] = position
    after[position] = -1
    queue[first + 1, device] = position
    return True


@jit()
def _passed_on(reduce: bool, device: int, queue: Int32Array, after: Int32Array) -> int:
    """Take the first of a switch's queue: its position, -1 if there is none."""
    first = 0 if reduce else 2
    position = queue[first, device]
    if position >= 0:
        queue[first, device] = after[position]
    return position


@jit()
def _arrivals(
    rows: Int32Array, link: Int32Array, start: Int64Array, reduce: BoolArray, total: Int64Array, kind: Int32Array
) -> tuple[Int64Array, Int64Array]:
    """The arrival of each row in picoseconds, and the rows in that order, copies first.

    Both are empty if a transfer takes no time, or an arrival is LATEST or later.
    """
    arrival, key = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for position, row in enumerate(rows):
        taken = total[kind[link[row]]]
        arrival[position] = start[row] + taken
        if taken <= 0 or arrival[position] >= LATEST:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        key[position] = 2 * arrival[position] + reduce[row]
    return arrival, np.argsort(key, kind="mergesort")


@jit()
def added_up(
    rows: Int32Array,
    link: Int32Array,
    start: Int64Array,
    reduce: BoolArray,
    source: Int32Array,
    target: Int32Array,
    total: Int64Array,
    kind: Int32Array,
    npus: int,
    pre: Int32Array,
    post: Int32Array,
    seen: Int64Array,
    value: UInt64Array,
    passes: BoolArray,
    queue: Int32Array,
    tag: int,
) -> bool:
    """Whether a reduction is right: every transfer carries something, every contribution arrives once, and switches
    pass on what arrives, the oldest first.

    seen: int64[devices], value: uint64[devices, words]: the contributions that a device holds, valid if
    seen[device] == tag. passes: bool[devices], switches that pass on any number of arrivals. queue: see _enter.
    """
    words = (len(pre) + 63) // 64
    full, carried = np.zeros(words, np.uint64), np.empty((len(rows), words), np.uint64)
    for number, device in enumerate(pre):
        _begin(device, tag, seen, value, queue)
        value[device, number // 64] = np.uint64(1) << np.uint64(number % 64)
        full[number // 64] |= value[device, number // 64]
    arrival, order = _arrivals(rows, link, start, reduce, total, kind)
    if len(order) < len(rows):
        return False
    after = np.empty(len(rows), np.int32)
    arrived, waiting = 0, 0
    for position in range(len(rows) + 1):
        now = start[rows[position]] if position < len(rows) else np.iinfo(np.int64).max
        while arrived < len(rows) and arrival[order[arrived]] <= now:
            row = rows[order[arrived]]
            device = target[link[row]]
            if device < npus:
                good = _arrive(value[device, :words], carried[order[arrived]], reduce[row])
            else:
                good = _enter(order[arrived], reduce[row], device, queue, after, arrival)
                waiting += reduce[row]
            if not good:
                return False
            arrived += 1
        if position < len(rows):
            on, partial = link[rows[position]], reduce[rows[position]]
            a, b = source[on], target[on]
            if (a >= npus and not passes[a]) or (b >= npus and not passes[b]):
                return False
            _begin(a, tag, seen, value, queue)
            _begin(b, tag, seen, value, queue)
            came = _passed_on(partial, a, queue, after) if a >= npus else -1
            back = partial and came >= 0 and source[link[rows[came]]] == b
            carried[position] = carried[came] if came >= 0 else value[a, :words]
            waiting -= partial and a >= npus
            if back or (a >= npus and came < 0) or not _leaves(carried[position], full, partial):
                return False
    missing = waiting
    for device in post:
        missing += seen[device] != tag or not _leaves(value[device, :words], full, False)
    return missing == 0


@jit()
def rescreen(
    doubtful: Int64Array,
    offsets: Int64Array,
    order: Int32Array,
    link: Int32Array,
    start: Int64Array,
    reduce: BoolArray,
    source: Int32Array,
    target: Int32Array,
    total: Int64Array,
    size_of: Int32Array,
    kind: Int32Array,
    npus: int,
    devices: int,
    pre: Int32Array,
    post: Int32Array,
    sets: Int64Array,
    members: Int32Array,
    passes: BoolArray,
) -> UInt8Array:
    """uint8[doubtful]: 0 if a reduction is right, 1 if it needs the exact check. passes: see added_up."""
    found = np.ones(len(doubtful), np.uint8)
    queue = np.full((4, devices), -1, np.int32)
    owner, value = np.full(devices, -1, np.int64), np.empty((devices, 0), np.uint64)
    for position, chunk in enumerate(doubtful):
        rows = order[offsets[chunk] : offsets[chunk + 1]]
        before = members[sets[pre[chunk]] : sets[pre[chunk] + 1]]
        after = members[sets[post[chunk]] : sets[post[chunk] + 1]]
        if value.shape[1] * 64 < len(before):
            value = np.zeros((devices, (len(before) + 63) // 64), np.uint64)
            owner[:] = -1
        column = total[:, size_of[chunk]]
        found[position] = len(before) == 0 or not added_up(
            rows,
            link,
            start,
            reduce,
            source,
            target,
            column,
            kind,
            npus,
            before,
            after,
            owner,
            value,
            passes,
            queue,
            chunk,
        )
    return found
