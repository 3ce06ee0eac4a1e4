"""The chunks of a demand that must be received, sent, or moved across a cut, counted by size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.graph.automorphisms import mix_bits
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, ranges, unique_rows
from collc.ten.demand import ChunkTable, Demand, Op, Run

STACKED: Final = 1 << 18
"""Entries of tables of sets that are looked at together; a bound on memory."""


@dataclass(frozen=True, eq=False)
class Crossing:
    """Chunks that must enter a set of devices, or each of several sets.

    counts: int64[..., sizes]. spread: the least number of devices in the set that want such a chunk, int64[...].
    gather: the least number of devices outside the set that contribute to such a chunk, int64[...].
    """

    counts: Int64Array
    spread: Int64Array
    gather: Int64Array


def stacks(sets: Iterator[BoolArray], width: int) -> Iterator[BoolArray]:
    """bool[some sets, devices]: sets, bool[devices] each, as many at a time as have STACKED entries of a width."""
    while some := list(islice(sets, max(1, STACKED // max(1, width)))):
        yield np.stack(some)


def traffic_of(demand: Demand, chunks: Int32Array | None) -> tuple[Int64Array, list[Traffic]]:
    """(sizes int64, ascending; the traffic of each All-to-All, and of all other runs together) of a demand, or of some
    of its chunks taken as copies.
    """
    first = demand.first_chunk
    counts = np.diff(first)
    if chunks is not None:
        counts = np.bincount(np.searchsorted(first, chunks, "right") - 1, minlength=len(counts))
    exchanges: list[tuple[Run, int]] = []
    listed = np.ones(len(demand.runs), np.bool_)
    for family, numbers in zip(demand.by_family.families, demand.by_family.numbers(), strict=True):
        entry = family.first
        if entry.standard is None or entry.standard.kind != "all_to_all" or len(entry.group) < 2:
            continue
        for row, number in enumerate(numbers.tolist()):
            # All of it, or all but the chunks that stay where they are.
            pairs = len(entry.group) * (len(entry.group) - 1)
            if counts[number] in (family.chunks_each, pairs * entry.standard.chunks):
                exchanges.append((family.run(row), entry.chunk_size))
                listed[number] = False
    others = demand if listed.all() else Demand(demand.by_family.select(listed))
    table = others.chunks
    rows = np.arange(len(table)) if chunks is None else _rows_of(demand, chunks, listed)
    ordered = np.unique(np.append(table.size[rows], np.array([size for _, size in exchanges], np.int64)))
    traffic: list[Traffic] = [_TableTraffic(table, rows, ordered, chunks is not None)] if len(rows) else []
    for entry, size in exchanges:
        assert entry.standard is not None
        number = int(np.searchsorted(ordered, size))
        traffic.append(_AllToAllTraffic(entry.group, entry.standard.chunks, number, len(ordered)))
    return ordered, traffic


def _rows_of(demand: Demand, chunks: Int32Array, listed: BoolArray) -> Int64Array:
    """int64: the rows that some chunks have in the table of the runs that are listed, bool[runs]."""
    first = demand.first_chunk
    run = np.searchsorted(first, chunks, "right") - 1
    before = np.cumsum(np.where(listed, 0, np.diff(first)))
    return (chunks.astype(np.int64) - before[run])[listed[run]]


@dataclass(frozen=True, eq=False)
class _AllToAllTraffic:
    """An All-to-All: `chunks` chunks from each member of the group to each other one.

    size: the number of its size among all sizes. size_count: how many sizes there are.
    """

    group: Int32Array
    chunks: int
    size: int
    size_count: int
    pairwise: bool = True

    def chunks_into(self, inside: BoolArray) -> Crossing:
        """See _TableTraffic."""
        within = np.count_nonzero(inside[..., self.group], axis=-1, keepdims=True)
        counts = np.zeros((*inside.shape[:-1], self.size_count), np.int64)
        counts[..., [self.size]] = within * (len(self.group) - within) * self.chunks
        single = np.ones(inside.shape[:-1], np.int64)
        return Crossing(counts, single, single)

    def holders_and_wanting(self) -> tuple[Int32Array, Int32Array]:
        """See _TableTraffic."""
        return self.group, self.group

    def roles(self) -> NDArray[np.uint64]:
        """See _TableTraffic."""
        colour = np.zeros(int(self.group.max()) + 1, np.uint64)
        colour[self.group] = mix_bits(np.array([len(self.group), self.chunks, self.size], np.uint64)).sum()
        return colour

    def shared_chunks(self) -> Iterator[tuple[Int32Array, Int32Array, Int64Array]]:
        """See _TableTraffic. None: each chunk has its own two ends, and the bounds of paths and loads suffice."""
        yield from ()

    def received_chunks(self) -> Int64Array:
        """See _TableTraffic."""
        found = np.zeros((self.size_count, int(self.group.max()) + 1), np.int64)
        found[self.size, self.group] = (len(self.group) - 1) * self.chunks
        return found

    def sent_chunks(self) -> Int64Array:
        """See _TableTraffic."""
        return self.received_chunks()

    def transfers(self, hops: Int32Array | None) -> Int64Array:
        """See _TableTraffic."""
        counts = np.zeros(self.size_count, np.int64)
        members = len(self.group)
        pairs = members * (members - 1)
        if hops is not None:
            pairs = int(np.maximum(hops[np.ix_(self.group, self.group)], 0).sum())
        counts[self.size] = pairs * self.chunks
        return counts

    def longest(self, distance: Int64Array, sources: Int32Array, size: int) -> tuple[int, int, int]:
        """See _TableTraffic."""
        rows = np.flatnonzero(np.isin(sources, self.group))
        if size > self.size or not len(rows):
            return 0, -1, -1
        found = distance[np.ix_(rows, self.group)]
        row, column = divmod(int(found.argmax()), len(self.group))
        return int(found[row, column]), int(sources[rows[row]]), int(self.group[column])


class _TableTraffic:
    """The chunks of some runs. Those with equal conditions, operation and size are one row with a count.

    Sizes are numbers in the ascending list of the sizes of all runs. pairwise: whether some chunk has one holder and
    one NPU that wants it, so that the length of its path counts.
    """

    def __init__(self, table: ChunkTable, rows: Int64Array, sizes: Int64Array, copies: bool) -> None:
        reduced = (table.op[rows] != Op.COPY) & (table.sets.sizes[table.pre[rows]] > 1) & (not copies)
        size = np.searchsorted(sizes, table.size[rows])
        unique, number = unique_rows([table.pre[rows], table.post[rows], reduced.astype(np.int64), size])
        counts = np.bincount(number, minlength=len(unique))
        self._sets = table.sets
        self._pre, self._post, self._size = unique[:, 0], unique[:, 1], unique[:, 3]
        self._reduced = unique[:, 2] == 1
        self._counts = counts.astype(np.int64)
        self._size_count = len(sizes)
        self._devices = int(table.sets.members.max(initial=-1)) + 1
        self.pairwise = bool(((self._sets.sizes[self._pre] == 1) & (self._sets.sizes[self._post] == 1)).any())

    def _members_inside(self, inside: BoolArray) -> Int64Array:
        """int64[..., sets]: members of each set that are inside."""
        sets = self._sets
        total = np.zeros((*inside.shape[:-1], len(sets.members) + 1), np.int64)
        np.cumsum(inside[..., sets.members], axis=-1, out=total[..., 1:])
        return total[..., sets.offsets[1:]] - total[..., sets.offsets[:-1]]

    def chunks_into(self, inside: BoolArray) -> Crossing:
        """What must enter sets of devices, bool[..., devices]; a reduced chunk counts once."""
        count = self._members_inside(inside)
        pre, post = count[..., self._pre], count[..., self._post]
        outside = self._sets.sizes[self._pre] - pre
        crosses = (post > 0) & np.where(self._reduced, outside > 0, pre == 0)
        counts = [(crosses & (self._size == size)) @ self._counts for size in range(self._size_count)]
        contributing = np.where(self._reduced, outside, 1)
        spread, gather = (np.where(crosses, each, 1 << 60).min(axis=-1) for each in (post, contributing))
        return Crossing(np.stack(counts, axis=-1), spread, gather)

    def holders_and_wanting(self) -> tuple[Int32Array, Int32Array]:
        """Device numbers, in any order: those that hold something at the start, and those that want something."""
        return self._all_members(self._pre), self._all_members(self._post)

    def roles(self) -> NDArray[np.uint64]:
        """uint64[devices]: sums of hashes of the chunks that each holds and wants, and of who else does."""
        row = mix_bits(mix_bits(self._counts.astype(np.uint64)) + (self._size * 2 + self._reduced).astype(np.uint64))
        of_set, colour = np.zeros(len(self._sets), np.uint64), np.zeros(self._devices, np.uint64)
        np.add.at(of_set, self._pre, mix_bits(row + mix_bits(self._post.astype(np.uint64))))
        np.add.at(of_set, self._post, mix_bits(row - mix_bits(self._pre.astype(np.uint64))))
        np.add.at(colour, self._sets.members, np.repeat(of_set, self._sets.sizes))
        return colour

    def _all_members(self, column: Int64Array) -> Int32Array:
        """int32: the members of all sets of a column, each once."""
        used = np.zeros(len(self._sets), np.bool_)
        used[column] = True
        return np.unique(self._sets.members[np.repeat(used, self._sets.sizes)]).astype(np.int32)

    def _members(self, rows: Int64Array, column: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(row, device): one entry for each member of the set in a column of each row."""
        first, after = self._sets.offsets[column[rows]], self._sets.offsets[column[rows] + 1]
        return np.repeat(rows, after - first), self._sets.members[ranges(first, after)].astype(np.int64)

    def _count_by_device(self, rows: Int64Array, column: Int64Array) -> Int64Array:
        """int64[sizes, devices]: for each device the chunks of some rows whose set in a column contains it."""
        found = np.zeros((self._size_count, self._devices), np.int64)
        for size in range(self._size_count):
            of_size = rows[self._size[rows] == size]
            weight = np.bincount(column[of_size], self._counts[of_size], len(self._sets))
            each = np.repeat(weight, self._sets.sizes)
            found[size] = np.bincount(self._sets.members, each, self._devices).astype(np.int64)
        return found

    def shared_chunks(self) -> Iterator[tuple[Int32Array, Int32Array, Int64Array]]:
        """(senders, receivers, int64[sizes] counts): chunks of which each receiver needs what each sender has.

        Of a copied chunk with several holders, none need send.
        """
        rows: dict[tuple[int, int], list[int]] = {}
        for row, (pre, post) in enumerate(zip(self._pre.tolist(), self._post.tolist(), strict=True)):
            if self._reduced[row] or self._sets.sizes[pre] == 1:
                rows.setdefault((pre, post), []).append(row)
        for (pre, post), found in rows.items():
            counts = np.bincount(self._size[found], self._counts[found], self._size_count).astype(np.int64)
            yield self._sets[pre], self._sets[post], counts

    def received_chunks(self) -> Int64Array:
        """int64[sizes, devices]: chunks that each device must receive.

        A copy is received by each NPU that wants it and does not hold it, a reduced chunk by each that wants it.
        """
        copied = np.flatnonzero(~self._reduced)
        found = self._count_by_device(copied, self._post)
        row, device = self._members(copied, self._pre)
        held = self._sets.contain(self._post[row], device)
        np.subtract.at(found, (self._size[row[held]], device[held]), self._counts[row[held]])
        return found + self._count_by_device(np.flatnonzero(self._reduced), self._post)

    def sent_chunks(self) -> Int64Array:
        """int64[sizes, devices]: chunks that each device must send.

        A copy is sent by its holder if there is only one, a reduced chunk by each contributor, except by an NPU that is
        the only one to want it.
        """
        alone = ~self._reduced & (self._sets.sizes[self._pre] == 1)
        row, device = self._members(np.flatnonzero(alone), self._pre)
        others = self._sets.sizes[self._post[row]] - self._sets.contain(self._post[row], device)
        found = np.zeros((self._size_count, self._devices), np.int64)
        row, device = row[others > 0], device[others > 0]
        np.add.at(found, (self._size[row], device), self._counts[row])
        found += self._count_by_device(np.flatnonzero(self._reduced), self._pre)
        single = np.flatnonzero(self._reduced & (self._sets.sizes[self._post] == 1))
        row, device = self._members(single, self._post)
        held = self._sets.contain(self._pre[row], device)
        np.subtract.at(found, (self._size[row[held]], device[held]), self._counts[row[held]])
        return found

    def _in_both(self) -> Int64Array:
        """int64[rows]: the members of both sets of each row; only the smaller one is listed."""
        pre, post = self._sets.sizes[self._pre], self._sets.sizes[self._post]
        found = np.where(self._pre == self._post, pre, 0)
        for rows, smaller, larger in (
            (np.flatnonzero((self._pre != self._post) & (pre <= post)), self._pre, self._post),
            (np.flatnonzero((self._pre != self._post) & (pre > post)), self._post, self._pre),
        ):
            row, device = self._members(rows, smaller)
            found += np.bincount(row, self._sets.contain(larger[row], device), len(found)).astype(np.int64)
        return found

    def transfers(self, hops: Int32Array | None) -> Int64Array:
        """int64[sizes]: the least number of transfers.

        hops: int32[devices, devices], to the row from the column; -1 where no path leads.
        """
        pre, post = self._sets.sizes[self._pre], self._sets.sizes[self._post]
        both = self._in_both()
        reduces = np.where(post > 0, pre - (both > 0) + post - 1, 0)
        least = np.where(self._reduced, reduces, post - both)
        if hops is not None:
            single = np.flatnonzero((pre == 1) & (post == 1))
            first = self._sets.members[self._sets.offsets[self._pre[single]]]
            last = self._sets.members[self._sets.offsets[self._post[single]]]
            least[single] = np.maximum(least[single], hops[last, first])  # -1 where no path leads
        return np.bincount(self._size, least * self._counts, self._size_count).astype(np.int64)

    def longest(self, distance: Int64Array, sources: Int32Array, size: int) -> tuple[int, int, int]:
        """(the largest distance that a chunk of size number `size` or more must travel, its source, its target).

        distance: int64[sources, devices]. (0, -1, -1) if there is no such chunk.
        """
        row_of = np.full(max(self._devices, int(sources.max(initial=-1)) + 1), -1, np.int64)
        row_of[sources] = np.arange(len(sources))
        known: dict[int, Int64Array] = {}  # many chunks have the same holders
        best = (0, -1, -1)
        inside = np.zeros(self._devices, np.bool_)
        inside[sources[sources < self._devices]] = True
        pre, post_sizes = self._members_inside(inside)[self._pre], self._sets.sizes[self._post]
        wanted = (pre > 0) & (self._reduced | (pre == self._sets.sizes[self._pre])) & (post_sizes > 0)
        for row in np.flatnonzero(wanted & (self._size >= size)).tolist():
            holders, post = int(self._pre[row]), self._sets[int(self._post[row])]
            rows = known.get(holders)
            if rows is None:
                rows = row_of[self._sets[holders]]
                rows = known[holders] = rows[rows >= 0]
            found = distance[np.ix_(rows, post)]
            found = found if self._reduced[row] else found.min(axis=0, keepdims=True)
            start, end = divmod(int(found.argmax()), len(post))
            if int(found[start, end]) > best[0]:
                best = (int(found[start, end]), int(sources[rows[start]]), int(post[end]))
        return best


Traffic = _AllToAllTraffic | _TableTraffic
