"""Earliest-arrival search where every link has slots of its own length, compiled.

The same steps as collc/synthesis/pccl_slots.py takes, and the same result.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Times = NDArray[np.int64]
Words = NDArray[np.uint64]

DEPTH_BITS = 10
FULL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(cache=True, nogil=True)
def _next_free(busy: Words, link: int, slot: int) -> int:
    words = busy.shape[1]
    word = slot >> 6
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
def _grown(busy: Words, grid: Ints) -> tuple[Words, Ints]:
    words = busy.shape[1] + busy.shape[1] // 8 + 1
    wider = np.zeros((busy.shape[0], words), np.uint64)
    wider[:, : busy.shape[1]] = busy
    longer = np.full((words * 64, grid.shape[1]), -1, np.int32)
    longer[: grid.shape[0]] = grid
    return wider, longer


@njit(cache=True, nogil=True)
def _search(
    left: Times, seeds: Times, count: int, target: int, row: int, salt: int, release_of: Times, in_tree: Times,
    found: Times, stamp: Times, mark: int, via_link: Ints, via_slot: Times, busy: Words, offsets: Ints, links: Ints,
    heads: Ints, slot_of: Times, total_of: Times, shift: int, bits: int, nearer: bool,
) -> None:  # fmt: skip
    depth = bits + DEPTH_BITS
    mask = (np.int64(1) << bits) - 1
    heap = [np.int64(0) for _ in range(0)]
    for i in range(count):
        v = seeds[i]
        found[v] = release_of[v]
        stamp[v] = mark
        heapq.heappush(heap, ((found[v] + left[v]) << depth) | ((left[v] >> shift) << bits) | (v ^ salt))
    arrived = np.int64(1) << 62
    while len(heap) > 0:
        key = heapq.heappop(heap)
        least = key >> depth
        if least >= arrived:
            break
        u = (key & mask) ^ salt
        time = found[u]
        here = left[u]
        if time + here < least:
            continue
        for i in range(offsets[u], offsets[u + 1]):
            link = links[i]
            v = heads[link]
            there = left[v]
            if nearer and there >= here:
                continue
            length = slot_of[link]
            slot = time if length == 1 else -(-time // length)
            slot = _next_free(busy, link, slot)
            arrival = slot * length + total_of[link]
            if arrival + there >= arrived or (stamp[v] == mark and arrival >= found[v]) or in_tree[v] == row:
                continue
            found[v] = arrival
            stamp[v] = mark
            via_link[v] = link
            via_slot[v] = slot
            if v == target:
                arrived = arrival
                if arrival <= least:
                    return
            else:
                heapq.heappush(heap, ((arrival + there) << depth) | ((there >> shift) << bits) | (v ^ salt))


@njit(cache=True, nogil=True)
def _nearest_first(wanted: Ints, holders: Times, to: Times, target_row: Ints) -> Ints:
    near = np.full(len(wanted), np.int64(1) << 62)
    for i in range(len(wanted)):
        for holder in holders:
            near[i] = min(near[i], to[target_row[wanted[i]], holder])
    return wanted[np.argsort(near, kind="mergesort")]


@njit(cache=True, nogil=True)
def search_slots(
    order: Ints, salt: Times, holder_offsets: Times, holders: Ints, wanting_offsets: Times, wanting: Ints,
    release: Times, to: Times, target_row: Ints, offsets: Ints, links: Ints, tails: Ints, heads: Ints,
    slot_of: Times, total_of: Times, shift: int, bits: int, nearer: bool, busy: Words, grid: Ints,
) -> tuple[Words, Ints]:  # fmt: skip
    """Plans the rows in `order`, round what is taken already; busy and grid, which may have grown.

    busy: uint64[links, words], a bit a slot. grid: int32[words * 64, links], the row whose chunk each
    slot of a link takes, -1 for none. The rest is as in SlotProblem.
    """
    devices = len(offsets) - 1
    found = np.zeros(devices, np.int64)
    stamp = np.full(devices, -1, np.int64)
    in_tree = np.full(devices, -1, np.int64)
    since = np.zeros(devices, np.int64)
    via_link = np.zeros(devices, np.int32)
    via_slot = np.zeros(devices, np.int64)
    seeds = np.zeros(devices, np.int64)
    mark = np.int64(0)
    for position in range(len(order)):
        k = order[position]
        count = 0
        for i in range(holder_offsets[k], holder_offsets[k + 1]):
            seeds[count] = holders[i]
            count += 1
            in_tree[holders[i]] = k
            since[holders[i]] = release[k]
        wanted = wanting[wanting_offsets[k] : wanting_offsets[k + 1]]
        if len(wanted) > 1:
            wanted = _nearest_first(wanted, seeds[:count], to, target_row)
        for i in range(len(wanted)):
            target = wanted[i]
            if in_tree[target] == k:
                continue
            mark += 1
            tie = salt[k] & ((np.int64(1) << bits) - 1)
            _search(
                to[target_row[target]], seeds, count, target, k, tie, since, in_tree, found, stamp, mark,
                via_link, via_slot, busy, offsets, links, heads, slot_of, total_of, shift, bits, nearer,
            )  # fmt: skip
            v = np.int64(target)
            while in_tree[v] != k:
                link, slot = via_link[v], via_slot[v]
                while slot >= grid.shape[0]:
                    busy, grid = _grown(busy, grid)
                busy[link, slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
                grid[slot, link] = k
                in_tree[v] = k
                since[v] = found[v]
                seeds[count] = v
                count += 1
                v = np.int64(tails[link])
    return busy, grid


@njit(cache=True, nogil=True)
def reserve(busy: Words, grid: Ints, taken_link: Ints, taken_slot: Ints) -> tuple[Words, Ints]:
    """Takes slots of links that are planned already; busy and grid, which may have grown."""
    for i in range(len(taken_link)):
        while taken_slot[i] >= grid.shape[0]:
            busy, grid = _grown(busy, grid)
        busy[taken_link[i], taken_slot[i] >> 6] |= np.uint64(1) << np.uint64(taken_slot[i] & 63)
    return busy, grid
