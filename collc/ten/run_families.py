"""Runs that differ by their groups only, kept as one family: the first run, and a table of the groups of all.

So the tensor-parallel groups of 12,500 nodes are one family, not 12,500 runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, Int64Array

if TYPE_CHECKING:
    from collc.ten.demand import ChunkTable, HolderSets, Run


@dataclass(frozen=True, eq=False)
class RunFamily:
    """Runs of one collective with equal arguments: the ranks of the members that hold a chunk are those of `first`.

    first: the run of the first row. groups: int32[rows, members], of each run.
    """

    first: Run
    groups: Int32Array

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def chunks_each(self) -> int:
        """Chunks of each run."""
        return len(self.first.pattern)

    def run(self, row: int) -> Run:
        """The run of a row, whose chunks are listed on demand."""
        if len(self) == 1:
            return self.first
        return replace(self.first, group=self.groups[row], pattern=_FamilyChunks(self, slice(row, row + 1)))

    def table(self, rows: slice = slice(None)) -> ChunkTable:
        """The chunks of some runs, by row, with a set of families of chunks and of holders for each."""
        table, groups = self.first.pattern.expand(), self.groups[rows]
        if len(self) == 1:
            return table
        count = len(groups)
        return replace(
            table,
            size=np.tile(table.size, count),
            pre=_shifted(table.pre, len(table.sets), count),
            post=_shifted(table.post, len(table.sets), count),
            op=np.tile(table.op, count),
            family=_shifted(table.family, len(table.families), count),
            index=np.tile(table.index, (count, 1)),
            families=table.families * count,
            sets=_moved_sets(table.sets, self.first.group, groups),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _FamilyChunks:
    """The chunks of some runs of a family; see ChunkPattern."""

    family: RunFamily
    rows: slice

    def __len__(self) -> int:
        return self.family.chunks_each

    def expand(self) -> ChunkTable:
        """See ChunkPattern."""
        return self.family.table(self.rows)


def _shifted(numbers: Int32Array, count: int, times: int) -> Int32Array:
    """Numbers below `count`, repeated, each time by `count` higher."""
    return (np.arange(times, dtype=np.int32)[:, None] * np.int32(count) + numbers).reshape(-1)


def _moved_sets(sets: HolderSets, group: Int32Array, groups: Int32Array) -> HolderSets:
    """The sets of a group for other groups, with the member of each rank in place of that of the group."""
    order = np.argsort(group)
    rank = order[np.searchsorted(group[order], sets.members)]
    members = groups[:, rank]
    number = np.repeat(np.arange(len(sets)), sets.sizes)
    in_order = np.lexsort((members, np.broadcast_to(number, members.shape)), axis=1)
    sizes = np.concatenate([np.zeros(1, np.int64), np.tile(sets.sizes, len(groups))])
    return replace(sets, offsets=np.cumsum(sizes), members=np.take_along_axis(members, in_order, axis=1).reshape(-1))


@dataclass(frozen=True, eq=False)
class FamilyRuns(Sequence["Run"]):
    """The runs of families; each is made when it is asked for.

    family, row: int64[runs], the family of each run and its row there.
    """

    families: tuple[RunFamily, ...]
    family: Int64Array
    row: Int64Array

    @staticmethod
    def of(runs: Sequence[Run]) -> FamilyRuns:
        """Runs as they are kept in families, or each as a family."""
        if isinstance(runs, FamilyRuns):
            return runs
        number = np.arange(len(runs), dtype=np.int64)
        families = tuple(RunFamily(run, run.group[None, :]) for run in runs)
        return FamilyRuns(families, number, np.zeros(len(runs), np.int64))

    def __len__(self) -> int:
        return len(self.family)

    @overload
    def __getitem__(self, number: int) -> Run: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[Run, ...]: ...

    def __getitem__(self, number: int | slice) -> Run | tuple[Run, ...]:
        if isinstance(number, slice):
            return tuple(map(self.__getitem__, range(*number.indices(len(self)))))
        family: RunFamily = self.families[int(self.family[number])]
        return family.run(int(self.row[number]))

    def numbers(self) -> list[Int64Array]:
        """For each family, int64: the numbers of its runs, by row."""
        order = np.lexsort((self.row, self.family))
        return np.split(order, np.cumsum([len(family) for family in self.families])[:-1])

    def select(self, kept: BoolArray) -> FamilyRuns:
        """Some of the runs, bool[runs], in order."""
        families: list[RunFamily] = []
        family, row = self.family.copy(), self.row.copy()
        for runs, numbers in zip(self.families, self.numbers(), strict=True):
            rows = np.flatnonzero(kept[numbers])
            if len(rows):
                family[numbers], row[numbers[rows]] = len(families), np.arange(len(rows))
                families.append(RunFamily(runs.run(int(rows[0])), runs.groups[rows]))
        return FamilyRuns(tuple(families), family[kept], row[kept])

    def tables(self) -> tuple[ChunkTable, ...]:
        """The chunks of all runs in order: of each family at once if no runs of another one are between its own."""
        if (np.diff(self.family) >= 0).all() and (self.row[1:] > self.row[:-1])[np.diff(self.family) == 0].all():
            return tuple(family.table() for family in self.families)
        return tuple(run.pattern.expand() for run in self)
