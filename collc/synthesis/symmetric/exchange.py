"""All-to-All on a Cayley graph: what NPU 0 sends to each other NPU goes on short ways that load all generators alike.

When each hop is made is an open shop. On a ring of even length the message to the opposite NPU cannot be halved;
there every second NPU sends it the one way, and the others the other way (collc/synthesis/symmetric/words.py).
"""

from __future__ import annotations

import numpy as np

from collc.synthesis.symmetric.gather import unreachable
from collc.synthesis.symmetric.group import Group
from collc.synthesis.symmetric.plan import Plan
from collc.synthesis.symmetric.shop import open_shop
from collc.synthesis.symmetric.words import Words, find_words
from collc.synthesis.task import Effort
from collc.ten.arrays import Int32Array, Int64Array

COMPILED = 500
"""Messages from which the ways are found by compiled code."""

SWEEPS = 2
"""How often shortest ways are chosen, one by one."""

EXCHANGES = 64
"""Exchanges of hops for others that are tried to balance the loads."""


def exchange(group: Group, chunks: int, effort: Effort) -> Plan:
    """A plan of the largest load of a generator, or the longest way, if that is longer.

    Raises SourceError where the generators do not lead to all NPUs.
    """
    from collc.kernels.symmetric_ways import follow

    if group.count * chunks >= COMPILED:
        from numba import njit

        follow = njit(cache=True)(follow)
    counts = short_ways(group, chunks, effort)
    words = find_words(group, counts)
    blocks = open_shop(counts[1:].reshape(-1, len(group.ahead)) if words is None else words.shop, effort.seed)
    rows = np.empty((4, int(blocks.hops.sum())), np.int32)
    follow(group.ahead, *blocks, rows)
    end = int(rows[0].max(initial=-1)) + 1
    if words is None:
        return Plan(end, rows[0], rows[1], rows[2], rows[3] + np.int32(chunks))
    return _with_words(group, words, rows, end, chunks)


def _with_words(group: Group, words: Words, rows: Int32Array, end: int, chunks: int) -> Plan:
    """The plan with what rides round a ring in place of its trains."""
    first = len(words.shop) - 2
    messages = rows[:, rows[3] < first]
    messages[3] += chunks
    parts = [np.concatenate([messages, np.full((1, messages.shape[1]), -1, np.int32)])]
    for train in range(2):
        ridden = np.array(list(words.rows(group, train, rows[0, rows[3] == first + train].tolist())), np.int32).T
        ridden[3] = ridden[3] * chunks + words.copy
        parts.append(ridden)
    step, generator, sender, chunk, half = np.concatenate(parts, axis=1)
    return Plan(end, step, generator, sender, chunk, half, words.axis)


def short_ways(group: Group, chunks: int, effort: Effort) -> Int64Array:
    """int64[npus, copies, generators]: the hops of each message.

    Raises SourceError where the generators do not lead to all NPUs.
    """
    from collc.kernels.symmetric_ways import shortest_ways, spanning_order

    if group.count * chunks >= COMPILED:
        from numba import njit

        shortest_ways, spanning_order = njit(cache=True)(shortest_ways), njit(cache=True)(spanning_order)
    order, depth = np.empty((2, group.count), np.int64)
    if not spanning_order(group.ahead, order, depth):
        raise unreachable()
    counts = np.zeros((group.count, chunks, len(group.ahead)), np.int64)
    load = np.zeros(len(group.ahead), np.int64)
    shortest_ways(group.behind, order, depth, SWEEPS, counts, load)
    if int(load.max()) > max(-(-int(load.sum()) // len(load)), int(depth.max())):
        _balance(counts[1:].reshape(-1, len(load)), load, _exchanges(group, counts[:, 0]), effort)
    return counts


def _exchanges(group: Group, ways: Int64Array) -> Int64Array:
    """int64[exchanges, generators]: changes of hops that lead to the same NPU, the least first."""
    units = np.eye(len(group.ahead), dtype=np.int64)
    changes = np.concatenate([ways[before] + unit - ways for before, unit in zip(group.behind, units, strict=True)])
    changes = np.unique(np.concatenate([changes, -changes]), axis=0)
    changes = changes[(changes < 0).any(axis=1)]
    return changes[np.argsort(np.abs(changes).sum(axis=1), kind="stable")[:EXCHANGES]]


def _balance(messages: Int64Array, load: Int64Array, exchanges: Int64Array, effort: Effort) -> None:
    """Exchanges hops of int64[messages, generators], also for more others, while that lowers the largest loads."""
    while not effort.stop():
        after = np.sort(load + exchanges, axis=1)[:, ::-1]
        for number in np.lexsort(after.T[::-1]).tolist():
            change = exchanges[number]
            able = np.flatnonzero((messages >= -change).all(axis=1))
            many = min(len(able), max(1, int(load.max() - load.min()) // (4 * int(np.abs(change).sum()))))
            while many and np.sort(load + change * many)[::-1].tolist() >= np.sort(load)[::-1].tolist():
                many //= 2
            if many:
                able = able[np.argsort(messages[able].sum(axis=1), kind="stable")][:many]
                messages[able] += change
                load += change * many
                break
        else:
            return
