"""Earliest-arrival search for links and chunks of any kind and for switches that can refuse a chunk.

A switch holds a chunk in a slot of its buffer from the arrival to the end of the last departure. If no slot is free for
that time, the chunk waits at the device before: the search starts again with later arrivals at that switch. Time is
counted in picoseconds or, if all transfers take equal time from the start on, in steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collc.base.memory import require_for_search
from collc.graph.distances import UNREACHABLE
from collc.kernels.compiled import numbers, version_of
from collc.kernels.pccl_timelines import Buffers, BufferTable, LinkTable, PlannedTransfers, TransferTable, with_reserved
from collc.kernels.pccl_times import WORK, TimedConditions, TimedNetwork, TimedScratch, plan_by_times
from collc.synthesis.conditions import Conditions
from collc.synthesis.pccl.planning_order import PlanningOrder
from collc.synthesis.timeline import SlotTimeline, StepTimeline, Timeline, slots_used
from collc.ten.arrays import Int32Array, Int64Array, StepTable
from collc.ten.schedule import LinkModel, RowSchedule, Schedule, StepSchedule, Transfers


@dataclass(frozen=True, eq=False)
class PathSearch:
    """Plans conditions. Times are picoseconds or, if `step` is not 0, steps of that many.

    wanting: int32, as in the conditions, the nearest target of each first. size: int32[conditions], the number of the
    chunk's size among those that occur. busy, total: int64[sizes, links], how long a chunk occupies a link, and until
    it arrives. to: int64[sizes, targets, devices], distances. reserved, held: int64[n, 3], see `_reserved_times`.
    """

    conditions: Conditions
    wanting: Int32Array
    size: Int32Array
    busy: Int64Array
    total: Int64Array
    to: Int64Array
    reserved: Int64Array
    held: Int64Array
    step: int

    @staticmethod
    def of(conditions: Conditions, wanting: Int32Array, to: dict[int, Int64Array], in_steps: bool) -> PathSearch:
        """Build the search. to: distances to each target, by clock column. in_steps: whether to count steps."""
        clock, kind = conditions.clock, conditions.task.network.kind
        columns = sorted(to)
        number = np.zeros(clock.busy.shape[1], np.int32)
        number[columns] = np.arange(len(columns))
        step = int(clock.total[kind[0], columns[0]]) if in_steps else 0
        unit = max(1, step)
        distances = np.stack([to[column] for column in columns])
        return PathSearch(
            conditions,
            wanting,
            number[conditions.column],
            np.ascontiguousarray((clock.total if in_steps else clock.busy)[kind][:, columns].T) // unit,
            np.ascontiguousarray(clock.total[kind][:, columns].T) // unit,
            np.where(distances < UNREACHABLE, distances // unit, UNREACHABLE) if in_steps else distances,
            *_reserved_times(conditions),
            step,
        )

    def schedule(
        self, hops: int, order: PlanningOrder, stop: Callable[[], bool], compile_it: bool, most: int
    ) -> tuple[Schedule | None, int]:
        """A schedule, None if `stop` says so or it takes the most work, and the work of finding it in plain Python.

        Both are the same with plain Python and with compiled code.

        hops: a target at most so far away is reached over any hops, others over hops that come nearer.
        """
        plan = version_of(plan_by_times, compile_it)
        network = self._arrays if compile_it else self._lists
        conditions = self._conditions(order, compile_it)
        limits = numbers(np.minimum(self.total.max(axis=1) * hops, UNREACHABLE), compile_it)
        work = numbers(np.array([0, most * WORK]), compile_it)
        planned: Any = self._no_transfers() if compile_it else []
        links, buffers = self._timelines(planned, compile_it)
        scratch = self._scratch(compile_it)
        for batch in order.batches(self.conditions):
            if stop() or work[0] >= work[1]:
                return None, int(work[0]) // WORK
            links, buffers, planned = plan(
                numbers(batch, compile_it), limits, network, conditions, links, buffers, planned,
                scratch, work,
            )  # fmt: skip
        schedule = self._schedule(planned) if work[0] < work[1] else None
        return schedule, (int(work[0]) + _scan_count(buffers)) // WORK

    def _schedule(self, planned: TransferTable | list[tuple[int, int, int]]) -> Schedule:
        chunk, model = self.conditions.chunk, self.conditions.task.model
        if isinstance(planned, TransferTable) and self.step:
            table = planned.table[: planned.count[0]]
            used = table != np.iinfo(table.dtype).max
            table[used] = chunk[table[used]]
            return self._step_schedule(table)
        rows = np.array(planned, np.int64) if isinstance(planned, list) else planned.rows[: planned.count[0]]
        condition, link, start = rows.T
        if not self.step:
            return RowSchedule(model, Transfers.of(chunk[condition], link.astype(np.int32), start))
        table = self._table(int(start.max()) + 1)
        table[start, link] = chunk[condition]
        return self._step_schedule(table)

    def _step_schedule(self, table: StepTable) -> Schedule:
        """The schedule of a step-by-link table; if links are pipelined, with each transfer as early as it can be."""
        clock, kind, size = self.conditions.clock, self.conditions.task.network.kind, self.conditions.column[0]
        if len(self.conditions.task.demand.chunks) < 1 << 16:
            table = table.astype(np.uint16)
        if self.conditions.task.model is LinkModel.STORE:
            return StepSchedule(LinkModel.STORE, table, self.step)
        busy, none = int(clock.busy[kind[0], size]), np.iinfo(table.dtype).max
        free = np.zeros(table.shape[1], np.int64)
        held = np.zeros(len(self.conditions.task.demand.chunks), np.int64)
        start = np.zeros(table.shape, np.int64)
        for step, row in enumerate(table):
            links = np.flatnonzero(row != none)
            now = start[step, links] = np.maximum(free[links], held[row[links]])
            free[links] = now + busy
            held[row[links]] = now + self.step
        step, link = np.nonzero(table != none)
        chunk = table[step, link].astype(np.int32)
        return RowSchedule(LinkModel.PIPELINED, Transfers.of(chunk, link.astype(np.int32), start[step, link]))

    def _no_transfers(self) -> TransferTable:
        """Room for planned transfers in compiled code; in steps for all if they load all links alike."""
        table = self._table(0)[:, :0]
        if self.step:
            c, links = self.conditions, self.conditions.task.network.link_count
            first = np.repeat(c.holders[c.holder_offsets[:-1]], np.diff(c.wanting_offsets))
            away = self.to[0, c.target_row[c.wanting], first]
            steps = int(away[away < UNREACHABLE].sum()) * 11 // (10 * links) + 64
            require_for_search(steps * links * (1 + table.itemsize), f"{steps:,} steps on {links:,} links")
            table = self._table(steps)
        return TransferTable(np.zeros((1024, 3), np.int64), np.zeros(1, np.int64), table)

    def _table(self, steps: int) -> StepTable:
        """A step-by-link table without transfers."""
        return np.full((steps, self.conditions.task.network.link_count), 0xFFFFFFFF, np.uint32)

    @cached_property
    def _arrays(self) -> TimedNetwork:
        """The network for compiled code."""
        return self._network(True)

    @cached_property
    def _lists(self) -> TimedNetwork:
        """The network for plain Python."""
        return self._network(False)

    def _network(self, compile_it: bool) -> TimedNetwork:
        task = self.conditions.task
        network = task.network
        keeps = np.ones(network.switch_count, np.bool_)
        if task.relays:
            keeps[:] = False
        elif task.inverted:
            keeps[:] = network.multicast
        columns: tuple[NDArray[Any], ...] = (
            *network.out_links, network.source, network.target, self.busy, self.total, self.to,
            self.conditions.target_row, network.multicast, keeps, network.buffers,
        )  # fmt: skip
        given = (numbers(column, compile_it) for column in columns)
        return TimedNetwork(*given, npus=network.npu_count, inverted=task.inverted)

    def _conditions(self, order: PlanningOrder, compile_it: bool) -> TimedConditions:
        c = self.conditions
        columns: tuple[NDArray[Any], ...] = (
            self.size, c.release, c.holder_offsets, c.holders, c.wanting_offsets, self.wanting, order.tie_seeds,
        )  # fmt: skip
        return TimedConditions(*(numbers(column, compile_it) for column in columns))

    @cached_property
    def _most_wanting(self) -> int:
        """The most NPUs that want what one condition moves."""
        return int(np.diff(self.conditions.wanting_offsets).max())

    def _scratch(self, compile_it: bool) -> TimedScratch:
        """Memory for some conditions."""
        network = self.conditions.task.network
        by_device = (np.full(network.device_count, -1, np.int64) for _ in TimedScratch._fields[:-4])
        most = 1 + self._most_wanting * network.switch_count  # once in each path
        heap: Any = np.zeros((1 + network.device_count + network.link_count, 3), np.int64) if compile_it else []
        tables = (*by_device, *np.zeros((3, most), np.int64))
        return TimedScratch(*(numbers(table, compile_it) for table in tables), heap=heap)

    def _timelines(self, planned: PlannedTransfers, compile_it: bool) -> tuple[Any, Any]:
        """Links and buffers with what is reserved before."""
        network = self.conditions.task.network
        rows = [numbers(reserved, compile_it) for reserved in (self.reserved, self.held)]
        if compile_it:
            shapes = (network.link_count, 8), (network.switch_count, 8)
            (starts, ends), (times, occupied) = ([np.zeros(shape, np.int64) for _ in range(2)] for shape in shapes)
            steps = np.full((network.link_count, 8 if self.step else 0), -1, np.int64)
            links = LinkTable(starts, ends, np.zeros(network.link_count + 1, np.int64), steps)
            buffers = BufferTable(
                times,
                occupied,
                np.ones(network.switch_count + 1, np.int64),
                network.buffers,
                np.zeros(network.switch_count, np.int64),
            )
            if not (len(self.reserved) or len(self.held)):  # so that nothing is compiled for it
                return links, buffers
            return version_of(with_reserved, compile_it)(links, buffers, planned, *rows)
        timelines = [StepTimeline() if self.step else Timeline() for _ in range(network.link_count)]
        slots: list[int] = network.buffers.tolist()
        slot_timelines = {switch: SlotTimeline(size) for switch, size in enumerate(slots) if size >= 0}
        return with_reserved(timelines, slot_timelines, planned, *rows)


def _scan_count(buffers: Buffers) -> int:
    """How many times were looked at to find when slots of switches are free."""
    if isinstance(buffers, BufferTable):
        return int(buffers.scanned.sum())
    return sum(timeline.scanned for timeline in buffers.values())


def _reserved_times(conditions: Conditions) -> tuple[Int64Array, Int64Array]:
    """What the reserved transfers of a task occupy, in picoseconds.

    Returns int64[n, 3], link, start and end of each transfer; and int64[m, 3], switch (numbered from 0), start and end
    of each slot of a buffer.
    """
    planned, npus = conditions.task.reserved, conditions.task.network.npu_count
    if planned is None:
        return np.empty((0, 3), np.int64), np.empty((0, 3), np.int64)
    links = np.stack(
        [planned.link.astype(np.int64), planned.start, planned.start + conditions.clock.busy_of(planned)], axis=1
    )
    slots = slots_used(conditions.task, conditions.clock).items()
    held = [(switch - npus, start, end) for switch, intervals in slots for start, end in intervals]
    return links, np.array(held, np.int64).reshape(-1, 3)
