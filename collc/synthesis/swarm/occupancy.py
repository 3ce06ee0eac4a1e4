"""When links and the buffers of switches are occupied, and the queue of future events."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import chain

from collc.synthesis.swarm.problem import SwarmProblem
from collc.synthesis.timeline import OverlappingIntervals, Timeline

PathHops = tuple[tuple[int, int, int], ...]
"""(link, start, busy) of each link of a path, for chunks of one size."""


@dataclass(slots=True)
class TimedEvents:
    """What happens at one time.

    arrivals: (device, chunk), the chunk arrives. slots: (switch, chunk), a slot of the switch holds the chunk and no
    transfer reads it. links: links from which a path may be able to start. Chunks are bits.
    """

    arrivals: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    slots: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    links: list[int] = field(default_factory=list[int])


class Occupancy:
    """Reserved intervals of links, occupied slots of switches, and what becomes possible when they end.

    Chunks are bits. A path of a chunk size is occupied link after link, each from its own offset (SwitchPaths.start).

    gate: by path, a number; paths of one number pass the same switches with limited buffers at the same offsets. full:
    by this number, a time before which a switch on these paths is full; always 0 where chunks differ in size.
    """

    def __init__(self, problem: SwarmProblem) -> None:
        paths, network = problem.paths, problem.conditions.task.network
        self._paths = paths
        self._target: list[int] = network.target.tolist()
        self._inverted = problem.conditions.task.inverted
        self._links_out = network.in_links if self._inverted else network.out_links
        first = network.npu_count
        self._multicast = {switch for switch in paths.repeaters if network.multicast[switch - first]}
        self._slots = {switch: size for switch, size in enumerate(network.buffers.tolist(), first) if size >= 0}
        self._slots_used = {switch: OverlappingIntervals(problem.slots_used.get(switch, ())) for switch in self._slots}
        self._received = dict.fromkeys(paths.summing, 0)
        self._idle_slots: dict[tuple[int, int], int] = {}
        none = Timeline()
        self._reserved = [problem.reserved.get(link, none).copy() for link in range(network.link_count)]
        self._starts, self._ends = [each.starts for each in self._reserved], [each.ends for each in self._reserved]
        self._hops: list[list[PathHops]] = [
            [tuple(zip(links, *times, strict=True)) for links, *times in zip(paths.links, *rows, strict=True)]
            for rows in zip(paths.start, paths.busy, strict=True)
        ]
        everything = range(len(paths.links)) if self._slots else ()
        self._passed = [[self._slot_intervals(path, size) for path in everything] for size in range(len(paths.start))]
        gates = {key: number for number, key in enumerate(dict.fromkeys(chain([()], self._passed[0])))}
        self.gate = [gates[key] for key in self._passed[0]] if self._slots else [0] * len(paths.links)
        self.full = [0] * len(gates)
        self._offsets: list[set[int]] = [set() for _ in self._reserved]
        for rows in paths.start:
            for links, starts in zip(paths.links, rows, strict=True):
                for link, start in zip(links, starts, strict=True):
                    self._offsets[link].add(start)
        self._events: dict[int, TimedEvents] = {}
        self._times: list[int] = []
        for link, timeline in enumerate(self._reserved):
            for end in timeline.ends:
                self._wake(link, 0, end)
        for switch, intervals in problem.slots_used.items():
            for _, end in intervals:
                self._wake_links_of(switch, 0, end)

    def at(self, time: int) -> TimedEvents:
        """The events of a time, to which the caller may add."""
        found = self._events.get(time)
        if found is None:
            found = self._events[time] = TimedEvents()
            heapq.heappush(self._times, time)
        return found

    def pop(self) -> tuple[int, TimedEvents] | None:
        """Removes and returns the next time and its events; None if there are no more."""
        if not self._times:
            return None
        time = heapq.heappop(self._times)
        return time, self._events.pop(time)

    def add_idle_slot(self, switch: int, bit: int) -> None:
        """Notes that one more slot of a switch holds a chunk and is not being read."""
        self._idle_slots[switch, bit] = self._idle_slots.get((switch, bit), 0) + 1

    def not_yet_summed(self, path: int, chunks: int) -> int:
        """Those of some chunks that have not come into a summing switch on a path yet (they may only once)."""
        paths = self._paths
        if paths.summing:
            for link in paths.links[path][:-1]:
                chunks &= ~self._received.get(self._target[link], 0)
        return chunks

    def blocked_until(self, path: int, size: int, now: int) -> int:
        """A time before which a path cannot start with a chunk of a size; `now` where it can start now.

        It holds forever, since reservations are only added.
        """
        for link, start, busy in self._hops[size][path]:
            ends, at = self._ends[link], now + start
            if ends and ends[-1] > at:
                k = bisect_right(ends, at)
                if self._starts[link][k] < at + busy:
                    return ends[k] - start
        for switch, since, until in self._passed[size][path] if self._slots else ():
            free = self._slots_used[switch].full_until(now + since, now + until, self._slots[switch])
            if free > now + since:
                self.full[self.gate[path]] = free - since if len(self._hops) == 1 else 0
                return free - since
        return now

    def _slot_intervals(self, path: int, size: int) -> tuple[tuple[int, int, int], ...]:
        """(switch, since, until) of each switch with a limited buffer on a path: when a chunk occupies a slot there.

        A slot is occupied from the arrival to the end of the departure. In a schedule that will be inverted, that is
        from the begin of the transfer into the switch to the begin of the one out of it.
        """
        links, starts, busies = self._paths.links[path], self._paths.start[size][path], self._paths.busy[size][path]
        found: list[tuple[int, int, int]] = []
        for k, link in enumerate(links[:-1]):
            switch, arrival = self._target[link], starts[k + 1]
            if switch in self._slots:
                since, until = (-busies[k], 0) if self._inverted else (0, busies[k + 1])
                found.append((switch, arrival + since, arrival + until))
        return tuple(found)

    def reserve(self, path: int, size: int, bit: int, now: int) -> bool:
        """Reserves a path for a chunk that starts now.

        Returns True if the source is a switch and none of its idle slots holds the chunk any more.
        """
        paths = self._paths
        links, starts, busies = paths.links[path], paths.start[size][path], paths.busy[size][path]
        for link, start, busy in zip(links, starts, busies, strict=True):
            self._reserved[link].reserve(now + start, now + start + busy)
            self._wake(link, now, now + start + busy)
        for link, start, busy in zip(links, starts[1:], busies[1:], strict=False):
            self._pass_switch(self._target[link], bit, now, start, busy)
        for switch, since, until in self._passed[size][path] if self._slots else ():
            self._slots_used[switch].reserve(now + since, now + until)
            self._wake_links_of(switch, now, now + until)
        source = paths.source[path]
        if source not in paths.repeaters or source in self._multicast:
            return False
        self._idle_slots[source, bit] -= 1
        self.at(now + busies[0]).slots.append((source, bit))
        return not self._idle_slots[source, bit]

    def _pass_switch(self, switch: int, bit: int, now: int, start: int, busy: int) -> None:
        """Notes that a chunk passes a switch, and when the switch can send it again."""
        if switch in self._received:
            self._received[switch] |= bit
        if switch in self._paths.repeaters:
            self.at(now + start + (0 if switch in self._multicast else busy)).slots.append((switch, bit))

    def _wake_links_of(self, switch: int, now: int, end: int) -> None:
        """Adds events for the links out of a switch (into it, if inverted) at the end of an interval."""
        offsets, links = self._links_out
        for link in links[offsets[switch] : offsets[switch + 1]].tolist():
            self._wake(link, now, end)

    def _wake(self, link: int, now: int, end: int) -> None:
        """Adds events at the times at which a path can start so that its chunk enters a link at `end`."""
        for offset in self._offsets[link]:
            if end - offset > now:
                self.at(end - offset).links.append(link)
