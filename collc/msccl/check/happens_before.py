"""Happens-before: which events precede which in every order that a program allows, and which accesses must be ordered.

A relation is given by the direct predecessors of each event. In any possible order of the accesses of a slot, it
suffices that every access is ordered after the last write, and every write after the reads since that write: the order
of all other pairs follows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.ten.arrays import BoolArray, Int64Array

QUESTIONS: Final = 1024
"""Pairs that one pass over the events answers, one bit each."""


@dataclass(frozen=True, eq=False)
class EventOrder:
    """Events, numbered in one possible order.

    before: the direct predecessors of event e are before[first[e]:first[e + 1]].
    """

    first: Sequence[int]
    before: Sequence[int]

    @staticmethod
    def of(predecessors: Iterable[Iterable[int]]) -> EventOrder:
        """The order of events with these direct predecessors."""
        first, before = [0], list[int]()
        for events in predecessors:
            before += events
            first.append(len(before))
        return EventOrder(first, before)

    def marks_before(self, marks: Mapping[int, int], begin: int = 0, end: int | None = None) -> list[int]:
        """For each event from `begin` to before `end` the marks, as bits, of itself and of all events before it."""
        first, before, reached = self.first, self.before, list[int]()
        for event in range(begin, len(first) - 1 if end is None else end):
            mask = marks.get(event, 0)
            for earlier in before[first[event] : first[event + 1]]:
                if earlier >= begin:
                    mask |= reached[earlier - begin]
            reached.append(mask)
        return reached

    def marks_after(self, marks: Mapping[int, int]) -> list[int]:
        """For each event the marks, as bits, of itself and of all events after it."""
        reached = [marks.get(event, 0) for event in range(len(self.first) - 1)]
        for event in range(len(reached) - 1, -1, -1):
            for earlier in self.before[self.first[event] : self.first[event + 1]]:
                reached[earlier] |= reached[event]
        return reached

    def unordered_pairs(self, pairs: Sequence[tuple[int, int]]) -> list[int]:
        """The numbers of those pairs of events whose first event does not precede the second."""
        unordered: list[int] = []
        by_first = sorted(range(len(pairs)), key=lambda number: pairs[number][0])
        for begin in range(0, len(pairs), QUESTIONS):
            asked = by_first[begin : begin + QUESTIONS]
            marks: dict[int, int] = defaultdict(int)
            for bit, number in enumerate(asked):
                marks[pairs[number][0]] |= 1 << bit
            start = min(marks)
            reached = self.marks_before(marks, start, 1 + max(max(pairs[number]) for number in asked))
            for bit, number in enumerate(asked):
                second = pairs[number][1]
                if second < start or not reached[second - start] >> bit & 1:
                    unordered.append(number)
        return sorted(unordered)


def conflicting_accesses(slot: Int64Array, write: BoolArray) -> Int64Array:
    """int64[2, pairs]: numbers of accesses that must be ordered, the first before the second.

    slot, write: of each access, in ascending order of slot and then of event; an event accesses a slot once.
    """
    number = np.arange(len(slot))
    last_write = np.maximum.accumulate(np.where(write, number, -1))
    written = np.concatenate(([-1], last_write[:-1])).astype(np.int64)
    after_write = written >= np.searchsorted(slot, slot)
    next_write = np.minimum.accumulate(np.where(write, number, len(number))[::-1])[::-1]
    following = np.concatenate((next_write[1:], [len(number)])).astype(np.int64)
    before_write = ~write & (following < np.searchsorted(slot, slot, side="right"))
    return np.concatenate(
        [
            np.stack([written[after_write], number[after_write]]),
            np.stack([number[before_write], following[before_write]]),
        ],
        axis=1,
    )
