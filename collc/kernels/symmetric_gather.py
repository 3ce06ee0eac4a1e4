"""How the chunks of one NPU spread over a Cayley graph if each generator carries one transfer at a time.

Functions of flat sequences that run in plain Python and compiled (collc/kernels/compiled.py). A target is a chunk and
an NPU that is to receive it: the number chunk * NPUs + NPU.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import MutableSequence, Sequence

WAITING, ASSIGNED, HELD = 1, 2, 3
"""States of a target: a predecessor holds the chunk; the chunk is on the way to it; the target holds the chunk."""

MODULUS = 1 << 31
"""Of the generator of random numbers, which is that of ISO C's `rand`."""

WINDOW = 64
"""Targets that are compared at once; with 32, plans for tori of unlike rates are up to 7 % longer."""


SpreadGraph = namedtuple("SpreadGraph", "predecessors successors busy total coset")
"""A Cayley graph.

predecessors, successors: for each generator, the NPU that it leads from and to at each NPU; they lead to all NPUs.
busy, total: for each generator, how long a link is busy, and until the chunk arrives. coset: for each generator,
labels of the sets of NPUs that the faster generators join; empty if all are equally fast.
"""


SpreadState = namedtuple("SpreadState", "state informed waiting following cursor")
"""What changes; zeros at first, a number for each target but in cursor.

state: of each target. informed: how many predecessors hold the chunk. waiting: targets in order. following: the
next row of the same generator. cursor: where in `waiting` the targets that wait begin and end, and the seed.
"""


def spread_chunks(  # noqa: PLR0912 - events of one loop
    graph: SpreadGraph, tables: SpreadState, deadline: int, rows: MutableSequence[int]
) -> int:
    """Fill rows with (start, generator, sender, chunk) of each transfer; return when the last chunk
    arrives.

    tables.cursor: the seed; 0: targets in the order in which they can be reached first; else it shuffles them.

    When generators are free, as many as possible are matched to targets; targets of which the fewest predecessors hold
    the chunk come first. A slow generator takes only chunks that faster generators cannot bring: chunks that are
    neither in the coset of its target nor on the way into it. It takes any chunk if the faster generators could not
    deliver the rest by the deadline.
    """
    predecessors, successors, busy, total, coset = graph
    state, _, _, following, _ = tables
    generators = len(busy)
    npus = len(successors) // generators
    in_coset = [0] * (len(coset) * (len(state) // npus))
    free, matched, restricted = [0] * generators, [-1] * generators, [0] * generators
    first, last = [-1] * generators, [-1] * generators
    for chunk in range(len(state) // npus):
        _enter_cosets(chunk * npus, npus, coset, in_coset)
        _arrive(chunk * npus, npus, successors, tables)
    now, end, row, rest = 0, 0, 0, (npus - 1) * (len(state) // npus)
    while row < rest:
        for generator in range(generators):
            matched[generator] = -1 if free[generator] <= now else -2
            room = -1
            for other in range(generators):
                if total[other] < total[generator]:
                    begin = max(now, free[other]) + total[other]
                    room = max(room, 0) + max(0, (deadline - begin) // busy[other] + 1)
            restricted[generator] = len(coset) > 0 and rest - row <= room
        _match(matched, restricted, in_coset, graph, tables, npus)
        for generator in range(generators):
            target = matched[generator]
            if target < 0:
                continue
            state[target] = ASSIGNED
            _enter_cosets(target, npus, coset, in_coset)
            rows[4 * row], rows[4 * row + 1] = now, generator
            rows[4 * row + 2], rows[4 * row + 3] = predecessors[generator * npus + target % npus], target // npus
            if first[generator] < 0:
                first[generator] = row
            else:
                following[last[generator]] = row
            last[generator] = row
            free[generator] = now + busy[generator]
            end = max(end, now + total[generator])
            row += 1
        after = end
        for generator in range(generators):
            if free[generator] > now:
                after = min(after, free[generator])
            if first[generator] >= 0:
                after = min(after, rows[4 * first[generator]] + total[generator])
        now = after
        for generator in range(generators):
            while first[generator] >= 0 and rows[4 * first[generator]] + total[generator] <= now:
                number = first[generator]
                first[generator] = following[number] if number != last[generator] else -1
                npu = successors[generator * npus + rows[4 * number + 2]]
                _arrive(rows[4 * number + 3] * npus + npu, npus, successors, tables)
    return end


def _enter_cosets(target: int, npus: int, coset: Sequence[int], in_coset: MutableSequence[int]) -> None:
    """Note that a chunk is in, or on the way into, the cosets of a target."""
    chunks = len(in_coset) // max(1, len(coset))
    for generator in range(len(coset) // npus):
        place = (generator * chunks + target // npus) * npus
        in_coset[place + coset[generator * npus + target % npus]] = 1


def _arrive(target: int, npus: int, successors: Sequence[int], tables: SpreadState) -> None:
    """A target holds its chunk, so its successors can get it."""
    state, informed, waiting, _, cursor = tables
    state[target] = HELD
    npu = target % npus
    for place in range(npu, len(successors), npus):
        reached = target - npu + successors[place]
        informed[reached] += 1
        if not state[reached]:
            state[reached] = WAITING
            waiting[cursor[1]] = reached
            cursor[1] += 1


def _match(
    matched: MutableSequence[int], restricted: Sequence[int], in_coset: Sequence[int], graph: SpreadGraph,
    tables: SpreadState, npus: int,
) -> None:  # fmt: skip
    """Match free generators to targets: matched[generator] is its target, -1 for none, -2 if it is not free.

    Targets are taken in blocks of WINDOW, in each those of which the fewest predecessors hold the chunk first.
    """
    state, informed, waiting, _, cursor = tables
    high = min(cursor[1], cursor[0] + WINDOW)
    _drop_assigned(state, waiting, high, cursor)
    begin, left = cursor[0], 0
    for number in matched:
        left += number == -1
    came_by, queue = [0] * len(matched), [0] * len(matched)
    level, rest = 0, high - begin
    while left and (rest or high < cursor[1]):
        if not rest:
            begin, high, level = high, min(cursor[1], high + WINDOW), 0
            rest = high - begin
        level += 1
        for place in range(begin, high):
            target = waiting[place]
            if informed[target] != level:
                continue
            rest -= 1
            if left and state[target] == WAITING:
                left -= _augment(target, matched, state, restricted, in_coset, graph, npus, came_by, queue)


def _drop_assigned(
    state: Sequence[int], waiting: MutableSequence[int], high: int, cursor: MutableSequence[int]
) -> None:
    """Drop targets that do not wait any more from the first window, which ends at `high`, and shuffle the others."""
    begin = high
    for place in range(high - 1, cursor[0] - 1, -1):
        if state[waiting[place]] == WAITING:
            begin -= 1
            waiting[begin] = waiting[place]
    cursor[0] = begin
    if cursor[2]:
        for place in range(high - 1, begin, -1):
            cursor[2] = (cursor[2] * 1103515245 + 12345) % MODULUS
            other = begin + (cursor[2] >> 8) % (place - begin + 1)
            waiting[place], waiting[other] = waiting[other], waiting[place]


def _augment(
    target: int, matched: MutableSequence[int], state: Sequence[int], restricted: Sequence[int],
    in_coset: Sequence[int], graph: SpreadGraph, npus: int, came_by: MutableSequence[int],
    queue: MutableSequence[int],
) -> bool:  # fmt: skip
    """Match a target, if others that are matched may move to other generators; whether this is possible (Kuhn 1955).

    The search is breadth first: queue: generators; came_by: that whose target moves to each, or their number.
    """
    predecessors, coset = graph.predecessors, graph.coset
    generators, chunks = len(matched), len(in_coset) // max(1, len(coset))
    for generator in range(generators):
        came_by[generator] = -1
    wanted, source, head, tail = target, generators, 0, 0
    while True:
        npu = wanted % npus
        for generator in range(generators):
            if came_by[generator] != -1 or matched[generator] == -2:
                continue
            if state[wanted - npu + predecessors[generator * npus + npu]] != HELD:
                continue
            place = generator * npus + npu
            if restricted[generator] and in_coset[(generator * chunks + wanted // npus) * npus + coset[place]]:
                continue
            came_by[generator] = source
            queue[tail] = generator
            tail += 1
        if head == tail:
            return False
        source = queue[head]
        head += 1
        if matched[source] == -1:
            break
        wanted = matched[source]
    while came_by[source] != generators:
        matched[source] = matched[came_by[source]]
        source = came_by[source]
    matched[source] = target
    return True


def start_each_early(
    generator: Sequence[int],
    place: Sequence[int],
    target: Sequence[int],
    first: Sequence[int],
    busy: Sequence[int],
    total: Sequence[int],
    there: MutableSequence[int],
    start: MutableSequence[int],
) -> int:
    """Fill `start` with the earliest times at which transfers can follow one another; return when the last arrives.

    generator, place, target: of each transfer, its link, and the numbers of its chunk where it is and where it goes;
    transfers first[k] .. first[k + 1] - 1 start together. busy, total: of each generator. there: since when each number
    is there; zeros at first.
    """
    free = [0] * len(busy)
    end = 0
    for group in range(len(first) - 1):
        link = generator[first[group]]
        now = free[link]
        for row in range(first[group], first[group + 1]):
            now = max(now, there[place[row]])
        free[link] = now + busy[link]
        end = max(end, now + total[link])
        for row in range(first[group], first[group + 1]):
            there[target[row]] = now + total[link]
            start[row] = now
    return end
