"""Link-chunk matching driven by events: what synthesis/tacos/events.py does in plain Python, transfer for transfer.

Tables have a row for each thing and a column for each number of it, told below. Sets of chunks are rows of 64-bit
words. Transfers that take equally long arrive in the order in which they were planned, and free their links so: each
sort of event has a queue, and a heap holds when the next event of each queue is due. With C = kinds x sizes of
transfers, queue c < C is for arrivals, C + c for links that become free; 2 C + link stands for a link whose
reservation ends, and 2 C + links for preconditions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros

from collc.ten.arrays import Int32Array, Int64Array, UInt64Array

NONE = np.uint64(0)
ONE = np.uint64(1)
FAR = 1 << 30

DONE, RUNNING, CLASHES, TOO_LONG = 0, 1, 2, 3
"""All have what they need; there is more to do; a wanted chunk cannot be reached; the limit is passed."""

NOW, LEFT, COUNT, END, WAITING, GIVEN, LENIENT = range(7)
"""Numbers of the whole: the time, chunks still needed, transfers planned, when the last of them arrives, entries of
the heap, preconditions booked, whether the component rule is off."""
SOURCE, TARGET, KIND, LEVEL, COMPONENT, FREE, CURSOR, CURSOR_OF_LEVEL = range(8)
"""Columns of links. COMPONENT: its target's, over links of lower levels. FREE: when it becomes idle. CURSOR: what lies
before it in the source's order is of no use to the link; CURSOR_OF_LEVEL: the same by the component rule."""
BASE, LENGTH, LACKS = range(3)
"""Columns of devices: where its chunks begin in `order`, how many it has and needs."""
SIZE, SPREAD = range(2)
"""Columns of chunks: its size, how many devices have it."""
CHUNK, LINK, NEXT, NEXT_FREE = range(4)
"""Columns of transfers. NEXT, NEXT_FREE: the one behind it in the queue of its arrival, of its link; -1: none."""
HAVE, NEED, INSIDE = range(3)
"""Sets: what a device has; what it needs; INSIDE + level: what is in, or on its way into, a component."""


class Wires(NamedTuple):
    """What does not change. D devices, L links sorted by target, cheap ones first.

    first int32[D + 1]: the links into each device. ahead_first int32[D + 1], ahead int32: the devices that each
    device has links to. component int32[levels, D]. duration int64[2 C]: until a transfer has arrived, and until its
    link is free. sizes: of chunks, so that c = kind * sizes + size. taken_first int32[L + 1], taken int64[spans, 2]:
    when each link is reserved. given int64[G, 3]: (release, device, chunk), ascending.
    """

    first: Int32Array
    ahead_first: Int32Array
    ahead: Int32Array
    component: Int32Array
    duration: Int64Array
    sizes: int
    taken_first: Int32Array
    taken: Int64Array
    given: Int64Array


class State(NamedTuple):
    """What changes. K chunks in W words, T transfers.

    tally int64[7]. link int64[L, 8], device int64[D, 3], chunk int32[K, 2], transfer int32[T, 4] (columns above),
    start int64[T]. queue int32[2 C, 2]: first and last transfer, -1 for none. heap int64[2 C + L + 1, 2]: (time,
    queue). due int32[C]: for use while a time is settled. woken uint64[ceil(D / 64)]: devices to look at.
    sets uint64[2 + levels, D, W]. order int32: the chunks of each device as they came. exact uint64[links into a
    device + 2, W]: for use within a choice.
    """

    tally: Int64Array
    link: Int64Array
    device: Int64Array
    chunk: Int32Array
    transfer: Int32Array
    start: Int64Array
    queue: Int32Array
    heap: Int64Array
    due: Int32Array
    woken: UInt64Array
    sets: UInt64Array
    order: Int32Array
    exact: UInt64Array


@njit(cache=True, nogil=True)
def run(wires: Wires, state: State, fifo: bool, deadline: int, limit: int, some: int) -> int:
    """Lets time go on for about `some` transfers; DONE, RUNNING, CLASHES or TOO_LONG (limit: picoseconds).

    What it calls once a time takes the whole state; what is called for each link takes only what it needs, since a
    call counts the references of every array that it is given.
    """
    tally = state.tally
    enough = tally[COUNT] + some
    while tally[LEFT] > 0:
        if tally[WAITING] > 0:
            settle(wires, state)
        elif tally[LENIENT]:
            return CLASHES
        else:
            tally[LENIENT] = 1
            for device in range(len(state.device)):
                wake(state.woken, device)
        planned = tally[COUNT]
        share_out(wires, state, fifo, deadline)
        launch(wires, state, planned)
        if tally[END] > limit:
            return TOO_LONG
        if tally[COUNT] > enough:
            return RUNNING
    return DONE


@njit(cache=True, nogil=True)
def begin(wires: Wires, state: State) -> None:
    """Books what is on its way at the start: the preconditions, at their release."""
    for k in range(len(wires.given)):
        enter(state.sets, wires.component, wires.given[k, 1], wires.given[k, 2])
    if len(wires.given):
        push(state.heap, state.tally, wires.given[0, 0], len(state.queue) + len(state.link))
    for device in range(len(state.device)):
        state.tally[LEFT] += state.device[device, LACKS]


@njit(cache=True, nogil=True)
def settle(wires: Wires, state: State) -> None:
    """Books what becomes free and arrives at the next time, and wakes the devices that this concerns.

    Preconditions first, then transfers as they were planned.
    """
    given, target = wires.given, state.link[:, TARGET]
    tally, queue, heap, due, woken = state.tally, state.queue, state.heap, state.due, state.woken
    now = heap[0, 0]
    tally[NOW] = now
    count = 0
    while tally[WAITING] and heap[0, 0] == now:
        number = pop(heap, tally)
        if number < len(due):
            due[count] = number
            count += 1
        elif number < len(queue):
            more = True
            while more:
                wake(woken, target[state.transfer[queue[number, 0], LINK]])
                more = advance(queue, state.transfer, state.start, wires.duration, heap, tally, number, NEXT_FREE)
        elif number < len(queue) + len(target):
            wake(woken, target[number - len(queue)])
        else:
            while tally[GIVEN] < len(given) and given[tally[GIVEN], 0] == now:
                arrive(
                    given[tally[GIVEN], 1],
                    given[tally[GIVEN], 2],
                    state.device,
                    state.sets,
                    state.order,
                    state.chunk[:, SPREAD],
                    woken,
                    wires.ahead_first,
                    wires.ahead,
                )
                tally[GIVEN] += 1
            if tally[GIVEN] < len(given):
                push(heap, tally, given[tally[GIVEN], 0], number)
    take_in(wires, state, count)


@njit(cache=True, nogil=True)
def take_in(wires: Wires, state: State, count: int) -> None:
    """Books the arrivals of now that wait in the first `count` queues of `due`, in the order of planning."""
    tally, link, queue, due, woken = state.tally, state.link, state.queue, state.due, state.woken
    device, sets, order, spread = state.device, state.sets, state.order, state.chunk[:, SPREAD]
    while count:
        first = 0
        for k in range(1, count):
            if queue[due[k], 0] < queue[due[first], 0]:
                first = k
        number = due[first]
        chunk, way = state.transfer[queue[number, 0], CHUNK], state.transfer[queue[number, 0], LINK]
        there = link[way, TARGET]
        arrive(there, chunk, device, sets, order, spread, woken, wires.ahead_first, wires.ahead)
        if link[way, FREE] == tally[NOW]:
            wake(woken, there)
        if not advance(queue, state.transfer, state.start, wires.duration, state.heap, tally, number, NEXT):
            count -= 1
            due[first] = due[count]


@njit(cache=True, nogil=True)
def share_out(wires: Wires, state: State, fifo: bool, deadline: int) -> None:
    """Gives the idle links into the woken devices chunks to bring: by the component rule; any chunks where cheaper
    links would come too late.
    """
    first, _, _, component, duration, sizes, taken_first, taken, _ = wires
    tally, links, devices, chunks, transfer, start, queue, heap, _, woken, sets, order, exact = state
    now, lenient = tally[NOW], tally[LENIENT] == 1
    for word in range(len(woken)):
        while woken[word] != NONE:
            device = (word << 6) + np.int64(trailing_zeros(woken[word]))
            woken[word] &= woken[word] - ONE
            low, high = first[device], first[device + 1]
            counted = fifo
            for link in range(low, high):
                if links[link, FREE] > now or devices[device, LACKS] == 0:
                    continue
                if not counted:
                    alternatives(sets, exact, links, low, high, device)
                    counted = True
                chunk = -1
                for strict in range(0 if lenient else 1, -1, -1):
                    if fifo:
                        chunk = queued(links, devices, sets, order, link, device, strict)
                    else:
                        chunk = rarest(links, chunks, sets, exact, high - low, link, device, strict)
                    lacks = devices[device, LACKS]
                    if chunk >= 0 or not (strict and late(links, duration, sizes, low, link, lacks, now, deadline)):
                        break
                if chunk < 0:
                    continue
                busy = duration[len(duration) // 2 + links[link, KIND] * sizes + chunks[chunk, SIZE]]
                blocked = blocked_until(taken_first, taken, link, now, busy)
                if blocked:
                    links[link, FREE] = blocked
                    push(heap, tally, blocked, len(queue) + link)
                    continue
                sets[NEED, device, chunk >> 6] ^= ONE << np.uint64(chunk & 63)
                devices[device, LACKS] -= 1
                enter(sets, component, device, chunk)
                links[link, FREE] = now + busy
                transfer[tally[COUNT], CHUNK], transfer[tally[COUNT], LINK] = chunk, link
                start[tally[COUNT]] = now
                tally[COUNT] += 1


@njit(cache=True, nogil=True)
def launch(wires: Wires, state: State, planned: int) -> None:
    """Puts the transfers from number `planned` on at the end of the queues of arrivals and of links."""
    tally, transfer, queue, duration = state.tally, state.transfer, state.queue, wires.duration
    for new in range(planned, tally[COUNT]):
        arrival = state.link[transfer[new, LINK], KIND] * wires.sizes + state.chunk[transfer[new, CHUNK], SIZE]
        freed = arrival + len(state.due)
        for number, column in ((arrival, NEXT), (freed, NEXT_FREE)):
            if column == NEXT_FREE and duration[arrival] == duration[freed]:
                continue
            transfer[new, column] = -1
            if queue[number, 0] < 0:
                queue[number, 0] = new
                push(state.heap, tally, state.start[new] + duration[number], number)
            else:
                transfer[queue[number, 1], column] = new
            queue[number, 1] = new
        tally[END] = max(tally[END], state.start[new] + duration[arrival])
    tally[LEFT] -= tally[COUNT] - planned


@njit(cache=True, nogil=True)
def advance(
    queue: Int32Array,
    transfer: Int32Array,
    start: Int64Array,
    duration: Int64Array,
    heap: Int64Array,
    tally: Int64Array,
    number: int,
    column: int,
) -> bool:
    """Takes the first transfer off a queue; whether the next one is due now, too."""
    following = transfer[queue[number, 0], column]
    queue[number, 0] = following
    if following < 0:
        return False
    time = start[following] + duration[number]
    if time == tally[NOW]:
        return True
    push(heap, tally, time, number)
    return False


@njit(cache=True, nogil=True)
def arrive(
    device: int,
    chunk: int,
    devices: Int64Array,
    sets: UInt64Array,
    order: Int32Array,
    spread: Int32Array,
    woken: UInt64Array,
    first: Int32Array,
    ahead: Int32Array,
) -> None:
    """Books a chunk at a device, and wakes whom it may go to (ahead, from first on)."""
    sets[HAVE, device, chunk >> 6] |= ONE << np.uint64(chunk & 63)
    order[devices[device, BASE] + devices[device, LENGTH]] = chunk
    devices[device, LENGTH] += 1
    spread[chunk] += 1
    for place in range(first[device], first[device + 1]):
        wake(woken, ahead[place])


@njit(cache=True, nogil=True)
def enter(sets: UInt64Array, component: Int32Array, device: int, chunk: int) -> None:
    """Notes that a chunk is in, or on its way into, the components of a device."""
    for level in range(len(component)):
        sets[INSIDE + level, component[level, device], chunk >> 6] |= ONE << np.uint64(chunk & 63)


@njit(cache=True, nogil=True)
def wake(woken: UInt64Array, device: int) -> None:
    """Marks a device to be looked at."""
    woken[device >> 6] |= ONE << np.uint64(device & 63)


@njit(cache=True, nogil=True)
def push(heap: Int64Array, tally: Int64Array, time: int, queue: int) -> None:
    """Adds (time, queue)."""
    place = tally[WAITING]
    tally[WAITING] += 1
    while place > 0 and heap[(place - 1) >> 1, 0] > time:
        heap[place, 0], heap[place, 1] = heap[(place - 1) >> 1, 0], heap[(place - 1) >> 1, 1]
        place = (place - 1) >> 1
    heap[place, 0], heap[place, 1] = time, queue


@njit(cache=True, nogil=True)
def pop(heap: Int64Array, tally: Int64Array) -> int:
    """Takes the queue of the least time off."""
    found = heap[0, 1]
    tally[WAITING] -= 1
    count = tally[WAITING]
    time, queue = heap[count, 0], heap[count, 1]
    place = 0
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= time:
            break
        heap[place, 0], heap[place, 1] = heap[child, 0], heap[child, 1]
        place = child
    heap[place, 0], heap[place, 1] = time, queue
    return found


@njit(cache=True, nogil=True)
def alternatives(sets: UInt64Array, exact: UInt64Array, links: Int64Array, low: int, high: int, device: int) -> None:
    """Fills exact: the chunks that a device lacks by how many of its links could bring them (row 1, 2, ...)."""
    for word in range(sets.shape[2]):
        lacks = sets[NEED, device, word]
        for level in range(1, high - low + 2):
            exact[level, word] = NONE
        if lacks == NONE:
            continue
        for link in range(low, high):
            held = sets[HAVE, links[link, SOURCE], word] & lacks
            for level in range(link - low + 1, 1, -1):
                exact[level, word] |= exact[level - 1, word] & held
            exact[1, word] |= held
        for level in range(1, high - low + 1):
            exact[level, word] &= ~exact[level + 1, word]


@njit(cache=True, nogil=True)
def queued(
    links: Int64Array, devices: Int64Array, sets: UInt64Array, order: Int32Array, link: int, device: int, strict: int
) -> int:
    """What the source got first of what the device needs (strict: and its component does not get), or -1."""
    column = CURSOR_OF_LEVEL if strict else CURSOR
    inside, component = INSIDE + links[link, LEVEL], links[link, COMPONENT]
    source = links[link, SOURCE]
    base, length = devices[source, BASE], devices[source, LENGTH]
    for place in range(links[link, column], length):
        chunk = order[base + place]
        bits = sets[NEED, device, chunk >> 6]
        if strict:
            bits &= ~sets[inside, component, chunk >> 6]
        if bits & (ONE << np.uint64(chunk & 63)):
            links[link, column] = place
            return chunk
    links[link, column] = length
    return -1


@njit(cache=True, nogil=True)
def rarest(
    links: Int64Array,
    chunks: Int32Array,
    sets: UInt64Array,
    exact: UInt64Array,
    most: int,
    link: int,
    device: int,
    strict: int,
) -> int:
    """As queued, but what the fewest of the device's links (`most` in all) could bring, of these the rarest."""
    source = links[link, SOURCE]
    inside, component = INSIDE + links[link, LEVEL], links[link, COMPONENT]
    for count in range(1, most + 1):
        best, least = -1, FAR
        for word in range(sets.shape[2]):
            bits = sets[HAVE, source, word] & sets[NEED, device, word] & exact[count, word]
            if strict:
                bits &= ~sets[inside, component, word]
            while bits != NONE:
                chunk = (word << 6) + np.int64(trailing_zeros(bits))
                bits &= bits - ONE
                if chunks[chunk, SPREAD] < least:
                    best, least = chunk, chunks[chunk, SPREAD]
        if best >= 0:
            return best
    return -1


@njit(cache=True, nogil=True)
def late(
    links: Int64Array, duration: Int64Array, sizes: int, low: int, link: int, lacks: int, now: int, deadline: int
) -> bool:
    """Whether the links into a device that are cheaper than one, from `low` on, cannot bring all that it lacks by the
    deadline.
    """
    other = low
    while lacks > 0 and links[other, LEVEL] < links[link, LEVEL]:
        largest = (links[other, KIND] + 1) * sizes - 1
        total, busy = duration[largest], duration[largest + len(duration) // 2]
        lacks -= max(0, (deadline - max(now, links[other, FREE]) - total + busy) // busy)
        other += 1
    return lacks > 0


@njit(cache=True, nogil=True)
def blocked_until(taken_first: Int32Array, taken: Int64Array, link: int, start: int, busy: int) -> int:
    """When the reservation ends that keeps a link from a transfer, or 0."""
    for span in range(taken_first[link], taken_first[link + 1]):
        low, high = taken[span, 0], taken[span, 1]
        if low < start + busy and start < high:
            return high
        if low >= start + busy:
            break
    return 0
