"""Earliest-arrival search in exact time, for links and chunks of any kind and for switches that can refuse a chunk.

A switch holds a chunk in a slot of its buffer from the arrival to the end of the last departure. If no slot is free for
that time, the chunk waits at the device before: the search starts again with later arrivals at that switch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collc.kernels.compiled import compiled, numbers, zeros
from collc.kernels.pccl_timelines import Buffers, BufferTable, LinkTable, TransferTable, with_reserved
from collc.kernels.pccl_times import WORK, TimedConditions, TimedNetwork, TimedScratch, plan_by_times
from collc.synthesis.conditions import Conditions
from collc.synthesis.pccl.planning_order import PlanningOrder
from collc.synthesis.pccl.reserved import reserved_before
from collc.synthesis.timeline import SlotTimeline, Timeline
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.schedule import Transfers


@dataclass(frozen=True, eq=False)
class TimeSearch:
    """Plans conditions in picoseconds.

    wanting: int32, as in the conditions, the nearest target of each first. size: int32[conditions], the number of the
    chunk's size among those that occur. busy, total: int64[sizes, links], how long a chunk occupies a link, and until
    it arrives. to: int64[sizes, targets, devices], distances. reserved, held: int64[n, 3], see `reserved_before`.
    """

    conditions: Conditions
    wanting: Int32Array
    size: Int32Array
    busy: Int64Array
    total: Int64Array
    to: Int64Array
    reserved: Int64Array
    held: Int64Array

    @staticmethod
    def of(conditions: Conditions, wanting: Int32Array, to: dict[int, Int64Array]) -> TimeSearch:
        """Build the search. to: distances to each target, by clock column."""
        clock, kind = conditions.clock, conditions.task.network.kind
        columns = sorted(to)
        number = np.zeros(clock.busy.shape[1], np.int32)
        number[columns] = np.arange(len(columns))
        return TimeSearch(
            conditions,
            wanting,
            number[conditions.column],
            np.ascontiguousarray(clock.busy[kind][:, columns].T),
            np.ascontiguousarray(clock.total[kind][:, columns].T),
            np.stack([to[column] for column in columns]),
            *reserved_before(conditions),
        )

    def transfers(
        self, non_minimal: Int64Array, order: PlanningOrder, stop: Callable[[], bool], compile_it: bool
    ) -> tuple[Transfers, int] | None:
        """All transfers, and the work of finding them in plain Python; None if `stop` says so.

        Both are the same with plain Python and with compiled code.

        non_minimal: int64[sizes], picoseconds; a target at most so near is reached over any hops, others over hops that
        come nearer.
        """
        plan = compiled(plan_by_times) if compile_it else plan_by_times
        network = self._arrays if compile_it else self._lists
        conditions = self._conditions(order, compile_it)
        limits = numbers(non_minimal, compile_it)
        links, buffers = self._reserved(compile_it)
        work = zeros(1, compile_it)
        planned: Any = TransferTable(np.zeros((1024, 3), np.int64), np.zeros(1, np.int64)) if compile_it else []
        for batch in order.batches(self.conditions):
            if stop():
                return None
            links, buffers, planned = plan(
                numbers(batch, compile_it), limits, network, conditions, links, buffers, planned,
                _scratch(self.conditions.task.network.device_count, compile_it), work,
            )  # fmt: skip
        table = planned.rows[: planned.count[0]] if compile_it else np.array(planned, np.int64).reshape(-1, 3)
        found = Transfers.of(self.conditions.chunk[table[:, 0]], table[:, 1].astype(np.int32), table[:, 2])
        return found, (int(work[0]) + _scanned(buffers)) // WORK

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

    def _reserved(self, compile_it: bool) -> tuple[Any, Any]:
        """Links and buffers with what is reserved before."""
        network = self.conditions.task.network
        rows = [numbers(reserved, compile_it) for reserved in (self.reserved, self.held)]
        if compile_it:
            shapes = (network.link_count, 8), (network.switch_count, 8)
            (starts, ends), (times, occupied) = ([np.zeros(shape, np.int64) for _ in range(2)] for shape in shapes)
            links = LinkTable(starts, ends, np.zeros(network.link_count, np.int64))
            buffers = BufferTable(
                times,
                occupied,
                np.ones(network.switch_count, np.int64),
                network.buffers,
                np.zeros(network.switch_count, np.int64),
            )
            return compiled(with_reserved)(links, buffers, *rows)
        timelines = [Timeline() for _ in range(network.link_count)]
        slots: list[int] = network.buffers.tolist()
        slot_timelines = {switch: SlotTimeline(size) for switch, size in enumerate(slots) if size >= 0}
        return with_reserved(timelines, slot_timelines, *rows)


def _scanned(buffers: Buffers) -> int:
    """How many times were looked at to find when slots of switches are free."""
    if isinstance(buffers, BufferTable):
        return int(buffers.scanned.sum())
    return sum(timeline.scanned for timeline in buffers.values())


def _scratch(devices: int, compile_it: bool) -> TimedScratch:
    return TimedScratch(*(numbers(np.full(devices, -1, np.int64), compile_it) for _ in TimedScratch._fields))
