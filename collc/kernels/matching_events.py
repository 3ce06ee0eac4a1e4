"""Link-chunk matching driven by events: what synthesis/matching_events.py does in plain Python, transfer for transfer.

Sets of chunks are rows of 64-bit words. D devices, L links, K chunks in W words, S sizes. Events are numbered: the G
preconditions, then the T transfers' arrivals, then the links that become free. Those of one time hang together in
lists; the heap holds (time, first event) of each list, and a time may have several.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Times = NDArray[np.int64]
Words = NDArray[np.uint64]
Queue = list[tuple[int, int]]

NONE = np.uint64(0)
ONE = np.uint64(1)
FAR = 1 << 30
CLASHES = -1
"""Returned where a wanted chunk cannot be reached."""
TOO_LONG = -2
"""Returned where the limit is passed."""


class Wires(NamedTuple):
    """What does not change.

    first int32[D + 1], number int32[L]: the links into each device, cheap ones first. source, target, kind,
    level int32[L], by link. ahead_first int32[D + 1], ahead int32: the devices that each device has links to.
    component int32[levels, D]. busy, total int64[kinds, S]. size int32[K]. taken_first int32[L + 1], taken
    int64[spans, 2]: when each link is reserved. given int64[G, 3]: (release, device, chunk).
    """

    first: Ints
    number: Ints
    source: Ints
    target: Ints
    kind: Ints
    level: Ints
    ahead_first: Ints
    ahead: Ints
    component: Ints
    busy: Times
    total: Times
    size: Ints
    taken_first: Ints
    taken: Times
    given: Times


class State(NamedTuple):
    """What changes.

    have, need uint64[D, W], lacks int64[D]: what devices have and need, and how many they need. inside
    uint64[levels, D, W]: what is in or on its way into each component. order int32, from order_first int64[D + 1]:
    the chunks of each device as they came, length int32[D] of them. free int64[L]: when a link becomes idle.
    cursor int32[2, L]: what lies before it in the source's order is of no use to the link (by the component rule;
    at all). spread int32[K]: devices that have a chunk. exact uint64[links into a device + 2, W]: for use within a
    choice. row int32[T, 2], start int64[T]: the result, (chunk, link) and when. after, last int32[G + T + L]: the
    next event in a list, -1 at its end; for the first one the last. recent int64[2, kinds, S, 2]: the newest list
    (time, first event) of arrivals, and of links becoming free.
    """

    have: Words
    need: Words
    lacks: Times
    inside: Words
    order: Ints
    order_first: Times
    length: Ints
    free: Times
    cursor: Ints
    spread: Ints
    exact: Words
    row: Ints
    start: Times
    after: Ints
    last: Ints
    recent: Times


@njit(cache=True, nogil=True)
def run(wires: Wires, state: State, fifo: bool, deadline: int, limit: int) -> int:
    """Lets time go on until all have what they need; when that is, or CLASHES or TOO_LONG. limit: picoseconds."""
    heap = [(wires.given[k, 0], k) for k in range(len(wires.given))]
    heapq.heapify(heap)
    for k in range(len(wires.given)):
        state.after[k] = -1
        enter(wires, state, wires.given[k, 1], wires.given[k, 2])
    devices = len(wires.first) - 1
    concerned = np.zeros(devices, np.bool_)
    left = state.lacks.sum()
    count, end, now = 0, 0, 0
    lenient = False
    while left > 0:
        if heap:
            now = heap[0][0]
            settle(wires, state, heap, concerned)
        elif lenient:
            return CLASHES
        else:
            lenient = True
            concerned[:] = True
        for device in range(devices):
            if concerned[device]:
                concerned[device] = False
                if state.lacks[device]:
                    before = count
                    count, last = share_out(wires, state, heap, device, now, fifo, lenient, deadline, count)
                    left -= count - before
                    end = max(end, last)
        if end > limit:
            return TOO_LONG
    return end


@njit(cache=True, nogil=True)
def enter(wires: Wires, state: State, device: int, chunk: int) -> None:
    """Notes that a chunk is in, or on its way into, the components of a device."""
    bit = ONE << np.uint64(chunk & 63)
    for level in range(len(wires.component)):
        state.inside[level, wires.component[level, device], chunk >> 6] |= bit


@njit(cache=True, nogil=True)
def expect(state: State, heap: Queue, event: int, time: int, now: int, recent: Times) -> None:
    """Puts an event on the newest list of its sort where that is of the same time, else on a list of its own."""
    state.after[event] = -1
    if recent[0] == time and time > now:
        first = recent[1]
        state.after[state.last[first]] = event
        state.last[first] = event
    else:
        heapq.heappush(heap, (time, event))
        state.last[event] = event
        recent[0], recent[1] = time, event


@njit(cache=True, nogil=True)
def settle(wires: Wires, state: State, heap: Queue, concerned: NDArray[np.bool_]) -> None:
    """Books what arrives and becomes free at the next time, in order, and marks the devices that this concerns."""
    now = heap[0][0]
    events = [heap[0][1] for _ in range(0)]
    lists = 0
    while len(heap) and heap[0][0] == now:
        _, event = heapq.heappop(heap)
        lists += 1
        while event >= 0:
            events.append(event)
            event = np.int64(state.after[event])
    if lists > 1:
        events.sort()
    known = len(wires.given)
    for event in events:
        if event < known:
            arrive(wires, state, wires.given[event, 1], wires.given[event, 2], concerned)
        elif event < known + len(state.row):
            chunk, link = state.row[event - known]
            arrive(wires, state, wires.target[link], chunk, concerned)
            if state.free[link] == now:
                concerned[wires.target[link]] = True
        else:
            concerned[wires.target[event - known - len(state.row)]] = True


@njit(cache=True, nogil=True)
def arrive(wires: Wires, state: State, device: int, chunk: int, concerned: NDArray[np.bool_]) -> None:
    """Books a chunk at a device, and marks whom it may go to."""
    state.have[device, chunk >> 6] |= ONE << np.uint64(chunk & 63)
    state.order[state.order_first[device] + state.length[device]] = chunk
    state.length[device] += 1
    state.spread[chunk] += 1
    for place in range(wires.ahead_first[device], wires.ahead_first[device + 1]):
        concerned[wires.ahead[place]] = True


@njit(cache=True, nogil=True)
def share_out(
    wires: Wires,
    state: State,
    heap: Queue,
    device: int,
    now: int,
    fifo: bool,
    lenient: bool,
    deadline: int,
    count: int,
) -> tuple[int, int]:
    """Gives the idle links into a device chunks to bring: (transfers so far, when the last of these will have come)."""
    counted = fifo
    end = 0
    for place in range(wires.first[device], wires.first[device + 1]):
        link = wires.number[place]
        if state.free[link] > now:
            continue
        if not counted:
            alternatives(wires, state, device)
            counted = True
        chunk = pick(wires, state, link, device, now, fifo, lenient, deadline)
        if chunk < 0:
            continue
        kind, size = wires.kind[link], wires.size[chunk]
        blocked = blocked_until(wires, link, now, wires.busy[kind, size])
        freed = len(wires.given) + len(state.row) + link
        if blocked:
            state.free[link] = blocked
            heapq.heappush(heap, (blocked, freed))
            state.after[freed] = -1
            continue
        state.need[device, chunk >> 6] ^= ONE << np.uint64(chunk & 63)
        state.lacks[device] -= 1
        enter(wires, state, device, chunk)
        state.free[link] = now + wires.busy[kind, size]
        arrival = now + wires.total[kind, size]
        expect(state, heap, len(wires.given) + count, arrival, now, state.recent[0, kind, size])
        if arrival != state.free[link]:
            expect(state, heap, freed, state.free[link], now, state.recent[1, kind, size])
        state.row[count, 0], state.row[count, 1] = chunk, link
        state.start[count] = now
        count += 1
        end = max(end, arrival)
    return count, end


@njit(cache=True, nogil=True)
def alternatives(wires: Wires, state: State, device: int) -> None:
    """Fills exact: the chunks that a device lacks by how many of its links could bring them (row 1, 2, ...)."""
    first, last = wires.first[device], wires.first[device + 1]
    exact = state.exact
    for word in range(state.need.shape[1]):
        lacks = state.need[device, word]
        for level in range(1, last - first + 2):
            exact[level, word] = NONE
        if lacks == NONE:
            continue
        for place in range(first, last):
            held = state.have[wires.source[wires.number[place]], word] & lacks
            for level in range(place - first + 1, 1, -1):
                exact[level, word] |= exact[level - 1, word] & held
            exact[1, word] |= held
        for level in range(1, last - first + 1):
            exact[level, word] &= ~exact[level + 1, word]


@njit(cache=True, nogil=True)
def pick(wires: Wires, state: State, link: int, device: int, now: int, fifo: bool, lenient: bool, deadline: int) -> int:
    """The chunk that a link takes, or -1."""
    level = wires.level[link]
    if not lenient:
        chunk = queued(wires, state, link, device, level) if fifo else rarest(wires, state, link, device, level)
        if chunk >= 0 or not late(wires, state, level, device, now, deadline):
            return chunk
    return queued(wires, state, link, device, -1) if fifo else rarest(wires, state, link, device, -1)


@njit(cache=True, nogil=True)
def queued(wires: Wires, state: State, link: int, device: int, level: int) -> int:
    """What the source got first of what may be taken (outside the component of a level; -1: anywhere), or -1."""
    source = wires.source[link]
    base = state.order_first[source]
    which = 1 if level < 0 else 0
    component = wires.component[max(level, 0), device]
    place = state.cursor[which, link]
    found = -1
    while place < state.length[source]:
        chunk = state.order[base + place]
        word, bit = chunk >> 6, ONE << np.uint64(chunk & 63)
        if state.need[device, word] & bit and not (level >= 0 and state.inside[level, component, word] & bit):
            found = chunk
            break
        place += 1
    state.cursor[which, link] = place
    return found


@njit(cache=True, nogil=True)
def rarest(wires: Wires, state: State, link: int, device: int, level: int) -> int:
    """As queued, but what the fewest links could bring, of these the rarest."""
    source = wires.source[link]
    component = wires.component[max(level, 0), device]
    for count in range(1, wires.first[device + 1] - wires.first[device] + 1):
        best, least = -1, FAR
        for word in range(state.need.shape[1]):
            bits = state.have[source, word] & state.need[device, word] & state.exact[count, word]
            if level >= 0:
                bits &= ~state.inside[level, component, word]
            while bits != NONE:
                lowest = bits & (~bits + ONE)
                bits ^= lowest
                chunk = (word << 6) + ones(lowest - ONE)
                if state.spread[chunk] < least:
                    best, least = chunk, state.spread[chunk]
        if best >= 0:
            return best
    return -1


@njit(cache=True, nogil=True)
def ones(bits: int) -> int:
    """How many bits are set in a uint64."""
    bits -= (bits >> ONE) & np.uint64(0x5555555555555555)
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, nogil=True)
def late(wires: Wires, state: State, level: int, device: int, now: int, deadline: int) -> bool:
    """Whether the cheaper links into a device cannot bring all that it lacks by the deadline."""
    lacks = state.lacks[device]
    for place in range(wires.first[device], wires.first[device + 1]):
        link = wires.number[place]
        if wires.level[link] >= level:
            break
        busy, total = wires.busy[wires.kind[link], -1], wires.total[wires.kind[link], -1]
        lacks -= max(0, (deadline - max(now, state.free[link]) - total + busy) // busy)
        if lacks <= 0:
            return False
    return True


@njit(cache=True, nogil=True)
def blocked_until(wires: Wires, link: int, start: int, busy: int) -> int:
    """When the reservation ends that keeps a link from a transfer, or 0."""
    for span in range(wires.taken_first[link], wires.taken_first[link + 1]):
        low, high = wires.taken[span, 0], wires.taken[span, 1]
        if low < start + busy and start < high:
            return high
        if low >= start + busy:
            break
    return 0
