"""A schedule for a network that has lost some parts: the schedule of the whole network, and a listed difference.

So after a failure, too, what is kept in memory does not grow with the transfers of all NPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.factored_schedule import ChunkNumbers, FactoredSchedule, chunk_size
from collc.ten.link_model import LinkModel
from collc.ten.network import Network
from collc.ten.schedule import Schedule, Transfers


@dataclass(frozen=True, eq=False, repr=False)
class RepairedSchedule(Schedule):
    """The transfers of a factored schedule without some of them, and others.

    whole: the network that all its NPUs, which are alike, are in; the damaged one has its devices and its first links,
    some of which may be of another kind.
    factored: the schedule for it, in which no two translations of a transfer use the same link.
    numbers: of the chunks of the damaged network.
    dropped: int64, ascending; row * elements + element, for each translation of a row that is left out.
    added: the other transfers, of the chunks of the damaged network.
    """

    model: LinkModel
    whole: Network
    factored: FactoredSchedule
    numbers: ChunkNumbers
    dropped: Int64Array
    added: Transfers

    def __len__(self) -> int:
        return len(self.factored) - len(self.dropped) + len(self.added)

    @property
    def row_count(self) -> int:
        """See Schedule."""
        return self.factored.row_count + len(self.dropped) + len(self.added)

    def blocks(self, rows: int = 1 << 22) -> Iterator[Transfers]:
        """See Schedule."""
        start, added = self.factored.rows.start, self.added
        per = max(1, rows // self.factored.translations.count)
        low = begin = 0
        while low < len(start):
            high = min(low + per, len(start))
            while high < len(start) and start[high] == start[high - 1]:
                high += 1
            end = len(added) if high == len(start) else int(np.searchsorted(added.start, int(start[high])))
            yield Transfers.concatenate([self._expand(low, high), added.select(slice(begin, end))])
            low, begin = high, end

    def _expand(self, low: int, high: int) -> Transfers:
        """The translations of rows low .. high - 1 that are left."""
        rows, translations = self.factored.rows, self.factored.translations
        count = translations.count
        first, after = (int(np.searchsorted(self.dropped, row * count)) for row in (low, high))
        left = np.ones((high - low) * count, np.bool_)
        left[self.dropped[first:after] - low * count] = False
        row, element = np.divmod(np.flatnonzero(left), count)
        row, element = row + low, element.astype(np.int32)
        link = translations.moved_links(rows.link[row], element)
        return Transfers.of(self._chunks(rows.chunk[row], element), link, rows.start[row], rows.reduce[row])

    def _chunks(self, chunk: Int32Array, element: Int32Array) -> Int32Array:
        """int32: the numbers of translations of the representative's chunks in the damaged network."""
        translations, numbers = self.factored.translations, self.factored.numbers
        target, part = np.divmod(chunk, numbers.parts)
        npus, other = translations.orbits[0], None
        if numbers.pairs:
            wanting = np.argsort(numbers.rank)[target]
            other = npus[translations.sum(translations.element_of[wanting], element)]
        return self.numbers.number(npus[element], other, part)

    def collective_time(self, network: Network, demand: Demand) -> int:
        """See Schedule."""
        total = network.occupancy(np.array([chunk_size(demand)], np.int64))[:, 0] + network.latencies
        rows, count = self.factored.rows, self.factored.translations.count
        left = np.bincount(self.dropped // count, minlength=len(rows)) < count
        translated = (rows.start + total[self.whole.kind[rows.link]])[left]
        added = self.added.start + total[network.kind[self.added.link]]
        return int(max(translated.max(initial=0), added.max(initial=0)))
