"""Messages along shortest paths: which there are, and when they are sent one after another.

Written for plain Python on lists and for Numba on arrays (collc/kernels/compiled.py).
"""

from __future__ import annotations

import heapq
from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

from collc.kernels.compiled import inlined


class LinkTable(NamedTuple):
    """L links of a network with D devices, the first `npus` of which are NPUs, and S sizes of chunks.

    offsets: [D + 1], out: [L], the links out of each device. source, target: [L]. length, busy, total: [S L], by size
    and link: what paths are measured by, how long a chunk keeps the link busy, and when it has arrived.
    """

    npus: int
    offsets: Sequence[int]
    out: Sequence[int]
    source: Sequence[int]
    target: Sequence[int]
    length: Sequence[int]
    busy: Sequence[int]
    total: Sequence[int]


class RowTable(NamedTuple):
    """R chunks. order: [R], those of one tree in a row. tree, size: [R]. holders, wanting: CSR. release: [R]."""

    order: Sequence[int]
    tree: Sequence[int]
    size: Sequence[int]
    holder_offsets: Sequence[int]
    holders: Sequence[int]
    wanting_offsets: Sequence[int]
    wanting: Sequence[int]
    release: Sequence[int]


class PathWork(NamedTuple):
    """The tree of shortest paths that is followed, and what is known of the chunk that is followed.

    into: [D], the link by which the tree reaches a device, or -1. distance: [D], or -1. level: [D], how many messages
    bring the chunk there, or -1. slot: [D], its number among the devices that chunks visit, or -1. path, seen: [D],
    links and devices of this chunk. counters: [tree, messages, hops, slots, devices of this chunk].
    """

    into: MutableSequence[int]
    distance: MutableSequence[int]
    level: MutableSequence[int]
    slot: MutableSequence[int]
    path: MutableSequence[int]
    seen: MutableSequence[int]
    counters: MutableSequence[int]


class MessageTable(NamedTuple):
    """Messages and their hops, as far as there is room.

    level, row, gap, tail, first: by message: how many come before it, its chunk, the distance of sender and receiver
    in numbers, the slot of the sender, and its first hop. link, slot: by hop; slot: of the device that it leads to.
    ready: by slot, when the device has the chunk, or a switch is free for it again.
    """

    level: MutableSequence[int]
    row: MutableSequence[int]
    gap: MutableSequence[int]
    tail: MutableSequence[int]
    first: MutableSequence[int]
    link: MutableSequence[int]
    slot: MutableSequence[int]
    ready: MutableSequence[int]


def follow(links: LinkTable, rows: RowTable, work: PathWork, found: MessageTable, first: int, room: int) -> int:
    """Add the messages of chunks from a position of `rows.order` on, until there is no room for those of another.

    Returns the position to go on with; where no path leads to a device, -1. room: for how many more messages, hops and
    slots there is room.
    """
    devices, counters = len(work.into), work.counters
    most_hops, most_slots = counters[2] + room, counters[3] + room
    for at in range(first, len(rows.order)):
        row = rows.order[at]
        if counters[3] + devices > most_slots:
            return at
        messages, hops, slots = counters[1], counters[2], counters[3]
        low, high = rows.holder_offsets[row], rows.holder_offsets[row + 1]
        if rows.tree[row] != counters[0]:
            counters[0] = rows.tree[row]
            _grow_tree(links, rows.holders, low, high, rows.size[row] * len(links.source), work.into, work.distance)
        complete = _follow_row(links, rows, work, found, row, most_hops)
        for k in range(counters[4]):
            work.level[work.seen[k]] = -1
            work.slot[work.seen[k]] = -1
        if complete == NO_PATH:
            return -1
        if complete == NO_ROOM:
            counters[1], counters[2], counters[3] = messages, hops, slots
            return at
    return len(rows.order)


COMPLETE, NO_PATH, NO_ROOM = 0, 1, 2


@inlined
def _follow_row(links: LinkTable, rows: RowTable, work: PathWork, found: MessageTable, row: int, most: int) -> int:
    """Add the messages of one chunk. Returns COMPLETE, NO_PATH or NO_ROOM. most: hops in all."""
    counters, release = work.counters, rows.release[row]
    counters[4] = 0
    for k in range(rows.holder_offsets[row], rows.holder_offsets[row + 1]):
        _enter(links, work, found, rows.holders[k], release)
        work.level[rows.holders[k]] = 0
    for k in range(rows.wanting_offsets[row], rows.wanting_offsets[row + 1]):
        device, count = rows.wanting[k], 0
        while work.level[device] < 0:
            link = work.into[device]
            if link < 0:
                return NO_PATH
            work.path[count] = link
            count += 1
            device = links.source[link]
        if counters[2] + count > most:
            return NO_ROOM
        _add_messages(links, work, found, row, count, release)
    return COMPLETE


def _grow_tree(
    links: LinkTable,
    holders: Sequence[int],
    low: int,
    high: int,
    base: int,
    into: MutableSequence[int],
    distance: MutableSequence[int],
) -> None:
    """Shortest paths from some devices (Dijkstra); of those of one length to a device the first found stays."""
    for device in range(len(into)):
        into[device] = distance[device] = -1
    heap = [(0, 0)]
    heap.pop()
    for k in range(low, high):
        distance[holders[k]] = 0
        heapq.heappush(heap, (0, holders[k]))
    while len(heap) > 0:
        here, device = heapq.heappop(heap)
        if here > distance[device]:
            continue
        for k in range(links.offsets[device], links.offsets[device + 1]):
            link = links.out[k]
            target, there = links.target[link], here + links.length[base + link]
            if distance[target] < 0 or there < distance[target]:
                distance[target] = there
                into[target] = link
                heapq.heappush(heap, (there, target))


@inlined
def _enter(links: LinkTable, work: PathWork, found: MessageTable, device: int, release: int) -> None:
    """Give a device its slot for a chunk, if it has none."""
    if work.slot[device] < 0:
        slot = work.counters[3]
        work.slot[device] = slot
        found.ready[slot] = release if device < links.npus else 0
        work.seen[work.counters[4]] = device
        work.counters[3] += 1
        work.counters[4] += 1


@inlined
def _add_messages(links: LinkTable, work: PathWork, found: MessageTable, row: int, count: int, release: int) -> None:
    """Add the messages of a path, which ends at each NPU. work.path: its links, the last one first."""
    counters = work.counters
    begins = True
    tail = 0
    for k in range(count - 1, -1, -1):
        link = work.path[k]
        if begins:
            tail = links.source[link]
            found.row[counters[1]], found.tail[counters[1]] = row, work.slot[tail]
        head = links.target[link]
        _enter(links, work, found, head, release)
        found.link[counters[2]], found.slot[counters[2]] = link, work.slot[head]
        counters[2] += 1
        begins = head < links.npus or k == 0
        if begins:
            work.level[head] = work.level[tail] + 1
            found.level[counters[1]], found.gap[counters[1]] = work.level[head], (head - tail) % links.npus
            counters[1] += 1
            found.first[counters[1]] = counters[2]


class SendTable(NamedTuple):
    """Messages as they are sent. order: of messages. tail, first: by message. base: by message, where the size of its
    chunk begins in `busy` and `total`. link, slot: by hop, as in MessageTable.
    """

    order: Sequence[int]
    tail: Sequence[int]
    first: Sequence[int]
    base: Sequence[int]
    link: Sequence[int]
    slot: Sequence[int]


class SendWork(NamedTuple):
    """When what is free. free: [L]. ready: by slot. buffers: [D + 1], where the slots of the buffer of each device
    begin in `taken`, which has when each is free, the first of them first (a heap). start: by hop, the result.
    """

    free: MutableSequence[int]
    ready: MutableSequence[int]
    buffers: Sequence[int]
    taken: MutableSequence[int]
    start: MutableSequence[int]


def send(links: LinkTable, table: SendTable, work: SendWork, low: int, high: int) -> None:
    """Send the messages from one position of the order to another, each as early as it can go without a pause."""
    free, ready, busy, total = work.free, work.ready, links.busy, links.total
    for at in range(low, high):
        message = table.order[at]
        first, end, base = table.first[message], table.first[message + 1], table.base[message]
        start, offset = ready[table.tail[message]], 0
        for hop in range(first, end):
            link = table.link[hop]
            start = max(start, free[link] - offset)
            offset += total[base + link]
            if hop < end - 1:
                start = max(start, ready[table.slot[hop]] - offset)
                switch = links.target[link]
                if work.buffers[switch] < work.buffers[switch + 1]:
                    start = max(start, work.taken[work.buffers[switch]] + busy[base + link] - offset)
        time = start
        for hop in range(first, end):
            link = table.link[hop]
            work.start[hop] = time
            free[link] = time + busy[base + link]
            if hop > first:
                ready[table.slot[hop - 1]] = free[link]
                switch = links.source[link]
                if work.buffers[switch] < work.buffers[switch + 1]:
                    _replace_first(work.taken, work.buffers[switch], work.buffers[switch + 1], free[link])
            time += total[base + link]
        ready[table.slot[end - 1]] = time


def _replace_first(heap: MutableSequence[int], low: int, high: int, value: int) -> None:
    """Replace the least of the numbers from `low` to `high`, which are a heap."""
    at = 0
    while 2 * at + 1 < high - low:
        child = 2 * at + 1
        if child + 1 < high - low and heap[low + child + 1] < heap[low + child]:
            child += 1
        if heap[low + child] >= value:
            break
        heap[low + at] = heap[low + child]
        at = child
    heap[low + at] = value
