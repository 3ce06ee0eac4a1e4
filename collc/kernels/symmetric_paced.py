"""How the chunks of one NPU spread over a Cayley graph whose generators take unlike times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from collc.ten.arrays import BoolArray, Int32Array, Int64Array


class Pacing(NamedTuple):
    """What a search is given.

    ahead: int32[generators, npus], where generators lead. busy, total: int64[generators], how long a link is taken, and
    until a chunk is there. cheaper: bool[generators, generators], whether the second is cheaper than the first.
    coset: int32[generators, npus], which NPUs the cheaper ones join. deadline: by which all should be there. window: of
    how many chunks one is picked.
    """

    ahead: Int32Array
    busy: Int64Array
    total: Int64Array
    cheaper: BoolArray
    coset: Int32Array
    deadline: int
    window: int


class Spread(NamedTuple):
    """How far a search is.

    closed: bool[chunks, npus], what is there or on its way. inside: bool[generators, chunks, npus], also for cosets.
    informed: int32[chunks, npus], in-neighbours that hold a chunk. holder, held: who holds which chunk, in order.
    cursor, free: int64[generators], before it all is closed; when its links are free. rows: see spread_paced.
    """

    closed: BoolArray
    inside: BoolArray
    informed: Int32Array
    holder: Int32Array
    held: Int32Array
    cursor: Int64Array
    free: Int64Array
    rows: Int64Array


@njit(cache=True, nogil=True)
def _pick(pacing: Pacing, spread: Spread, generator: int, known: int, left: int, now: int) -> int:
    """The place in the order of holders of what a generator takes, -1 for nothing."""
    ahead, coset, inside = pacing.ahead[generator], pacing.coset[generator], spread.inside[generator]
    closed, informed, holder, held = spread.closed, spread.informed, spread.holder, spread.held
    place = spread.cursor[generator]
    while place < known and closed[held[place], ahead[holder[place]]]:
        place += 1
    spread.cursor[generator] = place
    room, slow = 0, False
    for other in range(len(pacing.busy)):
        if pacing.cheaper[generator, other]:
            slow = True
            begin = max(now, spread.free[other]) + pacing.total[other]
            room += max(0, (pacing.deadline - begin) // pacing.busy[other] + 1)
    bound = slow and left <= room
    best, fewest, seen = -1, 1 << 30, 0
    while place < known and seen < pacing.window and fewest > 1:
        chunk, target = held[place], ahead[holder[place]]
        if not closed[chunk, target] and not (bound and inside[chunk, coset[target]]):
            seen += 1
            if informed[chunk, target] < fewest:
                best, fewest = place, informed[chunk, target]
        place += 1
    return best


@njit(cache=True, nogil=True)
def _begin(pacing: Pacing, spread: Spread, generator: int, place: int, row: int, now: int) -> None:
    """A generator sends what stands at a place in the order of holders."""
    chunk, target = spread.held[place], pacing.ahead[generator, spread.holder[place]]
    spread.closed[chunk, target] = True
    for other in range(len(pacing.busy)):
        spread.inside[other, chunk, pacing.coset[other, target]] = True
    spread.rows[0, row], spread.rows[1, row], spread.rows[2, row] = now, generator, spread.holder[place]
    spread.rows[3, row], spread.rows[4, row] = chunk, target
    spread.free[generator] = now + pacing.busy[generator]


@njit(cache=True, nogil=True)
def _settle(pacing: Pacing, spread: Spread, known: int, chunk: int, npu: int) -> None:
    """An NPU holds a chunk."""
    spread.holder[known], spread.held[known] = npu, chunk
    for generator in range(len(pacing.busy)):
        spread.informed[chunk, pacing.ahead[generator, npu]] += 1


@njit(cache=True, nogil=True)
def _next(pacing: Pacing, spread: Spread, flying: Int32Array, begun: Int64Array, arrived: Int64Array, now: int) -> int:
    """When next a link gets free or a chunk arrives, -1 for never."""
    after = np.int64(-1)
    for generator in range(len(pacing.busy)):
        moment = spread.free[generator]
        if moment > now and (after < 0 or moment < after):
            after = moment
        if arrived[generator] < begun[generator]:
            moment = spread.rows[0, flying[generator, arrived[generator]]] + pacing.total[generator]
            if after < 0 or moment < after:
                after = moment
    return after


@njit(cache=True, nogil=True)
def spread_paced(pacing: Pacing, chunks: int, rows: Int64Array) -> int:
    """Fills rows int64[5, (npus - 1) * chunks]: start, generator, sender, chunk, target; returns the end, -1 for none.

    A generator takes, of the first `window` chunks that it may take, one whose target has the fewest informed
    in-neighbours. If there are cheaper ones, it may take only what is not in the coset of its target nor on its way
    into it, unless the cheaper ones could not deliver what is missing before the deadline.
    """
    generators, count = pacing.ahead.shape
    moves = (count - 1) * chunks
    spread = Spread(
        np.zeros((chunks, count), np.bool_), np.zeros((generators, chunks, count), np.bool_),
        np.zeros((chunks, count), np.int32), np.zeros(chunks * count, np.int32), np.zeros(chunks * count, np.int32),
        np.zeros(generators, np.int64), np.zeros(generators, np.int64), rows,
    )  # fmt: skip
    flying = np.zeros(
        (generators, moves), np.int32
    )  # the rows of each generator, in order; which of them are under way
    begun, arrived = np.zeros(generators, np.int64), np.zeros(generators, np.int64)
    for chunk in range(chunks):
        spread.closed[chunk, 0] = True
        for generator in range(generators):
            spread.inside[generator, chunk, pacing.coset[generator, 0]] = True
        _settle(pacing, spread, chunk, chunk, 0)
    known, started, now, end = chunks, 0, 0, 0
    while started < moves:
        for turn in range(generators):
            generator = (turn + started) % generators
            place = -1
            if spread.free[generator] <= now:
                place = _pick(pacing, spread, generator, known, moves - started, now)
            if place >= 0:
                _begin(pacing, spread, generator, place, started, now)
                flying[generator, begun[generator]] = started
                begun[generator] += 1
                started += 1
                end = max(end, now + pacing.total[generator])
        after = _next(pacing, spread, flying, begun, arrived, now)
        if after < 0:
            return -1
        now = after
        for generator in range(generators):
            while arrived[generator] < begun[generator]:
                row = flying[generator, arrived[generator]]
                if rows[0, row] + pacing.total[generator] > now:
                    break
                _settle(pacing, spread, known, rows[3, row], rows[4, row])
                known += 1
                arrived[generator] += 1
    return end
