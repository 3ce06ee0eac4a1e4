"""Times of hops that wait for one another: list scheduling over links and switches."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.conditions import Conditions
from collc.synthesis.timeline import Timeline, link_timelines
from collc.ten.schedule import Transfers

STOP_INTERVAL: Final = 10_000
"""Transfers between two calls of `stop`."""


_FREE: Final = Timeline()
"""The timeline of a link without reservations."""


@dataclass(frozen=True, slots=True)
class LineHop:
    """A chunk goes from an NPU to another of its line, over one link, or over several with switches between.

    path: the links. offset: positions from the source to the target along the line, which wraps round. If all NPUs
    of a line send to offset 1, then to offset 2 and so on, each receives from one NPU at a time.
    """

    source: int
    target: int
    path: tuple[int, ...]
    offset: int


@dataclass(slots=True)
class _PlannedHop:
    """A hop of a row of the conditions.

    followers: numbers of the hops that wait for it. remaining: picoseconds that it and the longest chain of its
    followers take.
    """

    row: int
    path: tuple[int, ...]
    offset: int
    followers: list[int] = field(default_factory=list[int])
    remaining: int = 0


class HopSchedule:
    """Starts transfers as early as links and switches allow; on each link the one with the most remaining time first.

    Of equals the one with the least offset along its line comes first. one_copy: a switch takes a chunk only when its
    last copy has left.
    """

    def __init__(self, conditions: Conditions, one_copy: bool) -> None:
        self._conditions, self._one_copy = conditions, one_copy
        network, clock = conditions.task.network, conditions.clock
        self._target: list[int] = network.target.tolist()
        self._source: list[int] = network.source.tolist()
        self._npus = network.npu_count
        self._busy: list[list[int]] = clock.busy[network.kind].tolist()
        self._total: list[list[int]] = clock.total[network.kind].tolist()
        self._column: list[int] = conditions.column.tolist()
        self._hops: list[_PlannedHop] = []
        self._ready: list[tuple[int, int]] = []
        # By link: (-remaining, offset, row, number of the hop, position of the link in its path).
        self._queue: list[list[tuple[int, int, int, int, int]]] = [[] for _ in self._target]
        self._free = [0] * len(self._target)
        reserved = conditions.task.reserved
        self._reserved = link_timelines(reserved, None if reserved is None else clock.busy_of(reserved))
        self._free_slots = _free_slots(conditions)
        # Links that wait for a slot of a switch, and for the last copy of a chunk to leave a switch.
        self._wait_for_slot: dict[int, set[int]] = {}
        self._wait_for_copy: dict[tuple[int, int], set[int]] = {}
        # For each chunk and switch, (time, order among equals, change) of copies in it, and of copies coming in.
        self._copies: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self._entries: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        # (time, link or -1, number of the hop or -1, position in its path): an arrival over the link, or, without a
        # hop, a link to look at again.
        self._events: list[tuple[int, int, int, int]] = []
        self._rows: tuple[list[int], list[int], list[int]] = ([], [], [])

    def add(self, row: int, hops: list[LineHop]) -> None:
        """Plans the hops of a row, parents first."""
        first = len(self._hops)
        hop_to: dict[int, int] = {}
        column = self._column[row]
        release = int(self._conditions.release[row])
        for number, hop in enumerate(hops, first):
            self._hops.append(_PlannedHop(row, hop.path, hop.offset))
            if hop.source in hop_to:
                self._hops[hop_to[hop.source]].followers.append(number)
            else:
                self._ready.append((release, number))
            hop_to[hop.target] = number
        for number in range(len(self._hops) - 1, first - 1, -1):
            planned = self._hops[number]
            own = sum(self._total[link][column] for link in planned.path)
            planned.remaining = own + max((self._hops[k].remaining for k in planned.followers), default=0)

    def run(self, stop: Callable[[], bool]) -> Transfers | None:
        """All transfers; None if `stop` returns True.

        Raises NoSchedule if switches with full buffers wait for one another.
        """
        for release, number in self._ready:
            heapq.heappush(self._events, (release, -1, number, 0))
        links: set[int] = set()
        next_stop = 0
        while self._events:
            if len(self._rows[0]) >= next_stop:
                next_stop += STOP_INTERVAL
                if stop():
                    return None
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                _, link, number, position = heapq.heappop(self._events)
                if number >= 0:
                    self._arrive(number, position, link, links)
                if link >= 0:
                    links.add(link)
            for link in sorted(links):
                self._start(link, now)
            links.clear()
        rows = tuple(np.array(column, np.int64) for column in self._rows)
        if len(rows[0]) < sum(len(planned.path) for planned in self._hops):
            message = "switches with full buffers wait for one another"
            raise NoSchedule(Diagnostic("S0201", message, hint="give switches larger buffers, or use pccl"))
        chunk = self._conditions.chunk[rows[0]]
        return Transfers.of(chunk, rows[1].astype(np.int32), rows[2])

    def _arrive(self, number: int, position: int, link: int, links: set[int]) -> None:
        """The chunk of a hop is ready for a link of its path, or at its target; adds the links to look at."""
        planned = self._hops[number]
        if link >= 0 and self._source[link] >= self._npus:
            self._leave(self._source[link], links)
            if self._one_copy:
                links |= self._wait_for_copy.pop((self._source[link], planned.row))
        if position < len(planned.path):
            entry = (-planned.remaining, planned.offset, planned.row, number, position)
            heapq.heappush(self._queue[planned.path[position]], entry)
            links.add(planned.path[position])
            return
        for follower in planned.followers:
            self._arrive(follower, 0, -1, links)

    def _leave(self, switch: int, links: set[int]) -> None:
        """A slot in the buffer of a switch becomes free."""
        if switch in self._free_slots:
            self._free_slots[switch] += 1
            links |= self._wait_for_slot.pop(switch, set())

    def _start(self, link: int, now: int) -> None:
        """Starts the first transfer in the queue of a link, if it can start now."""
        queue = self._queue[link]
        if not queue or self._free[link] > now:
            return
        switch = self._target[link]
        if self._free_slots.get(switch, 1) <= 0:
            self._wait_for_slot.setdefault(switch, set()).add(link)
            return
        row = self._hops[queue[0][3]].row
        if self._one_copy and (switch, row) in self._wait_for_copy:
            self._wait_for_copy[switch, row].add(link)
            return
        column = self._column[row]
        until = self._reserved.get(link, _FREE).blocked_until(now, self._busy[link][column])
        if until > now:
            self._free[link] = until
            heapq.heappush(self._events, (until, link, -1, 0))
            return
        _, _, _, number, position = heapq.heappop(queue)
        for values, value in zip(self._rows, (row, link, now), strict=True):
            values.append(value)
        if switch in self._free_slots:
            self._free_slots[switch] -= 1
        free, arrival = now + self._busy[link][column], now + self._total[link][column]
        self._note_copies(link, row, now, arrival)
        self._free[link] = free
        if free < arrival:
            heapq.heappush(self._events, (free, link, -1, 0))
        heapq.heappush(self._events, (arrival, link, number, position + 1))

    def _note_copies(self, link: int, row: int, start: int, arrival: int) -> None:
        """Notes that a copy of a chunk leaves a switch, or enters one, and for how long its link was busy with that."""
        source, target = self._source[link], self._target[link]
        if source >= self._npus:
            self._copies.setdefault((source, row), []).append((start, 1, -1))
        if target >= self._npus:
            self._copies.setdefault((target, row), []).append((arrival, 0, 1))
            busy = self._busy[link][self._column[row]]
            self._entries.setdefault((target, row), []).extend([(arrival - busy, 1, 1), (arrival, 0, -1)])
            if self._one_copy:
                self._wait_for_copy[target, row] = set()

    def copies_meet(self) -> bool:
        """Whether two copies of a chunk ever are in one switch, or come into it, at the same time."""
        return any(_exceed_one(changes) for changes in (*self._copies.values(), *self._entries.values()))


def _exceed_one(changes: list[tuple[int, int, int]]) -> bool:
    """Whether the running sum of changes, as (time, order among equals, change), ever exceeds 1."""
    total = 0
    for _, _, change in sorted(changes):
        total += change
        if total > 1:
            return True
    return False


def _free_slots(conditions: Conditions) -> dict[int, int]:
    """By switch with a limited buffer: its slots, less the most that reserved transfers ever occupy at once."""
    network, reserved = conditions.task.network, conditions.task.reserved
    slots: dict[int, int] = {}
    for switch in np.flatnonzero(network.buffers >= 0).tolist():
        slots[network.npu_count + switch] = int(network.buffers[switch])
    if reserved is None:
        return slots
    ends = reserved.start + conditions.clock.total_of(reserved)
    for switch in slots:
        into, out = network.target[reserved.link] == switch, network.source[reserved.link] == switch
        time = np.concatenate([reserved.start[into], ends[out]])
        change = np.repeat(np.array([1, -1], np.int64), [int(into.sum()), int(out.sum())])
        slots[switch] -= int(np.cumsum(change[np.lexsort((change, time))]).max(initial=0))
    return slots
