"""Link-chunk matching driven by events: whenever links become free or chunks arrive, idle links take chunks.

Written for plain Python on lists and for Numba on arrays (collc/kernels/compiled.py, which also says what a set of
chunks is: W words, in plain Python one). D devices; L links, sorted by target, for each target the cheap ones first;
K chunks; T transfers, numbered as they are planned. Tables are flat: a row for each thing, with the columns named
below; a row is one cache line in compiled code.

Transfers of one link kind and chunk size take equal time, so they arrive in the order in which they were planned, and
free their links so: each of the C = kinds x sizes classes has a queue of arrivals and a queue of links that become
free. A heap holds when the next event of each queue is due. Queue c < C has arrivals, C + c links that become free;
2 C + l stands for link l whose reserved interval ends, and 2 C + L for preconditions.
"""

from __future__ import annotations

import heapq
from collections import namedtuple
from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

import numpy as np

from collc.kernels.compiled import inline, trailing_zeros
from collc.kernels.first_gaps import blocked_until

DONE, RUNNING, STUCK, TOO_LONG = 0, 1, 2, 3
"""All have what they need; there is more to do; a wanted chunk cannot be reached; the limit is passed."""

LEFT, COUNT, END, GIVEN, LENIENT, HEAP, LOOKS, COUNTER_ROW = range(8)
"""Indices into `counters`: chunks still needed, transfers planned, when the last of them arrives, preconditions that
have been applied, whether the component rule is off, entries of the heap, links into woken devices; their number."""

SOURCE, TARGET, CLASS, LEVEL, SCOPE, FREE, CURSOR, CURSOR_OF_RULE, LINK_ROW = range(9)
"""Columns of links. CLASS: the first class of its kind. LEVEL: by cost. SCOPE: the first word of the set `inside`
of its target's component over cheaper links. FREE: when it becomes idle. CURSOR: what lies before it in its source's
order is of no use to the link; CURSOR_OF_RULE: of no use by the component rule. LINK_ROW: their number."""

BASE, LENGTH, LACKS, DEVICE_ROW = range(4)
"""Columns of devices: where its chunks begin in `order`, how many it has, and how many it needs; and their number."""

CHUNK, LINK, NEXT, NEXT_FREE, TRANSFER_ROW = range(5)
"""Columns of transfers. NEXT, NEXT_FREE: the one behind it in its queue of arrivals, of links that become free; -1:
none. TRANSFER_ROW: their number."""

MANY = 2**31 - 1
"""More than there are devices."""


EventNetwork = namedtuple(
    "EventNetwork",
    "first scopes ahead_first ahead_word ahead total busy sizes reserved starts ends shift mask",
)
"""What does not depend on chunks.

first: [D + 1], the links into each device. scopes: [D * levels], the first word of the set `inside` of the
component of each device, by level. ahead_first: [D + 1], ahead_word, ahead: the devices that each device has links
to, as the number of a word of the set `woken` and bits in it. total, busy: [C], picoseconds until a transfer has
arrived, and until its link is free. sizes: how many chunk sizes there are. reserved: [L + 1], the reserved
intervals of each link; starts, ends. shift, mask: of sets of devices.
"""


EventChunks = namedtuple("EventChunks", "size release holder given words shift mask")
"""Constants of the chunks.

size: [K]. release, holder, given: preconditions by time: when a device has a chunk. words, shift, mask: of sets of
chunks.
"""


ChunkSets = namedtuple("ChunkSets", "devices have need inside order spread exact")
"""Who has and needs which chunk.

devices: table. have, need: [D * W]. inside: what is in, or on its way into, a component. order: the chunks of each
device as they came. spread: [K], how many devices have a chunk. exact: [(links into a device + 2) * W],
scratch space.
"""


class EventProgress(NamedTuple):
    """The plan and the events to come.

    counters: see above. links, transfers: tables. start: [T]. head, tail: [2 C], first and last transfer of each
    queue, -1: none. times, queues: [2 C + L + 1], the heap, while the kernel does not run. due: [C], scratch space.
    woken: a set of devices to look at.
    """

    counters: MutableSequence[int]
    links: MutableSequence[int]
    transfers: MutableSequence[int]
    start: MutableSequence[int]
    head: MutableSequence[int]
    tail: MutableSequence[int]
    times: MutableSequence[int]
    queues: MutableSequence[int]
    due: MutableSequence[int]
    woken: MutableSequence[int]


def run(
    network: EventNetwork,
    chunks: EventChunks,
    sets: ChunkSets,
    progress: EventProgress,
    fifo: bool,
    deadline: int,
    limit: int,
    some: int,
) -> int:
    """Simulates until about `some` transfers more are planned. Returns DONE, RUNNING, STUCK or TOO_LONG.

    limit: picoseconds. Functions called once per event take the tuples; functions called once per link take single
    arrays, since a call in compiled code counts the references of every array that it is given.
    """
    counters, woken = progress.counters, progress.woken
    heap = [(np.int64(0), np.int64(0))]
    heap.pop()
    for k in range(counters[HEAP]):
        heap.append((progress.times[k], progress.queues[k]))  # noqa: PERF401 (Numba has no extend with a generator)
    enough = counters[COUNT] + some
    verdict = DONE
    now = 0
    while counters[LEFT] > 0:
        if len(heap) > 0:
            now = heap[0][0]
            settle(network, chunks, sets, progress, heap, now)
        elif counters[LENIENT]:
            verdict = STUCK
            break
        else:
            counters[LENIENT] = 1
            for device in range(len(network.first) - 1):
                woken[device >> network.shift] |= 1 << (device & network.mask)
        planned = counters[COUNT]
        share_out(network, chunks, sets, progress, heap, now, fifo, deadline)
        launch(network, chunks, progress, heap, planned)
        if counters[END] > limit:
            verdict = TOO_LONG
            break
        if counters[COUNT] > enough:
            verdict = RUNNING
            break
    counters[HEAP] = len(heap)
    for k in range(len(heap)):
        progress.times[k], progress.queues[k] = heap[k]
    return verdict


def begin(network: EventNetwork, chunks: EventChunks, sets: ChunkSets, progress: EventProgress) -> None:
    """Prepares for `run`: the preconditions count as on their way until their release."""
    devices = len(network.first) - 1
    levels = len(network.scopes) // devices
    for k in range(len(chunks.given)):
        chunk, device = chunks.given[k], chunks.holder[k]
        for place in range(device * levels, (device + 1) * levels):
            sets.inside[network.scopes[place] + (chunk >> chunks.shift)] |= 1 << (chunk & chunks.mask)
    if len(chunks.given) > 0:
        progress.times[0] = chunks.release[0]
        progress.queues[0] = len(progress.head) + len(progress.links) // LINK_ROW
        progress.counters[HEAP] = 1
    for device in range(devices):
        progress.counters[LEFT] += sets.devices[device * DEVICE_ROW + LACKS]


def settle(
    network: EventNetwork, chunks: EventChunks, sets: ChunkSets, progress: EventProgress, heap: list[tuple[int, int]],
    now: int,
) -> None:  # fmt: skip
    """Applies the events of now, the next time, and wakes the devices that these concern.

    Preconditions come before arrivals, and these are in the order in which they were planned.
    """
    busy, shift, mask = network.busy, network.shift, network.mask
    counters, links, transfers, start, head, _, _, _, due, woken = progress
    classes = len(due)
    count = 0
    while len(heap) > 0 and heap[0][0] == now:
        _, queue = heapq.heappop(heap)
        if queue < classes:
            due[count] = queue
            count += 1
        elif queue < 2 * classes:
            k = head[queue]
            while k >= 0 and start[k] + busy[queue - classes] == now:
                device = links[transfers[k * TRANSFER_ROW + LINK] * LINK_ROW + TARGET]
                woken[device >> shift] |= 1 << (device & mask)
                k = transfers[k * TRANSFER_ROW + NEXT_FREE]
            head[queue] = k
            if k >= 0:
                heapq.heappush(heap, (start[k] + busy[queue - classes], queue))
        elif queue < 2 * classes + len(links) // LINK_ROW:
            device = links[(queue - 2 * classes) * LINK_ROW + TARGET]
            woken[device >> shift] |= 1 << (device & mask)
        else:
            k = counters[GIVEN]
            while k < len(chunks.given) and chunks.release[k] == now:
                arrive(
                    chunks.holder[k], chunks.given[k], chunks.words, chunks.shift, chunks.mask,
                    sets.devices, sets.have, sets.order, sets.spread,
                    woken, network.ahead_first, network.ahead_word, network.ahead,
                )  # fmt: skip
                k += 1
            counters[GIVEN] = k
            if k < len(chunks.given):
                heapq.heappush(heap, (chunks.release[k], queue))
    take_in(network, chunks, sets, progress, heap, now, count)


def take_in(
    network: EventNetwork, chunks: EventChunks, sets: ChunkSets, progress: EventProgress, heap: list[tuple[int, int]],
    now: int, count: int,
) -> None:  # fmt: skip
    """Applies the arrivals of now in the first `count` queues of `due`, in the order in which they were planned."""
    _, _, ahead_first, ahead_word, ahead, total, _, _, _, _, _, shift, mask = network
    _, links, transfers, start, head, _, _, _, due, woken = progress
    devices, have, _, _, order, spread, _ = sets
    while count > 0:
        first = 0
        for k in range(1, count):
            if head[due[k]] < head[due[first]]:
                first = k
        queue = due[first]
        row = head[queue] * TRANSFER_ROW
        link = transfers[row + LINK] * LINK_ROW
        device = links[link + TARGET]
        arrive(
            device, transfers[row + CHUNK], chunks.words, chunks.shift, chunks.mask,
            devices, have, order, spread, woken, ahead_first, ahead_word, ahead,
        )  # fmt: skip
        if links[link + FREE] == now:
            woken[device >> shift] |= 1 << (device & mask)
        after = transfers[row + NEXT]
        head[queue] = after
        if after < 0 or start[after] + total[queue] != now:
            if after >= 0:
                heapq.heappush(heap, (start[after] + total[queue], queue))
            count -= 1
            due[first] = due[count]


@inline
def arrive(
    device: int, chunk: int, words: int, shift: int, mask: int, devices: MutableSequence[int],
    have: MutableSequence[int], order: MutableSequence[int], spread: MutableSequence[int],
    woken: MutableSequence[int], ahead_first: Sequence[int], ahead_word: Sequence[int], ahead: Sequence[int],
) -> None:  # fmt: skip
    """A device gets a chunk; the devices that it has links to are woken."""
    have[device * words + (chunk >> shift)] |= 1 << (chunk & mask)
    row = device * DEVICE_ROW
    order[devices[row + BASE] + devices[row + LENGTH]] = chunk
    devices[row + LENGTH] += 1
    spread[chunk] += 1
    for k in range(ahead_first[device], ahead_first[device + 1]):
        woken[ahead_word[k]] |= ahead[k]


def share_out(  # noqa: PLR0912 - one loop, since a call in compiled code counts the references of its arrays
    network: EventNetwork, chunks: EventChunks, sets: ChunkSets, progress: EventProgress, heap: list[tuple[int, int]],
    now: int, fifo: bool, deadline: int,
) -> None:  # fmt: skip
    """Gives the idle links into the woken devices chunks to bring.

    By the component rule; any chunks if it is off, or if cheaper links would bring all that a device lacks too late.
    """
    first, scopes, _, _, _, total, busy, sizes, reserved, starts, ends, device_shift, _ = network
    size, _, _, _, words, shift, mask = chunks
    devices, have, need, inside, order, spread, exact = sets
    counters, links, transfers, start, head, _, _, _, _, woken = progress
    levels = len(scopes) // (len(first) - 1)
    for word in range(len(woken)):
        while woken[word] != 0:
            device = (word << device_shift) + trailing_zeros(woken[word])
            woken[word] &= woken[word] - 1
            low, high = first[device], first[device + 1]
            lacks, needed = device * DEVICE_ROW + LACKS, device * words
            counted, begun = fifo, counters[COUNT]
            counters[LOOKS] += high - low
            for link in range(low, high):
                row = link * LINK_ROW
                held = links[row + SOURCE] * words
                if links[row + FREE] > now or devices[lacks] == 0:
                    continue
                if not counted:
                    alternatives(have, need, exact, links, words, low, high, needed)
                    counted = True
                chunk = -1
                for strict in range(1 - counters[LENIENT], -1, -1):
                    if fifo:
                        chunk = oldest_chunk(links, devices, need, inside, order, row, needed, strict, shift, mask)
                    else:
                        scope = links[row + SCOPE] if strict else -1
                        chunk = rarest(have, need, inside, exact, spread, words, shift, held, needed, scope)
                    if chunk >= 0 or not (
                        strict and is_late(links, total, busy, sizes, low, row, devices[lacks], now, deadline)
                    ):
                        break
                carried = chunk
                if chunk < 0 and not fifo:
                    carried = take_over(
                        have, need, inside, exact, spread, links, transfers, size, words, shift, mask, row, needed,
                        begun, counters[COUNT],
                    )  # fmt: skip
                    chunk = exact[0]
                if carried < 0:
                    continue
                until = now + busy[links[row + CLASS] + size[chunk]]
                blocked = blocked_until(starts, ends, reserved[link], reserved[link + 1], now, until)
                if blocked:
                    links[row + FREE] = blocked
                    heapq.heappush(heap, (blocked, len(head) + link))
                    continue
                place, bit = chunk >> shift, 1 << (chunk & mask)
                need[needed + place] ^= bit
                devices[lacks] -= 1
                for k in range(device * levels, (device + 1) * levels):
                    inside[scopes[k] + place] |= bit
                links[row + FREE] = until
                new = counters[COUNT]
                transfers[new * TRANSFER_ROW + CHUNK], transfers[new * TRANSFER_ROW + LINK] = carried, link
                start[new] = now
                counters[COUNT] = new + 1


def launch(
    network: EventNetwork, chunks: EventChunks, progress: EventProgress, heap: list[tuple[int, int]], planned: int,
) -> None:  # fmt: skip
    """Adds the transfers from number `planned` on to the queues of arrivals and of links that become free."""
    total, busy, size = network.total, network.busy, chunks.size
    counters, links, transfers, start, head, tail, _, _, due, _ = progress
    for new in range(planned, counters[COUNT]):
        row = new * TRANSFER_ROW
        queue = links[transfers[row + LINK] * LINK_ROW + CLASS] + size[transfers[row + CHUNK]]
        arrival, until = start[new] + total[queue], start[new] + busy[queue]
        if head[queue] < 0:
            head[queue] = new
            heapq.heappush(heap, (arrival, queue))
        else:
            transfers[tail[queue] * TRANSFER_ROW + NEXT] = new
        tail[queue] = new
        transfers[row + NEXT] = -1
        counters[END] = max(counters[END], arrival)
        if arrival != until:
            queue += len(due)
            if head[queue] < 0:
                head[queue] = new
                heapq.heappush(heap, (until, queue))
            else:
                transfers[tail[queue] * TRANSFER_ROW + NEXT_FREE] = new
            tail[queue] = new
            transfers[row + NEXT_FREE] = -1
    counters[LEFT] -= counters[COUNT] - planned


def alternatives(
    have: Sequence[int], need: Sequence[int], exact: MutableSequence[int], links: Sequence[int], words: int, low: int,
    high: int, needed: int,
) -> None:  # fmt: skip
    """Fills exact: the chunks that a device lacks by how many of its links could bring them (row 1, 2, ...).

    low, high: its links. needed: where its set begins in `need`.
    """
    for word in range(words):
        lacks = need[needed + word]
        for count in range(1, high - low + 2):
            exact[count * words + word] = 0
        if lacks == 0:
            continue
        for link in range(low, high):
            held = have[links[link * LINK_ROW + SOURCE] * words + word] & lacks
            for count in range(link - low + 1, 1, -1):
                exact[count * words + word] |= exact[(count - 1) * words + word] & held
            exact[words + word] |= held
        for count in range(1, high - low + 1):
            exact[count * words + word] &= ~exact[(count + 1) * words + word]


@inline
def oldest_chunk(
    links: MutableSequence[int], devices: Sequence[int], need: Sequence[int], inside: Sequence[int],
    order: Sequence[int], row: int, needed: int, strict: int, shift: int, mask: int,
) -> int:  # fmt: skip
    """What the source of a link got first of what its target needs (strict: by the component rule), or -1.

    row: of the link. needed: where the set of its target begins in `need`.
    """
    source, scope = links[row + SOURCE] * DEVICE_ROW, links[row + SCOPE]
    base = devices[source + BASE]
    last = base + devices[source + LENGTH]
    for place in range(base + links[row + CURSOR + strict], last):
        chunk = order[place]
        word = chunk >> shift
        bits = need[needed + word]
        if strict:
            bits &= ~inside[scope + word]
        if bits >> (chunk & mask) & 1:
            links[row + CURSOR + strict] = place - base
            return chunk
    links[row + CURSOR + strict] = last - base
    return -1


def rarest(
    have: Sequence[int], need: Sequence[int], inside: Sequence[int], exact: MutableSequence[int],
    spread: Sequence[int], words: int, shift: int, held: int, needed: int, scope: int,
) -> int:  # fmt: skip
    """Of what a source has and the target needs, what the fewest links could bring, of this the rarest, or -1.

    held, needed, scope: where the sets begin in `have`, `need` and `inside`; scope -1: without the component rule.
    exact: as `alternatives` fills it; row 0 is scratch space.
    """
    some = 0
    for word in range(words):
        bits = have[held + word] & need[needed + word]
        if scope >= 0:
            bits &= ~inside[scope + word]
        exact[word] = bits
        some |= bits
    if some == 0:
        return -1
    best, least = -1, MANY
    count = 0
    while best < 0:
        count += words
        for word in range(words):
            bits = exact[word] & exact[count + word]
            while bits != 0:
                chunk = (word << shift) + trailing_zeros(bits)
                bits &= bits - 1
                if spread[chunk] < least:
                    best, least = chunk, spread[chunk]
    return best


def take_over(
    have: Sequence[int], need: Sequence[int], inside: Sequence[int], exact: MutableSequence[int],
    spread: Sequence[int], links: Sequence[int], transfers: MutableSequence[int], size: Sequence[int], words: int,
    shift: int, mask: int, row: int, needed: int, begun: int, planned: int,
) -> int:  # fmt: skip
    """A chunk that a link can take over from a transfer to its target that begins now, too, or -1.

    The transfer gets another chunk of equal size instead, which is written to exact[0]. row: of the link; the links of
    both are of one level. begun, planned: the transfers to its target that begin now.
    """
    for k in range(begun, planned):
        chunk, other = transfers[k * TRANSFER_ROW + CHUNK], transfers[k * TRANSFER_ROW + LINK] * LINK_ROW
        held = have[links[row + SOURCE] * words + (chunk >> shift)] >> (chunk & mask) & 1
        if held and links[other + LEVEL] == links[row + LEVEL]:
            its, scope = links[other + SOURCE] * words, links[other + SCOPE]
            replacement = rarest(have, need, inside, exact, spread, words, shift, its, needed, scope)
            if replacement >= 0 and size[replacement] == size[chunk]:
                transfers[k * TRANSFER_ROW + CHUNK] = exact[0] = replacement
                return chunk
    return -1


def is_late(
    links: Sequence[int], total: Sequence[int], busy: Sequence[int], sizes: int, low: int, row: int, lacks: int,
    now: int, deadline: int,
) -> bool:  # fmt: skip
    """Whether the links into a device that are cheaper than one cannot bring all that it lacks by the deadline.

    low: the first link into the device. row: of the link.
    """
    other = low * LINK_ROW
    while lacks > 0 and links[other + LEVEL] < links[row + LEVEL]:
        largest = links[other + CLASS] + sizes - 1
        spare = deadline - max(now, links[other + FREE]) - total[largest] + busy[largest]
        lacks -= max(0, spare // busy[largest])
        other += LINK_ROW
    return lacks > 0
