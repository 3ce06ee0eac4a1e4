"""The hot loops of the schedule check: overlaps on links, and the chunks that are plainly right."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collc.ten.arrays import BoolArray, Int32Array, Int64Array, UInt8Array

NEVER = np.iinfo(np.int64).max


@njit(cache=True)
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


@njit(cache=True)
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


class TransferColumns(NamedTuple):
    """The transfers of all chunks. total: int64[kinds], picoseconds until a chunk of one size has arrived."""

    link: Int32Array
    start: Int64Array
    reduce: BoolArray
    source: Int32Array
    target: Int32Array
    total: Int64Array
    kind: Int32Array
    npus: int


class DeviceMarks(NamedTuple):
    """What is known of each device for one chunk, valid where seen[device] is the chunk. Times are picoseconds.

    held: the first arrival of a copy. into, out: numbers of transfers. first, last: arrivals of partials. sent: the
    start of the one transfer of a partial. part[device] == chunk: the device takes part in the tree.
    """

    seen: Int64Array
    held: Int64Array
    into: Int64Array
    out: Int64Array
    first: Int64Array
    last: Int64Array
    sent: Int64Array
    part: Int64Array


@njit(cache=True)
def _marks(devices: int) -> DeviceMarks:
    seen, part = np.full(devices, -1, np.int64), np.full(devices, -1, np.int64)
    held, first = np.empty(devices, np.int64), np.empty(devices, np.int64)
    last, sent = np.empty(devices, np.int64), np.empty(devices, np.int64)
    into, out = np.zeros(devices, np.int64), np.zeros(devices, np.int64)
    return DeviceMarks(seen, held, into, out, first, last, sent, part)


@njit(cache=True)
def _copied(
    rows: Int32Array, transfers: TransferColumns, pre: Int32Array, post: Int32Array, marks: DeviceMarks, tag: int
) -> bool:
    """Whether the transfers of a copied chunk are plainly right; sets marks.held."""
    seen, held, into, out = marks.seen, marks.held, marks.into, marks.out
    for device in pre:
        seen[device], held[device] = tag, -1
        into[device] = 0
    for row in rows:
        on = transfers.link[row]
        taken = transfers.total[transfers.kind[on]]
        if taken <= 0 or transfers.reduce[row]:
            return False
        device = transfers.target[on]
        arrival = transfers.start[row] + taken
        if seen[device] != tag:
            seen[device], held[device] = tag, arrival
            into[device], out[device] = 0, 0
        elif arrival < held[device]:
            held[device] = arrival
        into[device] += 1
    for row in rows:
        device = transfers.source[transfers.link[row]]
        if seen[device] != tag or held[device] > transfers.start[row]:
            return False
        if device >= transfers.npus:
            out[device] += 1
            if out[device] > 1 or into[device] > 1:
                return False
    missing = 0
    for device in post:
        missing += seen[device] != tag
    return missing == 0


@njit(cache=True)
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
) -> None:
    """Reset the marks of a device for a new chunk. Called for each row: arrays are faster here than a tuple of them."""
    if seen[device] != tag:
        seen[device] = tag
        held[device], first[device] = NEVER, NEVER
        last[device], sent[device] = -1, -1
        into[device], out[device] = 0, 0


@njit(cache=True)
def _root(rows: Int32Array, transfers: TransferColumns, pre: Int32Array, marks: DeviceMarks, tag: int) -> int:
    """Set the marks of a reduction; the root of the tree that its partials follow, -1 where they follow none."""
    nodes, senders, rest = len(pre), 0, 0
    link, start, reduce, source, target, total, kind, npus = transfers
    seen, held, into, out, first, last, sent, part = marks
    for device in pre:
        _note(device, tag, seen, held, into, out, first, last, sent)
        part[device], first[device] = tag, -1
        rest += device
    for row in rows:
        on = link[row]
        taken = total[kind[on]]
        if taken <= 0:
            return -1
        a, b = source[on], target[on]
        _note(a, tag, seen, held, into, out, first, last, sent)
        _note(b, tag, seen, held, into, out, first, last, sent)
        arrival = start[row] + taken
        into[b] += 1
        out[a] += 1
        if not reduce[row]:
            held[b] = min(held[b], arrival)
            continue
        for device in (a, b):
            if part[device] != tag:
                part[device] = tag
                nodes += 1
                rest += device
        if sent[a] >= 0:
            return -1
        sent[a] = start[row]
        senders += 1
        rest -= a
        first[b] = min(first[b], arrival)
        last[b] = max(last[b], arrival)
    # All devices but one have sent, and `rest` is the sum of the numbers of those that have not: its number.
    return rest if nodes - senders == 1 and rest < npus else -1


@njit(cache=True)
def _in_order(rows: Int32Array, transfers: TransferColumns, marks: DeviceMarks, root: int) -> bool:
    """Whether each partial leaves after all partials that arrive, before any copy, and copies come from the root."""
    link, start, reduce, source, target, total, kind, npus = transfers
    _, held, into, out, first, last, _, _ = marks
    for row in rows:
        on = link[row]
        a, b = source[on], target[on]
        begin = start[row]
        for device in (a, b):
            if device >= npus and (into[device] != 1 or out[device] != 1):
                return False
        if reduce[row]:
            if first[a] > begin or last[a] > begin or held[a] <= begin:
                return False
            if held[b] <= begin + total[kind[on]]:
                return False
        elif held[a] > begin and not (a == root and last[root] <= begin):
            return False
    return True


@njit(cache=True)
def _reduced(
    rows: Int32Array, transfers: TransferColumns, pre: Int32Array, post: Int32Array, marks: DeviceMarks, tag: int
) -> bool:
    """Whether a reduction is plainly right: a tree of partials to one root, then copies of the root's value."""
    root = _root(rows, transfers, pre, marks, tag)
    if root < 0 or not _in_order(rows, transfers, marks, root):
        return False
    missing = 0
    for device in post:
        missing += device != root and (marks.seen[device] != tag or marks.held[device] == NEVER)
    return missing == 0


@njit(cache=True)
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
) -> UInt8Array:
    """uint8[chunks]: 0 where a chunk is plainly right, 1 where it needs the exact check.

    filled: int64[rows] or empty; written for each row out of a switch: when the chunk arrived there.
    """
    doubtful = np.zeros(len(op), np.uint8)
    marks = _marks(devices)
    for chunk in range(len(op)):
        rows = order[offsets[chunk] : offsets[chunk + 1]]
        before = members[sets[pre[chunk]] : sets[pre[chunk] + 1]]
        after = members[sets[post[chunk]] : sets[post[chunk] + 1]]
        transfers = TransferColumns(link, start, reduce, source, target, total[:, size_of[chunk]], kind, npus)
        if op[chunk] == 0:
            right = _copied(rows, transfers, before, after, marks, chunk)
        else:
            right = _reduced(rows, transfers, before, after, marks, chunk)
        doubtful[chunk] = not right
        if right and len(filled):
            for row in rows:
                device = source[link[row]]
                if device >= npus:
                    filled[row] = marks.first[device] if reduce[row] else marks.held[device]
    return doubtful
