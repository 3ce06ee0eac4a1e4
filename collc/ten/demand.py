"""The demand of a TEN module: chunks with pre- and postconditions, as arrays with one row per chunk.

Chunks share holder sets, so that an All-Gather over N NPUs stores N + 1 sets. A standard collective is
stored as a pattern; its chunks are computed when they are first read. Runs that differ by their groups only are one
family, a run and a table of groups: the tensor-parallel groups of 12,500 nodes are not 12,500 runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from collc.base.tables import html_table
from collc.base.units import shown_bytes
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, distinct, find_keys
from collc.ten.standard_collectives import CollectiveShape, shapes

T = TypeVar("T", bound=np.generic)


class Op(IntEnum):
    """What a postcondition requires: a copy of the chunk, or the reduction of all contributions to it.

    AVG is a sum that the runtime divides by the number of contributions.
    """

    COPY = 0
    SUM = 1
    MAX = 2
    MIN = 3
    PROD = 4
    AVG = 5


@dataclass(frozen=True, eq=False)
class HolderSets:
    """Sets of NPUs, shared by chunks: set k is members[offsets[k]:offsets[k + 1]], ascending.

    offsets: int64[sets + 1]. members: int32, device numbers.
    """

    offsets: Int64Array
    members: Int32Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> Int32Array:
        return self.members[self.offsets[number] : self.offsets[number + 1]]

    def difference(self, number: int, other: int) -> Int32Array:
        """int32: the members of one set that another one lacks, ascending."""
        members, others = self[number], self[other]
        if len(others) == 1:  # as of most chunks; NumPy's function takes fifty times as long
            return members[members != others[0]]
        return np.setdiff1d(members, others, assume_unique=True)

    def contain(self, numbers: NDArray[np.integer], devices: NDArray[np.integer]) -> BoolArray:
        """bool[n]: whether each set contains the device beside it."""
        width = int(max(self.members.max(initial=0), devices.max(initial=0))) + 1
        keys = np.repeat(np.arange(len(self), dtype=np.int64), self.sizes) * width + self.members
        return find_keys(keys, numbers.astype(np.int64) * width + devices)[1]

    @cached_property
    def sizes(self) -> Int64Array:
        """int64[sets]: members of each set."""
        return np.diff(self.offsets)

    @staticmethod
    def of(sets: list[list[int]]) -> HolderSets:
        """Make sets from lists, in which NPUs may be in any order and repeated."""
        rows = [sorted(set(row)) for row in sets]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        return HolderSets(offsets, np.array([m for row in rows for m in row], np.int32))


@dataclass(frozen=True, slots=True)
class ChunkFamily:
    """Chunks declared by one statement: name and number of indices (`x[i, c]` has 2)."""

    name: str
    rank: int


@dataclass(frozen=True, eq=False)
class ChunkTable:
    """Chunks in order of declaration.

    size: int64[chunks], bytes. pre, post: int32[chunks], rows of `sets`: the NPUs that hold the chunk at the
    start, and those that must hold it at the end. op: int8[chunks], an Op: with COPY all holders at the
    start have equal copies; otherwise each has a contribution of its own.
    family: int32[chunks], rows of `families`. index: int32[chunks, K], the indices of each chunk; unused ones are 0.
    """

    size: Int64Array
    pre: Int32Array
    post: Int32Array
    op: NDArray[np.int8]
    family: Int32Array
    index: Int32Array
    families: tuple[ChunkFamily, ...]
    sets: HolderSets

    def __len__(self) -> int:
        return len(self.size)

    def expand(self) -> ChunkTable:
        """The table itself, which lists its chunks already."""
        return self


class ChunkPattern(Protocol):
    """Chunks that are given by a rule; `expand` lists them."""

    def __len__(self) -> int: ...

    def expand(self) -> ChunkTable:
        """The table of all chunks, one row each."""
        ...


@dataclass(frozen=True, slots=True)
class Standard:
    """Which collective of the standard library a run is, with its arguments.

    kind: "all_gather", "all_to_all", ... size: bytes, as its program gives it (docs/language.md).
    chunks: per block. root: its rank in the group, -1 if there is none. op: SUM .. PROD, or COPY for no reduction.
    """

    kind: str
    size: int
    chunks: int
    root: int = -1
    op: Op = Op.COPY

    @property
    def shape(self) -> CollectiveShape:
        """The record of the collective. Raises KeyError if there is none of that name."""
        return shapes()[self.kind]


@dataclass(frozen=True, eq=False)
class Run:
    """One collective over one group.

    collective: its name in the program. group: int32[members], NPU numbers in rank order.
    standard: the collective of the standard library, with its arguments; None for a custom collective.
    """

    collective: str
    group: Int32Array
    pattern: ChunkPattern
    standard: Standard | None = None

    @property
    def chunk_size(self) -> int:
        """Bytes of each chunk if the arguments of a standard collective say so; else 0."""
        standard = self.standard
        if standard is None or not standard.shape.by_rule:
            return 0
        return standard.size // (standard.shape.parts(len(self.group)) * standard.chunks)


def _pairs_of(run: Run) -> int:
    if run.standard is not None and run.standard.shape.pairs:
        return len(run.pattern)
    table = run.pattern.expand()
    pre, post = table.sets.sizes[table.pre], table.sets.sizes[table.post]
    return int(post.sum()) + int(pre[table.op != Op.COPY].sum())


def _sizes_of(run: Run) -> Int64Array:
    return np.array([run.chunk_size]) if run.chunk_size else run.pattern.expand().size


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
            pre=_renumber(table.pre, len(table.sets), count),
            post=_renumber(table.post, len(table.sets), count),
            op=np.tile(table.op, count),
            family=_renumber(table.family, len(table.families), count),
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


def _renumber(numbers: Int32Array, count: int, times: int) -> Int32Array:
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
class FamilyRuns(Sequence[Run]):
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


@dataclass(frozen=True, eq=False)
class Demand:
    """All runs of a schedule. Chunks are numbered by run, then in order of declaration."""

    runs: Sequence[Run]

    @cached_property
    def by_family(self) -> FamilyRuns:
        """The runs in families of those that differ by their groups only."""
        return FamilyRuns.of(self.runs)

    def __repr__(self) -> str:
        runs = [f"{run.collective} over {len(run.group)} NPUs ({len(run.pattern)} chunks)" for run in self.runs]
        return f"<Demand: {', '.join(runs) or 'no runs'}>"

    def _repr_html_(self) -> str:
        """A row for each run, for notebooks."""
        rows = [
            (
                str(number),
                run.collective,
                str(len(run.group)),
                str(len(run.pattern)),
                "-" if run.standard is None else shown_bytes(run.standard.size),
            )
            for number, run in enumerate(self.runs)
        ]
        return html_table(("run", "collective", "NPUs", "chunks", "size"), rows)

    @property
    def standard(self) -> Standard | None:
        """The collective of the standard library that this is; None for a custom one, and for several runs."""
        return self.runs[0].standard if len(self.runs) == 1 else None

    @property
    def least_transfers(self) -> int:
        """The least number of transfers of a schedule, by the conditions of standard collectives."""
        least = 0
        for family in self.by_family.families:
            run = family.first
            phases = 0 if run.standard is None else run.standard.shape.phases
            least += len(family) * family.chunks_each * (phases * (len(run.group) - 1) if phases else 1)
        return least

    @property
    def chunk_count(self) -> int:
        """The number of all chunks."""
        return sum(len(family) * family.chunks_each for family in self.by_family.families)

    @cached_property
    def chunk_sizes(self) -> Int64Array:
        """int64: bytes of chunks, each size once, ascending. Chunks are listed only if no arguments say their size."""
        runs = [family.first for family in self.by_family.families if family.chunks_each]
        return distinct(np.concatenate([np.empty(0, np.int64), *map(_sizes_of, runs)]))

    @cached_property
    def pair_count(self) -> int:
        """Pairs of a chunk and an NPU that it must reach or be reduced from."""
        return sum(len(family) * _pairs_of(family.first) for family in self.by_family.families)

    @cached_property
    def first_chunk(self) -> Int64Array:
        """int64[runs + 1]: the number of the first chunk of each run, then the number of all chunks."""
        offsets = np.zeros(len(self.runs) + 1, np.int64)
        runs = self.by_family
        np.cumsum(np.array([family.chunks_each for family in runs.families], np.int64)[runs.family], out=offsets[1:])
        return offsets

    @cached_property
    def tables(self) -> tuple[ChunkTable, ...]:
        """The chunks of each run."""
        return tuple(run.pattern.expand() for run in self.runs)

    @cached_property
    def chunks(self) -> ChunkTable:
        """The chunks of all runs in one table, with all families and sets renumbered."""
        return join_tables(self.by_family.tables())

    def run_of(self, chunk: int) -> int:
        """The run that a chunk belongs to."""
        return int(np.searchsorted(self.first_chunk, chunk, "right")) - 1

    def chunk_name(self, chunk: int) -> str:
        """The name of a chunk in messages: `RUN:x[i, c]`."""
        table = self.chunks
        family = table.families[int(table.family[chunk])]
        index = ", ".join(str(i) for i in table.index[chunk, : family.rank])
        return f"{self.run_of(chunk)}:{family.name}" + (f"[{index}]" if family.rank else "")


def join_tables(tables: tuple[ChunkTable, ...]) -> ChunkTable:
    """One table of all chunks, with families and sets renumbered; a single table as it is."""
    if len(tables) == 1:
        return tables[0]
    width = max((t.index.shape[1] for t in tables), default=0)
    set_base = np.cumsum([0, *(len(t.sets) for t in tables)])
    family_base = np.cumsum([0, *(len(t.families) for t in tables)])
    member_base = np.cumsum([0, *(len(t.sets.members) for t in tables)])

    def concatenate(parts: list[NDArray[T]], kind: type[T]) -> NDArray[T]:
        return np.concatenate(parts).astype(kind) if parts else np.empty(0, kind)

    return ChunkTable(
        size=concatenate([t.size for t in tables], np.int64),
        pre=concatenate([t.pre + np.int32(b) for t, b in zip(tables, set_base, strict=False)], np.int32),
        post=concatenate([t.post + np.int32(b) for t, b in zip(tables, set_base, strict=False)], np.int32),
        op=concatenate([t.op for t in tables], np.int8),
        family=concatenate([t.family + np.int32(b) for t, b in zip(tables, family_base, strict=False)], np.int32),
        index=np.concatenate([np.pad(t.index, ((0, 0), (0, width - t.index.shape[1]))) for t in tables])
        if tables
        else np.empty((0, 0), np.int32),
        families=tuple(f for t in tables for f in t.families),
        sets=HolderSets(
            np.concatenate([[0], *(t.sets.offsets[1:] + b for t, b in zip(tables, member_base, strict=False))]).astype(
                np.int64
            ),
            concatenate([t.sets.members for t in tables], np.int32),
        ),
    )
