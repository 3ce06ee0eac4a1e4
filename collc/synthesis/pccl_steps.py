"""Earliest-arrival search where every link and chunk takes one step: in plain Python, and by the compiled kernel.

Both take the same steps and give the same result. Chunks are at their holders at step 0, and nothing is reserved.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from collc.synthesis.pccl_slots import BATCH, SlotProblem

Ints = NDArray[np.int32]
Times = NDArray[np.int64]
Grid = NDArray[np.uint16] | NDArray[np.uint32]

NEVER = 1 << 29
"""Steps that no schedule takes: the distance of what cannot be reached."""


def search_plain(problem: SlotProblem, chunk: Ints, chunks: int, nearer: bool, stop: Callable[[], bool]) -> Grid | None:
    """[steps, links]: the chunk that each link takes in each step, the largest number for none; None where stopped.

    chunk: int32, the chunk of each row, less than `chunks`. nearer: whether only hops that come nearer to
    the target are taken.
    """
    engine = _Engine(problem, nearer)
    for number, k in enumerate(problem.order.tolist()):
        if number % BATCH == 0 and stop():
            return None
        engine.plan(k)
    rows, links, slots = (np.array(column, np.int32) for column in engine.rows)
    grid = _free(int(slots.max(initial=-1)) + 1, len(problem.target), chunks)
    grid[slots, links] = chunk[rows]
    return grid


def _free(steps: int, links: int, chunks: int) -> Grid:
    if chunks < 1 << 16:
        return np.full((steps, links), 0xFFFF, np.uint16)
    return np.full((steps, links), 0xFFFFFFFF, np.uint32)


class _Engine:
    def __init__(self, problem: SlotProblem, nearer: bool) -> None:
        self.rows: tuple[list[int], list[int], list[int]] = ([], [], [])
        self._nearer = nearer
        out: list[list[int]] = [part.tolist() for part in np.split(problem.links, problem.offsets[1:-1])]
        target: list[int] = problem.target.tolist()
        self._out = [[(link, target[link]) for link in links] for links in out]
        self._source = {link: u for u, links in enumerate(out) for link in links}
        self._busy = [0] * len(target)
        self._to: list[list[int]] = np.minimum(problem.to, NEVER).tolist()
        self._target_row: list[int] = problem.target_row.tolist()
        self._holders: list[int] = problem.holders.tolist()
        self._wanting: list[int] = problem.wanting.tolist()
        self._holder_offsets: list[int] = problem.holder_offsets.tolist()
        self._wanting_offsets: list[int] = problem.wanting_offsets.tolist()
        self._salt: list[int] = problem.salt.tolist()

    def plan(self, k: int) -> None:
        """Brings one row's chunk to all who want it, the nearest first."""
        holders = self._holders[self._holder_offsets[k] : self._holder_offsets[k + 1]]
        wanting = self._wanting[self._wanting_offsets[k] : self._wanting_offsets[k + 1]]
        tree = dict.fromkeys(holders, 0)
        if len(wanting) > 1:
            near = [min(self._to[self._target_row[v]][h] for h in holders) for v in wanting]
            wanting = [v for _, v in sorted(zip(near, wanting, strict=True), key=lambda pair: pair[0])]
        for target in wanting:
            if target not in tree:
                self._extend(k, tree, target)

    def _extend(self, k: int, tree: dict[int, int], target: int) -> None:
        found, via = self._search(tree, self._to[self._target_row[target]], target, self._salt[k])
        v = target
        while v not in tree:
            link, slot = via[v]
            self._busy[link] |= 1 << slot
            for column, value in zip(self.rows, (k, link, slot), strict=True):
                column.append(value)
            tree[v] = found[v]
            v = self._source[link]

    def _search(
        self, tree: dict[int, int], left: list[int], target: int, salt: int
    ) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
        """A* where devices of equal least arrival lie on one stack; `filled` has a bit for each that is not empty."""
        found = dict(tree)
        via: dict[int, tuple[int, int]] = {}
        stacks: dict[int, list[int]] = {}
        for v, time in tree.items():
            if left[v] < NEVER:
                stacks.setdefault(time + left[v], []).append(v)
        base = min(stacks)
        filled = sum(1 << (least - base) for least in stacks)
        arrived = NEVER
        busy, nearer = self._busy, self._nearer
        while filled:
            least = base + (filled & -filled).bit_length() - 1
            if least >= arrived:
                break
            stack = stacks[least]
            u = stack.pop()
            if not stack:
                filled &= filled - 1
            time, here = found[u], left[u]
            if time + here != least:
                continue
            out = self._out[u]
            turn = ((salt >> (u & 31)) & 0xFFFF) % len(out) if out else 0
            for link, v in out[turn:] + out[:turn]:
                there = left[v]
                if (nearer and there >= here) or v in tree:
                    continue
                taken = busy[link] >> time
                arrival = time + 1 + ((~taken & (taken + 1)).bit_length() - 1 if taken & 1 else 0)
                if arrival + there >= arrived or arrival >= found.get(v, arrived):
                    continue
                found[v] = arrival
                via[v] = link, arrival - 1
                if v == target:
                    arrived = arrival
                else:
                    stacks.setdefault(arrival + there, []).append(v)
                    filled |= 1 << (arrival + there - base)
            if arrived <= least:
                break
        return found, via


def search_compiled(
    problem: SlotProblem, chunk: Ints, chunks: int, words: int, nearer: bool, stop: Callable[[], bool]
) -> Grid | None:
    """What `search_plain` finds, by the compiled kernel. words: steps to begin with, by 64."""
    from collc.kernels.pccl_steps import lay_out, search_steps

    p = problem
    heads = p.target[p.links]
    tails = np.repeat(np.arange(len(p.offsets) - 1, dtype=np.int32), np.diff(p.offsets))
    to = np.minimum(p.to, NEVER).astype(np.int32)
    busy = np.zeros((len(heads), words), np.uint64)
    grid = np.full((len(heads), words * 64), -1, np.int32)
    full = np.zeros(len(heads), np.int32)
    for low in range(0, len(p.order), BATCH):
        if stop():
            return None
        busy, grid = search_steps(
            p.order[low : low + BATCH], p.salt, p.holder_offsets, p.holders, p.wanting_offsets, p.wanting, to,
            p.target_row, p.offsets, heads, tails, nearer, busy, grid, full,
        )  # fmt: skip
    used = np.bitwise_or.reduce(busy, axis=0)
    last = int(np.flatnonzero(used)[-1])
    length = (last << 6) + int(used[last]).bit_length()
    steps = _free(length, len(heads), chunks)
    lay_out(grid, p.links, chunk, steps)
    return steps


def retimed(grid: Grid, busy: int, total: int) -> tuple[Ints, Ints, Times]:
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
