"""When the messages of contributions are sent: those that are ready first, each as early as its links are free."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate

import numpy as np

from collc.synthesis.one_shot.trees import Message
from collc.ten.arrays import Int32Array, ranges
from collc.ten.network import Network
from collc.ten.schedule import Transfers


@dataclass(frozen=True, eq=False)
class ChunkSet:
    """Chunks of equal size and group. busy, total: picoseconds, by link, that a chunk keeps it busy, and until it has
    arrived.
    """

    chunks: Int32Array
    busy: Sequence[int]
    total: Sequence[int]


@dataclass(frozen=True, slots=True)
class Times:
    """When the chunks of a message are somewhere: chunk k of `count` at start + k * spacing picoseconds."""

    start: int
    spacing: int
    count: int

    def shift(self, delay: int) -> Times:
        """The times some picoseconds later."""
        return Times(self.start + delay, self.spacing, self.count)

    def wait_for(self, others: Times) -> int:
        """By how much these times must be later so that no chunk is here before it is there; negative: they may be
        earlier.
        """
        return others.start - self.start + max(0, (self.count - 1) * (others.spacing - self.spacing))

    def meet(self, others: Mapping[int, set[int]]) -> bool:
        """Whether a chunk is here when it is at one of the times of others. others: their starts, by spacing."""
        return any(
            self.start + number * (self.spacing - spacing) in starts
            for spacing, starts in others.items()
            for number in range(self.count if spacing != self.spacing else 1)
        )


class Sending:
    """All messages with the times at which they enter their first links.

    first: the messages that holders send; those that are ready at the same time leave in this order. earliest:
    picoseconds before which some messages may not start.
    """

    def __init__(
        self, network: Network, sets: Sequence[ChunkSet], first: Sequence[Message], earliest: Mapping[Message, int]
    ) -> None:
        self._sets, self._earliest = sets, earliest
        self._target: list[int] = network.target.tolist()
        self._taken: list[list[tuple[int, int]]] = [[] for _ in range(network.link_count)]
        self._in_switch: dict[tuple[int, int], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._times: dict[Message, Times] = {}
        self._own: dict[tuple[int, int], list[Message]] = defaultdict(list)
        for message in first:
            self._own[message.chunks, message.sender].append(message)
        rank = {message: number for number, message in enumerate(first)}
        missing = self._partials_before(first)
        ready = [(0, number, message) for message, number in rank.items() if not missing[message]]
        begin: dict[Message, int] = defaultdict(int)
        while ready:
            time, _, message = heappop(ready)
            self._send(time, message)
            for following in message.following:
                heappush(ready, (self._ready_after(message, following), len(rank), following))
                rank[following] = len(rank)
            for own in self._own.get((message.chunks, message.receiver), ()) if message.adds else ():
                if own.stage > message.stage:
                    begin[own] = max(begin[own], self._ready_after(message, own))
                    missing[own] -= 1
                    if not missing[own]:
                        heappush(ready, (begin[own], rank[own], own))

    def _partials_before(self, first: Sequence[Message]) -> dict[Message, int]:
        """For each of these messages the partials of earlier stages that its sender adds up before."""
        arriving: Counter[tuple[int, int, int]] = Counter()
        left = [*first]
        while left:
            message = left.pop()
            arriving[message.chunks, message.receiver, message.stage] += message.adds
            left += message.following
        return {
            message: sum(arriving[message.chunks, message.sender, stage] for stage in range(message.stage))
            for message in first
        }

    def _ready_after(self, message: Message, following: Message) -> int:
        """When the receiver of a message can send another one, each chunk after its arrival; picoseconds."""
        arrival = self._arrival(message)
        own = Times(arrival.start, self._spacing(following), arrival.count)
        return arrival.start + max(0, own.wait_for(arrival))

    def _spacing(self, message: Message) -> int:
        return max(self._sets[message.chunks].busy[link] for link in message.links)

    def _arrival(self, message: Message) -> Times:
        return self._times[message].shift(sum(self._sets[message.chunks].total[link] for link in message.links))

    def _send(self, ready: int, message: Message) -> None:
        """Send a message as early as its links are free, and as no chunk meets itself in a switch."""
        number, links = message.chunks, message.links
        part = self._sets[number]
        times = Times(max(ready, self._earliest.get(message, 0)), self._spacing(message), len(part.chunks))
        entered = list(zip(links, accumulate((part.total[link] for link in links), initial=0), strict=False))
        passed = [
            (self._in_switch[number, self._target[link]], after + part.total[link]) for link, after in entered[:-1]
        ]
        spans = [(times.count - 1) * times.spacing + part.busy[link] for link in links]
        while True:
            wait = max(
                self._free_from(link, times.start + after, span) - times.start - after
                for (link, after), span in zip(entered, spans, strict=True)
            )
            if not wait:
                wait = int(any(times.shift(after).meet(others) for others, after in passed))
            if not wait:
                break
            times = times.shift(wait)
        for (link, after), span in zip(entered, spans, strict=True):
            insort(self._taken[link], (times.start + after, times.start + after + span))
        for others, after in passed:
            others[times.spacing].add(times.start + after)
        self._times[message] = times

    def _free_from(self, link: int, time: int, span: int) -> int:
        """The earliest time from `time` on from which a link is free for `span` picoseconds."""
        taken = self._taken[link]
        position = bisect_right(taken, (time, time))
        if position:
            time = max(time, taken[position - 1][1])
        while position < len(taken) and taken[position][0] < time + span:
            time = taken[position][1]
            position += 1
        return time

    @property
    def end(self) -> int:
        """Picoseconds until the last chunk has arrived."""
        arrivals = map(self._arrival, self._times)
        return max((times.start + (times.count - 1) * times.spacing for times in arrivals), default=0)

    def delays(self) -> dict[Message, int]:
        """The messages that must start later, and when they may.

        Messages over a link may overwrite what their receiver keeps apart only when it has forwarded that; and what it
        adds to its sum may arrive only when it has sent its own contribution.
        """
        over: dict[tuple[int, int], list[Message]] = defaultdict(list)
        for message in self._times:
            over[message.chunks, message.links[-1]].append(message)
        late: dict[Message, int] = {}
        for messages in over.values():
            messages.sort(key=lambda message: self._arrival(message).start)
            kept: Sequence[Message] = ()
            for message in messages:
                own = self._own.get((message.chunks, message.receiver), ()) if message.adds else ()
                before = [*kept, *(sent for sent in own if sent.stage <= message.stage)]
                arrival = self._arrival(message)
                wait = max([arrival.wait_for(self._times[sent]) + 1 for sent in before], default=0)
                if wait > 0:
                    late[message] = self._times[message].start + wait
                kept = message.following
        return late

    def transfers(self) -> Transfers:
        """All messages as transfers, one for each link and chunk."""
        columns: list[tuple[int, int, int, int, bool]] = []
        chunks: list[Int32Array] = [np.empty(0, np.int32)]
        for message, times in self._times.items():
            part, time = self._sets[message.chunks], times.start
            for link in message.links:
                came_over = message.came_over if link == message.links[0] else -1
                columns.append((link, time, times.spacing, came_over, link == message.links[-1] and not message.adds))
                chunks.append(part.chunks)
                time += part.total[link]
        counts = np.array([len(part) for part in chunks[1:]], np.int64)
        table = np.repeat(np.array(columns, np.int64).reshape(-1, 5), counts, axis=0)
        position = ranges(np.zeros_like(counts), counts)
        starts = table[:, 1] + position * table[:, 2]
        link, came_over, kept = table[:, 0].astype(np.int32), table[:, 3].astype(np.int32), table[:, 4].astype(np.bool_)
        return Transfers.of(np.concatenate(chunks), link, starts, True, came_over, kept=kept)
