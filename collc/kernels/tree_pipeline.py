"""List scheduling of chunks that travel along trees: each link serves what is ready in the order of its rank.

A function of flat sequences that runs in plain Python and compiled (collc/kernels/compiled.py).
"""

from __future__ import annotations

import heapq
from collections.abc import MutableSequence, Sequence


def _put(heap: MutableSequence[int], offset: int, size: int, rank: int) -> None:
    """Add a rank to the heap of `size` numbers at an offset."""
    place = size
    while place > 0:
        above = (place - 1) >> 1
        if heap[offset + above] <= rank:
            break
        heap[offset + place] = heap[offset + above]
        place = above
    heap[offset + place] = rank


def _take(heap: MutableSequence[int], offset: int, size: int) -> int:
    """Remove the least rank from the heap of `size` numbers at an offset, and return it."""
    least = heap[offset]
    last = heap[offset + size - 1]
    size -= 1
    place = 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and heap[offset + below + 1] < heap[offset + below]:
            below += 1
        if heap[offset + below] >= last:
            break
        heap[offset + place] = heap[offset + below]
        place = below
    heap[offset + place] = last
    return least


def run_trees(
    pair: Sequence[int],
    release: Sequence[int],
    after_offsets: Sequence[int],
    after: Sequence[int],
    queue_offsets: Sequence[int],
    queue: MutableSequence[int],
    link_offsets: Sequence[int],
    links_of_pair: Sequence[int],
    pair_of_link: Sequence[int],
    busy: Sequence[int],
    total: Sequence[int],
    start: MutableSequence[int],
    link: MutableSequence[int],
) -> int:
    """Fill start and link of each transfer; returns the time of the last arrival, in picoseconds.

    Transfers are numbered by rank: of those that wait for a pair of devices, the one of the lowest number goes first.
    pair: of devices that each transfer joins. release: when its chunk is at its source, -1 where that follows from the
    transfer before it. after_offsets, after: the transfers that follow each one (CSR). queue_offsets, queue: room for
    the transfers of each pair. link_offsets, links_of_pair: the parallel links of each pair, the fastest first.
    pair_of_link: by link. busy, total: of each link, how long a transfer occupies it, and until it arrives.
    """
    transfers, links = len(pair), len(busy)
    waiting = [0 for _ in range(len(link_offsets) - 1)]
    idle = [1 for _ in range(links)]
    free = [link_offsets[group + 1] - link_offsets[group] for group in range(len(link_offsets) - 1)]
    events = [(0, 0)]
    events.pop()
    for transfer in range(transfers):
        if release[transfer] >= 0:
            heapq.heappush(events, (release[transfer], -1 - transfer))
    end = 0
    while len(events) > 0:
        time, code = heapq.heappop(events)
        if code < 0:  # a chunk is at the source of a transfer
            transfer = -1 - code
            group = pair[transfer]
            _put(queue, queue_offsets[group], waiting[group], transfer)
            waiting[group] += 1
            if free[group] > 0:
                heapq.heappush(events, (time, transfers + links + group))
            continue
        if code < transfers:  # a chunk arrives
            end = max(end, time)
            for place in range(after_offsets[code], after_offsets[code + 1]):
                transfer = after[place]
                group = pair[transfer]
                _put(queue, queue_offsets[group], waiting[group], transfer)
                waiting[group] += 1
                if free[group] > 0:
                    heapq.heappush(events, (time, transfers + links + group))
            continue
        if code < transfers + links:  # a link is free again
            idle[code - transfers] = 1
            group = pair_of_link[code - transfers]
            free[group] += 1
        else:
            group = code - transfers - links
        for place in range(link_offsets[group], link_offsets[group + 1]):
            number = links_of_pair[place]
            if waiting[group] > 0 and idle[number]:
                transfer = _take(queue, queue_offsets[group], waiting[group])
                waiting[group] -= 1
                idle[number] = 0
                free[group] -= 1
                start[transfer] = time
                link[transfer] = number
                heapq.heappush(events, (time + busy[number], transfers + number))
                heapq.heappush(events, (time + total[number], transfer))
    return end
