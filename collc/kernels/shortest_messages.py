"""Messages along shortest paths, sent one after another.

Written for plain Python on lists and for Numba on arrays (collc/kernels/compiled.py).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

LinkTable = namedtuple("LinkTable", "source target busy total")
"""L links and S sizes of chunks. source, target: [L]. busy, total: [S L], by size and link: picoseconds that a
chunk keeps the link busy, and until it has arrived.
"""


SendTable = namedtuple("SendTable", "order tail first base link slot")
"""Messages as they are sent. order: of messages. tail, first: by message. base: by message, where the size of its
chunk begins in `busy` and `total`. link: by hop. slot: of the device that a hop leads to; each device that a chunk
visits has one for it.
"""


class SendWork(NamedTuple):
    """free: [L], when each link is free. ready: by slot, when the device has the chunk, or a switch is free for it
    again. buffers: [D + 1], the first slot of the buffer of each device in `taken`, which has when each is free,
    the first of them first (a heap). start: by hop, the result.
    """

    free: MutableSequence[int]
    ready: MutableSequence[int]
    buffers: Sequence[int]
    taken: MutableSequence[int]
    start: MutableSequence[int]


def send(links: LinkTable, table: SendTable, work: SendWork) -> None:
    """Send the messages in their order, each as early as it can go without a pause."""
    free, ready, busy, total = work.free, work.ready, links.busy, links.total
    for message in table.order:
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
    place = 0
    while 2 * place + 1 < high - low:
        child = 2 * place + 1
        if child + 1 < high - low and heap[low + child + 1] < heap[low + child]:
            child += 1
        if heap[low + child] >= value:
            break
        heap[low + place] = heap[low + child]
        place = child
    heap[low + place] = value


def least_loaded(
    order: Sequence[int],
    inner: Sequence[int],
    outer: Sequence[int],
    load: Sequence[int],
    worst: MutableSequence[int],
    after: MutableSequence[int],
) -> None:
    """Choose a path from each device to a root, on which the largest load is the least.

    order: links on shortest paths, those nearest to the root first. inner, outer: [L], the ends of links, the one
    nearer to the root and the other. load: [L]. worst: [D], 0 before; the largest load. after: [D], -1 before; the link
    towards the root.
    """
    for link in order:
        device = outer[link]
        largest = max(load[link], worst[inner[link]])
        if after[device] < 0 or largest < worst[device]:
            after[device], worst[device] = link, largest
