"""Earliest-arrival search in which every transfer takes one step: from conditions to a step-by-link table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from collc.base.memory import require_for_search
from collc.graph.distances import UNREACHABLE
from collc.kernels.compiled import compiled, numbers, zeros
from collc.kernels.pccl_plain_steps import CELL_BITS, plain_tables, plan_in_plain_steps
from collc.kernels.pccl_steps import (
    NEVER,
    SHIFT,
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

_Part = MutableSequence[int]
"""Conditions that are planned between two calls of `stop`."""


class _Problem(NamedTuple):
    """What is planned; non_minimal and reach as in `plan_in_plain_steps`."""

    non_minimal: int
    network: StepNetwork
    conditions: StepConditions
    reach: int


@dataclass(frozen=True, eq=False)
class StepSearch:
    """Plans conditions if all transfers take equal time, chunks are at their holders at first, and no link is taken.

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
        """The step-by-link table, and the work of finding it in plain Python; None if `stop` says so.

        Both are the same with plain Python and with compiled code.

        non_minimal: steps up to which a target is reached over any hops; others only over hops that come nearer.
        """
        network, conditions = self._network(compile_it), self._conditions(order, compile_it)
        reach = min(len(network.offsets) - 1, self._most_wanting * self._farthest) + 2
        problem = _Problem(non_minimal, network, conditions, reach)
        planned = (self._compiled if compile_it else self._plain)(problem, self._parts(order, stop, compile_it))
        return None if planned is None else (planned[0], planned[1] // WORK)

    def _parts(self, order: PlanningOrder, stop: Callable[[], bool], compile_it: bool) -> Iterator[_Part | None]:
        """The batches of the order; None, and no more of them, where `stop` says so."""
        for batch in order.batches(self.conditions):
            if stop():
                yield None
                return
            yield numbers(batch, compile_it)

    def _plain(self, problem: _Problem, parts: Iterator[_Part | None]) -> tuple[StepTable, int] | None:
        non_minimal, network, conditions, reach = problem
        self._require(self._steps(len(network.heads), reach), len(network.heads))
        tables, last, work = plain_tables(network), -1, 0
        for part in parts:
            if part is None:
                return None
            last, more = plan_in_plain_steps(part, last, reach, non_minimal, network, conditions, tables)
            work += more
        planned, links = np.array(tables.planned, np.int64), len(network.heads)
        step, link = np.divmod(planned & ((1 << CELL_BITS) - 1), links)
        table = self._no_chunks((last + 1) * links).reshape(-1, links)
        table[step, np.array(network.number)[link]] = planned >> CELL_BITS
        return table, work

    def _compiled(self, problem: _Problem, parts: Iterator[_Part | None]) -> tuple[StepTable, int] | None:
        non_minimal, network, conditions, reach = problem
        plan, links, devices = compiled(plan_by_steps), len(network.heads), len(network.offsets) - 1
        tables = self._tables(links, reach)
        scratch, work = _scratch(tables, devices, links), zeros(1, True)
        last, offset = -1, 0
        for part in parts:
            if part is None:
                return None
            position = 0
            while True:
                position, last, offset = plan(
                    part, position, last, offset, non_minimal, network, conditions, tables, scratch, work
                )
                if position == len(part):
                    break
                tables = _with_more_room(tables, links, reach)
                scratch = scratch._replace(**_stacks(tables, devices))
        return np.asarray(tables.table).reshape(-1, links)[: last + 1], int(work[0])

    def _network(self, compile_it: bool) -> StepNetwork:
        """The network for compiled code, or for plain Python."""
        if compile_it not in self._networks:
            network = self.conditions.task.network
            offsets, number = network.out_links
            heads, tails = network.target[number], network.source[number]
            columns = (offsets, number, heads, tails, self.to, self.conditions.target_row)
            self._networks[compile_it] = StepNetwork(
                *(numbers(column, compile_it) for column in columns), farthest=self._farthest
            )
        return self._networks[compile_it]

    @cached_property
    def _networks(self) -> dict[bool, StepNetwork]:
        return {}

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

    def _steps(self, links: int, reach: int) -> int:
        """Steps for all conditions if they load all links alike, and `reach` more."""
        c = self.conditions
        first = np.repeat(c.holders[c.holder_offsets[:-1]], np.diff(c.wanting_offsets))
        away = self.to[c.target_row[c.wanting], first]
        return int(away[away < NEVER].sum()) * 11 // (10 * links) + reach

    def _require(self, steps: int, links: int) -> None:
        """Raises SourceError if there is no memory for tables of `steps` steps."""
        size = steps * links * (1 + self._no_chunks(0).itemsize)
        require_for_search(size, f"{steps:,} steps on {links:,} links")

    def _tables(self, links: int, reach: int) -> StepTables:
        """Empty tables for compiled code."""
        words = self._steps(links, reach) // 64 + 2
        self._require(64 * words, links)
        free = numbers(np.full(links * words, -1, np.int64), True)
        table = numbers(self._no_chunks(words * 64 * links), True)
        return StepTables(words, words * 64, free, zeros(links, True), table)

    def _no_chunks(self, length: int) -> StepTable:
        if len(self.conditions.task.demand.chunks) < 1 << 16:
            return np.full(length, 0xFFFF, np.uint16)
        return np.full(length, 0xFFFFFFFF, np.uint32)


def _with_more_room(tables: StepTables, links: int, reach: int) -> StepTables:
    more = tables.room // 512 + reach // 64 + 2
    table = np.asarray(tables.table)
    none = np.full(more * 64 * links, np.iinfo(table.dtype).max, table.dtype)
    free = np.asarray(tables.free).reshape(links, -1)
    free = np.concatenate([free, np.full((links, more), -1, np.int64)], axis=1)
    return tables._replace(
        words=tables.words + more,
        room=tables.room + more * 64,
        free=numbers(free.reshape(-1), True),
        table=numbers(np.concatenate([table, none]), True),
    )


def _scratch(tables: StepTables, devices: int, links: int) -> StepScratch:
    owner = numbers(np.full(devices, -1, np.int64), True)
    since, tree, arrival, via = (zeros(devices, True) for _ in range(4))
    entries = (zeros(devices + links, True) for _ in range(2))
    return StepScratch(owner, since, tree, arrival, via, *entries, **_stacks(tables, devices))


def _stacks(tables: StepTables, devices: int) -> dict[str, MutableSequence[int]]:
    """Stacks for all ranks of the search: a rank is a step, and a distance from there."""
    ranks = tables.room + 2 * devices + 64
    return {"stack": zeros(ranks, True), "filled": zeros((ranks >> SHIFT) + 1, True)}


def retimed(table: StepTable, busy: int, total: int) -> tuple[Int32Array, Int32Array, Int64Array]:
    """Chunk, link and start of each transfer of a step-by-link table, by step, if links are pipelined.

    busy, total: picoseconds that a transfer occupies its link, and until the chunk arrives. Every transfer starts as
    soon as its link is free and its chunk has arrived. Each chunk must have one holder, and one NPU that wants it.
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
