"""Transfers placed between reserved intervals, one after another. Runs on lists or compiled on arrays."""

from collections.abc import MutableSequence, Sequence


def first_gaps(
    ready: Sequence[int],
    taken: int,
    begins: Sequence[int],
    ends: Sequence[int],
    start: MutableSequence[int],
) -> None:
    """Write for each transfer its earliest start in `start`: after it is ready, after the one before, in a gap.

    ready: in the order in which the transfers follow each other. taken: how long each transfer takes. begins, ends:
    reserved intervals, disjoint and ascending.
    """
    free = 0
    reserved = 0
    count = len(begins)
    for number in range(len(ready)):
        at = max(free, ready[number])
        while reserved < count and begins[reserved] < at + taken:
            at = max(at, ends[reserved])
            reserved += 1
        start[number] = at
        free = at + taken


def blocked_until(starts: Sequence[int], ends: Sequence[int], low: int, high: int, start: int, end: int) -> int:
    """The end of the first of the reserved intervals low .. high - 1 that overlaps [start, end), or 0."""
    for k in range(low, high):
        if starts[k] >= end:
            break
        if start < ends[k]:
            return ends[k]
    return 0
