"""Chunks spread dimension by dimension, and the times of their transfers.

A chunk goes along the line of its holder in one dimension; all NPUs that have it then send it along theirs in the
next. The order of the dimensions can differ from chunk to chunk.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.synthesis.by_dimension.dimensions import Dimensions, Lines, Move, find_dimensions
from collc.synthesis.conditions import Conditions
from collc.ten.schedule import RowSchedule, Schedule, Transfers

POLL = 10_000
"""Transfers after which it is asked whether to stop."""

Order = Sequence[int]
"""Dimensions in the order in which a chunk takes them."""


def dimensions_of(conditions: Conditions, way: str) -> Dimensions:
    """The dimensions of a task's network. Raises SourceError where there are fewer than two."""
    network = conditions.task.network
    found = find_dimensions(network)
    if found is None:
        message = f"'{way}' needs a network of two dimensions or more, and '{network.name}' has no lines of NPUs"
        hint = "build it as a product, as in ring(4) * switched(8), or use auto, tacos or pccl"
        raise SourceError(Diagnostic("S0305", message, hint=hint))
    return found


def link_costs(conditions: Conditions) -> list[int]:
    """Picoseconds for which the largest chunk occupies each link."""
    return conditions.clock.busy[conditions.task.network.kind].max(axis=1, initial=1).tolist()


def dimension_times(conditions: Conditions, dimensions: Dimensions) -> list[float]:
    """For each dimension, the picoseconds for which one copy of a chunk keeps all its links together busy."""
    network = conditions.task.network
    costs = np.array(link_costs(conditions), np.float64)
    leaving = network.source < network.npu_count
    return [1 / float((1 / costs[links & leaving]).sum()) for links in dimensions.usable]


def slowest_first(conditions: Conditions, dimensions: Dimensions) -> Order:
    """The dimensions by what an NPU can send along them, the least first; the later before the earlier among equals."""
    times = dimension_times(conditions, dimensions)
    return sorted(range(len(dimensions)), key=lambda axis: (-times[axis], -axis))


def spread(
    conditions: Conditions, dimensions: Dimensions, orders: Sequence[Order], stop: Callable[[], bool]
) -> Schedule:
    """The schedule in which row k of the conditions takes the dimensions in orders[k].

    Raises SourceError where no way along the lines leads to an NPU, NoSchedule where `stop` says so or where
    switches have no room.
    """
    lines = Lines(dimensions, link_costs(conditions))
    moves: list[list[Move]] = []
    for k in range(len(conditions)):
        if k % 256 == 0 and stop():
            raise NoSchedule(Diagnostic("S0201", "stopped before all chunks were planned", hint="give it more time"))
        moves.append(_moves(conditions, lines, k, orders[k]))
    best: tuple[int, Transfers] | None = None
    for turns_first in (False, True):
        if best is not None and stop():
            break
        found = _timed(conditions, moves, turns_first, stop)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    if best is None:
        raise NoSchedule(Diagnostic("S0201", "stopped before all chunks were planned", hint="give it more time"))
    return RowSchedule(conditions.task.model, best[1])


def _timed(
    conditions: Conditions, moves: list[list[Move]], turns_first: bool, stop: Callable[[], bool]
) -> tuple[int, Transfers] | None:
    """The end and all transfers of a schedule; None where `stop` says so before.

    What will run backwards must not find a chunk in a switch twice, since contributions would be mixed up there: where
    that happens, one copy of a chunk waits for the other.
    """
    found: tuple[int, Transfers] | None = None
    for apart in (False, True):
        timing = _Timing(conditions, turns_first, apart)
        for k, row in enumerate(moves):
            timing.add(k, row)
        found = timing.run(stop)
        if found is None or not conditions.task.inverted or not timing.meet():
            break
    return found


def _moves(conditions: Conditions, lines: Lines, k: int, order: Order) -> list[Move]:
    """The moves of a row from its first holder to all who want it, each after the move that brings the chunk."""
    holders, wanting = conditions.row(k)
    index = lines.dimensions.index
    fronts: list[tuple[int, list[int]]] = [(int(holders[0]), wanting.tolist())]
    moves: list[Move] = []
    for axis in order:
        place: list[int] = index[axis].tolist()
        after: list[tuple[int, list[int]]] = []
        for npu, wanted in fronts:
            beyond: dict[int, list[int]] = {}
            for target in wanted:
                beyond.setdefault(place[target], []).append(target)
            own = beyond.pop(place[npu], None)
            if own is not None:
                after.append((npu, own))
            if beyond:
                tree = lines.tree(npu, axis)
                heads = _heads(lines.dimensions, tree, axis, beyond, npu)
                moves += _pruned(tree, set(heads))
                after += heads.items()
        fronts = after
    return moves


def _heads(
    dimensions: Dimensions, tree: list[Move], axis: int, beyond: dict[int, list[int]], npu: int
) -> dict[int, list[int]]:
    """The NPUs of a line that must get a chunk, each with those who want it beyond. Raises SourceError."""
    stride = dimensions.strides[axis]
    own = npu // stride % dimensions.sizes[axis]
    heads = {npu + (place - own) * stride: targets for place, targets in beyond.items()}
    lost = heads.keys() - {move.target for move in tree}
    if lost:
        network = dimensions.network
        names = f"{network.device_name(npu)} to {network.device_name(min(lost))}"
        raise SourceError(
            Diagnostic(
                "S0306", f"no links of their dimension lead from {names}", hint="use auto, tacos or pccl instead"
            )
        )
    return heads


def _pruned(tree: list[Move], wanted: set[int]) -> list[Move]:
    """The moves of a tree that are needed to reach some NPUs."""
    kept: list[Move] = []
    for move in reversed(tree):
        if move.target in wanted:
            kept.append(move)
            wanted.add(move.source)
    return kept[::-1]


@dataclass(slots=True)
class _Sent:
    """A move under way: row of the conditions, the moves that wait for it, and how long these will take with it."""

    row: int
    path: tuple[int, ...]
    turn: int
    after: list[int] = field(default_factory=list[int])
    left: int = 0


class _Timing:
    """Transfers as early as links and switches allow, on each link the one with the longest way to go first.

    turns_first: among equals the one to the nearest NPU of the line, round its end; else the first chunk. apart: a
    switch takes a chunk only when its last copy has left.
    """

    def __init__(self, conditions: Conditions, turns_first: bool, apart: bool) -> None:
        self._conditions, self._turns_first, self._apart = conditions, turns_first, apart
        network, clock = conditions.task.network, conditions.clock
        self._target: list[int] = network.target.tolist()
        self._source: list[int] = network.source.tolist()
        self._npus = network.npu_count
        self._busy: list[list[int]] = clock.busy[network.kind].tolist()
        self._total: list[list[int]] = clock.total[network.kind].tolist()
        self._column: list[int] = conditions.column.tolist()
        self._moves: list[_Sent] = []
        self._ready: list[tuple[int, int]] = []
        self._queue: list[list[tuple[int, int, int, int, int]]] = [[] for _ in self._target]
        self._free = [0] * len(self._target)
        self._taken = _reserved(conditions)
        self._room = _room(conditions)
        self._blocked: dict[int, set[int]] = {}
        self._inside: dict[tuple[int, int], set[int]] = {}
        self._visits: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self._entries: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self._events: list[tuple[int, int, int, int]] = []
        self._rows: tuple[list[int], list[int], list[int]] = ([], [], [])

    def add(self, row: int, moves: list[Move]) -> None:
        """Plans the moves of a row, parents first."""
        first = len(self._moves)
        brought: dict[int, int] = {}
        column = self._column[row]
        release = int(self._conditions.release[row])
        for number, move in enumerate(moves, first):
            self._moves.append(_Sent(row, move.path, move.turn))
            if move.source in brought:
                self._moves[brought[move.source]].after.append(number)
            else:
                self._ready.append((release, number))
            brought[move.target] = number
        for number in range(len(self._moves) - 1, first - 1, -1):
            sent = self._moves[number]
            own = sum(self._total[link][column] for link in sent.path)
            sent.left = own + max((self._moves[child].left for child in sent.after), default=0)

    def run(self, stop: Callable[[], bool]) -> tuple[int, Transfers] | None:
        """The end in picoseconds, and all transfers; None where `stop` says so.

        Raises NoSchedule where full switches wait for one another.
        """
        for release, number in self._ready:
            heapq.heappush(self._events, (release, -1, number, 0))
        waiting: set[int] = set()
        now = polled = 0
        while self._events:
            if len(self._rows[0]) >= polled:
                polled += POLL
                if stop():
                    return None
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                _, link, number, hop = heapq.heappop(self._events)
                if number >= 0:
                    self._arrived(number, hop, link, waiting)
                if link >= 0:
                    waiting.add(link)
            for link in sorted(waiting):
                self._send(link, now)
            waiting.clear()
        rows = tuple(np.array(column, np.int64) for column in self._rows)
        if len(rows[0]) < sum(len(sent.path) for sent in self._moves):
            message = "full switches wait for one another"
            raise NoSchedule(Diagnostic("S0201", message, hint="give switches larger buffers, or use pccl"))
        chunk = self._conditions.chunk[rows[0]]
        return now, Transfers.of(chunk, rows[1].astype(np.int32), rows[2])

    def _arrived(self, number: int, hop: int, link: int, waiting: set[int]) -> None:
        """Books a move that is before its hop of this number."""
        sent = self._moves[number]
        if link >= 0 and self._source[link] >= self._npus:
            self._leave(self._source[link], waiting)
            if self._apart:
                waiting |= self._inside.pop((self._source[link], sent.row))
        if hop < len(sent.path):
            key = (sent.turn, sent.row) if self._turns_first else (sent.row, sent.turn)
            heapq.heappush(self._queue[sent.path[hop]], (-sent.left, *key, number, hop))
            waiting.add(sent.path[hop])
            return
        for child in sent.after:
            self._arrived(child, 0, -1, waiting)

    def _leave(self, switch: int, waiting: set[int]) -> None:
        """A place in the buffer of a switch is free again."""
        if switch in self._room:
            self._room[switch] += 1
            waiting |= self._blocked.pop(switch, set())

    def _send(self, link: int, now: int) -> None:
        """Starts the most urgent transfer of a link, if it can start now."""
        queue = self._queue[link]
        if not queue or self._free[link] > now:
            return
        switch = self._target[link]
        if self._room.get(switch, 1) <= 0:
            self._blocked.setdefault(switch, set()).add(link)
            return
        row = self._moves[queue[0][3]].row
        if self._apart and (switch, row) in self._inside:
            self._inside[switch, row].add(link)
            return
        column = self._column[row]
        until = self._held_until(link, now, now + self._busy[link][column])
        if until > now:
            self._free[link] = until
            heapq.heappush(self._events, (until, link, -1, 0))
            return
        _, _, _, number, hop = heapq.heappop(queue)
        for values, value in zip(self._rows, (self._moves[number].row, link, now), strict=True):
            values.append(value)
        if switch in self._room:
            self._room[switch] -= 1
        free, there = now + self._busy[link][column], now + self._total[link][column]
        self._visit(link, row, now, there)
        self._free[link] = free
        if free < there:
            heapq.heappush(self._events, (free, link, -1, 0))
        heapq.heappush(self._events, (there, link, number, hop + 1))

    def _visit(self, link: int, row: int, leaves: int, comes: int) -> None:
        """Notes a chunk that leaves a switch, or comes to one, and for how long its link was busy with that."""
        here, there = self._source[link], self._target[link]
        if here >= self._npus:
            self._visits.setdefault((here, row), []).append((leaves, 1, -1))
        if there >= self._npus:
            self._visits.setdefault((there, row), []).append((comes, 0, 1))
            busy = self._busy[link][self._column[row]]
            self._entries.setdefault((there, row), []).extend([(comes - busy, 1, 1), (comes, 0, -1)])
            if self._apart:
                self._inside[there, row] = set()

    def meet(self) -> bool:
        """Whether two copies of a chunk ever are in one switch, or come to it, at the same time."""
        return any(_overlap(events) for events in (*self._visits.values(), *self._entries.values()))

    def _held_until(self, link: int, start: int, end: int) -> int:
        """When the reserved transfer ends that is in the way of a transfer; its start where none is."""
        taken = self._taken.get(link)
        if taken is None:
            return start
        while taken and taken[-1][1] <= start:
            taken.pop()
        return taken[-1][1] if taken and taken[-1][0] < end else start


def _overlap(events: list[tuple[int, int, int]]) -> bool:
    """Whether the sum of changes, as (time, order among equals, change), ever is above 1."""
    held = 0
    for _, _, change in sorted(events):
        held += change
        if held > 1:
            return True
    return False


def _reserved(conditions: Conditions) -> dict[int, list[tuple[int, int]]]:
    """When each link is taken already, the latest first."""
    reserved = conditions.task.reserved
    taken: dict[int, list[tuple[int, int]]] = {}
    if reserved is not None:
        ends = reserved.start + conditions.clock.busy_of(reserved)
        for link, start, end in zip(reserved.link.tolist(), reserved.start.tolist(), ends.tolist(), strict=True):
            taken.setdefault(link, []).append((start, end))
    for times in taken.values():
        times.sort(reverse=True)
    return taken


def _room(conditions: Conditions) -> dict[int, int]:
    """The places in the buffers of switches that have limits, less the most that reserved transfers ever take."""
    network, reserved = conditions.task.network, conditions.task.reserved
    room: dict[int, int] = {}
    for switch in np.flatnonzero(network.buffers >= 0).tolist():
        room[network.npu_count + switch] = int(network.buffers[switch])
    if reserved is None:
        return room
    ends = reserved.start + conditions.clock.total_of(reserved)
    for switch in room:
        into, out = network.target[reserved.link] == switch, network.source[reserved.link] == switch
        time = np.concatenate([reserved.start[into], ends[out]])
        change = np.repeat(np.array([1, -1], np.int64), [int(into.sum()), int(out.sum())])
        room[switch] -= int(np.cumsum(change[np.lexsort((change, time))]).max(initial=0))
    return room
