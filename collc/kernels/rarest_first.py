"""One attempt of rarest-first spreading, compiled: the same as collc/synthesis/swarm/rarest_first.py, step by step."""

from __future__ import annotations

import heapq
from collections.abc import MutableSequence, Sequence

from collc.kernels.compiled import trailing_zeros
from collc.kernels.spread_tables import (
    BEGUN,
    END,
    HEAP,
    MISSING,
    MULTICASTING,
    NEEDED,
    NODES,
    PASSING,
    PLANNED,
    REPEATING,
    WORK,
    SpreadLayout,
    blocked_until,
    pop_event,
    push_event,
    reserve_link,
)

RUNNING, DONE, STUCK, ROOM = 0, 1, 2, 3
"""There is more to do; all have what they need; nothing is left to wait for, a chunk would be late, or the work is too
much; the heap or the nodes may not suffice for the next events."""

SEND_WORK = 20
"""The work of sending a chunk."""


def _lacked(v: int, number: int, of: SpreadLayout, fixed: Sequence[int]) -> int:
    """Where the set of chunks begins that a device's component lacks. number: of a class of slow paths, from 1 on."""
    table = (number - 1) * of.devices
    return of.lacking + (table + fixed[of.component + table + v]) * of.words


def _block(
    path: int,
    v: int,
    now: int,
    of: SpreadLayout,
    fixed: Sequence[int],
    state: MutableSequence[int],
    nodes: MutableSequence[int],
) -> None:
    """Note until when a path cannot start with a chunk of any size that its receiver still lacks."""
    words, least = of.words, -1
    for size in range(of.sizes):
        lacks = 0
        for word in range(words):
            lacks |= state[of.need + v * words + word] & fixed[of.of_size + size * words + word]
        if lacks != 0:
            place = of.blocked + size * of.paths + path
            if state[place] <= now:
                state[place] = blocked_until(path, size, now, of, fixed, state, nodes)
            if least < 0 or state[place] < least:
                least = state[place]
    if least >= 0:
        state[of.blocked_all + path] = least


def _by_component(
    path: int, v: int, number: int, bits: int, of: SpreadLayout, fixed: Sequence[int], state: MutableSequence[int]
) -> int:
    """Keep, of the set at `bits`, what a path of a class may bring now. Returns 0 where that is nothing."""
    words, table, left = of.words, (number - 1) * of.devices, 0
    base = _lacked(v, number, of, fixed)
    for word in range(words):
        state[bits + word] &= state[base + word]
        left |= state[bits + word]
    part = fixed[of.component + table + fixed[of.source + path]]
    if left == 0 or not of.fresh or part < 0:
        return left
    unsent, left = of.unsent + (number - 1) * words, 0
    for word in range(words):
        left |= state[unsent + word]
    if left == 0:  # each chunk has been sent once
        return 1
    left = 0
    for word in range(words):
        state[bits + word] &= ~(fixed[of.own + (table + part) * words + word] & ~state[unsent + word])
        left |= state[bits + word]
    return left


def _sendable(
    path: int,
    v: int,
    now: int,
    bits: int,
    of: SpreadLayout,
    fixed: Sequence[int],
    state: MutableSequence[int],
    nodes: MutableSequence[int],
) -> bool:
    """Keep, of the set at `bits`, what may start on a path now. Returns whether that is anything."""
    number, words, left = fixed[of.slow + path], of.words, 1
    if number > 0:
        left = _by_component(path, v, number, bits, of, fixed, state)
    if of.sizes == 1:
        place = of.blocked + path
        if left != 0 and state[place] <= now:
            state[of.counters + WORK] += 1
            state[place] = blocked_until(path, 0, now, of, fixed, state, nodes)
        return left != 0 and state[place] <= now
    left = 0
    for size in range(of.sizes):
        some = 0
        for word in range(words):
            some |= state[bits + word] & fixed[of.of_size + size * words + word]
        if some == 0:
            continue
        place = of.blocked + size * of.paths + path
        if state[place] <= now:
            state[of.counters + WORK] += 1
            state[place] = blocked_until(path, size, now, of, fixed, state, nodes)
        if state[place] <= now:
            left |= some
        else:
            for word in range(words):
                state[bits + word] &= ~fixed[of.of_size + size * words + word]
    if left == 0:
        _block(path, v, now, of, fixed, state, nodes)
    return left != 0


def _note_sent(v: int, chunk: int, of: SpreadLayout, fixed: Sequence[int], state: MutableSequence[int]) -> bool:
    """Note that a chunk is on its way to a device. Returns whether some component still lacks it."""
    words, word, bit = of.words, chunk >> 6, 1 << (chunk & 63)
    value = state[of.urgency + chunk] - 1
    for number in range(of.classes):
        place = _lacked(v, number + 1, of, fixed) + word
        if state[place] & bit:
            state[place] ^= bit
            value -= fixed[of.weight + number]
            state[of.unsent + number * words + word] &= ~bit
    state[of.urgency + chunk] = value
    return of.classes > 0 and value >= fixed[of.weight]


def _send(
    path: int,
    chunk: int,
    v: int,
    now: int,
    limit: int,
    of: SpreadLayout,
    fixed: Sequence[int],
    state: MutableSequence[int],
    heap: MutableSequence[int],
    nodes: MutableSequence[int],
    plan: MutableSequence[int],
) -> bool:
    """Start a chunk on a path. Returns False if a receiver that wants the chunk would get it after the limit."""
    words, word, bit = of.words, chunk >> 6, 1 << (chunk & 63)
    size = 0
    while not fixed[of.of_size + size * words + word] & bit:
        size += 1
    arrival = now + fixed[of.total + size * of.paths + path]
    is_wanted = fixed[of.wanted + v * words + word] & bit != 0
    if 0 <= limit < arrival:
        return not is_wanted
    state[of.counters + WORK] += SEND_WORK
    state[of.counters + END] = max(state[of.counters + END], arrival)
    planned = 3 * state[of.counters + PLANNED]
    plan[planned], plan[planned + 1], plan[planned + 2] = chunk, path, now
    state[of.counters + PLANNED] += 1
    first = fixed[of.first + path]
    for hop in range(first, fixed[of.first + path + 1]):
        link, begin = fixed[of.link + hop], now + fixed[of.start + size * of.hops + hop]
        end = begin + fixed[of.busy + size * of.hops + hop]
        reserve_link(link, begin, end, of, state, nodes)
        for number in range(fixed[of.offset_first + link], fixed[of.offset_first + link + 1]):
            if end - fixed[of.offset + number] > now:
                push_event(end - fixed[of.offset + number], 2 * of.devices * of.chunks + link, of, state, heap)
        if hop > first:
            switch = fixed[of.ends + fixed[of.link + hop - 1]]
            if fixed[of.kind + switch] != PASSING:
                held = begin if fixed[of.kind + switch] == MULTICASTING else end
                push_event(held, (of.devices + switch) * of.chunks + chunk, of, state, heap)
    source = fixed[of.source + path]
    if fixed[of.kind + source] == REPEATING:
        place = of.idle + fixed[of.switch + source] * of.chunks + chunk
        state[place] -= 1
        again = now + fixed[of.busy + size * of.hops + first]
        push_event(again, (of.devices + source) * of.chunks + chunk, of, state, heap)
        if state[place] == 0:
            state[of.have + source * words + word] ^= bit
            state[of.held + source] -= 1
    push_event(arrival, v * of.chunks + chunk, of, state, heap)
    state[of.need + v * words + word] ^= bit
    state[of.lacks + v] -= 1
    state[of.counters + MISSING] -= is_wanted
    state[of.counters + NEEDED] -= 1
    state[of.duties + v] += _note_sent(v, chunk, of, fixed, state)
    return True


def _augment(chunk: int, bits: int, ports: int, of: SpreadLayout, state: MutableSequence[int]) -> bool:
    """Match one more chunk to a port along an augmenting path; chunks that are matched already may move.

    bits: where the sets of the ports begin.
    """
    for port in range(ports):
        state[of.seen + port] = 0
    depth = 0
    state[of.stack_chunk], state[of.stack_port] = chunk, -1
    while depth >= 0:
        wanted, port, is_found = state[of.stack_chunk + depth], state[of.stack_port + depth], False
        while not is_found and port + 1 < ports:
            port += 1
            if state[of.seen + port] == 0:
                is_found = state[bits + port * of.words + (wanted >> 6)] & (1 << (wanted & 63)) != 0
        if not is_found:
            depth -= 1
            continue
        state[of.seen + port] = 1
        state[of.stack_port + depth] = port
        if state[of.chosen + port] < 0:
            for step in range(depth + 1):
                state[of.chosen + state[of.stack_port + step]] = state[of.stack_chunk + step]
            return True
        depth += 1
        state[of.stack_chunk + depth], state[of.stack_port + depth] = state[of.chosen + port], -1
    return False


def _match(bits: int, ports: int, of: SpreadLayout, state: MutableSequence[int]) -> None:
    """For each port the chunk that it is matched to, -1: none. The most urgent ones come first, lower ones of equals.

    bits: where the sets of the ports begin.
    """
    waiting = [(0, 0)]
    waiting.pop()
    for port in range(ports):
        state[of.chosen + port] = -1
    most = -1
    for word in range(of.words):
        reach = 0
        for port in range(ports):
            reach |= state[bits + port * of.words + word]
        while reach != 0:
            chunk = word * 64 + trailing_zeros(reach)
            reach &= reach - 1
            if ports > 1:
                waiting.append((-state[of.urgency + chunk], chunk))
            elif state[of.urgency + chunk] > most:
                most = state[of.urgency + chunk]
                state[of.chosen] = chunk
    heapq.heapify(waiting)
    left = ports
    while left > 0 and len(waiting) > 0:
        if _augment(heapq.heappop(waiting)[1], bits, ports, of, state):
            left -= 1


def _offer(path: int, v: int, bits: int, of: SpreadLayout, fixed: Sequence[int], state: MutableSequence[int]) -> bool:
    """Write what the source of a path has for a receiver to `bits`. Returns whether that is anything."""
    words, offered = of.words, 0
    have, need, number = of.have + fixed[of.source + path] * words, of.need + v * words, fixed[of.slow + path]
    for word in range(words):
        state[bits + word] = state[have + word] & state[need + word]
        offered |= state[bits + word]
    if offered != 0 and number > 0:
        offered = 0
        base = _lacked(v, number, of, fixed)
        for word in range(words):
            state[bits + word] &= state[base + word]
            offered |= state[bits + word]
    return offered != 0


def _lacks_any(v: int, number: int, of: SpreadLayout, fixed: Sequence[int], state: Sequence[int]) -> bool:
    """Whether a receiver lacks anything that a path of a class may bring."""
    if number == 0:
        return state[of.lacks + v] > 0
    words, lacks = of.words, 0
    base = _lacked(v, number, of, fixed)
    for word in range(words):
        lacks |= state[of.need + v * words + word] & state[base + word]
    return lacks != 0


def _offers(
    v: int,
    now: int,
    all_paths: bool,
    of: SpreadLayout,
    fixed: Sequence[int],
    state: MutableSequence[int],
    nodes: MutableSequence[int],
) -> tuple[int, int]:
    """Write what each path can bring a receiver now to `bits`, row by row; returns the number of rows and of ports."""
    rows, ports = 0, 0
    state[of.counters + WORK] += fixed[of.serve_work + v]
    for port in range(fixed[of.ports + v], fixed[of.ports + v + 1]):
        if state[of.closed + port] > now or not _lacks_any(v, fixed[of.fastest + port], of, fixed, state):
            continue
        low, high, begun = of.path + fixed[of.over + port], of.path + fixed[of.over + port + 1], rows
        soonest = state[of.blocked_all + fixed[low]]
        for number in range(low + 1, high):
            soonest = min(soonest, state[of.blocked_all + fixed[number]])
        if soonest > now:
            state[of.closed + port] = soonest
            continue
        for number in range(low, high):
            path = fixed[number]
            if state[of.blocked_all + path] > now or (fixed[of.non_minimal + path] and not all_paths):
                continue
            bits = of.bits + rows * of.words
            if _offer(path, v, bits, of, fixed, state) and _sendable(path, v, now, bits, of, fixed, state, nodes):
                state[of.rows + rows], state[of.row_port + rows] = path, ports
                rows += 1
        ports += rows > begun
    return rows, ports


def _serve(
    v: int,
    now: int,
    all_paths: bool,
    limit: int,
    of: SpreadLayout,
    fixed: Sequence[int],
    state: MutableSequence[int],
    heap: MutableSequence[int],
    nodes: MutableSequence[int],
    plan: MutableSequence[int],
) -> bool:
    """Send a receiver what its free last links can bring. Returns False if a chunk would arrive after the limit."""
    rows, ports = _offers(v, now, all_paths, of, fixed, state, nodes)
    if ports == 0:
        return True
    words = of.words
    joined, single = of.bits + rows * words, of.bits + (rows + ports) * words
    for place in range(joined, single):
        state[place] = 0
    for row in range(rows):
        for word in range(words):
            state[joined + state[of.row_port + row] * words + word] |= state[of.bits + row * words + word]
    _match(joined, ports, of, state)
    row = 0
    for port in range(ports):
        chunk, best = state[of.chosen + port], -1
        while row < rows and state[of.row_port + row] == port:
            if chunk >= 0 and state[of.bits + row * words + (chunk >> 6)] & (1 << (chunk & 63)):
                path = state[of.rows + row]
                for word in range(words):
                    state[single + word] = 0
                state[single + (chunk >> 6)] = 1 << (chunk & 63)
                if _sendable(path, v, now, single, of, fixed, state, nodes) and (
                    best < 0 or _is_cheaper(path, best, of, fixed, state)
                ):
                    best = path
            row += 1
        if best >= 0 and not _send(best, chunk, v, now, limit, of, fixed, state, heap, nodes, plan):
            return False
    return True


def _is_cheaper(path: int, other: int, of: SpreadLayout, fixed: Sequence[int], state: Sequence[int]) -> bool:
    """Whether a path comes before another: the faster one, then the one whose source has fewer chunks."""
    last = of.total + (of.sizes - 1) * of.paths
    if fixed[last + path] != fixed[last + other]:
        return fixed[last + path] < fixed[last + other]
    source, its = fixed[of.source + path], fixed[of.source + other]
    if state[of.held + source] != state[of.held + its]:
        return state[of.held + source] < state[of.held + its]
    return fixed[of.rank + source] < fixed[of.rank + its]


def _apply(number: int, of: SpreadLayout, fixed: Sequence[int], state: MutableSequence[int]) -> None:
    """Apply an event, and mark the receivers for which something may have become possible."""
    if number >= 2 * of.devices * of.chunks:
        link = number - 2 * of.devices * of.chunks
        for place in range(fixed[of.used_first + link], fixed[of.used_first + link + 1]):
            state[of.touched + fixed[of.used + place]] = 1
        return
    device, chunk = number // of.chunks, number % of.chunks
    if device >= of.devices:
        device -= of.devices
        state[of.idle + fixed[of.switch + device] * of.chunks + chunk] += 1
    have, bit = of.have + device * of.words + (chunk >> 6), 1 << (chunk & 63)
    if not state[have] & bit:
        state[have] |= bit
        state[of.held + device] += 1
    for place in range(fixed[of.fed_first + device], fixed[of.fed_first + device + 1]):
        state[of.touched + fixed[of.fed + place]] = 1


def _in_order(of: SpreadLayout, fixed: Sequence[int], state: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """A heap of the receivers that are marked: who has the fewest chunks to pass on, then who lacks most; by rank."""
    heap = [(0, 0, 0, 0)]
    heap.pop()
    for v in range(of.devices):
        if state[of.touched + v] == 0 or state[of.lacks + v] == 0:
            continue
        if of.in_turn:
            heap.append((state[of.duties + v], -state[of.lacks + v], fixed[of.rank + v], v))
        else:
            heap.append((0, 0, fixed[of.rank + v], v))
    heapq.heapify(heap)
    return heap


def _next_time(of: SpreadLayout, fixed: Sequence[int], state: MutableSequence[int], heap: MutableSequence[int]) -> int:
    """Apply all events of the next time, 0 at first. Returns the time, or -1 where there are no more events."""
    begins = state[of.counters + BEGUN] == 0
    state[of.counters + BEGUN] = 1
    for v in range(of.devices):
        state[of.touched + v] = begins
    if begins:
        return 0
    if state[of.counters + HEAP] == 0:
        return -1
    now = heap[0]
    while state[of.counters + HEAP] > 0 and heap[0] == now:
        _apply(pop_event(of, state, heap), of, fixed, state)
    return now


def spread(
    limit: int,
    most_work: int,
    pause: int,
    of: SpreadLayout,
    batch: tuple[int, int, int],
    fixed: Sequence[int],
    state: MutableSequence[int],
    heap: MutableSequence[int],
    nodes: MutableSequence[int],
    plan: MutableSequence[int],
) -> int:
    """Go on with an attempt; returns RUNNING, DONE, STUCK or ROOM.

    limit: the last arrival that is allowed, -1: any. most_work: work at which the attempt ends, -1: none. pause: work
    at which it returns RUNNING. batch: of the events of one time, the most sends, and the events and nodes of each.
    plan: [3 * chunks needed], chunk, path and start of each transfer.
    """
    now, has_non_minimal = 0, 0
    for path in range(of.paths):
        has_non_minimal |= fixed[of.non_minimal + path]
    while True:
        sends = min(batch[0], state[of.counters + NEEDED])
        coming = state[of.counters + HEAP] + sends * batch[1]
        if 2 * coming > len(heap) or 3 * (state[of.counters + NODES] + sends * batch[2]) > len(nodes):
            return ROOM
        now = _next_time(of, fixed, state, heap)
        if now < 0:
            return STUCK
        for turn in range(1 if has_non_minimal else 0, -1, -1):
            receivers = _in_order(of, fixed, state)
            while len(receivers) > 0:
                v = heapq.heappop(receivers)[3]
                if not _serve(v, now, turn == 0, limit, of, fixed, state, heap, nodes, plan):
                    return STUCK
        if state[of.counters + MISSING] == 0:
            return DONE
        if 0 <= most_work < state[of.counters + WORK]:
            return STUCK
        if state[of.counters + WORK] >= pause:
            return RUNNING
