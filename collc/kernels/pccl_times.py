"""Earliest-arrival search in exact time, compiled.

The same steps as collc/synthesis/pccl/times.py takes, and the same result.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numba import njit

from collc.kernels.pccl_busy import last_free, next_free, refuses, take, take_place
from collc.kernels.pccl_rows import nearest_first
from collc.ten.arrays import BoolArray, Int32Array, Int64Array

UNREACHABLE = 1 << 60


class Net(NamedTuple):
    """The network: out-links of devices, ends of links, length and total by size and link, and switches.

    keeps: bool[switches], whether a chunk that has come to a switch may leave it more than once.
    """

    offsets: Int32Array
    links: Int32Array
    tails: Int32Array
    heads: Int32Array
    length: Int64Array
    total: Int64Array
    npus: int
    multicast: BoolArray
    keeps: BoolArray
    inverted: bool


class Work(NamedTuple):
    """What is taken, and what is planned.

    starts, ends: int64[links, n], intervals; intervals: int64[links], how many. times, held: int64[switches, n];
    moments: int64[switches], how many; size: int64[switches], places, -1 for no limit.
    transfers: int64[n, 3], row, link and start; count: int64[1].
    """

    starts: Int64Array
    ends: Int64Array
    intervals: Int64Array
    times: Int64Array
    held: Int64Array
    moments: Int64Array
    size: Int64Array
    transfers: Int64Array
    count: Int64Array


HAS, SINCE, STAYED, UNTIL, LAST, LEFT, AHEAD, BEFORE, REACHED, FOUND, VIA, START, SEED = range(13)
"""Columns of the table of devices: which row has it, STAYED in it, and which search of it must not come before BEFORE.

SINCE: when it got the chunk. UNTIL, LAST: end of its last stay, and of any. LEFT: its latest departure in the list.
REACHED: the search that reached it; FOUND: when, over link VIA, which it enters at START. SEED: no column of devices,
but one after another those that have the chunk.
"""


@njit(cache=True, nogil=True)
def _wider(table: Int64Array) -> Int64Array:
    more = np.zeros((table.shape[0], table.shape[1] * 2), np.int64)
    more[:, : table.shape[1]] = table
    return more


@njit(cache=True, nogil=True)
def _take(work: Work, link: int, start: int, end: int) -> Work:
    if work.intervals[link] == work.starts.shape[1]:
        work = Work(
            _wider(work.starts),
            _wider(work.ends),
            work.intervals,
            work.times,
            work.held,
            work.moments,
            work.size,
            work.transfers,
            work.count,
        )
    work.intervals[link] = take(work.starts[link], work.ends[link], work.intervals[link], start, end)
    return work


@njit(cache=True, nogil=True)
def _hold(work: Work, switch: int, start: int, end: int) -> Work:
    if work.moments[switch] + 2 > work.times.shape[1]:
        work = Work(
            work.starts,
            work.ends,
            work.intervals,
            _wider(work.times),
            _wider(work.held),
            work.moments,
            work.size,
            work.transfers,
            work.count,
        )
    work.moments[switch] = take_place(work.times[switch], work.held[switch], work.moments[switch], start, end)
    return work


@njit(cache=True, nogil=True)
def _note(work: Work, row: int, link: int, start: int) -> Work:
    if work.count[0] == len(work.transfers):
        more = np.zeros((2 * len(work.transfers), 3), np.int64)
        more[: len(work.transfers)] = work.transfers
        work = Work(
            work.starts, work.ends, work.intervals, work.times, work.held, work.moments, work.size, more, work.count
        )
    k = work.count[0]
    work.transfers[k, 0] = row
    work.transfers[k, 1] = link
    work.transfers[k, 2] = start
    work.count[0] += 1
    return work


@njit(cache=True, nogil=True)
def begin(net: Net, size: Int64Array, taken: Int64Array, held: Int64Array) -> Work:
    """Nothing planned; taken: (link, start, end) and held: (switch, start, end), what is reserved."""
    links, switches = len(net.heads), len(size)
    work = Work(
        np.zeros((links, 8), np.int64),
        np.zeros((links, 8), np.int64),
        np.zeros(links, np.int64),
        np.zeros((switches, 8), np.int64),
        np.zeros((switches, 8), np.int64),
        np.ones(switches, np.int64),
        size,
        np.zeros((1024, 3), np.int64),
        np.zeros(1, np.int64),
    )
    for k in range(len(taken)):
        work = _take(work, taken[k, 0], taken[k, 1], taken[k, 2])
    for k in range(len(held)):
        work = _hold(work, held[k, 0], held[k, 1], held[k, 2])
    return work


@njit(cache=True, nogil=True)
def _next_free(work: Work, link: int, time: int, length: int) -> int:
    return next_free(work.starts[link], work.ends[link], work.intervals[link], time, length)


@njit(cache=True, nogil=True)
def _last_free(work: Work, link: int, time: int, latest: int, length: int) -> int:
    return last_free(work.starts[link], work.ends[link], work.intervals[link], time, latest, length)


@njit(cache=True, nogil=True)
def _between(work: Work, link: int, start: int, length: int, entry: int, departures: list[tuple[int, int, int]]) -> int:
    """The first start from `start` on at which the switch does not send the chunk over another link."""
    moved = True
    while moved:
        moved = False
        at = entry
        while at >= 0:
            low, high, at = departures[at]
            if start < high and low < start + length:
                start = _next_free(work, link, high, length)
                moved = True
    return start


@njit(cache=True, nogil=True)
def _start(
    k: int,
    u: int,
    link: int,
    time: int,
    length: Int64Array,
    total: Int64Array,
    net: Net,
    work: Work,
    tree: Int64Array,
    departures: list[tuple[int, int, int]],
) -> tuple[int, int]:
    """When a hop can start, and -1, or until when the chunk must not come, where the switch cannot keep it so long."""
    start = _next_free(work, link, time, length[link])
    if u < net.npus:
        return start, -1
    switch = u - net.npus
    if tree[u, STAYED] == k and not net.multicast[switch]:
        start = _between(work, link, start, length[link], tree[u, LEFT], departures)
    if work.size[switch] < 0:
        return start, -1
    low, high, least, tail = tree[u, UNTIL], start + (0 if net.inverted else length[link]), length[link], 0
    if tree[u, HAS] != k:
        came = tree[u, VIA]
        low = tree[u, START] + total[came]
        if net.tails[came] < net.npus:
            low = _last_free(work, came, tree[u, START], start - total[came], length[came]) + total[came]
        if net.inverted:
            low, high, least, tail = low - length[came], start, length[came], length[came]
    if low >= high:
        return start, -1
    until = refuses(work.times[switch], work.held[switch], work.moments[switch], work.size[switch], low, high, least)
    return start, (until + tail if until >= 0 else -1)


@njit(cache=True, nogil=True)
def _search(
    k: int,
    mark: int,
    number: int,
    left: Int64Array,
    seeds: int,
    target: int,
    salt: int,
    detour: int,
    length: Int64Array,
    total: Int64Array,
    net: Net,
    work: Work,
    tree: Int64Array,
    departures: list[tuple[int, int, int]],
) -> tuple[int, int]:
    """Looks for the path of earliest arrival: (target, 0), or a switch that refuses, and until when.

    mark: of this search. number: of the searches for this target, for `ahead`.
    """
    heap = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    near = np.int64(UNREACHABLE)
    for i in range(seeds):
        v = tree[i, SEED]
        tree[v, REACHED] = mark
        tree[v, FOUND] = tree[v, SINCE]
        near = min(near, left[v])
        if left[v] < UNREACHABLE:
            heapq.heappush(heap, (tree[v, SINCE] + left[v], left[v], v ^ salt))
    roam = near <= detour
    blocked, later = np.int64(-1), np.int64(0)
    while len(heap) > 0:
        least, here, key = heapq.heappop(heap)
        u = key ^ salt
        time = tree[u, FOUND]
        if time + here < least:
            continue
        if u == target:
            return u, np.int64(0)
        refused = np.int64(UNREACHABLE)
        for i in range(net.offsets[u], net.offsets[u + 1]):
            link = net.links[i]
            v = np.int64(net.heads[link])
            there = left[v]
            if there >= (UNREACHABLE if roam else here) or tree[v, HAS] == k:
                continue
            earliest = max(time, tree[v, BEFORE] - total[link]) if tree[v, AHEAD] == number else time
            if v >= net.npus and tree[v, STAYED] == k and not net.keeps[v - net.npus]:
                earliest = max(earliest, tree[v, LAST] - total[link])
            start, until = _start(k, u, link, earliest, length, total, net, work, tree, departures)
            if until >= 0:
                refused = min(refused, until)
                continue
            arrival = start + total[link]
            if tree[v, REACHED] == mark and arrival >= tree[v, FOUND]:
                continue
            tree[v, REACHED] = mark
            tree[v, FOUND] = arrival
            tree[v, VIA] = link
            tree[v, START] = start
            heapq.heappush(heap, (arrival + there, there, v ^ salt))
        if refused < UNREACHABLE:
            blocked, later = u, refused
    return blocked, later


@njit(cache=True, nogil=True)
def _path(
    k: int, target: int, length: Int64Array, total: Int64Array, net: Net, work: Work, tree: Int64Array
) -> list[int]:
    """The links to the target, the last first; each hop into a switch with a limit as late as the next allows."""
    links = [tree[target, VIA]]
    v = np.int64(net.tails[links[0]])
    start = tree[target, START]
    while tree[v, HAS] != k:
        link = tree[v, VIA]
        if v >= net.npus and work.size[v - net.npus] >= 0 and net.tails[link] < net.npus:
            tree[v, START] = _last_free(work, link, tree[v, START], start - total[link], length[link])
        start = tree[v, START]
        links.append(link)
        v = np.int64(net.tails[link])
    return links


@njit(cache=True, nogil=True)
def _book(
    k: int,
    links: list[int],
    seeds: int,
    length: Int64Array,
    total: Int64Array,
    net: Net,
    work: Work,
    tree: Int64Array,
    departures: list[tuple[int, int, int]],
) -> tuple[Work, int]:
    came = np.int64(-1)
    entered = np.int64(0)
    for i in range(len(links) - 1, -1, -1):
        link = links[i]
        u, v = np.int64(net.tails[link]), np.int64(net.heads[link])
        start = tree[v, START]
        end, arrival = start + length[link], start + total[link]
        work = _take(work, link, start, end)
        work = _note(work, k, link, start)
        if u >= net.npus:
            # Run backwards, a departure is an arrival: the place is taken from when it begins.
            low, high = tree[u, UNTIL], max(tree[u, UNTIL], start if net.inverted else end)
            tree[u, UNTIL] = high
            tree[u, LAST] = max(high, end, tree[u, LAST])
            departures.append((start, end, tree[u, LEFT]))
            tree[u, LEFT] = len(departures) - 1
            if net.inverted and came >= 0:
                low, high = entered + total[came] - length[came], start
            if work.size[u - net.npus] >= 0 and low < high:
                work = _hold(work, u - net.npus, low, high)
        if v >= net.npus:
            if tree[v, STAYED] != k:
                tree[v, STAYED] = k
                tree[v, LAST] = 0
                tree[v, LEFT] = -1
            tree[v, UNTIL] = arrival
            tree[v, LAST] = max(arrival, tree[v, LAST])
        if v < net.npus or net.keeps[v - net.npus]:
            tree[v, HAS] = k
            tree[v, SINCE] = arrival
            tree[seeds, SEED] = v
            seeds += 1
        came, entered = link, start
    return work, seeds


@njit(cache=True, nogil=True)
def _without(seeds: Int64Array, count: int, gone: int) -> int:
    kept = 0
    for i in range(count):
        if seeds[i] != gone:
            seeds[kept] = seeds[i]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def search_times(
    order: Int32Array,
    salt: Int64Array,
    holder_offsets: Int64Array,
    holders: Int32Array,
    wanting_offsets: Int64Array,
    wanting: Int32Array,
    release: Int64Array,
    column: Int32Array,
    to: Int64Array,
    target_row: Int32Array,
    detour: Int64Array,
    net: Net,
    work: Work,
) -> Work:
    """Plans the rows in `order`, round what is taken already; the work with what they take."""
    devices = len(net.offsets) - 1
    bits = 0
    while devices >> bits:
        bits += 1
    tree = np.full((devices, 13), -1, np.int64)
    mark = number = np.int64(0)
    for k in order:
        length, total, table = net.length[column[k]], net.total[column[k]], to[column[k]]
        departures = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
        seeds = 0
        for i in range(holder_offsets[k], holder_offsets[k + 1]):
            v = np.int64(holders[i])
            tree[seeds, SEED] = v
            tree[v, HAS] = k
            tree[v, SINCE] = release[k]
            seeds += 1
        wanted = wanting[wanting_offsets[k] : wanting_offsets[k + 1]]
        if len(wanted) > 1:
            wanted = nearest_first(wanted, tree[:seeds, SEED], table, target_row)
        for target in wanted:
            if tree[target, HAS] == k:
                continue
            number += 1
            while True:
                mark += 1
                found, later = _search(
                    k,
                    mark,
                    number,
                    table[target_row[target]],
                    seeds,
                    target,
                    salt[k] & ((1 << bits) - 1),
                    detour[column[k]],
                    length,
                    total,
                    net,
                    work,
                    tree,
                    departures,
                )
                if found == target:
                    break
                if tree[found, HAS] == k:
                    tree[found, HAS] = -1
                    seeds = _without(tree[:, SEED], seeds, found)
                else:
                    tree[found, AHEAD] = number
                    tree[found, BEFORE] = later
            links = _path(k, target, length, total, net, work, tree)
            work, seeds = _book(k, links, seeds, length, total, net, work, tree, departures)
    return work
