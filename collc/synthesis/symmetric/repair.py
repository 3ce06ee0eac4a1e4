"""The plan of a whole network, repaired for a network that lacks parts of it.

Messages over missing parts are dropped, and with each all that depend on it: those that pass on what it brings. The
NPUs that lack a chunk then are a few, and get it from those that have it, in the gaps that all other messages leave.
So a repair costs what was dropped, not what was planned.

- An NPU that lacks a chunk may get it by the move of the message that it lost, from the NPU from which this move leads
  to it, or by one of a few others. Whoever has got a chunk offers it to a few of those that still lack it, the nearest
  first.
- A block of an All-to-All has one target. Translations commute, so the moves of its route lead there in any order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isqrt

import numpy as np

from collc.synthesis.symmetric.class_timetable import ClassTimes
from collc.synthesis.symmetric.gaps import Gaps, Route
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, find_keys
from collc.ten.factored_schedule import ChunkNumbers, Translations
from collc.ten.network import Network
from collc.ten.schedule import Transfers


@dataclass(frozen=True, eq=False)
class Messages:
    """What takes the chunks of the representative from NPU to NPU, over any switches. Elements stand for NPUs.

    chunk: int32. sender, target: int32, elements. rows: int64[messages, hops], the transfers, -1 after the last.
    parent: int64, the message that brings the chunk to the sender; -1 for the representative itself. start, arrival:
    int64, picoseconds.
    """

    chunk: Int32Array
    sender: Int32Array
    target: Int32Array
    rows: Int64Array
    parent: Int64Array
    start: Int64Array
    arrival: Int64Array

    @staticmethod
    def of(network: Network, translations: Translations, times: ClassTimes, rows: Transfers) -> Messages:
        """The messages of transfers. A switch passes on the n-th of a chunk that comes as the n-th that leaves."""
        npus, source, target = network.npu_count, network.source[rows.link], network.target[rows.link]
        arrival = rows.start + times.window[rows.link]
        came, left = np.flatnonzero(target >= npus), np.flatnonzero(source >= npus)
        after = np.full(len(rows) + 1, -1, np.int64)  # the last is that of no row
        after[came[np.lexsort((arrival[came], target[came], rows.chunk[came]))]] = left[
            np.lexsort((rows.start[left], source[left], rows.chunk[left]))
        ]
        hops = [np.flatnonzero(source < npus)]
        last = hops[0]
        while bool((hops[-1] >= 0).any()):
            last = np.where(hops[-1] >= 0, hops[-1], last)
            hops.append(after[hops[-1]])
        chunk, element = rows.chunk[hops[0]], translations.element_of
        sender, reached = element[source[hops[0]]], element[target[last]]
        base = chunk.astype(np.int64) * translations.count
        key = base + reached
        order = np.lexsort((-np.arange(len(key)), arrival[last], key))
        earliest = order[np.r_[True, np.diff(key[order]) > 0]] if len(order) else order
        position, is_sent_on = find_keys(key[earliest], base + sender)
        parent = np.where((sender > 0) & is_sent_on, earliest[position] if len(order) else -1, -1)
        start = rows.start[hops[0]]
        return Messages(chunk, sender, reached, np.stack(hops[:-1], axis=1), parent, start, arrival[last])


class Repair:
    """A plan of copies for a whole network, as translations of rows, that is changed for the damaged one.

    network: the damaged one. numbers: of the chunks of the whole network. alive: bool[elements]. messages: of rows.
    missing: int64, ascending, message * elements + element, for all translations that are over missing links.
    """

    def __init__(
        self,
        network: Network,
        whole: Network,
        translations: Translations,
        times: ClassTimes,
        numbers: ChunkNumbers,
        rows: Transfers,
    ) -> None:
        self.translations, self.numbers, self.rows, self.times = translations, numbers, rows, times
        self.count = translations.count
        self.alive = network.present[translations.orbits[0]]
        self.messages = Messages.of(whole, translations, times, rows)
        gone = np.arange(network.link_count, whole.link_count, dtype=np.int32)
        row, element = translations.rows_over(rows.link, gone)
        self.missing = np.unique(self._message_of_row[row] * self.count + element)
        self.gaps = Gaps(translations, times, rows)
        self.end = int(self.messages.arrival.max(initial=0))
        self.parent: list[int] = self.messages.parent.tolist()
        self.target: list[int] = self.messages.target.tolist()
        self.dropped = np.empty(0, np.int64)
        self.lost: dict[tuple[int, int], dict[int, int]] = {}
        self.holders: dict[tuple[int, int], dict[int, int]] = {}
        self.closed: set[tuple[int, int]] = set()
        self.closed_first = False
        self.rerouted: dict[tuple[int, int], Route] = {}
        self._links = network.link_count
        self._sizes = list(zip(translations.sizes, translations.strides, strict=True))
        self._images: list[list[int]] = translations.class_links.tolist()
        self._new: list[tuple[int, int, int, int]] = []
        self._find_moves()
        self._by_chunk = np.lexsort((self.messages.start, self.messages.chunk))
        chunks = numbers.parts * (numbers.members if numbers.pairs else 1)
        self._chunk_bounds = np.searchsorted(self.messages.chunk[self._by_chunk], np.arange(chunks + 1)).tolist()
        self._since: list[list[int]] = [] if numbers.pairs else self._plan_times()

    def _plan_times(self) -> list[list[int]]:
        """When each element has each chunk of the representative in the plan; -1 if never."""
        since = np.full((self.numbers.parts, self.count), -1, np.int64)
        order = np.argsort(-self.messages.arrival, kind="stable")
        since[self.messages.chunk[order], self.messages.target[order]] = self.messages.arrival[order]
        since[:, 0] = 0
        return since.tolist()

    @cached_property
    def _message_of_row(self) -> Int64Array:
        """int64[rows]: the message that each transfer is a hop of."""
        message = np.empty(len(self.rows), np.int64)
        hop = self.messages.rows >= 0
        message[self.messages.rows[hop]] = np.nonzero(hop)[0]
        return message

    def _find_moves(self) -> None:
        """The different steps of messages, as elements, with a route for each as classes of links and elements.

        nearest: the fastest moves. tried: how many senders an NPU that lacks a chunk considers at first, and how many
        receivers an NPU that has got it: as many as a node has NPUs. onward: the moves to these, the fastest first.
        """
        messages, translations = self.messages, self.translations
        step = translations.difference(messages.target, messages.sender)
        steps, first, self.move_of = np.unique(step, return_index=True, return_inverse=True)
        self.steps: list[int] = steps.tolist()
        self.number_of = {step: number for number, step in enumerate(self.steps)}
        self._routes: list[list[tuple[int, int]]] = []
        self.windows: list[int] = []
        for message in first.tolist():
            row = messages.rows[message]
            link = self.rows.link[row[row >= 0]]
            self.windows.append(int(self.times.window[link].sum()))
            element = translations.difference(translations.link_element[link], int(messages.sender[message]))
            self._routes.append(list(zip(translations.class_row[link].tolist(), element.tolist(), strict=True)))

        order = sorted(range(len(self.steps)), key=lambda move: (self.windows[move], move))
        self.nearest = [move for move in order if self.windows[move] == self.windows[order[0]]]
        self.tried = 1 + len(self.nearest)
        others = order[len(self.nearest) :]
        spaced = others[:: max(1, len(others) // (3 * self.tried))]
        self.onward = [*self.nearest, *dict.fromkeys([*others[: self.tried], *spaced])]

    def add(self, left: int, right: int) -> int:
        """The sum of two elements."""
        return sum((left // stride + right // stride) % size * stride for size, stride in self._sizes)

    def minus(self, left: int, right: int) -> int:
        """The difference of two elements."""
        return sum((left // stride - right // stride) % size * stride for size, stride in self._sizes)

    def route(self, move: int, sender: int) -> Route | None:
        """The links of a move from an element; None if one is missing."""
        links = [self._images[row][self.add(element, sender)] for row, element in self._routes[move]]
        return links if max(links) < self._links else None

    def drop(self, wanted: Int64Array) -> None:
        """Drop translations of messages, as `missing`, and all that depend on them, and note in `lost` who lacks what.

        Of an All-to-All, also what comes before: the chunk takes another route.
        """
        self.dropped, key = self._with_dependents(wanted, self.dropped)
        self._free_links(key)
        self._note_lost(key)

    def estimate_lost(self) -> int:
        """How many deliveries are lost for missing links; of over 255 elements, by the chunks of some of them."""
        chosen = np.arange(0, self.count, max(1, isqrt(self.count) // 8))
        mine = self.missing[np.isin(self.missing % self.count, chosen)]
        message, owner = np.divmod(self._with_dependents(mine, np.empty(0, np.int64))[0], self.count)
        there = self._are_there(message, owner.astype(np.int32))
        return int(np.count_nonzero(there)) * self.count // len(chosen)

    def _are_there(self, message: Int64Array, owner: Int32Array) -> BoolArray:
        """bool: whether a translation of a message is of a chunk that there is still, and to an NPU that is."""
        there = self.alive[owner] & self.alive[self.translations.sum(self.messages.target[message], owner)]
        if self.numbers.pairs:
            element = self.translations.element_of[self.messages.chunk[message] // self.numbers.parts]
            there &= self.alive[self.translations.sum(element, owner)]
        return there

    def _with_dependents(self, wanted: Int64Array, known: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(what is known and all that is to be dropped, ascending; the latter alone)."""
        messages, pairs = self.messages, self.numbers.pairs
        below = messages.chunk if pairs else messages.parent
        order = np.argsort(below, kind="stable")
        below = below[order]
        fresh = np.setdiff1d(wanted, known)
        all_, first = [fresh], np.union1d(known, fresh)
        while len(fresh):
            message, element = np.divmod(fresh, self.count)
            above = messages.chunk[message] if pairs else message
            low, high = (np.searchsorted(below, above, side) for side in ("left", "right"))
            size = high - low
            child = order[np.arange(int(size.sum())) + np.repeat(low - (np.cumsum(size) - size), size)]
            fresh = np.unique(child * self.count + np.repeat(element, size))
            fresh = fresh[~find_keys(first, fresh)[1]]  # messages form a tree, so that no others come twice
            all_.append(fresh)
            if pairs:
                break
        dropped = np.concatenate(all_)
        return np.union1d(known, dropped), dropped

    def find_overlaps(self, route: Route, starts: list[int]) -> Int64Array:
        """The translations of messages that are on links of a route when it is taken, as `missing`."""
        translations, rows = self.translations, self.rows
        keys = [np.empty(0, np.int64)]
        for link, start in zip(route, starts, strict=True):
            near = np.abs(rows.start - start) < self.times.taken[link]
            row = np.flatnonzero(near & (translations.class_row[rows.link] == translations.class_row[link]))
            element = translations.elements_to(rows.link[row], np.full(len(row), link, np.int32))
            keys.append(self._message_of_row[row] * self.count + element)
        return np.concatenate(keys)

    def _free_links(self, key: Int64Array) -> None:
        message, element = np.divmod(key, self.count)
        for hop in range(self.messages.rows.shape[1]):
            row = self.messages.rows[message, hop]
            used = row >= 0
            link = self.translations.moved_links(self.rows.link[row[used]], element[used].astype(np.int32))
            self.gaps.drop(link, self.rows.start[row[used]])

    def _note_lost(self, key: Int64Array) -> None:
        message, owner = np.divmod(key, self.count)
        order = np.lexsort((message, self.messages.start[message]))
        message, owner = message[order], owner[order].astype(np.int32)
        target = self.translations.sum(self.messages.target[message], owner)
        there = self._are_there(message, owner)
        columns = self.messages.chunk[message], owner, target, message
        for chunk, own, to, number in zip(*(column[there].tolist() for column in columns), strict=True):
            self.lost.setdefault((chunk, own), {})[to] = number

    def time_at(self, chunk: int, owner: int, element: int) -> int:
        """When an element has a chunk in the plan; -1 if it never has."""
        return self._since[chunk][self.minus(element, owner)] if self.alive[element] else -1

    def send(self, chunk: int, owner: int, route: Route, starts: list[int]) -> None:
        """Send a chunk over the links of a route."""
        for link, start in zip(route, starts, strict=True):
            self.gaps.reserve(link, start)
            self._new.append((chunk, owner, link, start))

    def dropped_rows(self) -> Int64Array:
        """int64, ascending: row * elements + element, for each dropped translation of a row."""
        message, element = np.divmod(self.dropped, self.count)
        row = self.messages.rows[message]
        return np.sort((row * self.count + element[:, None])[row >= 0])

    def added_transfers(self) -> tuple[Int32Array, Int32Array, Int32Array, Int64Array]:
        """(chunks, elements of owners, links, starts) of what was sent."""
        new = np.array(self._new, np.int64).reshape(-1, 4)
        chunk, owner, link = new[:, :3].astype(np.int32).T
        return chunk, owner, link, new[:, 3]

    def repair_all(self) -> bool:
        """Bring all that is lost to those that lack it, in the order in which it was to be sent; False if there is
        no route.
        """
        first = {key: int(self.messages.start[next(iter(lost.values()))]) for key, lost in self.lost.items() if lost}
        for key in sorted(first, key=lambda key: ((key in self.closed) != self.closed_first, first[key], key)):
            if self.numbers.pairs:
                done = self.exchange(*key)
            else:
                done = self.spread(*key, self.lost[key], self.holders.get(key, {}), closed=key in self.closed)
            if not done:
                return False
        return True

    def spread(self, chunk: int, owner: int, lacking: dict[int, int], holders: dict[int, int], *, closed: bool) -> bool:
        """Bring a chunk to all that lack it, each time to the one that it can reach first; False if one has no way.

        lacking: the message that each element has lost; it is emptied. holders: since when elements have the chunk
        that have got it otherwise than in the plan; those that get it are added. closed: whether no others have it.
        """
        growth = _Growth(self, chunk, owner, lacking, holders, closed)
        while lacking:
            if not growth.step():
                return False
        return True

    def exchange(self, chunk: int, owner: int) -> bool:
        """Send a block of an All-to-All on another route, not before it was to leave; False if there is none."""
        first, after = self._chunk_bounds[chunk : chunk + 2]
        lost = self._by_chunk[first:after]
        lost_moves: list[int] = self.move_of[lost].tolist()
        steps = [self.steps[move] for move in lost_moves]
        ready = int(self.messages.start[lost[0]])
        best: tuple[int, Route, list[int]] | None = None
        for route in self._routes_for(owner, steps, self.rerouted.get((chunk, owner))):
            starts, arrival = self.gaps.earliest(route, ready)
            if best is None or arrival < best[0]:
                best = arrival, route, starts
            if arrival <= self.end:
                break
        if best is None:
            return False
        self.send(chunk, owner, best[1], best[2])
        self.end = max(self.end, best[0])
        return True

    def _routes_for(self, owner: int, steps: list[int], other: Route | None) -> Iterator[Route]:
        """Another route if there is one, and then those of a block with some steps."""
        if other is not None:
            yield other
        for moves in self._other_routes(steps):
            sender, route = owner, Route()
            for move in moves:
                part = self.route(move, sender)
                if part is None or not self.alive[sender]:
                    break
                route += part
                sender = self.add(sender, self.steps[move])
            else:
                yield route

    def _other_routes(self, steps: list[int]) -> Iterator[list[int]]:
        """Moves in other orders, and with the first one divided in two, or with one forth and back, so that the others
        are translated.
        """
        number_of = self.number_of
        moves = [number_of[step] for step in steps]
        for turn in range(len(moves)):
            yield moves[turn:] + moves[:turn]
        for number in self.nearest:
            step = self.steps[number]
            rest, back = self.minus(steps[0], step), self.minus(0, step)
            if rest in number_of:
                yield [number, *moves[1:], number_of[rest]]
            elif back in number_of:
                yield [number, *moves, number_of[back]]


class _Growth:
    """How one chunk spreads to those that lack it.

    offers: arrival, target, sender, move and its route, the earliest first. fastest: the fastest move that leads to
    each from one that has got the chunk; slower ones are not taken then.
    """

    def __init__(
        self, repair: Repair, chunk: int, owner: int, lacking: dict[int, int], holders: dict[int, int], closed: bool
    ) -> None:
        self._repair, self._chunk, self._owner = repair, chunk, owner
        self._lacking, self._holders = lacking, holders
        self._offers: list[tuple[int, int, int, int, Route]] = []
        self._next: dict[int, Iterator[int]] = {}
        self._fastest: dict[int, int] = {}
        self._wider = [] if closed else [len(repair.steps), repair.tried]
        if closed:
            for holder in tuple(holders):
                self._offer_more(holder, repair.tried)
        elif lacking:
            self._ask(1)

    def _ask(self, most: int) -> None:
        """Offers to all that lack the chunk, by the moves by which it would have come, and those after them."""
        repair, count = self._repair, len(self._repair.steps)
        entries = dict[int, int]()
        for target, message in self._lacking.items():
            own, entry = int(repair.move_of[message]), int(repair.move_of[self._entry_of(message, entries)])
            moves = [first + after for after in range(min(most, count)) for first in (entry, own)]
            for move in dict.fromkeys(move % count for move in moves):
                self._offer(repair.minus(target, repair.steps[move]), target, move)

    def _entry_of(self, message: int, known: dict[int, int]) -> int:
        """The first of the lost messages by which the chunk would have come. known: of others; those on the way are
        added.
        """
        repair, passed = self._repair, [message]
        while message not in known and (parent := repair.parent[message]) >= 0:
            receiver = repair.add(repair.target[parent], self._owner)
            if receiver not in self._lacking and repair.alive[receiver]:
                break
            message = parent
            passed.append(message)
        entry = known.get(message, message)
        known.update(dict.fromkeys(passed, entry))
        return entry

    def _offer(self, sender: int, target: int, move: int) -> bool:
        """Consider a sender for a target; False if it cannot be one."""
        repair = self._repair
        if sender in self._lacking:
            return False
        since = self._holders.get(sender, -1)
        since = repair.time_at(self._chunk, self._owner, sender) if since < 0 else since
        route = repair.route(move, sender) if since >= 0 else None
        if route is None:
            return False
        if sender in self._holders:
            self._fastest[target] = min(self._fastest.get(target, move), move, key=lambda each: repair.windows[each])
        heapq.heappush(self._offers, (repair.gaps.earliest(route, since)[1], target, sender, move, route))
        return True

    def _offer_more(self, sender: int, most: int) -> None:
        """Offers of one that has got the chunk, by the fastest moves first."""
        repair = self._repair
        if sender not in self._next:
            moves = repair.onward
            if len(self._lacking) < len(moves):
                known = (repair.number_of.get(repair.minus(target, sender)) for target in self._lacking)
                moves = sorted(
                    (move for move in known if move is not None), key=lambda move: (repair.windows[move], move)
                )
            self._next[sender] = iter(moves)
        for move in self._next[sender]:
            target = repair.add(sender, repair.steps[move])
            if target in self._lacking and self._offer(sender, target, move):
                most -= 1
            if not most:
                return

    def step(self) -> bool:
        """Accept the offer that arrives first; False if there is none."""
        repair = self._repair
        while self._offers:
            arrival, target, sender, move, route = heapq.heappop(self._offers)
            if target not in self._lacking:
                if sender in self._next:
                    self._offer_more(sender, 1)
                continue
            if repair.windows[move] > repair.windows[self._fastest.get(target, move)]:
                continue
            since = self._holders.get(sender, -1)
            since = repair.time_at(self._chunk, self._owner, sender) if since < 0 else since
            starts, now = repair.gaps.earliest(route, since)
            wider = now > repair.end and len(self._wider) > 1
            if wider:
                self._ask(self._wider.pop())
            if wider or now > arrival:
                heapq.heappush(self._offers, (now, target, sender, move, route))
                continue
            repair.send(self._chunk, self._owner, route, starts)
            del self._lacking[target]
            self._holders[target] = now
            if sender in self._next:
                self._offer_more(sender, 1)
            self._offer_more(target, repair.tried)
            return True
        if not self._wider:
            return False
        self._ask(self._wider.pop())
        return self.step()
