"""One attempt of rarest-first spreading: a device sends a chunk as soon as a path to one that lacks it is free.

The chunk that most devices still lack goes first; a chunk that is on its way to a device counts as received. Runs on
lists or compiled on arrays (collc/kernels/compiled.py).
"""

from __future__ import annotations

import heapq

import numpy as np

from collc.kernels.compiled import trailing_zeros
from collc.kernels.spread_tables import (
    BEGUN,
    END,
    EVENTS,
    MISSING,
    MULTICASTING,
    NEEDED,
    PASSING,
    PLANNED,
    REPEATING,
    WORK,
    Events,
    Memory,
    SpreadLayout,
    blocked_until,
    reserve,
    with_room,
    with_size,
)

RUNNING, DONE, STUCK = 0, 1, 2
"""There is more to do; all have what they need; nothing is left to wait for, a chunk would be late, or the work is too
much."""

SEND_WORK = 20
"""The work of sending a chunk."""


def _missing_set(v: int, number: int, layout: SpreadLayout, memory: Memory) -> int:
    """Where the set of chunks begins that a device's component lacks. number: of a class of slow paths, from 1 on."""
    table = (number - 1) * layout.devices
    return layout.lacking + (table + memory[layout.component + table + v]) * layout.words


def _block(path: int, v: int, now: int, layout: SpreadLayout, memory: Memory, nodes: Memory) -> None:
    """Note until when a path cannot start with a chunk of any size that its receiver still lacks."""
    words, least = layout.words, -1
    for size in range(layout.sizes):
        lacks = 0
        for word in range(words):
            lacks |= memory[layout.need + v * words + word] & memory[layout.of_size + size * words + word]
        if lacks != 0:
            place = layout.blocked + size * layout.paths + path
            if memory[place] <= now:
                memory[place] = blocked_until(path, size, now, layout, memory, nodes)
            if least < 0 or memory[place] < least:
                least = memory[place]
    if least >= 0:
        memory[layout.blocked_all + path] = least


def _by_component(v: int, number: int, bits: int, layout: SpreadLayout, memory: Memory) -> int:
    """Keep, of the set at `bits`, what a path of a class of slow ones may bring. Returns 0 if that is nothing."""
    base, left = _missing_set(v, number, layout, memory), 0
    for word in range(layout.words):
        memory[bits + word] &= memory[base + word]
        left |= memory[bits + word]
    return left


def _not_summed(path: int, bits: int, layout: SpreadLayout, memory: Memory) -> int:
    """Keep, of the set at `bits`, what no switch of a path that may get it only once has got. Returns 0 if nothing."""
    left = 0
    for word in range(layout.words):
        for hop in range(memory[layout.first + path], memory[layout.first + path + 1] - 1):
            switch = memory[layout.ends + memory[layout.link + hop]]
            memory[bits + word] &= ~memory[layout.received + switch * layout.words + word]
        left |= memory[bits + word]
    return left


def _sendable(path: int, v: int, now: int, bits: int, layout: SpreadLayout, memory: Memory, nodes: Memory) -> bool:
    """Keep, of the set at `bits`, what may start on a path now. Returns whether that is anything."""
    number, words, left = memory[layout.slow + path], layout.words, 1
    if number > 0:
        left = _by_component(v, number, bits, layout, memory)
    if layout.is_summing and left != 0:
        left = _not_summed(path, bits, layout, memory)
    if layout.sizes == 1:
        place = layout.blocked + path
        if left != 0 and memory[place] <= now:
            memory[WORK] += 1
            memory[place] = blocked_until(path, 0, now, layout, memory, nodes)
        return left != 0 and memory[place] <= now
    left = 0
    for size in range(layout.sizes):
        some = 0
        for word in range(words):
            some |= memory[bits + word] & memory[layout.of_size + size * words + word]
        if some == 0:
            continue
        place = layout.blocked + size * layout.paths + path
        if memory[place] <= now:
            memory[WORK] += 1
            memory[place] = blocked_until(path, size, now, layout, memory, nodes)
        if memory[place] <= now:
            left |= some
        else:
            for word in range(words):
                memory[bits + word] &= ~memory[layout.of_size + size * words + word]
    if left == 0:
        _block(path, v, now, layout, memory, nodes)
    return left != 0


def _note_sent(v: int, chunk: int, layout: SpreadLayout, memory: Memory) -> bool:
    """Note that a chunk is on its way to a device. Returns whether some component still lacks it."""
    word, bit = chunk >> layout.shift, 1 << (chunk & layout.mask)
    value = memory[layout.urgency + chunk] - 1
    for number in range(layout.classes):
        place = _missing_set(v, number + 1, layout, memory) + word
        if memory[place] & bit:
            memory[place] ^= bit
            value -= memory[layout.weight + number]
    memory[layout.urgency + chunk] = value
    return layout.classes > 0 and value >= memory[layout.weight]


def _wake(link: int, end: int, now: int, layout: SpreadLayout, memory: Memory, events: Events) -> None:
    """Add the times at which a path can start so that its chunk enters a link at `end`."""
    for place in range(memory[layout.offset_first + link], memory[layout.offset_first + link + 1]):
        if end - memory[layout.offset + place] > now:
            heapq.heappush(events, (end - memory[layout.offset + place], 2 * layout.devices * layout.chunks + link))


def _reserve_path(
    path: int, size: int, chunk: int, now: int, layout: SpreadLayout, memory: Memory, events: Events, nodes: Memory
) -> None:
    """Reserve the links of a path and the slots of its switches, and note what the switches hold afterwards."""
    first = memory[layout.first + path]
    for hop in range(first, memory[layout.first + path + 1]):
        link, begin = memory[layout.link + hop], now + memory[layout.start + size * layout.hops + hop]
        end = begin + memory[layout.busy + size * layout.hops + hop]
        reserve(link, begin, end, layout, memory, nodes)
        _wake(link, end, now, layout, memory, events)
        if hop == first:
            continue
        switch = memory[layout.ends + memory[layout.link + hop - 1]]
        if memory[layout.sums + switch]:
            memory[layout.received + switch * layout.words + (chunk >> layout.shift)] |= 1 << (chunk & layout.mask)
        if memory[layout.kind + switch] != PASSING:
            held = begin if memory[layout.kind + switch] == MULTICASTING else end
            heapq.heappush(events, (held, (layout.devices + switch) * layout.chunks + chunk))
        if memory[layout.buffer + switch] >= 0:
            if layout.inverted:
                begin, end = begin - memory[layout.busy + size * layout.hops + hop - 1], begin
            reserve(layout.links + switch, begin, end, layout, memory, nodes)
            for place in range(memory[layout.woken_first + switch], memory[layout.woken_first + switch + 1]):
                _wake(memory[layout.woken + place], end, now, layout, memory, events)


def _send(
    path: int,
    chunk: int,
    v: int,
    now: int,
    limit: int,
    layout: SpreadLayout,
    memory: Memory,
    events: Events,
    nodes: Memory,
    plan: Memory,
) -> bool:
    """Start a chunk on a path. Returns False if a receiver that wants the chunk would get it after the limit."""
    words, word, bit = layout.words, chunk >> layout.shift, 1 << (chunk & layout.mask)
    size = 0
    while not memory[layout.of_size + size * words + word] & bit:
        size += 1
    arrival = now + memory[layout.total + size * layout.paths + path]
    is_wanted = memory[layout.wanted + v * words + word] & bit != 0
    if 0 <= limit < arrival:
        return not is_wanted
    memory[WORK] += SEND_WORK
    memory[END] = max(memory[END], arrival)
    planned = 3 * memory[PLANNED]
    plan[planned], plan[planned + 1], plan[planned + 2] = chunk, path, now
    memory[PLANNED] += 1
    _reserve_path(path, size, chunk, now, layout, memory, events, nodes)
    source = memory[layout.source + path]
    if memory[layout.kind + source] == REPEATING:
        place = layout.idle + memory[layout.switch + source] * layout.chunks + chunk
        memory[place] -= 1
        again = now + memory[layout.busy + size * layout.hops + memory[layout.first + path]]
        heapq.heappush(events, (again, (layout.devices + source) * layout.chunks + chunk))
        if memory[place] == 0:
            memory[layout.have + source * words + word] ^= bit
            memory[layout.held + source] -= 1
    heapq.heappush(events, (arrival, v * layout.chunks + chunk))
    memory[layout.need + v * words + word] ^= bit
    memory[layout.lacks + v] -= 1
    memory[MISSING] -= is_wanted
    memory[NEEDED] -= 1
    memory[layout.duties + v] += _note_sent(v, chunk, layout, memory)
    return True


def _augment(chunk: int, bits: int, ports: int, layout: SpreadLayout, memory: Memory) -> bool:
    """Match one more chunk to a port along an augmenting path; chunks that are matched already may move.

    bits: where the sets of the ports begin.
    """
    for port in range(ports):
        memory[layout.seen + port] = 0
    depth = 0
    memory[layout.stack_chunk], memory[layout.stack_port] = chunk, -1
    while depth >= 0:
        wanted, port, is_found = memory[layout.stack_chunk + depth], memory[layout.stack_port + depth], False
        while not is_found and port + 1 < ports:
            port += 1
            if memory[layout.seen + port] == 0:
                is_found = (
                    memory[bits + port * layout.words + (wanted >> layout.shift)] & (1 << (wanted & layout.mask)) != 0
                )
        if not is_found:
            depth -= 1
            continue
        memory[layout.seen + port] = 1
        memory[layout.stack_port + depth] = port
        if memory[layout.chosen + port] < 0:
            for step in range(depth + 1):
                memory[layout.chosen + memory[layout.stack_port + step]] = memory[layout.stack_chunk + step]
            return True
        depth += 1
        memory[layout.stack_chunk + depth], memory[layout.stack_port + depth] = memory[layout.chosen + port], -1
    return False


def _match(bits: int, ports: int, layout: SpreadLayout, memory: Memory) -> None:
    """For each port the chunk that it is matched to, -1: none. The most urgent ones come first, lower ones of equals.

    bits: where the sets of the ports begin.
    """
    waiting = [(0, 0)]
    waiting.pop()
    for port in range(ports):
        memory[layout.chosen + port] = -1
    most = -1
    for word in range(layout.words):
        reach = 0
        for port in range(ports):
            reach |= memory[bits + port * layout.words + word]
        while reach != 0:
            chunk = (word << layout.shift) + trailing_zeros(reach)
            reach &= reach - 1
            if ports > 1:
                waiting.append((-memory[layout.urgency + chunk], chunk))
            elif memory[layout.urgency + chunk] > most:
                most = memory[layout.urgency + chunk]
                memory[layout.chosen] = chunk
    heapq.heapify(waiting)
    left = ports
    while left > 0 and len(waiting) > 0:
        if _augment(heapq.heappop(waiting)[1], bits, ports, layout, memory):
            left -= 1


def _offer(path: int, v: int, bits: int, layout: SpreadLayout, memory: Memory) -> bool:
    """Write what the source of a path has for a receiver to `bits`. Returns whether that is anything."""
    words, offered = layout.words, 0
    have, need, number = (
        layout.have + memory[layout.source + path] * words,
        layout.need + v * words,
        memory[layout.slow + path],
    )
    for word in range(words):
        memory[bits + word] = memory[have + word] & memory[need + word]
        offered |= memory[bits + word]
    if offered != 0 and number > 0:
        offered = _by_component(v, number, bits, layout, memory)
    return offered != 0


def _lacks_any(v: int, number: int, layout: SpreadLayout, memory: Memory) -> bool:
    """Whether a receiver lacks anything that a path of a class may bring."""
    if number == 0:
        return memory[layout.lacks + v] > 0
    words, lacks = layout.words, 0
    base = _missing_set(v, number, layout, memory)
    for word in range(words):
        lacks |= memory[layout.need + v * words + word] & memory[base + word]
    return lacks != 0


def _offers(v: int, now: int, all_paths: bool, layout: SpreadLayout, memory: Memory, nodes: Memory) -> tuple[int, int]:
    """Write what each path can bring a receiver now to `bits`, row by row; returns the number of rows and of ports."""
    rows, ports = 0, 0
    memory[WORK] += memory[layout.serve_work + v]
    for port in range(memory[layout.ports + v], memory[layout.ports + v + 1]):
        if memory[layout.closed + port] > now or not _lacks_any(v, memory[layout.fastest + port], layout, memory):
            continue
        low, high, begun = layout.path + memory[layout.over + port], layout.path + memory[layout.over + port + 1], rows
        soonest = memory[layout.blocked_all + memory[low]]
        for number in range(low + 1, high):
            soonest = min(soonest, memory[layout.blocked_all + memory[number]])
        if soonest > now:
            memory[layout.closed + port] = soonest
            continue
        for number in range(low, high):
            path = memory[number]
            if memory[layout.blocked_all + path] > now or (memory[layout.non_minimal + path] and not all_paths):
                continue
            bits = layout.bits + rows * layout.words
            if _offer(path, v, bits, layout, memory) and _sendable(path, v, now, bits, layout, memory, nodes):
                memory[layout.rows + rows], memory[layout.row_port + rows] = path, ports
                rows += 1
        ports += rows > begun
    return rows, ports


def _serve(
    v: int,
    now: int,
    all_paths: bool,
    limit: int,
    layout: SpreadLayout,
    memory: Memory,
    events: Events,
    nodes: Memory,
    plan: Memory,
) -> bool:
    """Send a receiver what its free last links can bring. Returns False if a chunk would arrive after the limit."""
    rows, ports = _offers(v, now, all_paths, layout, memory, nodes)
    if ports == 0:
        return True
    words = layout.words
    joined, single = layout.bits + rows * words, layout.bits + (rows + ports) * words
    for place in range(joined, single):
        memory[place] = 0
    for row in range(rows):
        for word in range(words):
            memory[joined + memory[layout.row_port + row] * words + word] |= memory[layout.bits + row * words + word]
    _match(joined, ports, layout, memory)
    row = 0
    for port in range(ports):
        chunk, best = memory[layout.chosen + port], -1
        while row < rows and memory[layout.row_port + row] == port:
            if chunk >= 0 and memory[layout.bits + row * words + (chunk >> layout.shift)] & (
                1 << (chunk & layout.mask)
            ):
                path = memory[layout.rows + row]
                for word in range(words):
                    memory[single + word] = 0
                memory[single + (chunk >> layout.shift)] = 1 << (chunk & layout.mask)
                if _sendable(path, v, now, single, layout, memory, nodes) and (
                    best < 0 or _is_cheaper(path, best, layout, memory)
                ):
                    best = path
            row += 1
        if best >= 0 and not _send(best, chunk, v, now, limit, layout, memory, events, nodes, plan):
            return False
    return True


def _is_cheaper(path: int, other: int, layout: SpreadLayout, memory: Memory) -> bool:
    """Whether a path comes before another: the faster one, then the one whose source has fewer chunks."""
    last = layout.total + (layout.sizes - 1) * layout.paths
    if memory[last + path] != memory[last + other]:
        return memory[last + path] < memory[last + other]
    source, its = memory[layout.source + path], memory[layout.source + other]
    if memory[layout.held + source] != memory[layout.held + its]:
        return memory[layout.held + source] < memory[layout.held + its]
    return memory[layout.rank + source] < memory[layout.rank + its]


def _apply(number: int, layout: SpreadLayout, memory: Memory) -> None:
    """Apply an event, and mark the receivers for which something may have become possible."""
    if number >= 2 * layout.devices * layout.chunks:
        link = number - 2 * layout.devices * layout.chunks
        for place in range(memory[layout.used_first + link], memory[layout.used_first + link + 1]):
            memory[layout.touched + memory[layout.used + place]] = 1
        return
    device, chunk = number // layout.chunks, number % layout.chunks
    if device >= layout.devices:
        device -= layout.devices
        memory[layout.idle + memory[layout.switch + device] * layout.chunks + chunk] += 1
    have, bit = layout.have + device * layout.words + (chunk >> layout.shift), 1 << (chunk & layout.mask)
    if not memory[have] & bit:
        memory[have] |= bit
        memory[layout.held + device] += 1
    for place in range(memory[layout.fed_first + device], memory[layout.fed_first + device + 1]):
        memory[layout.touched + memory[layout.fed + place]] = 1


def _in_order(layout: SpreadLayout, memory: Memory) -> list[tuple[int, int, int, int]]:
    """A heap of the receivers that are marked: who has the fewest chunks to pass on, then who lacks most; by rank."""
    receivers = [(0, 0, 0, 0)]
    receivers.pop()
    for v in range(layout.devices):
        if memory[layout.touched + v] == 0 or memory[layout.lacks + v] == 0:
            continue
        if layout.in_turn:
            receivers.append((memory[layout.duties + v], -memory[layout.lacks + v], memory[layout.rank + v], v))
        else:
            receivers.append((0, 0, memory[layout.rank + v], v))
    heapq.heapify(receivers)
    return receivers


def _next_time(layout: SpreadLayout, memory: Memory, events: Events) -> int:
    """Apply all events of the next time, 0 at first. Returns the time, or -1 if there are no more events."""
    begins = memory[BEGUN] == 0
    memory[BEGUN] = 1
    for v in range(layout.devices):
        memory[layout.touched + v] = begins
    if begins:
        return 0
    if len(events) == 0:
        return -1
    now = events[0][0]
    while len(events) > 0 and events[0][0] == now:
        _apply(heapq.heappop(events)[1], layout, memory)
    return now


def spread(
    limit: int,
    most_work: int,
    pause: int,
    layout: SpreadLayout,
    memory: Memory,
    nodes: Memory,
    waiting: Memory,
    plan: Memory,
) -> tuple[int, Memory, Memory]:
    """Go on with an attempt; returns RUNNING, DONE or STUCK, then `nodes` and `waiting` for the next call.

    limit: the last arrival that is allowed, -1: any. most_work: work at which the attempt ends, -1: none. pause: work
    at which it returns RUNNING. waiting: [2 * events], the heap of events. plan: [3 * chunks needed], chunk, path and
    start of each transfer.
    """
    events = [(np.int64(0), np.int64(0))]
    events.pop()
    for k in range(memory[EVENTS]):
        events.append((waiting[2 * k], waiting[2 * k + 1]))  # noqa: PERF401 (Numba has no extend with a generator)
    verdict = RUNNING
    while verdict == RUNNING and memory[WORK] < pause:
        nodes = with_room(layout, memory, nodes)
        now = _next_time(layout, memory, events)
        if now < 0:
            verdict = STUCK
            break
        for turn in range(layout.turns - 1, -1, -1):
            receivers = _in_order(layout, memory)
            while verdict == RUNNING and len(receivers) > 0:
                v = heapq.heappop(receivers)[3]
                if not _serve(v, now, turn == 0, limit, layout, memory, events, nodes, plan):
                    verdict = STUCK
        if verdict == RUNNING and memory[MISSING] == 0:
            verdict = DONE
        elif 0 <= most_work < memory[WORK]:
            verdict = STUCK
    memory[EVENTS] = len(events)
    waiting = with_size(waiting, 2 * len(events))
    for k in range(len(events)):
        waiting[2 * k], waiting[2 * k + 1] = events[k]
    return verdict, nodes, waiting
