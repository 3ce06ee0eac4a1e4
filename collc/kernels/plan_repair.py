"""What a plan has lost, sent again in the gaps that its other transfers leave (collc/synthesis/symmetric/repair.py).

Functions of flat sequences that run in plain Python and compiled (collc/kernels/compiled.py). Elements are
numbers with an index along each axis, and are added axis by axis.
"""

from __future__ import annotations

from collections import namedtuple
from heapq import heappop, heappush

from collc.kernels.compiled import compiled_as, without_references
from collc.kernels.link_gaps import NEVER, Layout, Memory, earliest_arrival, reserve_links
from collc.kernels.row_heap import clear_rows, with_rows

Offers = list[tuple[int, int, int]]
"""A heap of (arrival, target, sender)."""

Sends = namedtuple("Sends", "key sender route arrival starts")
"""What is sent: key, sender, route, arrival, and the starts on each link, a row of as many as a route has at most."""

Blocks = namedtuple("Blocks", "owner ready move_bounds moves route_bounds routes")
"""Blocks of an All-to-All: the moves of the lost route of each (CSR), and links that it may take instead (CSR)."""

Routes = namedtuple("Routes", "bounds link start")
"""The routes of blocks (CSR)."""


@without_references
def add(at: Layout, memory: Memory, left: int, right: int) -> int:
    """The sum of two elements."""
    total = 0
    for axis in range(at.strides - at.sizes):
        row, size = axis * at.count, memory[at.sizes + axis]
        index = memory[at.index + row + left] + memory[at.index + row + right]
        total += (index - size if index >= size else index) * memory[at.strides + axis]
    return total


@without_references
def minus(at: Layout, memory: Memory, left: int, right: int) -> int:
    """The difference of two elements."""
    total = 0
    for axis in range(at.strides - at.sizes):
        row = axis * at.count
        index = memory[at.index + row + left] - memory[at.index + row + right]
        total += (index + memory[at.sizes + axis] if index < 0 else index) * memory[at.strides + axis]
    return total


@without_references
def _find_links(at: Layout, memory: Memory, route: int, sender: int, hops: int) -> int:
    """Writes the links of a route after those before; returns how many there are, -1 if one is missing."""
    for place in range(memory[at.route_bounds + route], memory[at.route_bounds + route + 1]):
        element = add(at, memory, memory[at.route_element + place], sender)
        link = memory[at.images + memory[at.route_class + place] * at.count + element]
        if link >= at.present:
            return -1
        memory[at.links + hops] = link
        hops += 1
    return hops


@without_references
def _find_any_links(at: Layout, memory: Memory, move: int, sender: int, hops: int, turn: int) -> int:
    """As `_find_links`, of a route of a move: of those that are there, in turn."""
    first, after = memory[at.move_routes + move], -1
    count = memory[at.move_routes + move + 1] - first
    for place in range(count):
        if after < 0:
            after = _find_links(at, memory, first + (turn + place) % count, sender, hops)
    return after


@without_references
def _find_fastest(at: Layout, memory: Memory, move: int, sender: int, since: int) -> int:
    """The route of a move that arrives first, with its links and starts; returns the arrival, -1 if it has none."""
    best, first, after = -1, memory[at.move_routes + move], memory[at.move_routes + move + 1]
    for place in range(first, after + 1):
        route = place
        if place == after:  # once more what other routes have overwritten
            if best < 0 or memory[at.route] == after - 1:
                return best
            route = memory[at.route]
        hops = _find_links(at, memory, route, sender, 0)
        arrival = earliest_arrival(at, memory, hops, since) if hops >= 0 else -1
        if arrival >= 0 and (best < 0 or arrival < best):
            best, memory[at.route] = arrival, route
    return best


@without_references
def _find_time(at: Layout, memory: Memory, chunk: int, owner: int, element: int) -> int:
    """Since when an element has a chunk, -1 if it has not."""
    if memory[at.known + element] >= 0:
        return memory[at.known + element]
    return memory[at.since + chunk * at.count + minus(at, memory, element, owner)] if memory[at.alive + element] else -1


@without_references
def _offer(at: Layout, memory: Memory, wider: int, chunk: int, owner: int, sender: int, target: int, move: int) -> int:
    """When a chunk would arrive from a sender at a target, and later if the sender is weak; -1 if it cannot. wider: 2
    if those count too that are only to send if nobody else can.
    """
    if memory[at.lacks + sender] >= 0 or (memory[at.weak + sender] == NEVER and wider < 2):
        return -1
    since = _find_time(at, memory, chunk, owner, sender)
    arrival = _find_fastest(at, memory, move, sender, since) if since >= 0 else -1
    if arrival >= 0 and memory[at.known + sender] >= 0:
        memory[at.fastest + target] = min(memory[at.fastest + target], memory[at.windows + move])
    return arrival + memory[at.weak + sender] % NEVER if arrival >= 0 else -1


@compiled_as(with_rows)
def _with_room(offers: Offers, more: int) -> Offers:  # noqa: ARG001 (a list grows by itself)
    return offers


@compiled_as(clear_rows)
def _clear(offers: Offers) -> None:
    offers.clear()


@without_references
def _add_offer(
    at: Layout, memory: Memory, wider: int, number: int, sender: int, target: int, move: int, offers: Offers
) -> int:
    """Adds what `_offer` gives to the offers; returns 1, or 0 if it gives none."""
    arrival = _offer(at, memory, wider, memory[at.chunk + number], memory[at.owner + number], sender, target, move)
    if arrival < 0:
        return 0
    heappush(offers, (arrival, target, sender))
    memory[at.waiting] += 1
    return 1


@without_references
def _ask(at: Layout, memory: Memory, wider: int, number: int, offers: Offers) -> None:
    """Offers to all that lack a chunk, by the moves by which it would have come, and those after them.

    It would have come by the lost message, or by the first of the lost ones on the way. wider: 0 for one move, 1 for
    those that are tried, 2 for all.
    """
    most, owner, count = _moves_asked(at, wider), memory[at.owner + number], at.moves
    for place in range(memory[at.lack_bounds + number], memory[at.lack_bounds + number + 1]):
        target, message = memory[at.lack_element + place], memory[at.lack_message + place]
        if memory[at.lacks + target] < 0:
            continue
        own = memory[at.move_of + message]
        above = memory[at.parent + message]
        while above >= 0:
            receiver = add(at, memory, memory[at.target + above], owner)
            if memory[at.lacks + receiver] < 0 and memory[at.alive + receiver]:
                break
            message, above = above, memory[at.parent + above]
        entry = memory[at.move_of + message]
        for after in range(most):
            move = (entry + after) % count
            sender = minus(at, memory, target, memory[at.steps + move])
            _add_offer(at, memory, wider, number, sender, target, move, offers)
            move = (own + after) % count
            if (move - entry) % count >= most:
                sender = minus(at, memory, target, memory[at.steps + move])
                _add_offer(at, memory, wider, number, sender, target, move, offers)


@without_references
def _moves_asked(at: Layout, wider: int) -> int:
    """How many moves `_ask` tries after each of two."""
    return min(at.moves, 1 if wider == 0 else at.tried if wider == 1 else at.moves)


@without_references
def _most_asked(at: Layout, memory: Memory, wider: int) -> int:
    """How many offers `_ask` adds at most."""
    return 2 * memory[at.left] * _moves_asked(at, wider)


@without_references
def _offer_more(at: Layout, memory: Memory, number: int, sender: int, most: int, offers: Offers) -> None:
    """Offers of one that has got the chunk, by the fastest moves first."""
    if memory[at.queue_end + sender] == 0:
        memory[at.queue_at + sender], memory[at.queue_end + sender] = 0, at.onwards
        if memory[at.left] < at.onwards:
            _queue_lacking(at, memory, number, sender)
    while most and memory[at.queue_at + sender] < memory[at.queue_end + sender]:
        move = memory[at.queue + memory[at.queue_at + sender]]
        memory[at.queue_at + sender] += 1
        target = add(at, memory, sender, memory[at.steps + move])
        if memory[at.lacks + target] >= 0:
            most -= _add_offer(at, memory, 1, number, sender, target, move, offers)


@without_references
def _queue_lacking(at: Layout, memory: Memory, number: int, sender: int) -> None:
    """Queue the moves from a sender to all that lack a chunk, the fastest first."""
    first = last = memory[at.queued]
    for place in range(memory[at.lack_bounds + number], memory[at.lack_bounds + number + 1]):
        target = memory[at.lack_element + place]
        move = memory[at.number_of + minus(at, memory, target, sender)] if memory[at.lacks + target] >= 0 else -1
        if move >= 0:
            rank, behind = memory[at.rank + move], last
            while behind > first and memory[at.rank + memory[at.queue + behind - 1]] > rank:
                memory[at.queue + behind] = memory[at.queue + behind - 1]
                behind -= 1
            memory[at.queue + behind] = move
            last += 1
    memory[at.queue_at + sender] = first
    memory[at.queue_end + sender] = memory[at.queued] = last


def _begin_elsewhere(
    at: Layout,
    memory: Memory,
    number: int,
    sends: Sends,
    done: int,
) -> int:
    """Let a sum begin in another element than its only holder, which has less to pass on, if it gets to the holder in
    time to be sent on; returns how much was sent so far.
    """
    for place in range(memory[at.begin_bounds + number], memory[at.begin_bounds + number + 1]):
        holder, element = memory[at.hold_element + memory[at.hold_bounds + number]], memory[at.begin_element + place]
        if _find_fastest(at, memory, memory[at.send_on + number], holder, 0) < 0:
            return done
        latest = memory[at.start + 0]
        arrival = _find_fastest(at, memory, memory[at.number_of + minus(at, memory, holder, element)], element, 0)
        if arrival < 0:
            return done
        if arrival <= latest:
            _send(at, memory, number, element, arrival, sends, done)
            memory[at.known + element], memory[at.known + holder] = 0, arrival
            if memory[at.lacks + element] >= 0:
                memory[at.lacks + element] = -1
                memory[at.left] -= 1
            return done + 1
    return done


@without_references
def _send(
    at: Layout,
    memory: Memory,
    number: int,
    sender: int,
    arrival: int,
    sends: Sends,
    done: int,
) -> None:
    """Send a chunk on the route that was found last."""
    route = memory[at.route]
    hops = memory[at.route_bounds + route + 1] - memory[at.route_bounds + route]
    reserve_links(at, memory, hops)
    sends.key[done], sends.sender[done], sends.route[done], sends.arrival[done] = number, sender, route, arrival
    row = done * at.width
    for hop in range(hops):
        sends.starts[row + hop] = memory[at.start + hop]


@without_references
def _offer_first(at: Layout, memory: Memory, number: int, offers: Offers) -> None:
    """The first offers of a chunk: of its holders if no others have it, or else to all that lack it."""
    memory[at.waiting], memory[at.queued] = 0, at.onwards
    if not memory[at.closed + number]:
        _ask(at, memory, 0, number, offers)
        return
    for place in range(memory[at.hold_bounds + number], memory[at.hold_bounds + number + 1]):
        _offer_more(at, memory, number, memory[at.hold_element + place], at.tried, offers)


def _spread(at: Layout, memory: Memory, number: int, sends: Sends, done: int, offers: Offers) -> int:
    """Bring a chunk to all that lack it, each time to the one that it can reach first; returns how much was sent so
    far, -1 if one has no way or there is too little room.
    """
    chunk, owner, wider = memory[at.chunk + number], memory[at.owner + number], 2 * memory[at.closed + number]
    holders = memory[at.hold_bounds + number + 1] - memory[at.hold_bounds + number]
    _clear(offers)
    offers = _with_room(offers, _most_asked(at, memory, 0) + holders * at.tried)
    _offer_first(at, memory, number, offers)
    while memory[at.left]:
        if memory[at.size] > at.room:
            return -1
        if memory[at.waiting] == 0:
            if wider == 2:
                return -1
            wider += 1
            offers = _with_room(offers, _most_asked(at, memory, wider))
            _ask(at, memory, wider, number, offers)
            continue
        arrival, target, sender = heappop(offers)
        memory[at.waiting] -= 1
        if memory[at.lacks + target] < 0:
            if memory[at.queue_end + sender]:
                _offer_more(at, memory, number, sender, 1, offers)
            continue
        move = memory[at.number_of + minus(at, memory, target, sender)]
        if memory[at.windows + move] > memory[at.fastest + target]:
            continue
        now = _find_fastest(at, memory, move, sender, _find_time(at, memory, chunk, owner, sender))
        widen = wider == 0 and now > at.end
        if widen:
            wider = 1
            offers = _with_room(offers, _most_asked(at, memory, wider) + 1)
            _ask(at, memory, wider, number, offers)
        if widen or now + memory[at.weak + sender] % NEVER > arrival:
            heappush(offers, (now + memory[at.weak + sender] % NEVER, target, sender))
            memory[at.waiting] += 1
            continue
        _send(at, memory, number, sender, now, sends, done)
        done += 1
        memory[at.lacks + target] = -1
        memory[at.left] -= 1
        memory[at.known + target] = now
        offers = _with_room(offers, 1 + at.tried)
        if memory[at.queue_end + sender]:
            _offer_more(at, memory, number, sender, 1, offers)
        _offer_more(at, memory, number, target, at.tried, offers)
    return done


def spread_all(at: Layout, memory: Memory, sends: Sends, offers: Offers) -> int:
    """Bring all chunks to those that lack them, in order; returns how much was sent, -1 if one has no way or there
    is too little room. offers: a heap of three numbers.
    """
    done = 0
    for number in range(at.keys):
        lacking = range(memory[at.lack_bounds + number], memory[at.lack_bounds + number + 1])
        holding = range(memory[at.hold_bounds + number], memory[at.hold_bounds + number + 1])
        for place in holding:
            memory[at.known + memory[at.hold_element + place]] = memory[at.hold_since + place]
        for place in lacking:
            memory[at.lacks + memory[at.lack_element + place]] = memory[at.lack_message + place]
        memory[at.left] = len(lacking)
        done = _begin_elsewhere(at, memory, number, sends, done)
        done = _spread(at, memory, number, sends, done, offers)
        if done < 0:
            break
        for place in holding:
            element = memory[at.hold_element + place]
            memory[at.known + element], memory[at.queue_end + element] = -1, 0
        for place in lacking:
            element = memory[at.lack_element + place]
            memory[at.known + element], memory[at.queue_end + element], memory[at.fastest + element] = -1, 0, NEVER
    return done


def _try_route(at: Layout, memory: Memory, blocks: Blocks, number: int, trial: int, first_route: int) -> int:
    """Writes the links of a route of a block; returns how many there are, -1 if this is none. first_route: of those of
    each move.

    Trial 0 is the route that was found for it. Then come the moves of the lost route in other orders, and with the
    first one divided in two, or with one forth and back, so that the others are translated.
    """
    first = blocks.move_bounds[number]
    count = blocks.move_bounds[number + 1] - first
    if trial == 0:
        route, after = blocks.route_bounds[number], blocks.route_bounds[number + 1]
        for place in range(route, after):
            memory[at.links + place - route] = blocks.routes[place]
        return after - route if after > route else -1
    turn, begin, end, skipped = trial - 1, -1, -1, 0
    if turn >= count:
        begin, turn = memory[at.nearest + turn - count], 0
        end = memory[at.number_of + minus(at, memory, memory[at.steps + blocks.moves[first]], memory[at.steps + begin])]
        skipped = 1
        if end < 0:
            end, skipped = memory[at.number_of + minus(at, memory, 0, memory[at.steps + begin])], 0
        if end < 0:
            return -1
    sender, hops = blocks.owner[number], 0
    for place in range(-1, count + 1):
        if place < 0:
            move = begin
        elif place == count:
            move = end
        else:
            move = -1 if place < skipped else blocks.moves[first + (place + turn) % count]
        if move < 0:
            continue
        hops = _find_any_links(at, memory, move, sender, hops, first_route) if memory[at.alive + sender] else -1
        if hops < 0:
            return -1
        sender = add(at, memory, sender, memory[at.steps + move])
    return hops


def exchange_all(at: Layout, memory: Memory, blocks: Blocks, routes: Routes) -> int:
    """Send blocks of an All-to-All on other routes, not before they were to leave: on the first that ends with the
    plan, or else on the one that arrives first. Returns -1 if a block has none, or there is too little room.
    """
    end = at.end
    for number in range(len(blocks.owner)):
        begin = routes.bounds[number]
        trials = 1 + blocks.move_bounds[number + 1] - blocks.move_bounds[number] + at.near
        near = at.move_routes + memory[at.nearest]
        turns = memory[near + 1] - memory[near]
        best = NEVER
        for trial in range(trials * turns):
            hops = _try_route(at, memory, blocks, number, trial // turns, number + trial % turns)
            if hops < 0:
                continue
            arrival = earliest_arrival(at, memory, hops, blocks.ready[number])
            if arrival < best:
                best = arrival
                routes.bounds[number + 1] = begin + hops
                for hop in range(hops):
                    routes.link[begin + hop], routes.start[begin + hop] = memory[at.links + hop], memory[at.start + hop]
            if arrival <= end:
                break
        if best == NEVER:
            return -1
        if memory[at.size] > at.room:
            return -1
        hops = routes.bounds[number + 1] - begin
        for hop in range(hops):
            memory[at.links + hop], memory[at.start + hop] = routes.link[begin + hop], routes.start[begin + hop]
        reserve_links(at, memory, hops)
        end = max(end, best)
    return 0
