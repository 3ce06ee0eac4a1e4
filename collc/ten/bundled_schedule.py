"""Schedules of bundles: equal chunks that follow one another over the same links, or over translations of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from collc.ten.arrays import Int32Array, Int64Array, ranges
from collc.ten.demand import Demand
from collc.ten.factored_schedule import FactoredSchedule
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, Schedule, Transfers, require_memory_of


@dataclass(frozen=True, eq=False, repr=False)
class BundledSchedule(Schedule):
    """Transfers of bundles, each of which stands for one transfer of every chunk of its bundle, in order.

    rows: copies; their chunks are numbers of bundles. distance: int64[rows], picoseconds from the start of one chunk to
    the start of the next, more than 0. first: int64[bundles + 1]; bundle k has the chunks
    chunks[first[k]:first[k + 1]].
    """

    model: LinkModel
    rows: Transfers
    distance: Int64Array
    first: Int64Array
    chunks: Int32Array

    @cached_property
    def _count(self) -> Int64Array:
        """int64[rows]: the chunks of the bundle of each row."""
        return np.diff(self.first)[self.rows.chunk]

    def __len__(self) -> int:
        return int(self._count.sum())

    @property
    def row_count(self) -> int:
        """See Schedule."""
        return len(self.rows)

    def blocks(self, rows: int = 1 << 22) -> Iterator[Transfers]:
        """See Schedule. The blocks are for equal spans of time."""
        start, spans = self.rows.start, -(-len(self) // rows)
        end = int((start + self._count * self.distance).max(initial=0))
        done = np.zeros(len(self.rows), np.int64)
        for span in range(1, spans + 1):
            until = np.clip(-((start - end * span // spans) // self.distance), 0, self._count)
            yield self._expand(done, until - done)
            done = until

    def _expand(self, done: Int64Array, number: Int64Array) -> Transfers:
        """The next chunks of each row. done: int64[rows], those before. number: int64[rows]."""
        row = np.repeat(np.arange(len(number)), number)
        position = ranges(done, done + number)
        chunk = self.chunks[self.first[self.rows.chunk[row]] + position]
        return Transfers.of(chunk, self.rows.link[row], self.rows.start[row] + position * self.distance[row])

    def collective_time(self, network: Network, demand: Demand) -> int:
        """See Schedule."""
        start = self.rows.start + (self._count - 1) * self.distance
        last = replace(self.rows, chunk=self.chunks[self.first[self.rows.chunk]], start=start)
        return int((start + Clock.of(network, demand, self.model).total_of(last)).max(initial=0))


@dataclass(frozen=True, eq=False, repr=False)
class FactoredBundles(FactoredSchedule):
    """A factored schedule whose rows are bundles of chunks of the only representative, NPU 0.

    rows: their chunks are numbers of bundles; each stands for one transfer of every chunk of its bundle, in order, at
    the distance `turn`, over the link to which `elements` takes that of the row. first: int64[bundles + 1]; bundle k
    has chunks[first[k]:first[k + 1]], of the representative, int32, and as many elements, int32.
    """

    first: Int64Array
    chunks: Int32Array
    elements: Int32Array

    @property
    def turns(self) -> Int64Array:
        """See FactoredSchedule."""
        return np.diff(self.first)[self.rows.chunk]

    def __len__(self) -> int:
        return int(self.turns.sum()) * self.translations.count

    @cached_property
    def chunk_schedule(self) -> FactoredSchedule:
        """The schedule with a row for each chunk of a bundle. Raises SourceError U0109 if it needs too much memory."""
        size = self.turns
        require_memory_of(int(size.sum()))
        row = np.repeat(np.arange(len(size)), size)
        position = ranges(np.zeros(len(size), np.int64), size)
        member = self.first[self.rows.chunk[row]] + position
        link = self.translations.moved_links(self.rows.link[row], self.elements[member])
        rows = Transfers.of(self.chunks[member], link, self.rows.start[row] + position * self.turn[row])
        return FactoredSchedule(self.model, self.translations, self.numbers, rows, np.zeros(len(rows), np.int64))

    def blocks(self, rows: int = 1 << 22) -> Iterator[Transfers]:
        """See FactoredSchedule."""
        self.require_numbers()
        return self.chunk_schedule.blocks(rows)
