"""An index from the indices of chunks to their numbers, and a pool of sets of NPUs that finds equal ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collc.ten.arrays import Int32Array, Int64Array, ranges, unique_rows
from collc.ten.demand import HolderSets


@dataclass(frozen=True, slots=True, eq=False)
class ChunkIndex:
    """Finds the chunks of one family by their indices, with one binary search each.

    low, size: int64[rank], the smallest box that holds all indices. keys: int64[chunks], sorted: the position of each
    chunk in the box, row by row. chunk: int64[chunks], the chunk with each key.
    """

    low: Int64Array
    size: Int64Array
    keys: Int64Array
    chunk: Int64Array

    @staticmethod
    def of(index: Int64Array, chunk: Int64Array) -> ChunkIndex:
        """index: int64[chunks, rank]. Raises OverflowError if the box has more than 2^62 positions."""
        low = index.min(axis=0) if len(index) else np.zeros(index.shape[1], np.int64)
        size = (index.max(axis=0) - low + 1) if len(index) else np.ones(index.shape[1], np.int64)
        positions = 1
        for extent in size.tolist():
            positions *= extent
        if positions > 2**62:
            raise OverflowError
        keys = _keys(index, low, size)
        if len(keys) < 2 or (keys[1:] > keys[:-1]).all():
            return ChunkIndex(low, size, keys, chunk)
        order = np.argsort(keys, kind="stable")
        return ChunkIndex(low, size, keys[order], chunk[order])

    def find(self, index: Int64Array) -> Int64Array:
        """int64[rows]: the chunk with each row of indices, -1 if there is none."""
        inside = ((index >= self.low) & (index < self.low + self.size)).all(axis=1)
        keys = np.where(inside, _keys(index, self.low, self.size), -1)
        if np.array_equal(keys, self.keys):  # a loop over all chunks, as they were declared
            return self.chunk
        position = np.searchsorted(self.keys, keys)
        position[position == len(self.keys)] = 0
        if not len(self.keys):
            return np.full(len(index), -1, np.int64)
        return np.where(self.keys[position] == keys, self.chunk[position], -1)

    def duplicate(self) -> int:
        """A chunk with the same indices as another one, -1 if all differ."""
        same = np.flatnonzero(self.keys[1:] == self.keys[:-1])
        return int(self.chunk[same[0] + 1]) if len(same) else -1


def _keys(index: Int64Array, low: Int64Array, size: Int64Array) -> Int64Array:
    keys = np.zeros(len(index), np.int64)
    for column in range(index.shape[1]):
        keys = keys * size[column] + (index[:, column] - low[column])
    return keys


class SetPool:
    """Sets of NPUs. Equal sets may be added several times; `shared` merges them.

    members: the NPUs of all sets, in parts. lengths: the number of NPUs of each set, in parts. count: number of sets.
    """

    def __init__(self) -> None:
        self.members: list[Int64Array] = [np.empty(0, np.int64)]
        self.lengths: list[Int64Array] = [np.zeros(1, np.int64)]
        self.count = 1

    def add(self, members: Int64Array, lengths: Int64Array) -> int:
        """Add sets, each in ascending order; returns the number of the first. Set 0 is the empty set."""
        first = self.count
        self.members.append(members)
        self.lengths.append(lengths)
        self.count += len(lengths)
        return first

    def arrays(self) -> tuple[Int64Array, Int64Array]:
        """The members of all sets, and the position at which each set starts (int64[sets + 1])."""
        lengths = np.concatenate(self.lengths)
        return np.concatenate(self.members), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    def unite_sets(self, chunk: Int64Array, number: Int64Array, count: int) -> Int64Array:
        """int64[count]: the set of each chunk, from pairs (chunk, set); the union if a chunk has several."""
        result = np.zeros(count, np.int64)
        seen = np.bincount(chunk, minlength=count)
        result[chunk] = number
        if len(chunk) == 0 or seen.max() <= 1:
            return result
        several = np.flatnonzero(seen > 1)
        rows = np.flatnonzero(seen[chunk] > 1)
        members, starts = self.arrays()
        owner = np.searchsorted(several, chunk[rows])
        lengths = starts[number[rows] + 1] - starts[number[rows]]
        items = members[ranges(starts[number[rows]], starts[number[rows] + 1])]
        span = int(items.max()) + 1 if len(items) else 1
        keys = np.unique(np.repeat(owner, lengths) * span + items)
        first = self.add(keys % span, np.bincount(keys // span, minlength=len(several)).astype(np.int64))
        result[several] = first + np.arange(len(several), dtype=np.int64)
        return result

    def merge_equal_sets(self, columns: Sequence[Int64Array]) -> tuple[HolderSets, list[Int32Array]]:
        """The sets that columns refer to, equal ones merged, in order of first use; and the columns, renumbered."""
        members, starts = self.arrays()
        rows_used, place = unique_rows([np.concatenate(columns)])
        used = rows_used[:, 0]
        lengths = starts[used + 1] - starts[used]
        canonical = np.empty(len(used), np.int64)
        classes = 0
        for length in sorted({*lengths.tolist()}):
            rows = np.flatnonzero(lengths == length)
            content = members[starts[used[rows]][:, None] + np.arange(length, dtype=np.int64)]
            if length == 0 or len(rows) == 1:  # NumPy takes seconds for one row of a million columns
                known, of = rows[:1], np.zeros(len(rows), np.int64)
            else:
                known, of = np.unique(content[:, 0] if length == 1 else content, axis=0, return_inverse=True)
            canonical[rows] = classes + of.reshape(-1).astype(np.int64)
            classes += len(known)
        first_use, first = np.empty(len(used), np.int64), np.full(classes, len(place))
        first_use[place[::-1]] = np.arange(len(place) - 1, -1, -1)  # of several values the last one stays
        np.minimum.at(first, canonical, first_use)
        order = np.argsort(first)
        rank = np.empty(classes, np.int64)
        rank[order] = np.arange(classes)
        chosen = used[place[first[order]]]
        sizes = starts[chosen + 1] - starts[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        joined = members[ranges(starts[chosen], starts[chosen + 1])].astype(np.int32)
        ends = np.cumsum([len(c) for c in columns])[:-1]
        number = rank[canonical].astype(np.int32)
        return HolderSets(offsets, joined), [number[part] for part in np.split(place, ends)]
