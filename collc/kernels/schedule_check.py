"""The hot loops of the schedule check: overlaps on links, and the chunks that are plainly right."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collc.kernels.cached_jit import jit
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, UInt8Array

NEVER = np.iinfo(np.int64).max


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


Columns = tuple[Int32Array, Int32Array, Int64Array, Int64Array, BoolArray]
"""Sources, targets, starts and arrivals of transfers, and which are partials."""


class ChunkTransfers(NamedTuple):
    """The transfers of one chunk, by start: sources, targets, starts and arrivals, and which are partials.

    passes: bool[devices], switches that pass on any number of arrivals, one by one. after: int32[transfers], written:
    the next transfer of the queue that one is in.
    """

    source: Int32Array
    target: Int32Array
    start: Int64Array
    arrival: Int64Array
    reduce: BoolArray
    npus: int
    passes: BoolArray
    after: Int32Array


class DeviceMarks(NamedTuple):
    """What is known of each device for one chunk, valid if seen[device] is the chunk. Times are picoseconds.

    held: the first arrival of a copy. into, out: numbers of transfers. first, last: arrivals of partials. sent: the
    start of the one transfer of a partial. part[device] == chunk: the device takes part in the tree. Of the transfers
    that have brought a switch copies (partials) that have not left, by arrival: copy_head, copy_tail (head, tail); -1
    for none.
    """

    seen: Int64Array
    held: Int64Array
    into: Int64Array
    out: Int64Array
    first: Int64Array
    last: Int64Array
    sent: Int64Array
    part: Int64Array
    copy_head: Int32Array
    copy_tail: Int32Array
    head: Int32Array
    tail: Int32Array


@jit()
def _marks(devices: int) -> DeviceMarks:
    seen, part = np.full(devices, -1, np.int64), np.full(devices, -1, np.int64)
    held, first = np.empty(devices, np.int64), np.empty(devices, np.int64)
    last, sent = np.empty(devices, np.int64), np.empty(devices, np.int64)
    into, out = np.zeros(devices, np.int64), np.zeros(devices, np.int64)
    queues = np.full((4, devices), -1, np.int32)
    return DeviceMarks(seen, held, into, out, first, last, sent, part, queues[0], queues[1], queues[2], queues[3])


@jit()
def _enters(
    number: int, arrival: int, head: Int32Array, tail: Int32Array, device: int, after: Int32Array, arrivals: Int64Array
) -> bool:
    """Put an arrival at the end of a switch's queue; False where it comes before the one in front of it.

    arrivals: int64[devices], those of the ends of the queues.
    """
    if head[device] >= 0 and arrivals[device] > arrival:
        return False
    if head[device] < 0:
        head[device] = number
    else:
        after[tail[device]] = number
    after[number] = -1
    tail[device] = number
    arrivals[device] = arrival
    return True


@jit()
def _leaves(
    start: int, target: int, head: Int32Array, device: int, after: Int32Array, arrival: Int64Array, source: Int32Array
) -> bool:
    """Take the first of a switch's queue; False if none has arrived, or it came from `target`, a device or -1."""
    number = head[device]
    if number < 0 or arrival[number] > start or source[number] == target:
        return False
    head[device] = after[number]
    return True


@jit()
def _copied(transfers: ChunkTransfers, pre: Int32Array, post: Int32Array, marks: DeviceMarks, tag: int) -> bool:
    """Whether the transfers of a copied chunk are plainly right; sets marks.held."""
    seen, held, into, out, last = marks.seen, marks.held, marks.into, marks.out, marks.last
    head, tail, after, passes = marks.copy_head, marks.copy_tail, transfers.after, transfers.passes
    for device in pre:
        seen[device], held[device] = tag, -1
        into[device] = 0
    for number in range(len(transfers.start)):
        arrival = transfers.arrival[number]
        if arrival <= transfers.start[number] or transfers.reduce[number]:
            return False
        device = transfers.target[number]
        if seen[device] != tag:
            seen[device], held[device] = tag, arrival
            into[device], out[device], head[device] = 0, 0, -1
        elif arrival < held[device]:
            held[device] = arrival
        into[device] += 1
        if passes[device] and not _enters(number, arrival, head, tail, device, after, last):
            return False
    if not _sent_in_order(transfers, marks, tag):
        return False
    missing = 0
    for device in post:
        missing += seen[device] != tag
    return missing == 0


@jit()
def _sent_in_order(transfers: ChunkTransfers, marks: DeviceMarks, tag: int) -> bool:
    """Whether each transfer of a copied chunk starts when its sender holds the chunk."""
    source, _, start, arrival, _, npus, passes, after = transfers
    seen, held, into, out, head = marks.seen, marks.held, marks.into, marks.out, marks.copy_head
    for number in range(len(start)):
        device = source[number]
        if seen[device] != tag or held[device] > start[number]:
            return False
        if passes[device]:
            if not _leaves(start[number], -1, head, device, after, arrival, source):
                return False
        elif device >= npus:
            out[device] += 1
            if out[device] > 1 or into[device] > 1:
                return False
    return True


@jit()
def _note(
    device: int,
    tag: int,
    seen: Int64Array,
    held: Int64Array,
    into: Int64Array,
    out: Int64Array,
    first: Int64Array,
    last: Int64Array,
    sent: Int64Array,
    copy_head: Int32Array,
    head: Int32Array,
) -> None:
    """Reset the marks of a device for a new chunk. A call costs more than its work, so that it is not made in vain."""
    seen[device] = tag
    held[device], first[device] = NEVER, NEVER
    last[device], sent[device] = -1, -1
    into[device], out[device] = 0, 0
    copy_head[device], head[device] = -1, -1


@jit()
def _root(  # noqa: PLR0912 - calls that are made in vain cost more than the work of this loop
    transfers: ChunkTransfers, pre: Int32Array, marks: DeviceMarks, tag: int
) -> int:
    """Set the marks of a reduction; the root of the tree that its partials follow, -1 if they follow none.

    Switches pass partials on in order of arrival; those that do only this are not part of the tree.
    """
    nodes, senders, rest, waiting = len(pre), 0, 0, 0
    source, target, start, arrivals, reduce, npus, passes, after = transfers
    seen, held, into, out, first, last, sent, part, copy_head, _, head, tail = marks
    for device in pre:
        _note(device, tag, seen, held, into, out, first, last, sent, copy_head, head)
        part[device], first[device] = tag, -1
        rest += device
    for number in range(len(start)):
        arrival = arrivals[number]
        if arrival <= start[number]:
            return -1
        a, b = source[number], target[number]
        if seen[a] != tag:
            _note(a, tag, seen, held, into, out, first, last, sent, copy_head, head)
        if seen[b] != tag:
            _note(b, tag, seen, held, into, out, first, last, sent, copy_head, head)
        into[b] += 1
        out[a] += 1
        if not reduce[number]:
            held[b] = min(held[b], arrival)
            continue
        for device in (a, b):
            if part[device] != tag and not passes[device]:
                part[device] = tag
                nodes += 1
                rest += device
        good = sent[a] < 0
        if passes[a]:
            waiting -= 1
            good = _leaves(start[number], b, head, a, after, arrivals, source)
        else:
            sent[a] = start[number]
            senders += 1
            rest -= a
        first[b] = min(first[b], arrival)
        if passes[b]:
            waiting += 1
            good &= _enters(number, arrival, head, tail, b, after, last)
        else:
            last[b] = max(last[b], arrival)
        if not good:
            return -1
    # All devices but one have sent, and `rest` is the sum of the numbers of those that have not: its number.
    return rest if nodes - senders == 1 and rest < npus and not waiting else -1


@jit()
def _in_order(transfers: ChunkTransfers, marks: DeviceMarks, root: int) -> bool:
    """Whether each partial leaves after all partials that arrive, before any copy, and copies come from the root."""
    source, target, start, arrivals, reduce, npus, passes, after = transfers
    _, held, into, out, first, last, _, _, head, tail, _, _ = marks
    for number in range(len(start)):
        a, b = source[number], target[number]
        begin, arrival = start[number], arrivals[number]
        for device in (a, b):
            if device >= npus and not passes[device] and (into[device] != 1 or out[device] != 1):
                return False
        if reduce[number]:
            if not passes[a] and (first[a] > begin or last[a] > begin or held[a] <= begin):
                return False
            if not passes[b] and held[b] <= arrival:
                return False
            continue
        if passes[a]:
            if not _leaves(begin, -1, head, a, after, arrivals, source):
                return False
        elif held[a] > begin and not (a == root and last[root] <= begin):
            return False
        if passes[b] and not _enters(number, arrival, head, tail, b, after, last):
            return False
    return True


@jit()
def _reduced(transfers: ChunkTransfers, pre: Int32Array, post: Int32Array, marks: DeviceMarks, tag: int) -> bool:
    """Whether a reduction is plainly right: a tree of partials to one root, then copies of the root's value."""
    root = _root(transfers, pre, marks, tag)
    if root < 0 or not _in_order(transfers, marks, root):
        return False
    missing = 0
    for device in post:
        missing += device != root and (marks.seen[device] != tag or marks.held[device] == NEVER)
    return missing == 0


@jit()
def _room(count: int) -> Columns:
    ends, times = np.empty((2, count), np.int32), np.empty((2, count), np.int64)
    return ends[0], ends[1], times[0], times[1], np.empty(count, np.bool_)


@jit()
def _gathered(
    rows: Int32Array,
    link: Int32Array,
    start: Int64Array,
    reduce: BoolArray,
    source: Int32Array,
    target: Int32Array,
    total: Int64Array,
    kind: Int32Array,
    room: Columns,
) -> Columns:
    """The columns of the rows of a chunk, which are far apart in memory, next to one another in `room`."""
    sources, targets, starts, arrivals, partials = room
    count = len(rows)
    for number in range(count):
        row = rows[number]
        on = link[row]
        sources[number], targets[number] = source[on], target[on]
        starts[number], arrivals[number] = start[row], start[row] + total[kind[on]]
        partials[number] = reduce[row]
    return sources[:count], targets[:count], starts[:count], arrivals[:count], partials[:count]


@jit()
def screen(
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
    op: NDArray[np.int8],
    pre: Int32Array,
    post: Int32Array,
    sets: Int64Array,
    members: Int32Array,
    filled: Int64Array,
    passes: BoolArray,
) -> UInt8Array:
    """uint8[chunks]: 0 if a chunk is plainly right, 1 if it needs the exact check.

    filled: int64[rows] or empty; written for each row out of a switch: when the chunk arrived there. passes:
    bool[devices], switches that pass chunks on one by one and whose slots need not be counted.
    """
    doubtful = np.zeros(len(op), np.uint8)
    marks = _marks(devices)
    most = 0
    for chunk in range(len(op)):
        most = max(most, offsets[chunk + 1] - offsets[chunk])
    room, queued = _room(most), np.empty(most, np.int32)
    for chunk in range(len(op)):
        rows = order[offsets[chunk] : offsets[chunk + 1]]
        before = members[sets[pre[chunk]] : sets[pre[chunk] + 1]]
        after = members[sets[post[chunk]] : sets[post[chunk] + 1]]
        times = total[:, size_of[chunk]]
        columns = _gathered(rows, link, start, reduce, source, target, times, kind, room)
        transfers = ChunkTransfers(*columns, npus, passes, queued)
        if op[chunk] == 0:
            right = _copied(transfers, before, after, marks, chunk)
        else:
            right = _reduced(transfers, before, after, marks, chunk)
        doubtful[chunk] = not right
        if right and len(filled):
            for row in rows:
                device = source[link[row]]
                if device >= npus:
                    filled[row] = marks.first[device] if reduce[row] else marks.held[device]
    return doubtful
