"""Spanning trees for each chunk: contributions go up to a root, results down from it, with balanced link loads."""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.graph.digraph import Digraph
from collc.graph.distances import distances_to
from collc.kernels.compiled import is_long, numbers, version_of
from collc.kernels.overlapped_trees import LinksFromRoot, grow
from collc.synthesis.list_schedule import ALL_TURNS, TASK_WORK, Tasks
from collc.synthesis.task import COMPILED_TIMES, Effort
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import Demand, Op
from collc.ten.network import Network
from collc.ten.schedule import Clock

SAMPLE = 128
"""Members of a set whose distances from a possible root are looked at, at most."""


@dataclass(frozen=True, eq=False)
class ChunkTrees:
    """The trees of all chunks.

    up, down: int32[chunks, devices], the link over which a device sends its part towards the root, and the one over
    which it gets the result; -1 or -2 for none.
    """

    up: Int32Array
    down: Int32Array


class TreeGrower:
    """Grows trees for the chunks of a demand over direct links."""

    def __init__(self, network: Network, demand: Demand, clock: Clock) -> None:
        self._network, self._table, self._clock = network, demand.chunks, clock
        self._large = is_long(ALL_TURNS * TASK_WORK * len(self._table) * network.device_count)
        self._cost: dict[int, Int64Array] = {}
        self._known: dict[tuple[int, int], Int32Array] = {}
        self._up, self._down = (self._links_from_root(net) for net in (network.reverse(), network))

    def _links_from_root(self, network: Network) -> LinksFromRoot:
        return LinksFromRoot(*map(self._numbers, (*network.out_links, network.target, network.source)))

    def grow(self, chunks: Int32Array, weight: int, rounds: int, effort: Effort) -> ChunkTrees | None:
        """Trees for some chunks, or None if stopped.

        weight: a link counts as longer by this many times its load. rounds: how often each tree is grown; from the
        second time on it replaces the one before. Raises SourceError if links do not lead to all NPUs that take part.
        """
        if self._large:
            effort.work.add_compiler()
        grow_tree = version_of(grow, self._large)
        devices, links = self._network.device_count, self._network.link_count
        rows = np.full((2, len(self._table), devices), -1, np.int32)
        load, order = self._numbers(np.zeros(links, np.int64)), self._numbers(np.zeros(devices, np.int64))
        costs = {size: self._numbers(self._costs(size)) for size in np.unique(self._clock.size_of).tolist()}
        for chunk in np.tile(chunks, rounds).tolist():
            if effort.stop():
                return None
            seeds, members = self._ends(chunk)
            work = sum(max(TASK_WORK * len(wanting), links // TASK_WORK) for wanting in members if len(wanting))
            effort.work.add(work // (COMPILED_TIMES if self._large else 1))
            cost = costs[int(self._clock.size_of[chunk])]
            for side, wanting, links_of in zip((self._up, self._down), members, rows, strict=True):
                if not len(wanting):
                    continue
                flags = np.zeros(devices, np.int64)
                flags[wanting] = 1
                wanted, via = self._numbers(flags), self._numbers(links_of[chunk])
                if grow_tree(side, seeds, wanted, cost, load, weight, via, order):
                    raise _not_connected(self._network)
                links_of[chunk] = via
        return ChunkTrees(rows[0], rows[1])

    def _numbers(self, values: Int32Array | Int64Array) -> MutableSequence[int]:
        """Values as the kernel takes them, a copy."""
        return numbers(values.astype(np.int64), self._large)

    def _costs(self, size: int) -> Int64Array:
        """int64[links]: the picoseconds until a chunk of a size (column of the clock) has arrived."""
        if size not in self._cost:
            self._cost[size] = np.maximum(1, self._clock.total[self._network.kind, size])
        return self._cost[size]

    def _ends(self, chunk: int) -> tuple[MutableSequence[int], tuple[Int32Array, Int32Array]]:
        """(seeds, (giving, getting)): where the trees of a chunk start, who contributes to it, and who gets it."""
        table = self._table
        pre, post = int(table.pre[chunk]), int(table.post[chunk])
        holders, getting = table.sets[pre], table.sets[post]
        if table.op[chunk] == Op.COPY:
            seeds, giving, getting = holders, holders[:0], table.sets.difference(post, pre)
        elif not len(getting):
            seeds, giving = holders[:1], holders[:0]
        else:
            roots = self._roots(pre, post, int(self._clock.size_of[chunk]))
            turn = chunk % len(roots)
            seeds, giving = roots[turn : turn + 1], holders
        return self._numbers(seeds), (giving, getting)

    def _roots(self, pre: int, post: int, size: int) -> Int32Array:
        """The NPUs with the least sum of the distances from the farthest contributor and to the farthest receiver."""
        if (pre, post) not in self._known:
            sets, network, cost = self._table.sets, self._network, self._costs(size)
            graph = Digraph.of(network)
            to = distances_to(graph.reverse(), cost, _sample(sets[pre])).max(axis=0)
            back = distances_to(graph, cost, _sample(sets[post])).max(axis=0)
            both = (to + back)[network.npus]
            self._known[pre, post] = network.npus[both == both.min()]
        return self._known[pre, post]


def interleave_runs(demand: Demand, chunks: Int32Array) -> Int32Array:
    """The chunks in an order in which all runs progress at the same rate."""
    run = np.searchsorted(demand.first_chunk, chunks, "right") - 1
    first, count = demand.first_chunk[run], np.diff(demand.first_chunk)[run]
    return chunks[np.lexsort((chunks, (chunks - first) / count))]


def _sample(members: Int32Array) -> Int32Array:
    """At most SAMPLE members of a set, evenly spread, with the first and the last."""
    if len(members) <= SAMPLE:
        return members
    return members[np.linspace(0, len(members) - 1, SAMPLE).astype(np.int64)]


def _not_connected(network: Network) -> SourceError:
    return SourceError(
        Diagnostic(
            "S0103",
            f"links do not lead from each NPU of a group to each other one on {network.name}",
            hint="add links, or leave NPUs out of the group",
        )
    )


def tasks_of(
    network: Network, clock: Clock, trees: ChunkTrees, order: Int32Array
) -> tuple[Tasks, Int32Array, BoolArray]:
    """(tasks, int32 chunk of each, bool whether it is reduced): the transfers of trees, numbered by chunk in `order`.

    A chunk with both trees has a task without a link between them: the root has all contributions.
    """
    devices = network.device_count
    up_chunk, up_from = np.nonzero(trees.up >= 0)
    down_chunk, down_to = np.nonzero(trees.down >= 0)
    roots = np.intersect1d(up_chunk, down_chunk)
    chunk = np.concatenate([up_chunk, roots, down_chunk])
    number = np.empty(len(chunk), np.int64)
    turn = np.zeros(len(trees.up), np.int64)
    turn[order] = np.arange(len(order))
    number[np.argsort(turn[chunk], kind="stable")] = np.arange(len(chunk))
    up, root, down = np.split(number, [len(up_chunk), len(up_chunk) + len(roots)])
    root_of = np.full(len(trees.up), -1, np.int64)
    root_of[roots] = root
    up_of, down_of = np.full((2, trees.up.size), -1, np.int64)
    up_of[up_chunk * devices + up_from] = up
    down_of[down_chunk * devices + down_to] = down
    up_link, down_link = trees.up[up_chunk, up_from], trees.down[down_chunk, down_to]
    next_up = up_of[up_chunk * devices + network.target[up_link]]
    next_up = np.where(next_up >= 0, next_up, root_of[up_chunk])
    previous_down = down_of[down_chunk * devices + network.source[down_link]]
    previous_down = np.where(previous_down >= 0, previous_down, root_of[down_chunk])
    before, after = np.append(up, previous_down), np.append(next_up, down)
    real = (before >= 0) & (after >= 0)
    link = np.full(len(chunk), -1, np.int32)
    link[up], link[down] = up_link, down_link
    of = np.empty(len(chunk), np.int32)
    of[number] = chunk
    kind, size = network.kind[link], clock.size_of[of]
    busy, total = (np.where(link >= 0, times[kind, size], 0) for times in (clock.busy, clock.total))
    reduced = np.zeros(len(chunk), np.bool_)
    reduced[up] = True
    edges = before[real].astype(np.int32), after[real].astype(np.int32)
    return Tasks(link, busy, total, *edges, network.link_count), of, reduced
