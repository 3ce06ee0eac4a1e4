"""The conditions of a task (PCCL, section 4.1): who has a chunk, and who wants it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to
from collc.synthesis.task import Task
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.schedule import Clock, LinkModel


@dataclass(frozen=True, eq=False)
class Conditions:
    """Chunks with somewhere to go, one row each.

    chunk: int32. holders, wanting: devices of each row as CSR (offsets int64, members int32); a row's
    wanting are not among its holders. release: int64, when the holders have the chunk.
    column: int32, the column of the clock. far: int64, the cost from the nearest holder to the farthest wanting.
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
        """int32: the column of the clock for each row."""
        return self.clock.size_of[self.chunk]

    @cached_property
    def targets(self) -> Int32Array:
        """int32: all devices that want something, ascending."""
        wanted = np.zeros(self.task.network.device_count, np.bool_)
        wanted[self.wanting] = True
        return np.flatnonzero(wanted).astype(np.int32)

    @cached_property
    def target_row(self) -> Int32Array:
        """int32[devices]: the row of each target in tables of distances; 0 for others."""
        row = np.zeros(self.task.network.device_count, np.int32)
        row[self.targets] = np.arange(len(self.targets))
        return row

    @cached_property
    def single(self) -> bool:
        """Whether every row has one who wants."""
        return len(self.wanting) == len(self.chunk)

    def times_to(self, column: int) -> Int64Array:
        """int64[targets, devices]: picoseconds from every device to every target for a size, UNREACHABLE for none."""
        weight = np.maximum(1, self.clock.total[self.task.network.kind, column])
        return distances_to(Digraph.of(self.task.network), weight, self.targets)

    def far(self, to: Int64Array) -> Int64Array:
        """int64: the cost from the nearest holder to the farthest who wants. Raises SourceError where no path leads."""
        if self.single and len(self.holders) == len(self.chunk):
            result = to[self.target_row[self.wanting], self.holders]
        else:
            rows = np.zeros(len(self), np.int64)
            for k in range(len(self)):
                holders, wanting = self.row(k)
                rows[k] = to[self.target_row[wanting]][:, holders].min(axis=1).max()
            result = rows
        lost = np.flatnonzero(result >= UNREACHABLE)
        if len(lost):
            raise self._unreachable(int(lost[0]), to)
        return result

    def row(self, k: int) -> tuple[Int32Array, Int32Array]:
        """Holders and wanting of a row."""
        return (
            self.holders[self.holder_offsets[k] : self.holder_offsets[k + 1]],
            self.wanting[self.wanting_offsets[k] : self.wanting_offsets[k + 1]],
        )

    def _unreachable(self, k: int, to: Int64Array) -> SourceError:
        network, demand = self.task.network, self.task.demand
        holders, wanting = self.row(k)
        target = next(v for v in wanting.tolist() if int(to[self.target_row[v], holders].min()) >= UNREACHABLE)
        names = ", ".join(network.device_name(v) for v in holders[:4].tolist())
        return SourceError(
            Diagnostic(
                "S0103",
                f"no path leads from {names} to {network.device_name(target)}, "
                f"which is to get chunk {demand.chunk_name(int(self.chunk[k]))}",
                hint="add links, or leave the NPU out of the group",
            )
        )


def conditions_of(task: Task) -> Conditions:
    """The conditions of a task. Raises SourceError where a link has no bandwidth or latency."""
    table = task.demand.chunks
    try:
        clock = Clock.of(task.network, task.demand, task.model)
    except ValueError as error:
        raise SourceError(Diagnostic("S0105", str(error), hint="give its links 'bandwidth' and 'latency'")) from error
    chunks = task.chunks.astype(np.int32)
    sizes = table.sets.sizes
    plain = (sizes[table.pre[chunks]] == 1) & (sizes[table.post[chunks]] == 1)
    if bool(plain.all()):
        source = table.sets.members[table.sets.offsets[table.pre[chunks]]]
        target = table.sets.members[table.sets.offsets[table.post[chunks]]]
        moving = source != target
        chunks, source, target = chunks[moving], source[moving], target[moving]
        offsets = np.arange(len(chunks) + 1, dtype=np.int64)
        lists = (offsets, source, offsets, target)
    else:
        chunks, lists = _general(task, chunks)
    release = np.zeros(len(chunks), np.int64) if task.release is None else task.release[chunks]
    return Conditions(task, clock, chunks, *lists, release)


def _general(
    task: Task, chunks: Int32Array
) -> tuple[Int32Array, tuple[Int64Array, Int32Array, Int64Array, Int32Array]]:
    table = task.demand.chunks
    missing: dict[tuple[int, int], Int32Array] = {}
    rows: list[tuple[int, Int32Array, Int32Array]] = []
    for chunk in chunks.tolist():
        key = (int(table.pre[chunk]), int(table.post[chunk]))
        if key not in missing:
            missing[key] = np.setdiff1d(table.sets[key[1]], table.sets[key[0]]).astype(np.int32)
        if len(missing[key]):
            rows.append((chunk, table.sets[key[0]], missing[key]))

    def csr(lists: list[Int32Array]) -> tuple[Int64Array, Int32Array]:
        offsets = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(x) for x in lists], out=offsets[1:])
        return offsets, np.concatenate(lists).astype(np.int32) if lists else np.empty(0, np.int32)

    kept = np.array([r[0] for r in rows], np.int32)
    return kept, (*csr([r[1] for r in rows]), *csr([r[2] for r in rows]))


def alike(conditions: Conditions) -> bool:
    """Whether all links and chunks take equal time, in the model where a link is busy until arrival."""
    return conditions.task.model is LinkModel.STORE and _equal(conditions, conditions.clock.total)


def alike_pipelined(conditions: Conditions) -> bool:
    """Whether all links and chunks take equal time, in the model where a chunk arrives after the link is free."""
    clock = conditions.clock
    pipelined = conditions.task.model is LinkModel.PIPELINED
    return pipelined and _equal(conditions, clock.total) and _equal(conditions, clock.busy)


def _equal(conditions: Conditions, times: Int64Array) -> bool:
    used = times[np.unique(conditions.task.network.kind)][:, np.unique(conditions.column)]
    return used.size > 0 and bool((used == used.flat[0]).all())


def members_of(bits: int) -> list[int]:
    """The numbers in a bit set, ascending."""
    found: list[int] = []
    while bits:
        bit = bits & -bits
        found.append(bit.bit_length() - 1)
        bits ^= bit
    return found
