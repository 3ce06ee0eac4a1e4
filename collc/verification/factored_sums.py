"""The replay of a representative's sums that follow no tree: partials that NPUs exchange, as bits.

The messages that one NPU sends to another over switches are taken as one. Where their times depend on the translation,
a message counts as sent in all of the time in which it may be sent, and as arriving in all of that in which it may
arrive; where such times overlap at an NPU, nothing is proved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, Int64Array

MOST_MESSAGES = 400_000
"""Messages up to which sums are replayed."""

MOST_KEY = 2**62
"""NPUs times chunks times picoseconds up to which all fit into one number."""


@dataclass(frozen=True, eq=False)
class SumMessages:
    """Messages of chunks from NPU to NPU, in order of `first`.

    chunk, source, target: int32. first, last: int64, picoseconds between which a message leaves. soonest, latest:
    between which it arrives. reduce: bool, whether the receiver adds it.
    """

    chunk: Int32Array
    source: Int32Array
    target: Int32Array
    first: Int64Array
    last: Int64Array
    soonest: Int64Array
    latest: Int64Array
    reduce: BoolArray

    def __len__(self) -> int:
        return len(self.chunk)


def sums_are_right(messages: SumMessages, npus: int, owner: Int32Array, spread: bool) -> bool:
    """Whether each contribution is added once to each partial, only sums of all are sent as final, and each chunk's
    sum reaches its owner (int32[chunks]), or all NPUs if it is spread.
    """
    holders = len(owner) * npus
    if len(messages) > MOST_MESSAGES or holders * (int(messages.latest.max(initial=0)) + 2) >= MOST_KEY:
        return False
    holder = messages.chunk.astype(np.int64) * npus + messages.source
    inbox = _Inbox(messages, npus, holders)
    values: list[int] = [1 << npu for npu in range(npus)] * len(owner)
    carried = [0] * len(messages)
    full = (1 << npus) - 1
    sent = zip(holder.tolist(), messages.first.tolist(), messages.last.tolist(), messages.reduce.tolist(), strict=True)
    for number, (at, first, last, reduce) in enumerate(sent):
        if not inbox.take(at, first, last, values, carried):
            return False
        carried[number] = values[at]
        if not reduce and values[at] != full:
            return False
    if not all(inbox.take(at, inbox.never, inbox.never, values, carried) for at in range(len(values))):
        return False
    if spread:
        return all(value == full for value in values)
    owners: list[int] = owner.tolist()
    return all(values[chunk * npus + npu] == full for chunk, npu in enumerate(owners))


class _Inbox:
    """What has arrived at each NPU for each chunk and was not taken yet. They are numbered chunk * NPUs + NPU."""

    def __init__(self, messages: SumMessages, npus: int, holders: int) -> None:
        holder = messages.chunk.astype(np.int64) * npus + messages.target
        order = np.lexsort((messages.reduce, messages.latest, holder))
        self.never = int(messages.latest.max(initial=0)) + 1
        offsets = np.searchsorted(holder[order], np.arange(holders + 1))
        # The soonest arrival of each row and of all that follow it at the same number.
        key = holder[order] * (self.never + 1)
        soonest = np.minimum.accumulate((key + messages.soonest[order])[::-1])[::-1] - key
        self._next: list[int] = offsets[:-1].tolist()
        self._end: list[int] = offsets[1:].tolist()
        self._row: list[int] = order.tolist()
        self._latest: list[int] = messages.latest[order].tolist()
        self._soonest: list[int] = soonest.tolist()
        self._reduce: list[bool] = messages.reduce[order].tolist()
        self._complete: set[int] = set()

    def take(self, at: int, first: int, last: int, values: list[int], carried: list[int]) -> bool:
        """Take all that has arrived by `first`; False if more may have arrived by `last`, if a partial has a
        contribution that is there already, or if the sum may arrive before a partial.

        values: by such numbers. carried: by messages.
        """
        position, begin = self._next[at], self._next[at]
        while position < self._end[at] and self._latest[position] <= first:
            partial = carried[self._row[position]]
            if self._reduce[position]:
                if values[at] & partial or at in self._complete:
                    return False
                values[at] |= partial
            else:
                if position > begin and self._soonest[position] <= self._latest[position - 1]:
                    return False
                values[at] = partial
                self._complete.add(at)
            position += 1
        self._next[at] = position
        return position == self._end[at] or self._soonest[position] > last
