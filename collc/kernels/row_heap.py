"""A heap of rows of three numbers in an array, for compiled code: what `heapq` does with a list of tuples.

Row 0 has the number of entries, and the entries follow, the least one first.
"""

from __future__ import annotations

import numpy as np

from collc.ten.arrays import Int64Array

Row = tuple[int, int, int]


def lift(heap: Int64Array, place: int, entry: Row) -> None:
    """Puts an entry at a free place, or above it, so that no greater one is above it."""
    while place > 1:
        above = place >> 1
        if (heap[above, 0], heap[above, 1], heap[above, 2]) <= entry:
            break
        heap[place, 0], heap[place, 1], heap[place, 2] = heap[above, 0], heap[above, 1], heap[above, 2]
        place = above
    heap[place, 0], heap[place, 1], heap[place, 2] = entry


def push_row(heap: Int64Array, entry: Row) -> None:
    """Adds an entry."""
    heap[0, 0] += 1
    lift(heap, heap[0, 0], entry)


def pop_row(heap: Int64Array) -> Row:
    """Takes the least entry out: the lesser ones below move up to the last level, as the last entry belongs there."""
    count = heap[0, 0]
    least, last = (heap[1, 0], heap[1, 1], heap[1, 2]), (heap[count, 0], heap[count, 1], heap[count, 2])
    count -= 1
    heap[0, 0], place, below = count, 1, 2
    while below <= count:
        if below < count:
            left, right = (heap[below, 0], heap[below, 1], heap[below, 2]), below + 1
            below += (heap[right, 0], heap[right, 1], heap[right, 2]) < left
        heap[place, 0], heap[place, 1], heap[place, 2] = heap[below, 0], heap[below, 1], heap[below, 2]
        place, below = below, 2 * below
    lift(heap, place, last)
    return least


def clear_rows(heap: Int64Array) -> None:
    """Takes all entries out."""
    heap[0, 0] = 0


def with_rows(heap: Int64Array, more: int) -> Int64Array:
    """The heap, with room for more entries."""
    count = heap[0, 0]
    if count + more < len(heap):
        return heap
    wider = np.zeros((2 * (count + more) + 1, 3), np.int64)
    for row in range(count + 1):
        wider[row, 0], wider[row, 1], wider[row, 2] = heap[row, 0], heap[row, 1], heap[row, 2]
    return wider
