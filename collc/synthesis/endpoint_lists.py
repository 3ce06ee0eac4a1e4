"""List schedules of transfers that occupy a link and the ports of both NPUs.

Time goes forward. A link carries next the transfer that could start first; of several such transfers, the one that is
earliest in the schedule that is retimed. A transfer starts as soon as its link is free, its source can send and its
target can receive it. Of links that compete for a port, the link that has waited longest goes first, and of equal ones
the one with the lower colour: links that share a port differ in colour, so that on a symmetric network each port has
one link after another from the start on.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

from collc.graph.edge_colouring import colour_edges
from collc.synthesis.retiming import Waits

Queue = list[tuple[int, int, int]]

NEVER: Final = 1 << 62
"""A time after all events."""


@dataclass(frozen=True, slots=True)
class PortTransfers:
    """n transfers in picoseconds.

    link, start: of each, and its start in the schedule that is retimed. busy, total: until its link is free, and until
    it has arrived. out, into: the ports that it occupies, -1 for none. sending, receiving: for how long, from its start
    on and until its arrival. waits: what it waits for beside links and ports.
    """

    link: list[int]
    start: list[int]
    busy: list[int]
    total: list[int]
    out: list[int]
    into: list[int]
    sending: list[int]
    receiving: list[int]
    waits: Waits


class PortList:
    """One list schedule. seed: decides between links that are equal otherwise; 0: their colours do."""

    def __init__(self, given: PortTransfers, seed: int) -> None:
        self._given, self._seed = given, seed
        links = max(given.link, default=-1) + 1
        ports = max([*given.out, *given.into], default=-1) + 1
        self._free = [0] * links
        self._port_free = [0] * ports
        self._later: list[Queue] = [[] for _ in range(links)]
        self._now: list[Queue] = [[] for _ in range(links)]
        self._events: list[tuple[int, int, int, int]] = []
        self._due = [NEVER] * links
        self._starts = [-1] * len(given.link)
        self._ready = [0] * len(given.link)
        self._left = [len({other for other, _ in wait}) for wait in given.waits]
        self._followers: list[list[tuple[int, int]]] = [[] for _ in given.link]
        for k, wait in enumerate(given.waits):
            for other, after in wait:
                self._followers[other].append((k, after))
        self._seen: list[set[int]] = [set() for _ in given.link]
        self._colour = _link_colours(given, links) if seed == 0 else []

    def starts(self) -> list[int] | None:
        """The start of each transfer; None if transfers wait for one another."""
        begun = 0
        for k, left in enumerate(self._left):
            if left == 0:
                self._add(k)
        while self._events:
            now, _, _, link = heapq.heappop(self._events)
            if self._due[link] == now:  # else it was looked at before
                self._due[link] = NEVER
                begun += self._serve(link, now)
        return self._starts if begun == len(self._starts) else None

    def _first(self, link: int, now: int) -> int:
        """The next transfer of a link; -1 if none is ready."""
        later, queue = self._later[link], self._now[link]
        while later and later[0][0] <= now:
            _, priority, k = heapq.heappop(later)
            heapq.heappush(queue, (priority, k, k))
        return queue[0][1] if queue else -1

    def _serve(self, link: int, now: int) -> bool:
        """Begins the next transfer of a link if it can start; else the link is looked at again when it can."""
        k = self._first(link, now)
        if k < 0:
            self._ask_when_ready(link, now)
            return False
        earliest = self._earliest(k, now)
        if earliest > now:
            self._ask(link, earliest)
            return False
        heapq.heappop(self._now[link])
        self._begin(k, now)
        self._ask_when_ready(link, now)
        return True

    def _add(self, k: int) -> None:
        """A transfer waits only for its link and ports from now on."""
        link = self._given.link[k]
        heapq.heappush(self._later[link], (self._ready[k], self._given.start[k], k))
        self._ask(link, max(self._ready[k], self._free[link]))

    def _ask_when_ready(self, link: int, now: int) -> None:
        """Look at a link again when its next transfer is ready, if there is one."""
        queue, later = self._now[link], self._later[link]
        if queue or later:
            self._ask(link, max(self._free[link], now if queue else later[0][0]))

    def _ask(self, link: int, time: int) -> None:
        """Look at a link at some time or before; of those of one time first at the one that has been idle longest."""
        if time < self._due[link]:
            self._due[link] = time
            heapq.heappush(self._events, (time, self._free[link], self._tie(link), link))

    def _tie(self, link: int) -> int:
        """A number that decides between links that are equal otherwise."""
        if self._colour:
            return self._colour[link]
        return (link * 2_654_435_761 ^ self._seed * 40_503) * 2_246_822_519 >> 13 & 4095

    def _earliest(self, k: int, now: int) -> int:
        given, ports = self._given, self._port_free
        time = max(now, self._free[given.link[k]])
        if given.out[k] >= 0:
            time = max(time, ports[given.out[k]])
        if given.into[k] >= 0:
            time = max(time, ports[given.into[k]] + given.receiving[k] - given.total[k])
        return time

    def _begin(self, k: int, now: int) -> None:
        given = self._given
        self._starts[k] = now
        self._free[given.link[k]] = now + given.busy[k]
        if given.out[k] >= 0:
            self._port_free[given.out[k]] = now + given.sending[k]
        if given.into[k] >= 0:
            self._port_free[given.into[k]] = now + given.total[k]
        for follower, after in self._followers[k]:
            self._ready[follower] = max(self._ready[follower], now + after)
            if k not in self._seen[follower]:
                self._seen[follower].add(k)
                self._left[follower] -= 1
        for follower in dict.fromkeys(follower for follower, _ in self._followers[k]):
            if self._left[follower] == 0 and self._starts[follower] < 0:
                self._add(follower)


def _link_colours(given: PortTransfers, links: int) -> list[int]:
    """By link, a number that differs at links that share a port."""
    ends = [(-1 - link, -1 - link) for link in range(links)]
    for link, out, into in zip(given.link, given.out, given.into, strict=True):
        ends[link] = out if out >= 0 else -1 - link, into if into >= 0 else -1 - link
    return colour_edges(ends)
