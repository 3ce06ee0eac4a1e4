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

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib import import_module
from math import isqrt
from typing import Any, NamedTuple

import numpy as np

from collc.base.memory import require_for_search
from collc.graph.throughput import load_flows
from collc.kernels.compiled import STEP_TIME, compile_kernel, fields, numbers, runs_compiled, version_of
from collc.kernels.link_gaps import NEVER, Layout, Memory
from collc.kernels.plan_repair import Blocks, Routes, Sends, exchange_all, spread_all
from collc.synthesis.symmetric.class_timetable import ClassTimes
from collc.synthesis.symmetric.lost_blocks import LostBlocks, NewRoutes
from collc.synthesis.symmetric.messages import Messages, Moves, csr_bounds
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, distinct, find_keys, order_of, ranges
from collc.ten.factored_schedule import ChunkNumbers, Translations
from collc.ten.network import Network
from collc.ten.schedule import Transfers


class Lost(NamedTuple):
    """Who lacks what. key: int64, chunk * elements + element of the owner. element: int64. message: int64, by which it
    would have come.
    """

    key: Int64Array
    element: Int64Array
    message: Int64Array

    def join(self, other: Lost) -> Lost:
        """Both tables."""
        return Lost(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    def select(self, rows: Int64Array | BoolArray) -> Lost:
        """Some rows."""
        return Lost(*(column[rows] for column in self))


class SpreadRequest(NamedTuple):
    """Chunks that are to be spread, in order. keys: as in Lost. closed: bool, whether none has them but holders.

    onward, begin_bounds, begin_element: the move by which the only holder of each sends it on, and from which elements
    it may come instead of that holder if this delays nothing (CSR).
    """

    keys: Int64Array
    closed: BoolArray
    onward: Int64Array
    begin_bounds: Int64Array
    begin_element: Int64Array

    @staticmethod
    def of(keys: Int64Array, closed: BoolArray) -> SpreadRequest:
        """Of chunks that come from holders and those that have them in the plan."""
        return SpreadRequest(keys, closed, np.full(len(keys), -1), np.zeros(len(keys) + 1, np.int64), keys[:0])


class Repair:
    """A plan of copies for a whole network, as translations of rows, that is changed for the damaged one.

    network: the damaged one. times, actual: of chunks in the whole network, and as its links are now. numbers: of the
    chunks of the whole network. alive: bool[elements]. messages: of rows. missing: int64, ascending, message * elements
    + element, for all translations that are over links that are missing or take another time.
    """

    def __init__(
        self,
        network: Network,
        whole: Network,
        translations: Translations,
        times: ClassTimes,
        actual: ClassTimes,
        numbers: ChunkNumbers,
        rows: Transfers,
    ) -> None:
        self.translations, self.numbers, self.rows, self.times = translations, numbers, rows, times
        self.count = translations.count
        self.alive = network.present[translations.orbits[0]]
        self.messages = Messages.of(whole, translations, times, rows)
        slow = np.flatnonzero(network.kind != whole.kind[: network.link_count])
        gone = np.append(slow, np.arange(network.link_count, whole.link_count)).astype(np.int32)
        row, element = translations.rows_over(rows.link, gone)
        self.missing = np.unique(self._message_of_row[row] * self.count + element)
        self.end = int(self.messages.arrival.max(initial=0))
        self.dropped = np.empty(0, np.int64)
        self.lost = Lost(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
        self.holders: dict[int, dict[int, int]] = {}
        self.closed: set[int] = set()
        self.closed_first = False
        self.rerouted: NewRoutes | None = None
        self.moves = Moves.of(self.messages, translations, times, rows)
        self._mirror, self._opposite = -1, np.empty(0, np.int32)
        self._weak = np.zeros(self.count, np.int64)
        self._gone = whole.source[gone], whole.target[gone]
        self._release = np.zeros(numbers.parts, np.int64)
        self._links, self._target, self.actual = network.link_count, network.target, actual
        self._sent: list[tuple[Int32Array | Int64Array, ...]] = [(*[np.empty(0, np.int64)] * 4,)]

    @cached_property
    def _plan_times(self) -> Int64Array:
        """int64[parts * elements]: when each has each chunk of the representative in the plan; -1 if never."""
        if self.numbers.pairs:
            return np.empty(0, np.int64)
        since = np.full((self.numbers.parts, self.count), -1, np.int64)
        order = np.argsort(-self.messages.arrival, kind="stable")
        since[self.messages.chunk[order], self.messages.target[order]] = self.messages.arrival[order]
        since[:, 0] = self._release
        return since.reshape(-1)

    @cached_property
    def blocks(self) -> LostBlocks:
        """The blocks of an All-to-All of which something is missing."""
        return LostBlocks.of(self.messages, self.translations, self.numbers.parts, self.alive, self.missing)

    @cached_property
    def _message_of_row(self) -> Int64Array:
        """int64[rows]: the message that each transfer is a hop of."""
        message = np.empty(len(self.rows), np.int64)
        hop = self.messages.rows >= 0
        message[self.messages.rows[hop]] = np.nonzero(hop)[0]
        return message

    def reflect(self, mirror: int, opposite: Int32Array, release: Int64Array) -> None:
        """Let all that is sent take the opposite links too, backwards in time from `mirror` on: for partials.

        release: when the chunks of the representative are complete. NPUs that have lost links pass on what they get
        only if nobody else can.
        """
        self._mirror, self._opposite, self._release = mirror, opposite, release
        self._weak[self.translations.element_of[np.concatenate(self._gone)]] = NEVER

    def _with_mirror(self, link: Int32Array, start: Int64Array) -> tuple[Int32Array, Int64Array]:
        """What takes links, and what takes their opposites for it."""
        if self._mirror < 0:
            return link, start
        back = self._mirror - start - self.times.window[link]
        return np.append(link, self._opposite[link]), np.append(start, back)

    def _idle_times(self, link: Int32Array, start: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """(int64[classes + 1], begins, ends): when links of each class are idle, if these are taken then (CSR)."""
        classes, long = self.translations.class_links, self.times.taken
        bounds, start = _group_starts(self.translations.class_row[link], start, len(classes))
        number = np.arange(len(classes))
        busy = np.insert(start, bounds[1:], NEVER)
        before = np.repeat(long[classes[:, 0]], np.diff(bounds))
        idle = np.insert(start + before, bounds[:-1], 0 if self._mirror < 0 else self._mirror - NEVER)
        of = np.repeat(number, np.diff(bounds) + 1)
        some = idle < busy
        return csr_bounds(of[some], len(classes)), idle[some], busy[some]

    def route_to(self, target: int, sender: int) -> list[int] | None:
        """The links of a move from one element to another; None if each of its routes lacks one."""
        moves, translations = self.moves, self.translations
        step = translations.difference(np.array([target], np.int32), sender)
        move = int(np.searchsorted(moves.steps, step)[0])
        for route in range(int(moves.routes[move]), int(moves.routes[move + 1])):
            hops = slice(moves.bounds[route], moves.bounds[route + 1])
            links = translations.class_links[moves.row[hops], translations.sum(moves.element[hops], sender)]
            if int(links.max()) < self._links:
                return links.tolist()
        return None

    def forget(self, codes: Int64Array) -> None:
        """Bring nothing to elements for which something else is planned. codes: key * elements + element."""
        has_it = find_keys(distinct(codes), self.lost.key * self.count + self.lost.element)[1]
        self.lost = self.lost.select(~has_it)

    def drop(self, wanted: Int64Array) -> None:
        """Drop translations of messages of copies, as `missing`, and all that depend on them, and note in `lost` who
        lacks what.
        """
        self.dropped, key = self._with_dependents(wanted, self.dropped)
        self._note_lost(key)

    def drop_within_damaged(self) -> None:
        """Drop all that is sent within nodes that lack links, so that what these have left is shared anew: gaps between
        messages of the plan may be too short.
        """
        near = np.flatnonzero(np.isin(self.moves.move_of, self.moves.nearest))
        steps = np.append(0, self.moves.steps[self.moves.nearest]).astype(np.int32)
        members = np.unique([self.translations.sum(steps, each) for each in self.damaged_inside.tolist()])
        senders = self.messages.sender[near]
        owners = [self.translations.difference(np.full_like(senders, each), senders) for each in members]
        codes = np.unique(np.tile(near, len(members)) * self.count + np.concatenate(owners))
        self.drop(codes[~find_keys(self.dropped, codes)[1]])

    def spare_damaged(self) -> None:
        """Let NPUs that have lost links within their node send a chunk but once if others can pass it on in the time
        that two moves take.
        """
        self._weak[self.damaged_inside] = 2 * self.moves.windows[self.moves.nearest[0]]

    def time_within(self, element: int) -> float:
        """Picoseconds in which an NPU gets a chunk at least over the links that lead to it within its node."""
        return 1 / float((1 / self.actual.taken[self._links_within(element)]).sum())

    def _links_within(self, element: int) -> Int32Array:
        """int32: the links that are left over which the nearest moves lead to an element."""
        moves = self.moves
        is_near = np.isin(np.repeat(np.arange(len(moves.steps)), np.diff(moves.routes)), moves.nearest)
        links = self.translations.class_links[np.unique(moves.row[moves.bounds[1:][is_near] - 1])].ravel()
        links = links[links < self._links]
        return links[self._target[links] == self.translations.orbits[0, element]]

    @cached_property
    def damaged_inside(self) -> Int32Array:
        """int32: the elements that have lost some, but not all, of their links to NPUs of their node that are there."""
        message, owner = np.divmod(self.missing, self.count)
        message, owner = (each[np.isin(self.moves.move_of[message], self.moves.nearest)] for each in (message, owner))
        ends = self.messages.sender[message], self.messages.target[message]
        pair = np.stack([self.translations.sum(each, owner.astype(np.int32)) for each in ends])
        device = np.concatenate(self._gone)
        element = np.unique(self.translations.element_of[device[device < len(self.translations.element_of)]])
        element = element[np.isin(element, pair[:, self.alive[pair].all(axis=0)])]
        return np.array([each for each in element.tolist() if len(self._links_within(each))], np.int32)

    def estimate_lost(self) -> int:
        """How many deliveries are lost for missing links; of over 255 elements, by the chunks of some of them, but of
        an All-to-All those of all blocks.
        """
        if self.numbers.pairs:
            return int(self.blocks.hops.sum())
        chosen = np.arange(0, self.count, max(1, isqrt(self.count) // 8))
        mine = self.missing[np.isin(self.missing % self.count, chosen)]
        message, owner = np.divmod(self._with_dependents(mine, np.empty(0, np.int64))[0], self.count)
        there = self._are_there(message, owner.astype(np.int32))
        return int(np.count_nonzero(there)) * self.count // len(chosen)

    def _are_there(self, message: Int64Array, owner: Int32Array) -> BoolArray:
        """bool: whether a translation of a message is of a chunk that there is still, and to an NPU that is."""
        return self.alive[owner] & self.alive[self.translations.sum(self.messages.target[message], owner)]

    def _with_dependents(self, wanted: Int64Array, known: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(what is known and all that is to be dropped, ascending; the latter alone)."""
        order = np.argsort(self.messages.parent, kind="stable")
        below = self.messages.parent[order]
        wanted = distinct(wanted)
        fresh = wanted[~find_keys(known, wanted)[1]]
        all_, first = [fresh], distinct(np.append(known, fresh))
        while len(fresh):
            message, element = np.divmod(fresh, self.count)
            low, high = (np.searchsorted(below, message, side) for side in ("left", "right"))
            fresh = distinct(order[ranges(low, high)] * self.count + np.repeat(element, high - low))
            fresh = fresh[~find_keys(first, fresh)[1]]  # messages form a tree, so that no others come twice
            all_.append(fresh)
        dropped = np.concatenate(all_)
        return distinct(np.append(known, dropped)), dropped

    def find_overlaps(self, link: Int64Array, start: Int64Array) -> Int64Array:
        """The translations of messages that are on links when these are taken, as `missing`."""
        translations, row_class = self.translations, self.translations.class_row[self.rows.link]
        span = np.int64(self.end + 2 * int(self.times.taken.max()) + 1)
        base = row_class.astype(np.int64) * span
        order = np.argsort(base + self.rows.start, kind="stable")
        taken_at, wanted = (base + self.rows.start)[order], translations.class_row[link] * span + start
        taken = self.times.taken[link]
        low = np.searchsorted(taken_at, np.maximum(wanted - start, wanted - taken + 1), "left")
        high = np.searchsorted(taken_at, wanted + taken, "left")
        number, row = np.repeat(np.arange(len(link)), high - low), order[ranges(low, high)]
        element = translations.elements_to(self.rows.link[row], link[number].astype(np.int32))
        return self._message_of_row[row] * self.count + element

    def _note_lost(self, key: Int64Array) -> None:
        message, owner = np.divmod(key, self.count)
        order = np.lexsort((message, self.messages.start[message]))
        message, owner = message[order], owner[order]
        target = self.translations.sum(self.messages.target[message], owner.astype(np.int32))
        there = self._are_there(message, owner.astype(np.int32))
        lost = Lost(
            self.messages.chunk[message].astype(np.int64) * self.count + owner, target.astype(np.int64), message
        )
        self.lost = self.lost.join(lost.select(there))

    def send(self, *columns: Int32Array | Int64Array) -> None:
        """Send chunks over links. columns: chunks, elements of owners, links, starts."""
        self._sent.append(columns)

    def dropped_rows(self) -> Int64Array:
        """int64, ascending: row * elements + element, for each dropped translation of a row."""
        if self.numbers.pairs:
            return self._rows_of_blocks
        message, element = np.divmod(self.dropped, self.count)
        row = self.messages.rows[message]
        return np.sort((row * self.count + element[:, None])[row >= 0])

    @cached_property
    def _rows_of_blocks(self) -> Int64Array:
        return self.blocks.list_by(self.rows.chunk, self.count)

    def dropped_links(self) -> tuple[Int64Array, Int32Array]:
        """(rows, links) of each dropped translation of a row, in order."""
        return self._links_of_blocks if self.numbers.pairs else self._links_of(self.dropped_rows())

    @cached_property
    def _links_of_blocks(self) -> tuple[Int64Array, Int32Array]:
        return self._links_of(self._rows_of_blocks)

    def _links_of(self, images: Int64Array) -> tuple[Int64Array, Int32Array]:
        row, element = np.divmod(images, self.count)
        return row, self.translations.moved_links(self.rows.link[row], element.astype(np.int32))

    def added_transfers(self) -> tuple[Int32Array, Int32Array, Int32Array, Int64Array]:
        """(chunks, elements of owners, links, starts) of what was sent."""
        chunk, owner, link, start = map(np.concatenate, zip(*self._sent, strict=True))
        return chunk.astype(np.int32), owner.astype(np.int32), link.astype(np.int32), start

    def repair_all(self) -> bool:
        """Bring all that is lost to those that lack it, in the order in which it was to be sent; False if there is
        no route.
        """
        if self.numbers.pairs:
            return self._exchange(np.argsort(self.messages.start[self.blocks.first], kind="stable"))
        keys, first = np.unique(self.lost.key, return_index=True)
        closed = np.isin(keys, [*self.closed])
        order = np.lexsort((keys, self.messages.start[self.lost.message[first]], closed != self.closed_first))
        return self.spread(SpreadRequest.of(keys[order], closed[order]), self.lost) is not None

    def spread(self, request: SpreadRequest, lost: Lost) -> Lost | None:
        """Bring chunks to all that lack them, each time to the one that it can reach first; None if one has no way.

        Returns who has got them otherwise than in the plan: in position of messages, since when, in picoseconds.
        """
        keys = request.keys
        by_key = np.argsort(keys, kind="stable")
        number = by_key[np.searchsorted(keys[by_key], lost.key)]
        lost = lost.select(np.argsort(number, kind="stable"))
        compile_it = runs_compiled(spread_all, 8 * STEP_TIME * self.moves.tried * len(lost.key))
        holders = [self.holders.get(key, {}) for key in keys.tolist()]
        held = [each for holder in holders for each in holder.items()]
        columns = (
            *np.divmod(keys, self.count), request.closed, csr_bounds(number, len(keys)), lost.element, lost.message,
            _bounds_of(map(len, holders)), *np.array(held, np.int64).reshape(-1, 2).T,
            request.onward, request.begin_bounds, request.begin_element,
        )  # fmt: skip
        width = int(np.diff(self.moves.bounds).max(initial=1))
        most = len(keys) + len(lost.key)
        sent = [numbers(np.zeros(size, np.int64), compile_it) for size in (*[most] * 4, most * width)]
        kernel = version_of(spread_all, compile_it)
        offers: Any = np.zeros((1, 3), np.int64) if compile_it else []
        count = self._run(lambda at, memory: kernel(at, memory, Sends(*sent), offers), width, compile_it, columns)
        if count < 0:
            return None
        row, sender, route, arrival = (np.asarray(column[:count], np.int64) for column in sent[:4])
        starts = np.asarray(sent[4][: count * width], np.int64).reshape(-1, width)
        return self._send_all(keys[row], sender, route, arrival, starts)

    def _send_all(
        self, keys: Int64Array, sender: Int64Array, route: Int64Array, arrival: Int64Array, starts: Int64Array
    ) -> Lost:
        """Send chunks on routes of moves; returns who has got them, and since when."""
        moves, translations = self.moves, self.translations
        size: Int64Array = np.diff(moves.bounds)[route]
        row = np.repeat(np.arange(len(route)), size)
        hop = ranges(np.zeros(len(route), np.int64), size)
        position = moves.bounds[route[row]] + hop
        element = translations.sum(moves.element[position], sender[row].astype(np.int32))
        chunk, owner = np.divmod(keys[row], self.count)
        self.send(
            chunk, owner, translations.class_links[moves.row[position], element].astype(np.int64), starts[row, hop]
        )
        step = moves.steps[np.searchsorted(moves.routes, route, "right") - 1]
        target = translations.sum(step.astype(np.int32), sender.astype(np.int32)).astype(np.int64)
        got = Lost(keys, target, arrival)
        pairs = zip(keys.tolist(), target.tolist(), strict=True)
        begun = [element in self.holders.get(key, ()) for key, element in pairs] if self.holders else []
        begun = np.flatnonzero(begun)  # what a holder gets came from where it begins
        return got.join(Lost(keys[begun], sender[begun], np.zeros(len(begun), np.int64)))

    def _exchange(self, order: Int64Array) -> bool:
        """Send the lost blocks of an All-to-All, in some order, on other routes, not before they were to leave; False
        if one has none.
        """
        blocks = self.blocks
        chunk, owner = blocks.chunk[order], blocks.owner[order]
        first, after = blocks.bounds[chunk], blocks.bounds[chunk + 1]
        own = blocks.by_chunk[ranges(first, after)]
        routes = self.rerouted or NewRoutes(np.zeros(len(chunk) + 1, np.int64), np.empty(0, np.int64), 0)
        routes = routes.select(order)
        hops = int(np.diff(self.moves.bounds).max(initial=1))
        most = np.maximum(np.diff(routes.bounds), (after - first + 2) * hops)
        compile_it = runs_compiled(exchange_all, STEP_TIME * int(most.sum()))
        columns = (
            owner,
            self.messages.start[blocks.first[order]],
            np.append(0, np.cumsum(after - first)),
            self.moves.move_of[own],
            routes.bounds,
            routes.links,
        )
        sent = Blocks(*(numbers(np.ascontiguousarray(column, np.int64), compile_it) for column in columns))
        sizes = len(chunk) + 1, int(most.sum()), int(most.sum())
        written = [numbers(np.zeros(size, np.int64), compile_it) for size in sizes]
        kernel = version_of(exchange_all, compile_it)
        width = int(most.max(initial=1))
        if self._run(lambda at, memory: kernel(at, memory, sent, Routes(*written)), width, compile_it) < 0:
            return False
        number = np.repeat(np.arange(len(chunk)), np.diff(np.asarray(written[0], np.int64)))
        link, start = (np.asarray(column[: len(number)], np.int64) for column in written[1:])
        self.send(chunk[number], owner[number], link, start)
        return True

    def _run(
        self,
        kernel: Callable[[Layout, Memory], int],
        width: int,
        compile_it: bool,
        keys: Sequence[Int64Array | BoolArray] = (),
    ) -> int:
        """What a kernel gives with enough room for the gaps of links. width: links of a route at most. keys: columns of
        chunks that some elements lack, if any (`Layout`).
        """
        room = len(self.rows) * (self.count // 4 if compile_it else 8) + self.count
        while True:
            require_for_search(16 * room, "gaps between transfers")
            layout, memory, size = self._memory(width, room, compile_it, keys)
            result = kernel(layout, memory)
            if memory[size] <= room:
                return result
            room *= 4

    def _memory(
        self, width: int, room: int, compile_it: bool, keys: Sequence[Int64Array | BoolArray]
    ) -> tuple[Layout, Memory, int]:
        """The plan as it is now, and room, for kernels; and the number of the entry that says how much they took."""
        translations, moves, times, link = self.translations, self.moves, self.times, self.rows.link
        (row, dropped), links = self.dropped_links(), len(times.taken)
        _, _, sent, sent_at = self.added_transfers()
        taken = self._with_mirror(link, self.rows.start)
        idle = self._idle_times(*taken)
        dropped = self._with_mirror(dropped, self.rows.start[row])
        rank, number_of = np.empty(len(moves.steps), np.int64), np.full(self.count, -1, np.int64)
        rank[moves.by_rank] = number_of[moves.steps] = np.arange(len(rank))
        axes = zip(translations.sizes, translations.strides, strict=True)
        index = np.stack([np.arange(self.count) // stride % size for size, stride in axes])
        nothing, zeros, onwards = np.full(self.count, -1), np.zeros(self.count, np.int64), len(moves.onward)
        keys = keys or [zeros[:0]] * 12
        # Holders queue the moves to those that still lack a chunk, and so do the last ones that get it.
        queue = np.append(moves.onward, np.zeros(onwards * (onwards + np.diff(keys[6]).max(initial=0))))
        columns = (
            translations.sizes, translations.strides, index.ravel(), translations.class_links.ravel(),
            translations.class_row, self.actual.taken, self.actual.window,
            *idle,
            *_group_starts(*dropped, links),
            *_group_starts(sent, sent_at, links), self._opposite, self._weak,
            self.alive, moves.steps, number_of, moves.windows, rank, moves.by_rank, moves.routes, moves.bounds,
            moves.row, moves.element, moves.nearest, moves.onward, self._plan_times, self.messages.parent,
            self.messages.target, moves.move_of, *keys, nothing, nothing, np.full(self.count, NEVER), zeros, zeros,
            queue, *np.zeros((4, 1)),
            np.zeros(width), np.zeros(width), np.zeros(4 * links), np.ones(1), np.zeros(room), np.zeros(room + 4),
        )  # fmt: skip
        begins = _bounds_of(map(len, columns))
        memory = np.zeros(int(begins[-1]), np.int64)
        for begin, column in zip(begins.tolist(), columns[:-2], strict=False):
            memory[begin : begin + len(column)] = column
        lengths = len(moves.steps), len(moves.nearest), onwards, moves.tried, width, room
        layout = self.count, self._links, self.end, *lengths, self._mirror, len(keys[0]), *begins[:-1].tolist()
        return fields(Layout, layout, compile_it), numbers(memory, compile_it), int(begins[-4])


def load_kernels() -> None:
    """Load or compile what repairs plans and bounds them, for a process that will do so and has the time now."""
    import_module("scipy.sparse.csgraph")
    load_flows()
    layout, memory = fields(Layout, [0] * len(Layout._fields), True), numbers(np.zeros(1, np.int64), True)
    offers: Any = np.zeros((1, 3), np.int64)
    compile_kernel(spread_all)(layout, memory, Sends(*[memory[:0]] * 5), offers)
    compile_kernel(exchange_all)(layout, memory, Blocks(*[memory[:0]] * 6), Routes(*[memory[:0]] * 3))


def _bounds_of(sizes: Iterable[int]) -> Int64Array:
    """int64: where parts of some sizes begin, and the end."""
    return np.append(0, np.cumsum(np.fromiter(sizes, np.int64)))


def _group_starts(number: Int32Array | Int64Array, start: Int64Array, count: int) -> tuple[Int64Array, Int64Array]:
    """(int64[count + 1], int64): the starts of each number, ascending (CSR)."""
    order = np.argsort(start)
    return csr_bounds(number, count), start[order[order_of(number[order], count)]]
