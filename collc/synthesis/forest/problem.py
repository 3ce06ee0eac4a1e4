"""What forest plans: chunks of one size, each held by one NPU at first and wanted by all members."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.graph.digraph import Digraph
from collc.graph.distances import distances_to
from collc.synthesis.conditions import Conditions
from collc.synthesis.task import Task
from collc.ten.arrays import Int32Array, Int64Array, group_positions
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

Path = tuple[int, ...]
"""Devices from a member to another one, both included."""


@dataclass(frozen=True, slots=True)
class TreeBatch:
    """Equal trees.

    root: number of the member. amount: how many trees. paths: for each member but the root, the path to it from a
    member that has the data, in an order in which each path begins at the end of an earlier one.
    """

    root: int
    amount: int
    paths: tuple[Path, ...]


@dataclass(frozen=True, eq=False)
class ForestProblem:
    """An All-Gather or broadcast on the pairs of devices that links join.

    chunks: by member, the rows of the conditions that begin there. members: NPUs, ascending. pair: int32[links], which
    pair of devices each link joins. graph: an edge a pair. busy, total: int64[links], picoseconds that a chunk
    occupies each link, and until it arrives. capacity: int64[pairs], chunks in a time common to all links, which is
    `unit`, picoseconds, rounded down.
    """

    conditions: Conditions
    members: Int32Array
    chunks: tuple[Int32Array, ...]
    graph: Digraph
    pair: Int32Array
    busy: Int64Array
    total: Int64Array
    capacity: Int64Array
    unit: int

    @cached_property
    def demand(self) -> list[int]:
        """By member, the trees that begin there: one for each chunk."""
        return [len(rows) for rows in self.chunks]

    @property
    def network(self) -> Network:
        """The network of the task."""
        return self.conditions.task.network

    @property
    def is_uniform(self) -> bool:
        """Whether all NPUs are members with equally many chunks that are there from the start."""
        everyone = len(self.members) == self.network.npu_count and len(set(self.demand)) == 1
        return everyone and not bool(self.conditions.release.any())

    @cached_property
    def pair_number(self) -> dict[tuple[int, int], int]:
        """The number of each pair of devices that links join."""
        ends = zip(self.graph.source.tolist(), self.graph.target.tolist(), strict=True)
        return {end: pair for pair, end in enumerate(ends)}

    @cached_property
    def undirected_pair(self) -> Int64Array:
        """int64[pairs]: the lower number of each pair and its reverse; -1 if there is no reverse."""
        ends = zip(self.graph.source.tolist(), self.graph.target.tolist(), strict=True)
        back = [self.pair_number.get((v, u), -1) for u, v in ends]
        return np.minimum(np.arange(len(back)), np.array(back, np.int64))

    @cached_property
    def centres(self) -> Int64Array:
        """int64: the numbers of the members with the shortest paths to all others."""
        time = np.maximum(1, self.total[self.fastest])
        farthest = distances_to(self.graph, time, self.members).max(axis=0)[self.members]
        return np.flatnonzero(farthest == farthest.min())

    @cached_property
    def links(self) -> tuple[Int64Array, Int64Array]:
        """(offsets, links): the links of each pair, the fastest first (CSR)."""
        order = np.lexsort((np.arange(len(self.total)), self.total, self.pair))
        offsets = np.searchsorted(self.pair[order], np.arange(self.graph.edge_count + 1))
        return offsets.astype(np.int64), order.astype(np.int64)

    @cached_property
    def fastest(self) -> Int64Array:
        """int64[pairs]: the fastest link of each pair."""
        return self.links[1][self.links[0][:-1]]


_SCALE = 1 << 20
"""Capacities are rounded to 1/_SCALE of the largest one, unless they are multiples of a common rate."""


def forest_problem(conditions: Conditions) -> ForestProblem:
    """Raises SourceError if forest does not apply to the task."""
    task = conditions.task
    _check_support(conditions)
    members = _members(conditions)
    first, order = group_positions(np.searchsorted(members, conditions.holders).astype(np.int32), len(members))
    column = int(conditions.column[0])
    busy = conditions.clock.busy[task.network.kind, column]
    total = conditions.clock.total[task.network.kind, column]
    ends = task.network.source.astype(np.int64) * task.network.device_count + task.network.target
    pairs, pair = np.unique(ends, return_inverse=True)
    graph = Digraph(
        task.network.device_count,
        (pairs // task.network.device_count).astype(np.int32),
        (pairs % task.network.device_count).astype(np.int32),
    )
    capacity = np.zeros(len(pairs), np.int64)
    rates = _rates(task, np.maximum(1, busy))
    np.add.at(capacity, pair, rates)
    unit = min(int(rate) * int(time) for rate, time in zip(rates, busy, strict=True))
    chunks = tuple(order[first[k] : first[k + 1]] for k in range(len(members)))
    return ForestProblem(conditions, members, chunks, graph, pair.astype(np.int32), busy, total, capacity, unit)


def _check_support(conditions: Conditions) -> None:
    task = conditions.task
    if task.reserved is not None and len(task.reserved):
        raise not_served("other transfers are planned already")
    if len(set(conditions.column.tolist())) > 1:
        raise not_served("its chunks differ in size")
    if len(conditions.holders) > len(conditions):
        raise not_served("a chunk is held by several NPUs at the start")
    if task.network.has_limited_buffers:
        raise not_served("switches have buffers of limited size")
    if task.inverted and bool(task.network.multicast.any()):  # on the way up, two paths over one would be added twice
        raise not_served("a switch reduces")


def _members(conditions: Conditions) -> Int32Array:
    """The NPUs that hold or want anything; each chunk must be wanted by all of them but its holder."""
    is_member = np.zeros(conditions.task.network.device_count, np.bool_)
    is_member[conditions.holders] = is_member[conditions.wanting] = True
    members = np.flatnonzero(is_member).astype(np.int32)
    sizes = np.diff(conditions.wanting_offsets)
    if not bool((sizes == len(members) - 1).all()):
        raise not_served("not every chunk is for all NPUs")
    return members


def _rates(task: Task, busy: Int64Array) -> Int64Array:
    """int64[links]: whole numbers in proportion to how many chunks each link carries in a time.

    Exact for the link model `pipelined` unless bandwidths have no common measure; else rounded to _SCALE steps.
    """
    if task.model is LinkModel.PIPELINED:
        rates = [kind.bandwidth or Fraction(0) for kind in task.network.kinds]
        scale = math.lcm(*(rate.denominator for rate in rates))
        whole = [int(rate * scale) for rate in rates]
        measure = math.gcd(*whole)
        if max(whole) // measure < 1 << 31:
            return np.array(whole, np.int64)[task.network.kind] // measure
    return np.maximum(1, (_SCALE * int(busy.min())) // busy)


def not_served(why: str) -> SourceError:
    """The error that forest does not apply to a task."""
    hint = "'synthesize auto()' tries the synthesizers that apply"
    return SourceError(Diagnostic("S0309", f"forest does not apply here: {why}", hint=hint))
