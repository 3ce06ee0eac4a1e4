"""A spanning tree for each chunk: up it goes what is reduced, down what is to be had, all links loaded alike."""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import dataclass

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.graph.digraph import Digraph
from collc.graph.distances import distances_to
from collc.kernels.compiled import compiled
from collc.synthesis.overlapped.lists import Tasks
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import Demand, Op
from collc.ten.network import Network
from collc.ten.schedule import Clock

COMPILED = 10_000
"""Pairs of a chunk and a device from which trees are grown by compiled code."""

SAMPLE = 128
"""Members of a set that are asked how far they are from a root."""

BATCH = 64
"""Trees between two questions whether to stop."""


@dataclass(frozen=True, eq=False)
class Trees:
    """rise, fall: int32[chunks, devices].

    The link over which a device gives its part, and gets the result; -1 or -2 for none.
    """

    rise: Int32Array
    fall: Int32Array


@dataclass(frozen=True, eq=False)
class _Side:
    """Links as one of the two directions of trees sees them, from the root on; lists, or arrays for compiled code."""

    offsets: Sequence[int]
    links: Sequence[int]
    ends: Sequence[int]
    begins: Sequence[int]

    @staticmethod
    def of(network: Network, compile_it: bool) -> _Side:
        columns = [*network.out_links, network.target, network.source]
        return _Side(*(column.astype(np.int64) if compile_it else column.tolist() for column in columns))  # pyright: ignore[reportArgumentType]


class Forester:
    """Grows trees for the chunks of a demand over direct links."""

    def __init__(self, network: Network, demand: Demand, clock: Clock) -> None:
        self._network, self._table, self._clock = network, demand.chunks, clock
        self._compiled = len(self._table) * network.device_count >= COMPILED
        self._cost: dict[int, Int64Array] = {}
        self._known: dict[tuple[int, int], Int32Array] = {}
        self._up, self._down = (_Side.of(net, self._compiled) for net in (network.reversed(), network))

    def grow(self, chunks: Int32Array, weight: int, sweeps: int, stop: Callable[[], bool]) -> Trees | None:
        """Trees for some chunks, whose links count as longer by `weight` times their load; None where stopped.

        sweeps: how often each is grown, after the first time in place of what it was.
        Raises SourceError where links do not lead from each to each.
        """
        from collc.kernels.overlapped_trees import grow

        if self._compiled:
            grow = compiled(grow)
        devices, links = self._network.device_count, self._network.link_count
        rows = np.full((2, len(self._table), devices), -1, np.int32)
        load, order = self._numbers(np.zeros(links, np.int64)), self._numbers(np.zeros(devices, np.int64))
        costs = {size: self._numbers(self._costs(size)) for size in np.unique(self._clock.size_of).tolist()}
        for number, chunk in enumerate(np.tile(chunks, sweeps).tolist()):
            if number % BATCH == 0 and stop():
                return None
            seeds, members = self._ends(chunk)
            cost = costs[int(self._clock.size_of[chunk])]
            for side, wanting, found in zip((self._up, self._down), members, rows, strict=True):
                if not len(wanting):
                    continue
                flags = np.zeros(devices, np.int64)
                flags[wanting] = 1
                wanted, via = self._numbers(flags), self._numbers(found[chunk].astype(np.int64))
                if grow(
                    seeds, wanted, side.offsets, side.links, side.ends, side.begins, cost, load, weight, via, order
                ):
                    raise _apart(self._network)
                found[chunk] = via
        return Trees(rows[0], rows[1])

    def _numbers(self, values: Int64Array) -> MutableSequence[int]:
        """Values as the code that grows trees takes them."""
        return values if self._compiled else values.tolist()  # pyright: ignore[reportReturnType]

    def _costs(self, size: int) -> Int64Array:
        """int64[links]: what it takes to send a chunk of a size."""
        if size not in self._cost:
            self._cost[size] = np.maximum(1, self._clock.total[self._network.kind, size])
        return self._cost[size]

    def _ends(self, chunk: int) -> tuple[Sequence[int], tuple[Int32Array, Int32Array]]:
        """Where the tree of a chunk begins, and who gives to it and gets from it."""
        table = self._table
        pre, post = int(table.pre[chunk]), int(table.post[chunk])
        holders, getting = table.sets[pre], table.sets[post]
        if table.op[chunk] == Op.COPY:
            seeds, giving, getting = holders, holders[:0], np.setdiff1d(getting, holders)
        elif not len(getting):
            seeds, giving = holders[:1], holders[:0]
        else:
            roots = self._roots(pre, post, int(self._clock.size_of[chunk]))
            at = chunk % len(roots)
            seeds, giving = roots[at : at + 1], holders
        return self._numbers(seeds.astype(np.int64)), (giving, getting)

    def _roots(self, pre: int, post: int, size: int) -> Int32Array:
        """The NPUs over which contributors and holders are nearest to each other."""
        if (pre, post) not in self._known:
            sets, network, cost = self._table.sets, self._network, self._costs(size)
            graph = Digraph.of(network)
            to = distances_to(graph.reversed(), cost, _sampled(sets[pre])).max(axis=0)
            back = distances_to(graph, cost, _sampled(sets[post])).max(axis=0)
            ways = (to + back)[network.npus]
            self._known[pre, post] = network.npus[ways == ways.min()]
        return self._known[pre, post]


def in_turns(demand: Demand, chunks: Int32Array) -> Int32Array:
    """Chunks in an order in which all runs get on alike."""
    run = np.searchsorted(demand.first_chunk, chunks, "right") - 1
    first, count = demand.first_chunk[run], np.diff(demand.first_chunk)[run]
    return chunks[np.lexsort((chunks, (chunks - first) / count))]


def _sampled(members: Int32Array) -> Int32Array:
    """Some members of a set, the first and the last among them."""
    if len(members) <= SAMPLE:
        return members
    return members[np.linspace(0, len(members) - 1, SAMPLE).astype(np.int64)]


def _apart(network: Network) -> SourceError:
    return SourceError(
        Diagnostic(
            "S0103",
            f"links do not lead from each NPU of a group to each other one on {network.name}",
            hint="add links, or leave NPUs out of the group",
        )
    )


def tasks_of(network: Network, clock: Clock, trees: Trees, order: Int32Array) -> tuple[Tasks, Int32Array, BoolArray]:
    """The transfers of trees, the chunk of each, and whether it is reduced, by chunks in some order."""
    devices = network.device_count
    up_chunk, up_from = np.nonzero(trees.rise >= 0)
    down_chunk, down_to = np.nonzero(trees.fall >= 0)
    joints = np.intersect1d(up_chunk, down_chunk)
    chunk = np.concatenate([up_chunk, joints, down_chunk])
    number = np.empty(len(chunk), np.int64)
    place = np.zeros(len(trees.rise), np.int64)
    place[order] = np.arange(len(order))
    number[np.argsort(place[chunk], kind="stable")] = np.arange(len(chunk))
    up, joint, down = np.split(number, [len(up_chunk), len(up_chunk) + len(joints)])
    joint_of = np.full(len(trees.rise), -1, np.int64)
    joint_of[joints] = joint
    up_of, down_of = np.full((2, trees.rise.size), -1, np.int64)
    up_of[up_chunk * devices + up_from] = up
    down_of[down_chunk * devices + down_to] = down
    rising, falling = trees.rise[up_chunk, up_from], trees.fall[down_chunk, down_to]
    onward = up_of[up_chunk * devices + network.target[rising]]
    onward = np.where(onward >= 0, onward, joint_of[up_chunk])
    behind = down_of[down_chunk * devices + network.source[falling]]
    behind = np.where(behind >= 0, behind, joint_of[down_chunk])
    before, after = np.append(up, behind), np.append(onward, down)
    real = (before >= 0) & (after >= 0)
    link = np.full(len(chunk), -1, np.int32)
    link[up], link[down] = rising, falling
    of = np.empty(len(chunk), np.int32)
    of[number] = chunk
    kind, size = network.kind[link], clock.size_of[of]
    busy, total = (np.where(link >= 0, times[kind, size], 0) for times in (clock.busy, clock.total))
    reduced = np.zeros(len(chunk), np.bool_)
    reduced[up] = True
    edges = before[real].astype(np.int32), after[real].astype(np.int32)
    return Tasks(link, busy, total, *edges, network.link_count), of, reduced
