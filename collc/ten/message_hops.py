"""Transfers grouped as messages of one or more hops, for schedules in which messages queue at links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collc.ten.arrays import BoolArray, Int32Array, Int64Array


@dataclass(frozen=True, eq=False)
class MessageHops:
    """The hops of n messages; a transfer that belongs to no message is one by itself.

    rows: int64, all transfers, message by message and hop by hop. first, last: int64[n], the rows of the first and the
    last hop of each message. before, after: int64, rows of hops that follow one another in a message.
    """

    rows: Int64Array
    first: Int64Array
    last: Int64Array
    before: Int64Array
    after: Int64Array

    @staticmethod
    def of(number: Int32Array, start: Int64Array) -> MessageHops:
        """Group transfers by message. number: int32, as in QueuedMessages. start: int64, when each enters its link."""
        count = len(number)
        alone = int(number.max(initial=-1)) + 1 + np.arange(count, dtype=np.int64)
        key = np.where(number >= 0, number, alone)
        rows = np.lexsort((start, key)).astype(np.int64)
        same = key[rows[1:]] == key[rows[:-1]]
        begins, ends = np.append(True, ~same)[:count], np.append(~same, True)[:count]
        return MessageHops(rows, rows[begins], rows[ends], rows[:-1][same], rows[1:][same])

    def find_gaps(
        self,
        chunk: Int32Array,
        source: Int32Array,
        target: Int32Array,
        start: Int64Array,
        end: Int64Array,
        reduce: BoolArray,
    ) -> NDArray[np.intp]:
        """Rows of hops that do not go on from where, and when, the hop before arrives, with its chunk."""
        before, after = self.before, self.after
        good = (chunk[before] == chunk[after]) & (target[before] == source[after])
        good &= (end[before] <= start[after]) & (reduce[before] == reduce[after])
        return after[~good].astype(np.intp)
