"""Open shops of unit tasks: when each message is on each generator, one at a time on both sides.

The hops of a message may come in any order, since the group is abelian. The least time is the largest load of a
generator or the most hops of a message, and it is always reached: a bipartite multigraph has as many edge colours as
its largest degree (König).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from collc.kernels.compiled import trailing_zeros
from collc.ten.arrays import Int64Array

MOST_ORDERS: Final = 8
"""Orders of the messages for which rotation is tried."""

MOST_COLOURED: Final = 1_000
"""Hops up to which rotation is not tried."""


class HopBlocks(NamedTuple):
    """int64[blocks], by message and step: the hops that a message makes over one generator from `step` on."""

    message: Int64Array
    step: Int64Array
    generator: Int64Array
    hops: Int64Array


def least_steps(counts: Int64Array) -> int:
    """The least time of int64[messages, generators] hops."""
    return max(int(counts.sum(axis=0).max(initial=0)), int(counts.sum(axis=1).max(initial=0)))


def open_shop(counts: Int64Array, seed: int) -> HopBlocks:
    """A plan of least_steps(counts) steps for int64[messages, generators] hops."""
    steps = least_steps(counts)
    rng = np.random.default_rng(seed)
    for _ in range(MOST_ORDERS if int(counts.sum()) > MOST_COLOURED else 0):
        starts = _rotate(counts, rng.permutation(len(counts)), steps)
        if starts is not None:
            return _unroll(counts, starts, steps)
    return _colour_edges(counts, steps)


def _rotate(counts: Int64Array, order: Int64Array, steps: int) -> Int64Array | None:
    """int64[messages, generators]: when each message begins on each generator; None if some message is on two at once.

    Every generator serves the messages in the same cyclic order, and each begins an equal share of the time later in
    that order than the generator before it.
    """
    generators = counts.shape[1]
    before: Int64Array = np.zeros_like(counts)
    before[order[1:]] = np.cumsum(counts[order], axis=0)[:-1]
    shift: Int64Array = np.arange(generators, dtype=np.int64) * steps // generators
    starts: Int64Array = np.remainder(before + shift, steps)
    for a in range(generators):
        for b in range(a):
            used = (counts[:, a] > 0) & (counts[:, b] > 0)
            gap: Int64Array = np.remainder(starts[:, a] - starts[:, b], steps)
            if bool((used & ((gap < counts[:, b]) | (steps - gap < counts[:, a]))).any()):
                return None
    return starts


def _unroll(counts: Int64Array, starts: Int64Array, steps: int) -> HopBlocks:
    """The blocks of a rotation; those that pass the end are cut there, and the rest begins at step 0."""
    message, generator = np.nonzero(counts)
    hops, step = counts[message, generator], starts[message, generator]
    over = np.flatnonzero(step + hops > steps)
    rest = step[over] + hops[over] - steps
    hops[over] -= rest
    message, generator = np.append(message, message[over]), np.append(generator, generator[over])
    step, hops = np.append(step, np.zeros_like(rest)), np.append(hops, rest)
    order = np.argsort(message * steps + step)
    return HopBlocks(message[order], step[order], generator[order], hops[order])


def _colour_edges(counts: Int64Array, steps: int) -> HopBlocks:
    """A step (colour) for one hop after another; if none is free on both sides, two are swapped along a path."""
    messages = len(counts)
    partner: list[dict[int, int]] = [{} for _ in range(sum(counts.shape))]  # by message or generator, and by step
    free = [(1 << steps) - 1] * len(partner)

    def toggle(a: int, b: int, step: int) -> None:
        for vertex, other in ((a, b), (b, a)):
            free[vertex] ^= 1 << step
            if partner[vertex].pop(step, None) is None:
                partner[vertex][step] = other

    def swap(vertex: int, first: int, second: int) -> None:
        """Frees a step of a vertex: it and another, which is free, are swapped along the alternating path."""
        path: list[tuple[int, int, int]] = []
        step = first
        while step in partner[vertex]:
            path.append((vertex, partner[vertex][step], step))
            vertex, step = partner[vertex][step], first + second - step
        for a, b, step in path:
            toggle(a, b, step)
        for a, b, step in path:
            toggle(a, b, first + second - step)

    pairs: list[tuple[int, int]] = [(message, generator) for message, generator in np.argwhere(counts).tolist()]
    for message, generator in pairs:
        other = messages + generator
        for _ in range(int(counts[message, generator])):
            if not free[message] & free[other]:
                swap(other, trailing_zeros(free[message]), trailing_zeros(free[other]))
            toggle(message, other, trailing_zeros(free[message] & free[other]))
    rows = [(m, step, g - messages) for m, row in enumerate(partner[:messages]) for step, g in sorted(row.items())]
    table = np.array(rows, np.int64).reshape(-1, 3)
    return HopBlocks(table[:, 0], table[:, 1], table[:, 2], np.ones(len(table), np.int64))
