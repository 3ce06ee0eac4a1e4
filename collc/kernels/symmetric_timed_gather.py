"""How the chunks of one NPU spread over a Cayley graph whose generators take different times.

Written for arrays; the caller compiles it (collc/kernels/compiled.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, Int64Array


class TimedGenerators(NamedTuple):
    """The generators, and the rule by which they choose; times in picoseconds.

    successors: int32[generators, npus], the NPU that each generator leads to. busy, total: int64[generators], how long
    a link is busy, and until the chunk arrives. faster: bool[generators, generators], whether the second is faster than
    the first. coset: int32[generators, npus], labels of the sets of NPUs that the faster generators join. deadline: by
    which all chunks should have arrived. window: of how many pairs of holder and chunk one is chosen.
    """

    successors: Int32Array
    busy: Int64Array
    total: Int64Array
    faster: BoolArray
    coset: Int32Array
    deadline: int
    window: int


class GatherProgress(NamedTuple):
    """How far chunks have spread. Pairs of holder and chunk are in the order in which the holders got the chunk.

    assigned: bool[chunks, npus], whether the NPU has the chunk, or the chunk is on its way there. in_coset:
    bool[generators, chunks, npus], the same for any NPU of a coset. informed: int32[chunks, npus], predecessors that
    hold the chunk. holder, held: int32, the pairs. cursor: int64[generators], the targets of all pairs before it are
    assigned. free: int64[generators], when the links are free. rows: see gather_by_times.
    """

    assigned: BoolArray
    in_coset: BoolArray
    informed: Int32Array
    holder: Int32Array
    held: Int32Array
    cursor: Int64Array
    free: Int64Array
    rows: Int64Array


def _choose(
    generators: TimedGenerators, progress: GatherProgress, generator: int, pairs: int, left: int, now: int
) -> int:
    """The pair that a generator sends, -1 for none. pairs: how many there are. left: targets not yet assigned."""
    successors, coset = generators.successors[generator], generators.coset[generator]
    assigned, in_coset, informed = progress.assigned, progress.in_coset[generator], progress.informed
    holder, held = progress.holder, progress.held
    pair = progress.cursor[generator]
    while pair < pairs and assigned[held[pair], successors[holder[pair]]]:
        pair += 1
    progress.cursor[generator] = pair
    room, slow = 0, False
    for other in range(len(generators.busy)):
        if generators.faster[generator, other]:
            slow = True
            begin = max(now, progress.free[other]) + generators.total[other]
            room += max(0, (generators.deadline - begin) // generators.busy[other] + 1)
    restricted = slow and left <= room
    best, fewest, seen = -1, 1 << 30, 0
    while pair < pairs and seen < generators.window and fewest > 1:
        chunk, target = held[pair], successors[holder[pair]]
        if not assigned[chunk, target] and not (restricted and in_coset[chunk, coset[target]]):
            seen += 1
            if informed[chunk, target] < fewest:
                best, fewest = pair, informed[chunk, target]
        pair += 1
    return best


def _send(generators: TimedGenerators, progress: GatherProgress, generator: int, pair: int, row: int, now: int) -> None:
    """A generator sends a pair now, as transfer number `row`."""
    chunk, target = progress.held[pair], generators.successors[generator, progress.holder[pair]]
    progress.assigned[chunk, target] = True
    for other in range(len(generators.busy)):
        progress.in_coset[other, chunk, generators.coset[other, target]] = True
    rows = progress.rows
    rows[0, row], rows[1, row], rows[2, row] = now, generator, progress.holder[pair]
    rows[3, row], rows[4, row] = chunk, target
    progress.free[generator] = now + generators.busy[generator]


def _arrive(generators: TimedGenerators, progress: GatherProgress, pairs: int, chunk: int, npu: int) -> None:
    """An NPU holds a chunk: that is pair number `pairs`."""
    progress.holder[pairs], progress.held[pairs] = npu, chunk
    for generator in range(len(generators.busy)):
        progress.informed[chunk, generators.successors[generator, npu]] += 1


def _next_event(
    generators: TimedGenerators,
    progress: GatherProgress,
    sent: Int32Array,
    begun: Int64Array,
    arrived: Int64Array,
    now: int,
) -> int:
    """When a link is free next or a chunk arrives, -1 for never."""
    after = np.int64(-1)
    for generator in range(len(generators.busy)):
        moment = progress.free[generator]
        if moment > now and (after < 0 or moment < after):
            after = moment
        if arrived[generator] < begun[generator]:
            moment = progress.rows[0, sent[generator, arrived[generator]]] + generators.total[generator]
            if after < 0 or moment < after:
                after = moment
    return after


def gather_by_times(generators: TimedGenerators, chunks: int, rows: Int64Array) -> int:
    """Fills rows int64[5, (npus - 1) * chunks]: start, generator, sender, chunk, target; returns the end, -1 for none.

    A generator takes, of the first `window` pairs of holder and chunk that it may use, one whose target has the fewest
    predecessors that hold the chunk. If there are faster generators, it may use only chunks that neither are in the
    coset of the target nor on their way into it, unless the faster ones could not deliver the rest by the deadline.
    """
    degree, count = generators.successors.shape
    targets = (count - 1) * chunks
    progress = GatherProgress(
        np.zeros((chunks, count), np.bool_), np.zeros((degree, chunks, count), np.bool_),
        np.zeros((chunks, count), np.int32), np.zeros(chunks * count, np.int32), np.zeros(chunks * count, np.int32),
        np.zeros(degree, np.int64), np.zeros(degree, np.int64), rows,
    )  # fmt: skip
    sent = np.zeros((degree, targets), np.int32)  # transfers of each generator in order; begun and arrived count them
    begun, arrived = np.zeros(degree, np.int64), np.zeros(degree, np.int64)
    for chunk in range(chunks):
        progress.assigned[chunk, 0] = True
        for generator in range(degree):
            progress.in_coset[generator, chunk, generators.coset[generator, 0]] = True
        _arrive(generators, progress, chunk, chunk, 0)
    pairs, row, now, end = chunks, 0, 0, 0
    while row < targets:
        for turn in range(degree):
            generator = (turn + row) % degree
            pair = -1
            if progress.free[generator] <= now:
                pair = _choose(generators, progress, generator, pairs, targets - row, now)
            if pair >= 0:
                _send(generators, progress, generator, pair, row, now)
                sent[generator, begun[generator]] = row
                begun[generator] += 1
                row += 1
                end = max(end, now + generators.total[generator])
        after = _next_event(generators, progress, sent, begun, arrived, now)
        if after < 0:
            return -1
        now = after
        for generator in range(degree):
            while arrived[generator] < begun[generator]:
                number = sent[generator, arrived[generator]]
                if rows[0, number] + generators.total[generator] > now:
                    break
                _arrive(generators, progress, pairs, rows[3, number], rows[4, number])
                pairs += 1
                arrived[generator] += 1
    return end
