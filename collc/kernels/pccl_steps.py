"""Earliest-arrival search where every link and chunk takes one step, compiled.

The same steps as collc/synthesis/pccl/steps.py takes, and the same result. Links are numbered by
source, so that those out of device u are offsets[u] .. offsets[u + 1].
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from collc.kernels.pccl_rows import nearest_first
from collc.ten.arrays import Int32Array, Int64Array, UInt64Array

FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
NEVER = 1 << 29
STAMP, FOUND, VIA, SLOT = 0, 1, 2, 3
"""Columns of the table of devices: search that reached it, when, over which link, and in which slot of it."""


@njit(cache=True, nogil=True)
def _next_free(busy: UInt64Array, low: Int32Array, link: int, slot: int) -> int:
    words = busy.shape[1]
    word = slot >> 6
    first = low[link]
    if word < first:
        word = first
        slot = word << 6
    if word >= words:
        return slot
    free = ~busy[link, word] & (FULL << np.uint64(slot & 63))
    while free == 0:
        word += 1
        if word >= words:
            return word << 6
        free = ~busy[link, word]
    return (word << 6) + np.int64(trailing_zeros(free))


@njit(cache=True, nogil=True)
def _grown(busy: UInt64Array, grid: Int32Array) -> tuple[UInt64Array, Int32Array]:
    words = busy.shape[1] + busy.shape[1] // 8 + 1
    wider = np.zeros((busy.shape[0], words), np.uint64)
    wider[:, : busy.shape[1]] = busy
    longer = np.full((grid.shape[0], words * 64), -1, np.int32)
    longer[:, : grid.shape[1]] = grid
    return wider, longer


@njit(cache=True, nogil=True)
def _search(
    left: Int32Array,
    seeds: Int32Array,
    count: int,
    target: int,
    row: int,
    salt: int,
    since: Int32Array,
    in_tree: Int32Array,
    at: Int32Array,
    mark: int,
    busy: UInt64Array,
    low: Int32Array,
    offsets: Int32Array,
    heads: Int32Array,
    first: Int32Array,
    filled: UInt64Array,
    node: Int32Array,
    after: Int32Array,
    detour: int,
) -> None:
    """A* where devices of equal least arrival lie on one stack; `filled` tells which stacks have any."""
    base, near, top, used = _seed(left, seeds, count, since, at, mark, first, filled, node, after)
    roam = near <= detour
    arrived = np.int64(NEVER)
    word = np.int64(0)
    while word <= top >> 6:
        bits = filled[word]
        if bits == 0:
            word += 1
            continue
        d = (word << 6) + np.int64(trailing_zeros(bits))
        if base + d >= arrived:
            break
        entry = first[d]
        u = node[entry]
        first[d] = after[entry]
        if after[entry] < 0:
            filled[word] = bits & (bits - np.uint64(1))
        time = np.int64(at[u, FOUND])
        here = left[u]
        if time + here != base + d:
            continue
        link, last, way = np.int64(offsets[u]) - 1, np.int64(offsets[u + 1]), 1
        if (salt >> (u & 31)) & 1:
            link, last, way = last, link, -1
        while link + way != last:
            link += way
            v = heads[link]
            there = left[v]
            if (there >= here and not roam) or in_tree[v] == row:
                continue
            slot = _next_free(busy, low, link, time)
            arrival = slot + 1
            if arrival + there >= arrived or (at[v, STAMP] == mark and arrival >= at[v, FOUND]):
                continue
            at[v, STAMP], at[v, FOUND], at[v, VIA], at[v, SLOT] = mark, arrival, link, slot
            if v == target:
                arrived = arrival
            else:
                used = _push(v, arrival + there - base, used, first, filled, node, after)
                top = max(top, arrival + there - base)
        if arrived <= base + d:
            break
    filled[word : (top >> 6) + 1] = 0


@njit(cache=True, nogil=True)
def _seed(
    left: Int32Array,
    seeds: Int32Array,
    count: int,
    since: Int32Array,
    at: Int32Array,
    mark: int,
    first: Int32Array,
    filled: UInt64Array,
    node: Int32Array,
    after: Int32Array,
) -> tuple[int, int, int, int]:
    """Puts those that have the chunk on their stacks: least arrival and distance, the last stack, entries used."""
    base = near = np.int64(NEVER)
    for k in range(count):
        base = min(base, np.int64(since[seeds[k]]) + left[seeds[k]])
        near = min(near, np.int64(left[seeds[k]]))
    used = 0
    top = np.int64(0)
    for k in range(count):
        v = seeds[k]
        at[v, STAMP], at[v, FOUND] = mark, since[v]
        if left[v] < NEVER:
            d = np.int64(since[v]) + left[v] - base
            used = _push(v, d, used, first, filled, node, after)
            top = max(top, d)
    return base, near, top, used


@njit(cache=True, nogil=True)
def _push(
    v: int, d: int, used: int, first: Int32Array, filled: UInt64Array, node: Int32Array, after: Int32Array
) -> int:
    bit = np.uint64(1) << np.uint64(d & 63)
    node[used] = v
    after[used] = first[d] if filled[d >> 6] & bit else -1
    first[d] = used
    filled[d >> 6] |= bit
    return used + 1


@njit(cache=True, nogil=True)
def search_steps(
    order: Int32Array,
    salt: Int64Array,
    holder_offsets: Int64Array,
    holders: Int32Array,
    wanting_offsets: Int64Array,
    wanting: Int32Array,
    to: Int32Array,
    target_row: Int32Array,
    offsets: Int32Array,
    heads: Int32Array,
    tails: Int32Array,
    detour: int,
    busy: UInt64Array,
    grid: Int32Array,
    low: Int32Array,
) -> tuple[UInt64Array, Int32Array]:
    """Plans the rows in `order`, round what is taken already; busy and grid, which may have grown.

    busy: uint64[links, words], a bit a slot. grid: int32[links, words * 64], the row whose chunk each slot takes,
    -1 for none. low: int32[links], words that are full. The rest is as in collc/synthesis/pccl/steps.py (StepProblem).
    """
    devices = len(offsets) - 1
    at = np.full((devices, 4), -1, np.int32)
    in_tree = np.full(devices, -1, np.int32)
    since = np.zeros(devices, np.int32)
    seeds = np.zeros(devices, np.int32)
    node = np.zeros(devices + len(heads), np.int32)
    after = np.zeros(devices + len(heads), np.int32)
    room = 0
    mark = 0
    for position in range(len(order)):
        k = order[position]
        count = 0
        for i in range(holder_offsets[k], holder_offsets[k + 1]):
            seeds[count] = holders[i]
            count += 1
            in_tree[holders[i]] = k
            since[holders[i]] = 0
        wanted = wanting[wanting_offsets[k] : wanting_offsets[k + 1]]
        if len(wanted) > 1:
            wanted = nearest_first(wanted, seeds[:count], to, target_row)
        for i in range(len(wanted)):
            target = wanted[i]
            if in_tree[target] == k:
                continue
            mark += 1
            if room < busy.shape[1]:
                room = busy.shape[1]
                first = np.zeros((room + 1) * 64 + 4 * devices, np.int32)
                filled = np.zeros(len(first) // 64 + 1, np.uint64)
            _search(
                to[target_row[target]], seeds, count, target, k, salt[k], since, in_tree, at, mark, busy,
                low, offsets, heads, first, filled, node, after, detour,
            )  # fmt: skip
            v = target
            while in_tree[v] != k:
                link, slot = np.int64(at[v, VIA]), np.int64(at[v, SLOT])
                while slot >= grid.shape[1]:
                    busy, grid = _grown(busy, grid)
                busy[link, slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
                while low[link] < busy.shape[1] and busy[link, low[link]] == FULL:
                    low[link] += 1
                grid[link, slot] = k
                in_tree[v] = k
                since[v] = at[v, FOUND]
                seeds[count] = v
                count += 1
                v = tails[link]
    return busy, grid


@njit(cache=True, nogil=True)
def lay_out(grid: Int32Array, links: Int32Array, chunk: Int32Array, steps: NDArray[np.generic]) -> None:
    """Turns grid[link by source, slot] of rows into steps[slot, link] of chunks; what is free is left as it is."""
    count = steps.shape[0]
    for low in range(0, len(links), 16):
        for slot in range(count):
            for i in range(low, min(low + 16, len(links))):
                if grid[i, slot] >= 0:
                    steps[slot, links[i]] = chunk[grid[i, slot]]
