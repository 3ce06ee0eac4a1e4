"""A factored schedule: the transfers of one representative NPU, which stand for all their translations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, Schedule, Transfers, require_memory_of
from collc.ten.translations import Translations


@dataclass(frozen=True, eq=False)
class ChunkNumbers:
    """How the chunks of a standard collective over all NPUs are numbered, by the ranks of one or two NPUs and a part.

    rank: int32[npus], -1 for those that take no part. pairs: whether a chunk goes from one NPU to another
    (All-to-All). parts: chunks of a block.
    """

    rank: Int32Array
    pairs: bool
    parts: int

    @staticmethod
    def of(demand: Demand) -> ChunkNumbers | None:
        """The numbers of the chunks of a demand; None unless it is one All-Gather, Reduce-Scatter, All-Reduce or
        All-to-All.
        """
        run = demand.runs[0] if len(demand.runs) == 1 else None
        standard = None if run is None else run.standard
        if run is None or standard is None or not standard.shape.without_root:
            return None
        rank = np.full(int(run.group.max(initial=-1)) + 1, -1, np.int32)
        rank[run.group] = np.arange(len(run.group), dtype=np.int32)
        return ChunkNumbers(rank, standard.shape.pairs, standard.chunks)

    @cached_property
    def members(self) -> int:
        """NPUs that take part."""
        return int((self.rank >= 0).sum())

    def number(self, block: Int32Array, target: Int32Array | None, part: int | Int32Array) -> Int32Array:
        """int32: the chunk of each NPU's block; with pairs, of the block that it sends to each target."""
        row = self.rank[block].astype(np.int64)
        if target is not None:
            row = row * self.members + self.rank[target]
        return (row * self.parts + part).astype(np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class FactoredSchedule(Schedule):
    """Transfers of the chunks of representative NPUs; each translation of one moves its NPUs, its chunk and its link.

    rows: the transfers of representatives, none of which relays what its sender keeps apart. turn: int64[rows],
    picoseconds; if several translations of a transfer use the same link, they follow each other on it at this
    distance, in the order of `Translations.phases`. numbers: of the chunks.
    """

    model: LinkModel
    translations: Translations
    numbers: ChunkNumbers
    rows: Transfers
    turn: Int64Array

    def __len__(self) -> int:
        return len(self.rows) * self.translations.count

    @cached_property
    def transfers(self) -> Transfers:
        """See Schedule. Blocks are sorted, and each begins after the one before."""
        require_memory_of(len(self))
        parts = list(self.blocks())
        return _in_order(parts) if len(parts) > 1 else Transfers.concatenate(parts) if not parts else parts[0]

    @property
    def last_start(self) -> Int64Array:
        """int64[rows]: picoseconds, when the last translation of each transfer starts."""
        return self.rows.start + self.turn * (self.translations.link_share[self.rows.link] - 1)

    def collective_time(self, network: Network, demand: Demand) -> int:
        """See Schedule; all chunks have the size that the collective says."""
        if not len(self.rows):
            return 0
        total = network.occupancy(np.array([chunk_size(demand)], np.int64))[:, 0] + network.latencies
        return int((self.last_start + total[network.kind[self.rows.link]]).max())

    def blocks(self, rows: int = 1 << 22) -> Iterator[Transfers]:
        """See Schedule. If translations take turns, there is one block."""
        per = len(self.rows) if bool(self.turn.any()) else max(1, rows // self.translations.count)
        low = 0
        start = self.rows.start
        while low < len(self.rows):
            high = min(low + per, len(self.rows))
            while high < len(self.rows) and start[high] == start[high - 1]:
                high += 1
            yield self._expand(low, high)
            low = high

    def _expand(self, low: int, high: int) -> Transfers:
        """All translations of the transfers low .. high - 1, sorted."""
        count, known = self.translations.count, -1
        chunks = np.empty(0, np.int32)
        link, chunk = np.empty((2, high - low, count), np.int32)
        start = np.repeat(self.rows.start[low:high, None], count, axis=1)
        for k, (row_link, row_chunk) in enumerate(
            zip(self.rows.link[low:high].tolist(), self.rows.chunk[low:high].tolist(), strict=True)
        ):
            if row_chunk != known or not len(chunks):
                chunks, known = self._chunk_images(row_chunk), row_chunk
            if not 0 <= row_link < self.translations.link.shape[1]:
                link[k], chunk[k] = row_link, chunks
                continue
            # Rows that start at different times are sorted then, and need not be sorted again.
            link[k], element = self.translations.sorted_images(row_link)
            chunk[k] = chunks[element]
            turn = int(self.turn[low + k])
            if turn:
                start[k] += self.translations.phases(row_link)[element] * turn
        reduce = np.repeat(self.rows.reduce[low:high], count)
        return Transfers.of(chunk.reshape(-1), link.reshape(-1), start.reshape(-1), reduce)

    def _chunk_images(self, chunk: int) -> Int32Array:
        """int32[count]: the chunk to which each element takes a chunk; a number that is no chunk stays."""
        ranks, numbers = len(self.numbers.rank), self.numbers
        if not 0 <= chunk < ranks ** (1 + numbers.pairs) * numbers.parts:
            return np.full(self.translations.count, chunk, np.int32)
        block, part = divmod(chunk, numbers.parts)
        first, second = divmod(block, ranks) if numbers.pairs else (block, -1)
        return numbers.number(self._npus(first), self._npus(second) if second >= 0 else None, part)

    def _npus(self, rank: int) -> Int32Array:
        """int32[count]: the NPU to which each element takes the NPU of a rank."""
        translations, npu = self.translations, int(np.argmax(self.numbers.rank == rank))
        return translations.orbits[translations.orbit_of[npu], translations.sums(int(translations.element_of[npu]))]


def _in_order(parts: list[Transfers]) -> Transfers:
    """Transfers that are sorted as they follow each other."""
    return Transfers(
        np.concatenate([part.chunk for part in parts]),
        np.concatenate([part.link for part in parts]),
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.reduce for part in parts]),
    )


def chunk_size(demand: Demand) -> int:
    """Bytes of each chunk of a demand that `ChunkNumbers` numbers."""
    run = demand.runs[0]
    assert run.standard is not None
    return run.standard.size // (len(run.group) * run.standard.chunks)
