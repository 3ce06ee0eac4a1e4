"""Earliest-arrival search where every link has slots of its own length: in plain Python, and by the compiled kernel.

Both take the same steps and give the same result; here integers serve as bitmaps.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Times = NDArray[np.int64]

DEPTH_BITS = 10
"""Bits of a search key that tell how far it still is, so that among equals the nearest goes first."""

BATCH = 4096
"""Rows between two questions whether to stop."""


@dataclass(frozen=True, eq=False)
class SlotProblem:
    """What both searches take. Times count in units that divide all of them.

    order: int32, rows in order of planning. salt: int64, one for each row, for ties.
    holder_*, wanting_*: CSR of the rows. release: int64. to: int64[targets, devices]. target_row: int32[devices].
    offsets, links: out-links of devices. target: int32[links]. slot, total: int64[links], length of
    a slot, and time until arrival. taken: (link, slot) pairs that are reserved.
    shift: to scale distances to DEPTH_BITS. node_bits: to tell devices apart.
    """

    order: Ints
    salt: Times
    holder_offsets: Times
    holders: Ints
    wanting_offsets: Times
    wanting: Ints
    release: Times
    to: Times
    target_row: Ints
    offsets: Ints
    links: Ints
    target: Ints
    slot: Times
    total: Times
    taken: tuple[Ints, Ints]
    shift: int
    node_bits: int


Rows = tuple[Ints, Ints, Times]
"""Row, link and slot of each transfer."""


def search_plain(problem: SlotProblem, nearer: bool, stop: Callable[[], bool]) -> Rows | None:
    """Plans the rows one after another; None where stopped.

    nearer: whether only hops that come nearer to the target are taken.
    """
    engine = _Engine(problem, nearer)
    for number, k in enumerate(problem.order.tolist()):
        if number % BATCH == 0 and stop():
            return None
        engine.plan(k)
    row, link, slot = engine.rows
    return np.array(row, np.int32), np.array(link, np.int32), np.array(slot, np.int64)


def search_compiled(problem: SlotProblem, words: int, nearer: bool, stop: Callable[[], bool]) -> Rows | None:
    """What `search_plain` finds, by the compiled kernel, in another order. words: slots to begin with, by 64."""
    from collc.kernels.pccl_slots import reserve, search_slots

    p = problem
    tails = np.zeros(len(p.target), np.int32)
    tails[p.links] = np.repeat(np.arange(len(p.offsets) - 1, dtype=np.int32), np.diff(p.offsets))
    busy = np.zeros((len(p.target), words), np.uint64)
    grid = np.full((words * 64, len(p.target)), -1, np.int32)
    busy, grid = reserve(busy, grid, *p.taken)
    for low in range(0, len(p.order), BATCH):
        if stop():
            return None
        busy, grid = search_slots(
            p.order[low : low + BATCH], p.salt, p.holder_offsets, p.holders, p.wanting_offsets, p.wanting, p.release,
            p.to, p.target_row, p.offsets, p.links, tails, p.target, p.slot, p.total, p.shift, p.node_bits, nearer,
            busy, grid,
        )  # fmt: skip
    slot, link = np.nonzero(grid >= 0)
    return grid[slot, link], link.astype(np.int32), slot.astype(np.int64)


class _Engine:
    def __init__(self, problem: SlotProblem, nearer: bool) -> None:
        self.rows: tuple[list[int], list[int], list[int]] = ([], [], [])
        self._p, self._nearer = problem, nearer
        out: list[list[int]] = [part.tolist() for part in np.split(problem.links, problem.offsets[1:-1])]
        target: list[int] = problem.target.tolist()
        slot: list[int] = problem.slot.tolist()
        total: list[int] = problem.total.tolist()
        self._out = [[(link, target[link], slot[link], total[link]) for link in links] for links in out]
        self._source = {link: u for u, links in enumerate(out) for link in links}
        self._busy = [0] * len(target)
        for link, taken in zip(*(column.tolist() for column in problem.taken), strict=True):
            self._busy[link] |= 1 << taken
        self._to: list[list[int]] = problem.to.tolist()
        self._target_row: list[int] = problem.target_row.tolist()
        self._holders: list[int] = problem.holders.tolist()
        self._wanting: list[int] = problem.wanting.tolist()
        self._holder_offsets: list[int] = problem.holder_offsets.tolist()
        self._wanting_offsets: list[int] = problem.wanting_offsets.tolist()
        self._release: list[int] = problem.release.tolist()
        self._salt: list[int] = (problem.salt & ((1 << problem.node_bits) - 1)).tolist()

    def plan(self, k: int) -> None:
        """Brings one row's chunk to all who want it, the nearest first."""
        holders = self._holders[self._holder_offsets[k] : self._holder_offsets[k + 1]]
        wanting = self._wanting[self._wanting_offsets[k] : self._wanting_offsets[k + 1]]
        tree: dict[int, int] = dict.fromkeys(holders, self._release[k])
        if len(wanting) > 1:
            near = [min(self._to[self._target_row[v]][h] for h in holders) for v in wanting]
            wanting = [v for _, v in sorted(zip(near, wanting, strict=True))]
        for target in wanting:
            if target not in tree:
                self._extend(k, tree, target)

    def _extend(self, k: int, tree: dict[int, int], target: int) -> None:
        found, via = self._search(tree, target, self._salt[k])
        path: list[tuple[int, int]] = []
        v = target
        while v not in tree:
            path.append(via[v])
            v = self._source[via[v][0]]
        for link, slot in reversed(path):
            self._busy[link] |= 1 << slot
            self.rows[0].append(k)
            self.rows[1].append(link)
            self.rows[2].append(slot)
        v = target
        while v not in tree:
            tree[v] = found[v]
            v = self._source[via[v][0]]

    def _search(
        self, tree: dict[int, int], target: int, salt: int
    ) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
        left = self._to[self._target_row[target]]
        bits, shift, mask = self._p.node_bits, self._p.shift, (1 << self._p.node_bits) - 1
        depth = bits + DEPTH_BITS
        found = dict(tree)
        via: dict[int, tuple[int, int]] = {}
        heap = [((t + left[v]) << depth) | ((left[v] >> shift) << bits) | (v ^ salt) for v, t in tree.items()]
        heapq.heapify(heap)
        arrived = 1 << 62
        busy, nearer, push, pop = self._busy, self._nearer, heapq.heappush, heapq.heappop
        while heap:
            key = pop(heap)
            least = key >> depth
            if least >= arrived:
                break
            u = (key & mask) ^ salt
            time = found[u]
            here = left[u]
            if time + here < least:
                continue
            for link, v, length, total in self._out[u]:
                there = left[v]
                if nearer and there >= here:
                    continue
                slot = time if length == 1 else -(-time // length)
                taken = busy[link] >> slot
                if taken & 1:
                    slot += (~taken & (taken + 1)).bit_length() - 1
                arrival = slot * length + total
                if arrival + there >= arrived or arrival >= found.get(v, arrived) or v in tree:
                    continue
                found[v] = arrival
                via[v] = (link, slot)
                if v == target:
                    arrived = arrival
                    if arrival <= least:
                        return found, via
                else:
                    push(heap, ((arrival + there) << depth) | ((there >> shift) << bits) | (v ^ salt))
        return found, via
