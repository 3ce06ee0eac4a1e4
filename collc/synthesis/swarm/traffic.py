"""What is taken of links and switches, and what happens when."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from collc.synthesis.swarm.problem import SwarmProblem


@dataclass(slots=True)
class Moment:
    """What happens at a time: (device, chunk) arrives, (switch, chunk) can leave again, a link is of use again."""

    arrivals: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    places: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    links: list[int] = field(default_factory=list[int])


class Traffic:
    """Chunks, told by bits, on lanes.

    idle: (switch, chunk) -> places with the chunk that are not being read.
    """

    def __init__(self, problem: SwarmProblem) -> None:
        lanes, network = problem.lanes, problem.conditions.task.network
        self._lanes = lanes
        self._through: list[int] = network.target.tolist()
        self._inverted = problem.conditions.task.inverted
        self._links = network.in_links if self._inverted else network.out_links
        first = network.npu_count
        self._multicast = {switch for switch in lanes.hosts if network.multicast[switch - first]}
        self._room = {switch: size for switch, size in enumerate(network.buffers.tolist(), first) if size >= 0}
        self._held = {switch: sorted(problem.held.get(switch, ())) for switch in self._room}
        self._closed = dict.fromkeys(lanes.single, 0)
        self._idle: dict[tuple[int, int], int] = {}
        self._taken = [sorted(problem.taken.get(link, ())) for link in range(network.link_count)]
        self._offsets: list[set[int]] = [set() for _ in self._taken]
        for rows in lanes.start:
            for links, starts in zip(lanes.links, rows, strict=True):
                for link, start in zip(links, starts, strict=True):
                    self._offsets[link].add(start)
        self._moments: dict[int, Moment] = {}
        self._times: list[int] = []
        for link, spans in enumerate(self._taken):
            for _, end in spans:
                self._wake(link, 0, end)
        for switch, spans in self._held.items():
            for _, end in spans:
                self._wake_round(switch, 0, end)

    def at(self, time: int) -> Moment:
        """What will happen at a time."""
        found = self._moments.get(time)
        if found is None:
            found = self._moments[time] = Moment()
            heapq.heappush(self._times, time)
        return found

    def next(self) -> tuple[int, Moment] | None:
        """The next time at which something happens, and what; None: nothing more does."""
        if not self._times:
            return None
        time = heapq.heappop(self._times)
        return time, self._moments.pop(time)

    def placed(self, switch: int, bit: int) -> None:
        """One more place of a switch has a chunk and is not being read."""
        self._idle[switch, bit] = self._idle.get((switch, bit), 0) + 1

    def open(self, lane: int, chunks: int) -> int:
        """Those of some chunks that have not come already into a switch where they may come once."""
        lanes = self._lanes
        if lanes.single:
            for link in lanes.links[lane][:-1]:
                chunks &= ~self._closed.get(self._through[link], 0)
        return chunks

    def is_free(self, lane: int, size: int, now: int) -> bool:
        """Whether all links and switches of a lane are free when a chunk of a size comes there."""
        lanes = self._lanes
        links, starts, busies = lanes.links[lane], lanes.start[size][lane], lanes.busy[size][lane]
        for link, start, busy in zip(links, starts, busies, strict=True):
            spans = self._taken[link]
            if spans and _meeting(spans, now, now + start, now + start + busy):
                return False
        for switch, since, until in self._visits(lane, size) if self._room else ():
            if _meeting(self._held[switch], now, now + since, now + until) >= self._room[switch]:
                return False
        return True

    def _visits(self, lane: int, size: int) -> Iterator[tuple[int, int, int]]:
        """The switches with few places that a lane passes, and from when until when each holds a chunk.

        It does so from arrival to the end of the departure; where time runs backwards these are the other way round.
        """
        links, starts, busies = self._lanes.links[lane], self._lanes.start[size][lane], self._lanes.busy[size][lane]
        for k, link in enumerate(links[:-1]):
            switch, arrival = self._through[link], starts[k + 1]
            if switch in self._room:
                since, until = (-busies[k], 0) if self._inverted else (0, busies[k + 1])
                yield switch, arrival + since, arrival + until

    def send(self, lane: int, size: int, bit: int, now: int) -> bool:
        """Books a chunk on a lane; whether its source, a switch, has no idle place with it left."""
        lanes = self._lanes
        links, starts, busies = lanes.links[lane], lanes.start[size][lane], lanes.busy[size][lane]
        for link, start, busy in zip(links, starts, busies, strict=True):
            insort(self._taken[link], (now + start, now + start + busy))
            self._wake(link, now, now + start + busy)
        for link, start, busy in zip(links, starts[1:], busies[1:], strict=False):
            self._pass(self._through[link], bit, now, start, busy)
        for switch, since, until in self._visits(lane, size) if self._room else ():
            insort(self._held[switch], (now + since, now + until))
            self._wake_round(switch, now, now + until)
        source = lanes.source[lane]
        if source not in lanes.hosts or source in self._multicast:
            return False
        self._idle[source, bit] -= 1
        self.at(now + busies[0]).places.append((source, bit))
        return not self._idle[source, bit]

    def _pass(self, switch: int, bit: int, now: int, start: int, busy: int) -> None:
        """A chunk passes a switch."""
        if switch in self._closed:
            self._closed[switch] |= bit
        if switch in self._lanes.hosts:
            self.at(now + start + (0 if switch in self._multicast else busy)).places.append((switch, bit))

    def _wake_round(self, switch: int, now: int, end: int) -> None:
        """What passes a switch may come there again, or leave it, at the end of something."""
        offsets, links = self._links
        for link in links[offsets[switch] : offsets[switch + 1]].tolist():
            self._wake(link, now, end)

    def _wake(self, link: int, now: int, end: int) -> None:
        """What uses a link may start again so that it comes there at the end of something."""
        for offset in self._offsets[link]:
            if end - offset > now:
                self.at(end - offset).links.append(link)


def _meeting(spans: list[tuple[int, int]], now: int, start: int, end: int) -> int:
    """How many spans meet one, at most; those that are over are forgotten."""
    while spans and spans[0][1] <= now:
        del spans[0]
    return sum(span[0] < end and start < span[1] for span in spans)
