"""Earliest-arrival search where every transfer takes one step: from conditions to a step-by-link table."""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collc.base.memory import require_for_search
from collc.graph.distances import UNREACHABLE
from collc.kernels.compiled import compiled, numbers, zeros
from collc.kernels.pccl_steps import (
    NEVER,
    WORK,
    StepConditions,
    StepNetwork,
    StepScratch,
    StepTables,
    plan_by_steps,
)
from collc.synthesis.conditions import Conditions
from collc.synthesis.pccl.planning_order import PlanningOrder
from collc.ten.arrays import Int32Array, Int64Array, StepTable


@dataclass(frozen=True, eq=False)
class StepSearch:
    """Plans conditions where all transfers take equal time, chunks are at their holders at first, and no link is taken.

    wanting: int32, as in the conditions, the nearest target of each first. to: int32[targets, devices], steps, NEVER
    where no path leads.
    """

    conditions: Conditions
    wanting: Int32Array
    to: Int32Array

    @staticmethod
    def of(conditions: Conditions, wanting: Int32Array, to: Int64Array) -> StepSearch:
        """to: int64[targets, devices], picoseconds."""
        network = conditions.task.network
        step = int(conditions.clock.total[network.kind[0], conditions.column[0]])
        return StepSearch(conditions, wanting, np.where(to >= UNREACHABLE, NEVER, to // step).astype(np.int32))

    def table(
        self, non_minimal: int, order: PlanningOrder, stop: Callable[[], bool], compile_it: bool
    ) -> tuple[StepTable, int] | None:
        """The step-by-link table, and the work of finding it in plain Python; None where `stop` says so.

        Both are the same with plain Python and with compiled code.

        non_minimal: a target at most so many steps away is reached over any hops, others over hops that come nearer.
        """
        plan = compiled(plan_by_steps) if compile_it else plan_by_steps
        network = self._arrays if compile_it else self._lists
        conditions = self._conditions(order, compile_it)
        links, devices = len(network.heads), len(network.offsets) - 1
        reach = min(devices, self._most_wanting * self._farthest) + 2
        tables = self._tables(links, reach, compile_it)
        scratch = _scratch(tables, devices, links, compile_it)
        work = zeros(1, compile_it)
        last, offset = -1, 0
        for batch in order.batches(self.conditions):
            if stop():
                return None
            position, part = 0, numbers(batch, compile_it)
            while True:
                position, last, offset = plan(
                    part, position, last, offset, non_minimal, network, conditions, tables, scratch, work
                )
                if position == len(part):
                    break
                tables = _with_more_room(tables, links, reach)
                scratch = scratch._replace(**_stacks(tables, devices, compile_it))
        return np.asarray(tables.table).reshape(-1, links)[: last + 1], int(work[0]) // WORK

    @cached_property
    def _arrays(self) -> StepNetwork:
        """The network for compiled code, which looks at all links out of a device."""
        return self._network(True)

    @cached_property
    def _lists(self) -> StepNetwork:
        """The network for plain Python, with lists of the links that come nearer to each target."""
        return self._network(False)

    def _network(self, compile_it: bool) -> StepNetwork:
        network = self.conditions.task.network
        offsets, number = network.out_links
        heads, tails, devices = network.target[number], network.source[number], network.device_count
        every = np.arange(len(number), dtype=np.int32)
        nearer_offsets, nearer, stride = offsets, every, 0
        if not compile_it:
            by_target = [np.flatnonzero(left[heads] < left[tails]) for left in self.to]
            counts = [np.bincount(tails[links], minlength=devices) for links in by_target]
            nearer_offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
            nearer, stride = np.concatenate(by_target), devices
        columns = (offsets, number, heads, tails, self.to, self.conditions.target_row, every, nearer_offsets, nearer)
        return StepNetwork(*(numbers(column, compile_it) for column in columns), stride=stride, farthest=self._farthest)

    @cached_property
    def _farthest(self) -> int:
        """Steps to a target from the farthest device that reaches it."""
        return int(self.to[self.to < NEVER].max())

    @cached_property
    def _most_wanting(self) -> int:
        """How many devices want the chunk that most want."""
        return int(np.diff(self.conditions.wanting_offsets).max())

    def _conditions(self, order: PlanningOrder, compile_it: bool) -> StepConditions:
        c = self.conditions
        columns = c.chunk, c.holder_offsets, c.holders, c.wanting_offsets, self.wanting, order.tie_seeds
        return StepConditions(*(numbers(column, compile_it) for column in columns))

    def _tables(self, links: int, reach: int, compile_it: bool) -> StepTables:
        """Empty tables, with room for the steps of all conditions if they load all links alike, and `reach` more."""
        c = self.conditions
        first = np.repeat(c.holders[c.holder_offsets[:-1]], np.diff(c.wanting_offsets))
        away = self.to[c.target_row[c.wanting], first]
        steps = int(away[away < NEVER].sum()) * 11 // (10 * links) + reach
        words = steps // 64 + 2
        size = words * links * (8 + 64 * _no_chunks(0, len(c.task.demand.chunks)).itemsize)
        require_for_search(size, f"{64 * words:,} steps on {links:,} links")
        free = numbers(np.full(links * words if compile_it else links, -1, np.int64), compile_it)
        table = numbers(_no_chunks(words * 64 * links, len(c.task.demand.chunks)), True)
        shape = (words, 6, 63) if compile_it else (1, 62, (1 << 62) - 1)
        return StepTables(*shape, words * 64, free, zeros(links, compile_it), table)


def _no_chunks(length: int, chunks: int) -> StepTable:
    if chunks < 1 << 16:
        return np.full(length, 0xFFFF, np.uint16)
    return np.full(length, 0xFFFFFFFF, np.uint32)


def _with_more_room(tables: StepTables, links: int, reach: int) -> StepTables:
    more = tables.room // 512 + reach // 64 + 2
    table = np.asarray(tables.table)
    none = np.full(more * 64 * links, np.iinfo(table.dtype).max, table.dtype)
    tables = tables._replace(room=tables.room + more * 64, table=numbers(np.concatenate([table, none]), True))
    if tables.shift != 6:
        return tables
    free = np.asarray(tables.free).reshape(links, -1)
    free = np.concatenate([free, np.full((links, more), -1, np.int64)], axis=1)
    return tables._replace(words=tables.words + more, free=numbers(free.reshape(-1), True))


def _scratch(tables: StepTables, devices: int, links: int, compile_it: bool) -> StepScratch:
    owner = numbers(np.full(devices, -1, np.int64), compile_it)
    since, tree, arrival, via = (zeros(devices, compile_it) for _ in range(4))
    entries = (zeros(devices + links, compile_it) for _ in range(2))
    return StepScratch(owner, since, tree, arrival, via, *entries, **_stacks(tables, devices, compile_it))


def _stacks(tables: StepTables, devices: int, compile_it: bool) -> dict[str, MutableSequence[int]]:
    """Stacks for all ranks of the search: a rank is a step, and a distance from there."""
    ranks = tables.room + 2 * devices + 64
    return {"stack": zeros(ranks, compile_it), "filled": zeros((ranks >> tables.shift) + 1, compile_it)}


def retimed(table: StepTable, busy: int, total: int) -> tuple[Int32Array, Int32Array, Int64Array]:
    """Chunk, link and start of each transfer of a step-by-link table, by step, where links are pipelined.

    busy, total: picoseconds that a transfer occupies its link, and until the chunk arrives. Every transfer starts as
    soon as its link is free and its chunk is there. Each chunk must have one holder, and one who wants it.
    """
    none = np.iinfo(table.dtype).max
    free = np.zeros(table.shape[1], np.int64)
    there = np.zeros(int(table[table != none].max(initial=0)) + 1, np.int64)
    start = np.zeros(table.shape, np.int64)
    for step, row in enumerate(table):
        links = np.flatnonzero(row != none)
        chunks = row[links]
        now = np.maximum(free[links], there[chunks])
        start[step, links] = now
        free[links] = now + busy
        there[chunks] = now + total
    step, link = np.nonzero(table != none)
    return table[step, link].astype(np.int32), link.astype(np.int32), start[step, link]
