"""Earliest-arrival search where every link and chunk takes one step: in plain Python, and by the compiled kernel.

Both take the same steps and give the same result. Chunks are at their holders at step 0, and nothing is reserved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collc.graph.distances import UNREACHABLE
from collc.synthesis.conditions import Conditions
from collc.synthesis.pccl.rows import Rows
from collc.ten.arrays import Int32Array, Int64Array

Grid = NDArray[np.uint16] | NDArray[np.uint32]

Hops = list[tuple[int, int]]
"""Links, and the devices they lead to."""

NEVER = 1 << 29
"""Steps that no schedule takes: the distance of what cannot be reached."""


@dataclass(frozen=True, eq=False)
class StepProblem:
    """What both searches take.

    chunk: int32, of each row. chunks: how many there are. to: int32[targets, devices], steps, NEVER for no way.
    target_row: int32[devices]. offsets, links: out-links of devices. target: int32[links].
    """

    chunk: Int32Array
    chunks: int
    to: Int32Array
    target_row: Int32Array
    offsets: Int32Array
    links: Int32Array
    target: Int32Array

    @staticmethod
    def of(conditions: Conditions, to: Int64Array) -> StepProblem:
        """Of conditions where all transfers are alike; to: picoseconds."""
        network = conditions.task.network
        step = int(conditions.clock.total[network.kind[0], conditions.column[0]])
        steps = np.where(to >= UNREACHABLE, NEVER, to // step).astype(np.int32)
        chunks = len(conditions.task.demand.chunks)
        return StepProblem(conditions.chunk, chunks, steps, conditions.target_row, *network.out_links, network.target)


def search_plain(problem: StepProblem, rows: Rows, detour: int, stop: Callable[[], bool]) -> Grid | None:
    """[steps, links]: the chunk that each link takes in each step, the largest number for none; None where stopped.

    detour: how near a target must be that is reached by any hops; else only hops that come nearer are taken.
    """
    engine = _Engine(problem, rows, detour)
    if not rows.each(engine.plan, stop):
        return None
    places, links = np.array(engine.places, np.int64), len(problem.target)
    grid = _free(int(places.max(initial=-1)) // links + 1, links, problem.chunks)
    grid.reshape(-1)[places] = np.repeat(problem.chunk[rows.order], engine.transfers)
    return grid


def _free(steps: int, links: int, chunks: int) -> Grid:
    if chunks < 1 << 16:
        return np.full((steps, links), 0xFFFF, np.uint16)
    return np.full((steps, links), 0xFFFFFFFF, np.uint32)


class _Engine:
    def __init__(self, problem: StepProblem, rows: Rows, detour: int) -> None:
        self.places: list[int] = []
        """slot * links + link of all transfers, row after row."""
        self.transfers: list[int] = []
        """Transfers of each row."""
        self._rows, self._detour = rows, detour
        out: list[list[int]] = [part.tolist() for part in np.split(problem.links, problem.offsets[1:-1])]
        target: list[int] = problem.target.tolist()
        self._out: list[Hops] = [[(link, target[link]) for link in links] for links in out]
        self._source = {link: u for u, links in enumerate(out) for link in links}
        self._free = [-1] * len(target)
        self._to: list[list[int]] = problem.to.tolist()
        self._both = [(hops, hops[::-1]) for hops in self._out]
        self._nearer: list[list[tuple[Hops, Hops] | None]] = [[None] * len(out) for _ in self._to]
        self._target_row: list[int] = problem.target_row.tolist()
        self._salt: list[int] = rows.salt.tolist()
        self._never = [NEVER] * len(out)
        self._via = [0] * len(out)

    def plan(self, k: int) -> None:
        """Brings one row's chunk to all who want it, the nearest first."""
        holders, wanting = self._rows.of(k)
        tree = dict.fromkeys(holders, 0)
        if len(wanting) > 1:
            near = [min(self._to[self._target_row[v]][h] for h in holders) for v in wanting]
            wanting = [v for _, v in sorted(zip(near, wanting, strict=True), key=lambda pair: pair[0])]
        before = len(self.places)
        for target in wanting:
            if target not in tree:
                self._extend(tree, target, self._salt[k])
        self.transfers.append(len(self.places) - before)

    def _extend(self, tree: dict[int, int], target: int, salt: int) -> None:
        """Books the path of earliest arrival, from its end."""
        found = self._search(tree, target, salt)
        free, via, source, links = self._free, self._via, self._source, len(self._free)
        v = target
        while v not in tree:
            link, time = via[v], found[v]
            free[link] ^= 1 << (time - 1)
            self.places.append((time - 1) * links + link)
            tree[v] = time
            v = source[link]

    def _search(self, tree: dict[int, int], target: int, salt: int) -> list[int]:
        """When each device is reached; A* where devices of equal least arrival lie on one stack.

        `filled` has a bit for each stack from `least` on that is not empty.
        """
        row = self._target_row[target]
        left, nearer, both, free, via = self._to[row], self._nearer[row], self._both, self._free, self._via
        found = self._never[:]
        stacks: dict[int, list[int]] = {}
        for v, time in tree.items():
            found[v] = 0  # what holds the chunk already is not reached again
            if left[v] < NEVER:
                stacks.setdefault(time + left[v], []).append(v)
        roam = min(left[v] for v in tree) <= self._detour
        least = min(stacks)
        filled = sum(1 << (other - least) for other in stacks)
        arrived = NEVER
        while filled:
            ahead = (filled & -filled).bit_length() - 1
            least, filled = least + ahead, filled >> ahead
            if least >= arrived:
                break
            stack = stacks[least]
            u = stack.pop()
            if not stack:
                filled ^= 1
            time, here = found[u] or tree[u], left[u]
            if time + here != least:
                continue
            hops = both[u] if roam else nearer[u] or self._closer(row, u)
            for link, v in hops[salt >> (u & 31) & 1]:
                gaps = free[link] >> time
                arrival = time + (1 if gaps & 1 else (gaps & -gaps).bit_length())
                reach = arrival + left[v]
                if arrival >= found[v] or reach >= arrived:
                    continue
                found[v], via[v] = arrival, link
                if v == target:
                    arrived = arrival
                else:
                    if reach in stacks:
                        stacks[reach].append(v)
                    else:
                        stacks[reach] = [v]
                    filled |= 1 << (reach - least)
        return found

    def _closer(self, row: int, u: int) -> tuple[Hops, Hops]:
        """The hops of a device that come nearer to a target, in both directions."""
        left = self._to[row]
        closer = [hop for hop in self._out[u] if left[hop[1]] < left[u]]
        self._nearer[row][u] = closer, closer[::-1]
        return closer, closer[::-1]


def search_compiled(problem: StepProblem, rows: Rows, detour: int, stop: Callable[[], bool]) -> Grid | None:
    """What `search_plain` finds, by the compiled kernel."""
    from collc.kernels.pccl_steps import lay_out, search_steps

    p = problem
    heads = p.target[p.links]
    tails = np.repeat(np.arange(len(p.offsets) - 1, dtype=np.int32), np.diff(p.offsets))
    words = max(2, _hops(problem, rows) * 11 // (640 * max(1, len(heads))) + 1)
    busy = np.zeros((len(heads), words), np.uint64)
    grid = np.full((len(heads), words * 64), -1, np.int32)
    full = np.zeros(len(heads), np.int32)
    for part in rows.batches():
        if stop():
            return None
        busy, grid = search_steps(
            part, rows.salt, rows.holder_offsets, rows.holders, rows.wanting_offsets, rows.wanting, p.to,
            p.target_row, p.offsets, heads, tails, detour, busy, grid, full,
        )  # fmt: skip
    used = np.bitwise_or.reduce(busy, axis=0)
    last = int(np.flatnonzero(used)[-1])
    length = (last << 6) + int(used[last]).bit_length()
    steps = _free(length, len(heads), p.chunks)
    lay_out(grid, p.links, p.chunk, steps)
    return steps


def _hops(problem: StepProblem, rows: Rows) -> int:
    """Hops of all rows, about: each of those who want a chunk gets it from the row's first holder."""
    first = np.repeat(rows.holders[rows.holder_offsets[:-1]], np.diff(rows.wanting_offsets))
    away = problem.to[problem.target_row[rows.wanting], first]
    return int(away[away < NEVER].sum())


def retimed(grid: Grid, busy: int, total: int) -> tuple[Int32Array, Int32Array, Int64Array]:
    """Chunk, link and start, in order of step, of a grid, where links are busy for `busy` only.

    busy, total: picoseconds. Every transfer starts as soon as its link has done with what it carries before,
    and its chunk is there. No chunk may be in two places: each has one holder, and one who wants it.
    """
    none = np.iinfo(grid.dtype).max
    free = np.zeros(grid.shape[1], np.int64)
    there = np.zeros(int(grid[grid != none].max(initial=0)) + 1, np.int64)
    start = np.zeros(grid.shape, np.int64)
    for step, row in enumerate(grid):
        links = np.flatnonzero(row != none)
        chunks = row[links]
        now = np.maximum(free[links], there[chunks])
        start[step, links] = now
        free[links] = now + busy
        there[chunks] = now + total
    step, link = np.nonzero(grid != none)
    return grid[step, link].astype(np.int32), link.astype(np.int32), start[step, link]
