"""The conditions of a task (PCCL, section 4.1): who has a chunk, and who wants it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.memory import require_for_search
from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to
from collc.synthesis.task import Task
from collc.ten.arrays import Int32Array, Int64Array, ranges
from collc.ten.demand import ChunkTable
from collc.ten.schedule import Clock, LinkModel


@dataclass(frozen=True, eq=False)
class Conditions:
    """Chunks that must be copied to more devices, one row each.

    chunk: int32, its number in the demand. holders, wanting: the devices that hold the chunk of each row and those
    that want it, in CSR form (offsets int64[rows + 1], members int32); no holder is among the wanting.
    release: int64, picoseconds from which the holders have the chunk.
    """

    task: Task
    clock: Clock
    chunk: Int32Array
    holder_offsets: Int64Array
    holders: Int32Array
    wanting_offsets: Int64Array
    wanting: Int32Array
    release: Int64Array

    def __len__(self) -> int:
        return len(self.chunk)

    @cached_property
    def column(self) -> Int32Array:
        """int32: the column of the clock (the number of the chunk's size) for each row."""
        return self.clock.size_of[self.chunk]

    @cached_property
    def targets(self) -> Int32Array:
        """int32: all devices that want a chunk, ascending."""
        wanted = np.zeros(self.task.network.device_count, np.bool_)
        wanted[self.wanting] = True
        return np.flatnonzero(wanted).astype(np.int32)

    @cached_property
    def target_row(self) -> Int32Array:
        """int32[devices]: the row of each target in the tables of `times_to`; 0 for other devices."""
        row = np.zeros(self.task.network.device_count, np.int32)
        row[self.targets] = np.arange(len(self.targets))
        return row

    @cached_property
    def one_target_each(self) -> bool:
        """Whether one device wants the chunk of each row."""
        return len(self.wanting) == len(self.chunk)

    def times_to(self, column: int) -> Int64Array:
        """int64[targets, devices]: picoseconds of the shortest paths to every target for chunks of one size.

        UNREACHABLE where no path leads. column: of the clock.
        """
        count, devices = len(self.targets), self.task.network.device_count
        require_for_search(2 * 8 * count * devices, f"distances of {devices:,} devices from {count:,} NPUs")
        weight = np.maximum(1, self.clock.total[self.task.network.kind, column])
        return distances_to(Digraph.of(self.task.network), weight, self.targets)

    def farthest(self, to: Int64Array) -> Int64Array:
        """int64: for each row the distance of the farthest device that wants the chunk from the holder nearest to it.

        to: distances, as `times_to` returns them. Raises SourceError where no path leads.
        """
        if self.one_target_each and len(self.holders) == len(self.chunk):
            result = to[self.target_row[self.wanting], self.holders]
        else:
            rows = np.zeros(len(self), np.int64)
            for k in range(len(self)):
                holders, wanting = self.row(k)
                rows[k] = to[np.ix_(self.target_row[wanting], holders)].min(axis=1).max()
            result = rows
        without_path = np.flatnonzero(result >= UNREACHABLE)
        if len(without_path):
            raise self._path_error(int(without_path[0]), to)
        return result

    def row(self, k: int) -> tuple[Int32Array, Int32Array]:
        """The holders of a row, and the devices that want its chunk."""
        return (
            self.holders[self.holder_offsets[k] : self.holder_offsets[k + 1]],
            self.wanting[self.wanting_offsets[k] : self.wanting_offsets[k + 1]],
        )

    def _path_error(self, k: int, to: Int64Array) -> SourceError:
        network, demand = self.task.network, self.task.demand
        holders, wanting = self.row(k)
        target = next(v for v in wanting.tolist() if int(to[self.target_row[v], holders].min()) >= UNREACHABLE)
        names = ", ".join(network.shown_name(v) for v in holders[:4].tolist())
        return SourceError(
            Diagnostic(
                "S0103",
                f"no path leads from {names} to {network.shown_name(target)}, "
                f"which must receive chunk {demand.chunk_name(int(self.chunk[k]))}",
                hint="add links, or leave the NPU out of the group",
            )
        )


@contextmanager
def rates_required() -> Generator[None]:
    """Raise SourceError for the ValueError that links without bandwidth or latency cause."""
    try:
        yield
    except ValueError as error:
        raise SourceError(Diagnostic("S0105", str(error), hint="give its links 'bandwidth' and 'latency'")) from error


def conditions_of(task: Task) -> Conditions:
    """The conditions of a task, without chunks that need not move. Raises SourceError if a link has no bandwidth or
    latency.
    """
    table = task.demand.chunks
    with rates_required():
        clock = Clock.of(task.network, task.demand, task.model)
    chunks = task.chunks.astype(np.int32)
    sizes = table.sets.sizes
    one_to_one = (sizes[table.pre[chunks]] == 1) & (sizes[table.post[chunks]] == 1)
    if bool(one_to_one.all()):
        source = table.sets.members[table.sets.offsets[table.pre[chunks]]]
        target = table.sets.members[table.sets.offsets[table.post[chunks]]]
        moving = source != target
        chunks, source, target = chunks[moving], source[moving], target[moving]
        offsets = np.arange(len(chunks) + 1, dtype=np.int64)
        lists = (offsets, source, offsets, target)
    else:
        chunks, lists = _lists_of_missing(task, chunks)
    release = np.zeros(len(chunks), np.int64) if task.release is None else task.release[chunks]
    return Conditions(task, clock, chunks, *lists, release)


def _lists_of_missing(
    task: Task, chunks: Int32Array
) -> tuple[Int32Array, tuple[Int64Array, Int32Array, Int64Array, Int32Array]]:
    """The chunks that some device wants and lacks, with their holders and these devices in CSR form."""
    table = task.demand.chunks
    if bool((table.sets.sizes[table.pre[chunks]] == 1).all()):
        return _others_of(table, chunks)
    missing: dict[tuple[int, int], Int32Array] = {}
    rows: list[tuple[int, Int32Array, Int32Array]] = []
    for chunk in chunks.tolist():
        key = (int(table.pre[chunk]), int(table.post[chunk]))
        if key not in missing:
            missing[key] = table.sets.difference(key[1], key[0])
        if len(missing[key]):
            rows.append((chunk, table.sets[key[0]], missing[key]))

    def csr(lists: list[Int32Array]) -> tuple[Int64Array, Int32Array]:
        offsets = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(x) for x in lists], out=offsets[1:])
        return offsets, np.concatenate(lists).astype(np.int32) if lists else np.empty(0, np.int32)

    kept = np.array([r[0] for r in rows], np.int32)
    return kept, (*csr([r[1] for r in rows]), *csr([r[2] for r in rows]))


def _others_of(
    table: ChunkTable, chunks: Int32Array
) -> tuple[Int32Array, tuple[Int64Array, Int32Array, Int64Array, Int32Array]]:
    """As `_lists_of_missing`, of chunks with one holder each."""
    sets, post = table.sets, table.post[chunks]
    holder = sets.members[sets.offsets[table.pre[chunks]]]
    if len(chunks) and bool((post == post[0]).all()):  # as of an All-Gather: no table of as many numbers is needed
        members = sets[int(post[0])]
        others = members != holder[:, None]
        count, wanting = others.sum(axis=1), np.broadcast_to(members, others.shape)[others]
    else:
        number = np.repeat(np.arange(len(chunks)), sets.sizes[post])
        members = sets.members[ranges(sets.offsets[post], sets.offsets[post + 1])]
        others = members != holder[number]
        count, wanting = np.bincount(number[others], minlength=len(chunks)), members[others]
    moving = count > 0
    offsets = np.append(0, np.cumsum(count[moving]))
    return chunks[moving], (np.arange(len(offsets)), holder[moving], offsets, wanting)


def equal_transfers(conditions: Conditions) -> bool:
    """Whether all transfers take equal time and, if links are pipelined, occupy their links equally long."""
    clock, kinds, columns = conditions.clock, np.unique(conditions.task.network.kind), np.unique(conditions.column)
    times = (clock.total,) if conditions.task.model is LinkModel.STORE else (clock.total, clock.busy)
    used = [each[kinds][:, columns] for each in times]
    return used[0].size > 0 and all(bool((each == each.flat[0]).all()) for each in used)
