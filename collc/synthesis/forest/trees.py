"""Spanning trees of the highest throughput, with the paths of their edges through switches."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from collc.base.diagnostics import SourceError
from collc.base.memory import require_for_search
from collc.kernels.compiled import compiled, numbers
from collc.kernels.edge_splitting import pack_trees, split_switches
from collc.synthesis.forest.problem import ForestProblem, not_served
from collc.ten.arrays import Int64Array

COMPILED = 1_000_000
"""Devices to the fourth power from which trees are built by compiled code."""

DEPTH = 64
"""Batches of trees that may be begun at once."""

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TreeBatch:
    """Equal trees.

    root: number of the member. amount: how many trees. paths: for each member but the root the devices from a member
    that has the data to it, both included, in an order in which each path begins where an earlier one ended.
    """

    root: int
    amount: int
    paths: tuple[Path, ...]


def forest_trees(problem: ForestProblem, demand: list[int], carried: Int64Array) -> list[TreeBatch]:
    """So many trees from each member, such that no pair of devices carries more than it can.

    demand: by member. carried: trees that each pair of devices can carry, as tree_capacities gives them. Raises
    SourceError where a switch has unlike capacities in and out that cannot be split.
    """
    devices = np.unique(np.concatenate([problem.members, problem.graph.source, problem.graph.target]))
    number = np.zeros(problem.graph.vertex_count, np.int64)
    number[devices] = np.arange(len(devices))
    source, target = number[problem.graph.source], number[problem.graph.target]
    builder = _Builder(demand, number[problem.members], len(devices), packed_compiled(problem))
    matrix = np.zeros((len(devices), len(devices)), np.int64)
    matrix[source, target] = carried
    pools = _PathPools(devices.tolist(), matrix)
    joined = builder.without_switches(matrix, pools)
    return list(builder.packed(joined, pools))


def packed_compiled(problem: ForestProblem) -> bool:
    """Whether forest_trees takes compiled code."""
    return problem.graph.vertex_count**4 >= COMPILED


class _PathPools:
    """The capacity between two devices, by the paths that it takes."""

    def __init__(self, devices: list[int], matrix: Int64Array) -> None:
        self._pools: defaultdict[tuple[int, int], deque[tuple[int, Path]]] = defaultdict(deque)
        for u, v in np.argwhere(matrix).tolist():
            self._pools[u, v].append((int(matrix[u, v]), (devices[u], devices[v])))

    def take(self, u: int, v: int, amount: int) -> list[tuple[int, Path]]:
        """So much capacity from u to v, as (amount, path) rows."""
        pool = self._pools[u, v]
        found: list[tuple[int, Path]] = []
        while amount:
            held, path = pool.popleft()
            used = min(held, amount)
            if used < held:
                pool.appendleft((held - used, path))
            found.append((used, path))
            amount -= used
        return found

    def split(self, u: int, w: int, t: int, amount: int) -> None:
        """Joins capacity from u to w with capacity from w to t; it is dropped where u = t."""
        first, second = self.take(u, w, amount), self.take(w, t, amount)
        if u != t:
            for used, (before, after) in _aligned(first, second):
                self._pools[u, t].append((used, before + after[1:]))


def _aligned(*columns: list[tuple[int, Path]]) -> Iterator[tuple[int, tuple[Path, ...]]]:
    """Rows of equal sums cut at each other's ends."""
    rest = [deque(column) for column in columns]
    while rest[0]:
        used = min(column[0][0] for column in rest)
        yield used, tuple(column[0][1] for column in rest)
        for column in rest:
            held, path = column.popleft()
            if held > used:
                column.appendleft((held - used, path))


class _Builder:
    """Runs the kernels on one problem. members: the vertices of the matrix that are members."""

    def __init__(self, demand: list[int], members: Int64Array, devices: int, compile_it: bool) -> None:
        self._demand, self._members, self._devices = demand, members, devices
        self._compiled = compile_it

    def without_switches(self, matrix: Int64Array, pools: _PathPools) -> Int64Array:
        """The capacities between members, int64[members, members], once all other devices are split off."""
        split = compiled(split_switches) if self._compiled else split_switches
        require_for_search(17 * 8 * self._devices**2, f"paths between {self._devices:,} devices")
        demand = np.array(self._demand, np.int64)
        others = np.setdiff1d(np.arange(self._devices), self._members)
        capacity = self._numbers(matrix.ravel())
        rows = self._numbers(np.zeros(16 * self._devices**2 + 64, np.int64))
        count = split(
            capacity, self._devices, self._numbers(self._members), self._numbers(demand),
            self._numbers(others[np.argsort(_hops(matrix, self._members)[others], kind="stable")]),
            self._numbers(_groups(matrix, self._members)), rows,
        )  # fmt: skip
        if count < 0:
            raise _unsplit()
        for u, w, t, amount in np.array(rows[: 4 * count]).reshape(-1, 4).tolist():
            pools.split(u, w, t, amount)
        return np.array(capacity).reshape(matrix.shape)[np.ix_(self._members, self._members)]

    def packed(self, matrix: Int64Array, pools: _PathPools) -> Iterator[TreeBatch]:
        """The trees, each batch cut where the path of an edge changes."""
        count, demand = len(self._members), self._demand
        room = 40 * count + 64
        rows = self._batches(matrix, min(sum(demand), room))
        if rows is None and sum(demand) > room:
            rows = self._batches(matrix, sum(demand))
        if rows is None:
            raise _unsplit()
        batches, roots, amounts, parents, orders = rows
        for batch in range(batches):
            parent = parents[batch * count : (batch + 1) * count]
            edges = [(int(parent[vertex]), int(vertex)) for vertex in orders[batch * count + 1 : (batch + 1) * count]]
            amount = int(amounts[batch])
            columns = [pools.take(int(self._members[u]), int(self._members[v]), amount) for u, v in edges]
            yield from (TreeBatch(int(roots[batch]), used, paths) for used, paths in _aligned(*columns))

    def _batches(self, matrix: Int64Array, room: int) -> tuple[int, list[int], list[int], list[int], list[int]] | None:
        """How many batches, then what pack_trees writes of each; None where they do not fit into the room."""
        pack = compiled(pack_trees) if self._compiled else pack_trees
        count, demand = len(self._members), self._demand
        require_for_search(16 * room * count, f"parts of {room:,} trees on {count:,} NPUs")
        roots, amounts = (self._numbers(np.zeros(room, np.int64)) for _ in range(2))
        parents, orders = (self._numbers(np.zeros(room * count, np.int64)) for _ in range(2))
        batches = pack(
            self._numbers(matrix.ravel().copy()), count, self._numbers(np.array(demand, np.int64)),
            min(DEPTH, max(demand)), roots, amounts, parents, orders,
        )  # fmt: skip
        return None if batches < 0 else (batches, roots, amounts, parents, orders)

    def _numbers(self, values: Int64Array) -> list[int]:
        return numbers(np.ascontiguousarray(values, np.int64), self._compiled)  # pyright: ignore[reportReturnType]


def _hops(matrix: Int64Array, members: Int64Array) -> Int64Array:
    """Hops from the nearest member to each device."""
    found = np.full(len(matrix), len(matrix), np.int64)
    found[members] = 0
    for hop in range(1, len(matrix)):
        reached = (matrix[found < hop] > 0).any(axis=0) & (found > hop)
        if not reached.any():
            break
        found[reached] = hop
    return found


def _groups(matrix: Int64Array, members: Int64Array) -> Int64Array:
    """By device, the part of the network that its fastest links join it to (a node), -1 for what is no member."""
    fastest = matrix.max(axis=1)
    group = np.arange(len(matrix))
    joined = np.argwhere((matrix > 0) & (matrix == fastest[:, None]))
    changed = True
    while changed:
        changed = False
        for u, v in joined.tolist():
            least = min(int(group[u]), int(group[v]))
            if group[u] != least or group[v] != least:
                group[u] = group[v] = least
                changed = True
    found = np.full(len(matrix), -1, np.int64)
    found[members] = group[members]
    return found


def _unsplit() -> SourceError:
    return not_served("the capacities into and out of a switch differ")
