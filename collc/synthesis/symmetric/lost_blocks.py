"""Blocks of an All-to-All that lose their routes, all transfers of which are dropped.

They are kept by chunk, in order, so that what is dropped of them is listed by row without being sorted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from collc.synthesis.symmetric.messages import Messages, csr_bounds
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, distinct, ranges
from collc.ten.factored_schedule import Translations


class LostBlocks(NamedTuple):
    """Blocks of which something is missing, and which of them need another route, since both ends are there.

    lost: int64, ascending, chunk * elements + element of the owner. chunk, owner, target: int64, int32 and int32, of
    those that need a route; owner and target are elements. by_chunk: int64, all messages, by chunk and then by time.
    bounds: int64[chunks + 1], where those of each chunk begin, and the end.
    """

    lost: Int64Array
    chunk: Int64Array
    owner: Int32Array
    target: Int32Array
    by_chunk: Int64Array
    bounds: Int64Array

    @staticmethod
    def of(
        messages: Messages, translations: Translations, parts: int, alive: BoolArray, missing: Int64Array
    ) -> LostBlocks:
        """The blocks of missing messages. parts: chunks of a block. alive: bool[elements]. missing: int64, message *
        elements + element.
        """
        message, element = np.divmod(missing, translations.count)
        lost = distinct(messages.chunk[message].astype(np.int64) * translations.count + element)
        chunk, owner = np.divmod(lost, translations.count)
        owner = owner.astype(np.int32)
        target = translations.sum(translations.element_of[chunk // parts], owner)
        there = alive[owner] & alive[target]
        by_chunk = np.lexsort((messages.start, messages.chunk))
        bounds = csr_bounds(messages.chunk, int(messages.chunk.max(initial=0)) + 1)
        return LostBlocks(lost, chunk[there], owner[there], target[there], by_chunk, bounds)

    @property
    def hops(self) -> Int64Array:
        """int64: the messages of each that needs a route."""
        return np.diff(self.bounds)[self.chunk]

    @property
    def first(self) -> Int64Array:
        """int64: the message with which each of these was to leave its owner."""
        return self.by_chunk[self.bounds[self.chunk]]

    def list_by(self, chunk: Int32Array, count: int) -> Int64Array:
        """int64, ascending: row * count + element, of rows of some chunks, for each owner who loses the chunk. count:
        elements.
        """
        bounds = np.searchsorted(self.lost, np.arange(len(self.bounds)) * count)
        low, high = bounds[chunk], bounds[chunk + 1]
        return np.repeat(np.arange(len(chunk)) * count, high - low) + self.lost[ranges(low, high)] % count


class NewRoutes(NamedTuple):
    """Routes of blocks that have lost their own (CSR).

    bounds: int64[blocks + 1]. links: int64. end: picoseconds, until when links are busy with them at least.
    """

    bounds: Int64Array
    links: Int64Array
    end: int

    def select(self, blocks: Int64Array) -> NewRoutes:
        """The routes of some blocks."""
        low, high = self.bounds[blocks], self.bounds[blocks + 1]
        return NewRoutes(np.append(0, np.cumsum(high - low)), self.links[ranges(low, high)], self.end)
