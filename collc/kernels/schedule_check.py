"""The hot loops of the schedule check: overlaps on links, and which chunks are plainly right."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Times = NDArray[np.int64]
Flags = NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max


@njit(cache=True)
def overlaps(
    chunk: Ints, link: Ints, start: Times, busy: Times, size_of: Ints, kind: Ints, links: int, limit: int
) -> tuple[int, Times, Times]:
    """Rows (by start) that begin before the row before them on their link has ended: (count, earlier, later)."""
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
def by_chunk(chunk: Ints, chunks: int) -> tuple[Times, Ints]:
    """Rows of each chunk, in order: offsets int64[chunks + 1], rows int32."""
    offsets = np.zeros(chunks + 1, np.int64)
    for number in chunk:
        offsets[number + 1] += 1
    for number in range(chunks):
        offsets[number + 1] += offsets[number]
    place = offsets[:-1].copy()
    rows = np.empty(len(chunk), np.int32)
    for row in range(len(chunk)):
        rows[place[chunk[row]]] = row
        place[chunk[row]] += 1
    return offsets, rows


@njit(cache=True)
def _copied(
    rows: Ints,
    link: Ints,
    start: Times,
    reduce: Flags,
    source: Ints,
    target: Ints,
    total: Times,
    kind: Ints,
    npus: int,
    pre: Ints,
    post: Ints,
    seen: Times,
    held: Times,
    into: Times,
    out: Times,
    tag: int,
) -> bool:
    """Whether a copy chunk is plainly right; `held` gets when each device first has it."""
    for device in pre:
        seen[device], held[device] = tag, -1
        into[device] = 0
    for row in rows:
        on = link[row]
        taken = total[kind[on]]
        if taken <= 0 or reduce[row]:
            return False
        device = target[on]
        arrival = start[row] + taken
        if seen[device] != tag:
            seen[device], held[device] = tag, arrival
            into[device], out[device] = 0, 0
        elif arrival < held[device]:
            held[device] = arrival
        into[device] += 1
    for row in rows:
        device = source[link[row]]
        if seen[device] != tag or held[device] > start[row]:
            return False
        if device >= npus:
            out[device] += 1
            if out[device] > 1 or into[device] > 1:
                return False
    missing = 0
    for device in post:
        missing += seen[device] != tag
    return missing == 0


@njit(cache=True)
def _note(
    device: int, tag: int, seen: Times, held: Times, into: Times, out: Times, first: Times, last: Times, sent: Times
) -> int:
    """Begin a device's record for a chunk; 1 where it is new."""
    if seen[device] == tag:
        return 0
    seen[device] = tag
    held[device], first[device], last[device], sent[device] = NEVER, NEVER, -1, -1
    into[device], out[device] = 0, 0
    return 1


@njit(cache=True)
def _in_order(
    rows: Ints, link: Ints, start: Times, reduce: Flags, source: Ints, target: Ints, total: Times, kind: Ints,
    npus: int, held: Times, into: Times, out: Times, first: Times, last: Times, root: int,
) -> bool:  # fmt: skip
    """Whether each partial leaves after all that it takes in, no copy comes before, and copies come from the root."""
    for row in rows:
        on = link[row]
        a, b = source[on], target[on]
        for device in (a, b):
            if device >= npus and (into[device] != 1 or out[device] != 1):
                return False
        if reduce[row]:
            if first[a] > start[row] or last[a] > start[row] or held[a] <= start[row]:
                return False
            if held[b] <= start[row] + total[kind[on]]:
                return False
        elif held[a] > start[row] and not (a == root and last[root] <= start[row]):
            return False
    return True


@njit(cache=True)
def _reduced(
    rows: Ints,
    link: Ints,
    start: Times,
    reduce: Flags,
    source: Ints,
    target: Ints,
    total: Times,
    kind: Ints,
    npus: int,
    pre: Ints,
    post: Ints,
    seen: Times,
    held: Times,
    into: Times,
    out: Times,
    tag: int,
    first: Times,
    last: Times,
    sent: Times,
    part: Times,
) -> bool:
    """Whether a reduction is plainly right: a tree of partials to one root, then copies of what the root has.

    held: first arrival of a copy. first, last: of partials. sent: start of the one send of a partial.
    part[device] == tag: it takes part in the tree.
    """
    nodes, senders, total_id = 0, 0, 0
    for device in pre:
        _note(device, tag, seen, held, into, out, first, last, sent)
        part[device], first[device] = tag, -1
        nodes += 1
        total_id += device
    for row in rows:
        on = link[row]
        taken = total[kind[on]]
        if taken <= 0:
            return False
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
                total_id += device
        if sent[a] >= 0:
            return False
        sent[a] = start[row]
        senders += 1
        total_id -= a
        first[b] = min(first[b], arrival)
        last[b] = max(last[b], arrival)
    if nodes - senders != 1 or total_id >= npus:
        return False
    root = total_id
    if not _in_order(rows, link, start, reduce, source, target, total, kind, npus, held, into, out, first, last, root):
        return False
    missing = 0
    for device in post:
        missing += device != root and (seen[device] != tag or held[device] == NEVER)
    return missing == 0


@njit(cache=True)
def screen(
    offsets: Times,
    order: Ints,
    link: Ints,
    start: Times,
    reduce: Flags,
    source: Ints,
    target: Ints,
    total: Times,
    size_of: Ints,
    kind: Ints,
    npus: int,
    devices: int,
    op: NDArray[np.int8],
    pre: Ints,
    post: Ints,
    sets: Times,
    members: Ints,
    hold: Times,
) -> NDArray[np.uint8]:
    """uint8[chunks]: 0 where a chunk is plainly right, 1 where it needs the exact check.

    hold: int64[rows] or empty; for a row that leaves a switch, when its chunk came there.
    """
    doubtful = np.zeros(len(op), np.uint8)
    seen, part = np.full(devices, -1, np.int64), np.full(devices, -1, np.int64)
    held, first = np.empty(devices, np.int64), np.empty(devices, np.int64)
    last, sent = np.empty(devices, np.int64), np.empty(devices, np.int64)
    into, out = np.zeros(devices, np.int64), np.zeros(devices, np.int64)
    for chunk in range(len(op)):
        rows = order[offsets[chunk] : offsets[chunk + 1]]
        before = members[sets[pre[chunk]] : sets[pre[chunk] + 1]]
        after = members[sets[post[chunk]] : sets[post[chunk] + 1]]
        column = total[:, size_of[chunk]]
        if op[chunk] == 0:
            right = _copied(
                rows, link, start, reduce, source, target, column, kind, npus, before, after, seen, held, into, out,
                chunk,
            )  # fmt: skip
        else:
            right = _reduced(
                rows, link, start, reduce, source, target, column, kind, npus, before, after, seen, held, into, out,
                chunk, first, last, sent, part,
            )  # fmt: skip
        doubtful[chunk] = not right
        if right and len(hold):
            for row in rows:
                device = source[link[row]]
                if device >= npus:
                    hold[row] = first[device] if reduce[row] else held[device]
    return doubtful
