"""Chunks that grow over networks of many switch paths: each message goes to where it arrives first.

Whatever has a chunk sends it on as soon as its link is free, so that the holders grow as fast as links allow (the
postal model of Bar-Noy and Kipnis, SPAA 1992). A switch that may send a chunk on more than once holds it too. Messages
cross switches without a pause, so that a schedule which is inverted mixes up no partials.

Of receivers whom a switch serves equally soon, those come first behind whose fastest link nobody has the chunk yet: one
GPU of each node, before others of nodes that NVLink is about to serve.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import Final

import numpy as np

from collc.synthesis.conditions import Conditions
from collc.synthesis.task import Effort
from collc.ten.schedule import Transfers

MESSAGE_WORK: Final = 10
"""Work of the search for a message, beside a unit for each link that it looks at."""

Message = tuple[int, tuple[int, ...]]
"""When it arrives, and its links."""


def grow(conditions: Conditions, repeaters: frozenset[int], effort: Effort) -> tuple[int, Transfers] | None:
    """The end of a schedule of copies, picoseconds, and its transfers.

    Only switches and those that want a chunk pass it on. None if not all are reached so, there are more chunks than
    each has receivers, switches have limited buffers or will reduce, or the search is stopped.

    repeaters: switches that may send one arrival on more than once.
    """
    network = conditions.task.network
    few = len(conditions) ** 2 <= len(conditions.wanting)
    if (
        not few
        or not network.has_switches
        or network.has_limited_buffers
        or (conditions.task.inverted and bool(network.multicast.any()))
    ):
        return None
    growth = _Growth(conditions, repeaters)
    if not growth.run(effort):
        return None
    starts = np.array(growth.starts, np.int64)
    return growth.end, Transfers.of(conditions.chunk[growth.rows], np.array(growth.links, np.int32), starts)


class _Growth:
    """Messages that are sent so far: rows, links, starts, one item for each of their links.

    An item of the queue is a device that holds a row, with the link that it may send on next (-1: any, one at a time),
    by the time at which a message of it may arrive, then by the copies that are there already.
    """

    def __init__(self, conditions: Conditions, repeaters: frozenset[int]) -> None:
        network, clock = conditions.task.network, conditions.clock
        self.rows: list[int] = []
        self.links: list[int] = []
        self.starts: list[int] = []
        self._npus, self._repeaters = network.npu_count, repeaters
        self._multicast: list[bool] = [*[False] * network.npu_count, *network.multicast.tolist()]
        self._source: list[int] = network.source.tolist()
        self._target: list[int] = network.target.tolist()
        self._column: list[int] = conditions.column.tolist()
        self._busy: list[list[int]] = np.maximum(1, clock.busy[network.kind].T).tolist()
        self._total: list[list[int]] = clock.total[network.kind].T.tolist()
        free, reserved = np.zeros(network.link_count, np.int64), conditions.task.reserved
        if reserved is not None:
            np.maximum.at(free, reserved.link, reserved.start + clock.busy_of(reserved))
        self._free: list[int] = free.tolist()
        self._out: list[list[int]] = [[] for _ in range(network.device_count)]
        into: list[list[int]] = [[] for _ in self._out]
        for link, (source, target) in enumerate(zip(self._source, self._target, strict=True)):
            self._out[source].append(link)
            into[target].append(link)
        self._between = {
            switch: [link for link in self._out[switch] if self._target[link] >= self._npus]
            for switch in range(self._npus, network.device_count)
        }
        self._home = self._homes(into)
        self._wanting = [set[int](conditions.row(row)[1].tolist()) for row in range(len(conditions))]
        self._touched = [set[int]() for _ in self._wanting]
        self._copies = [0] * len(self._wanting)
        self._waiting: list[dict[int, list[tuple[bool, int, int, int]]]] = [{} for _ in self._wanting]
        self._queue: list[tuple[int, int, int, int, int, int, int]] = []
        self._pushed = self.steps = self.end = 0
        for row, release in enumerate(conditions.release.tolist()):
            self._list_receivers(row, conditions.row(row)[1].tolist(), into)
            for holder in conditions.row(row)[0].tolist():
                self._hold(row, holder, release)

    def _homes(self, into: list[list[int]]) -> list[int]:
        """By device: where its fastest link comes from; -1 if no link leads to it. into: by device, the links to it."""
        total = self._total[-1]
        return [self._source[min(links, key=total.__getitem__)] if links else -1 for links in into]

    def _list_receivers(self, row: int, wanting: list[int], into: list[list[int]]) -> None:
        """Lists the receivers of a row by the switches next to them; rows begin at different ones."""
        first, waiting = row * len(wanting) // len(self._wanting), self._waiting[row]
        for position, target in enumerate(wanting[first:] + wanting[:first]):
            for link in into[target]:
                if self._source[link] >= self._npus:
                    waiting.setdefault(self._source[link], []).append((False, 0, position, link))
        self.steps += MESSAGE_WORK * len(wanting)

    def run(self, effort: Effort) -> bool:
        """Sends all messages; whether all NPUs that want a chunk get it before `effort.stop` returns True."""
        left, queue = sum(map(len, self._wanting)), self._queue
        while left and queue:
            if self.steps > 100_000:
                effort.work.add(self.steps)
                self.steps = 0
                if effort.stop():
                    return False
            arrival, _, _, row, device, link, ready = heappop(queue)
            message = self._message(row, device, link, ready)
            if message is None:
                continue
            if message[0] > arrival:
                self._push(message[0], row, device, link, ready)
                continue
            left -= 1
            free = self._send(row, *message)
            self._push(free, row, device, link, ready if link >= 0 else free)
        effort.work.add(self.steps)
        return not left

    def _hold(self, row: int, device: int, ready: int) -> None:
        """Notes that a device has the chunk of a row from a time on."""
        if device < self._npus:
            self._touched[row].add(self._home[device])
            for link in self._out[device]:
                self._push(max(ready, self._free[link]), row, device, link, ready)
        else:
            self._push(ready, row, device, -1, ready)

    def _push(self, arrival: int, row: int, device: int, link: int, ready: int) -> None:
        self._pushed += 1
        heappush(self._queue, (arrival, self._copies[row], self._pushed, row, device, link, ready))

    def _message(self, row: int, device: int, link: int, ready: int) -> Message | None:
        """The message of a holder that arrives first; None if nobody is left to whom it leads."""
        self.steps += MESSAGE_WORK
        if link < 0:
            return self._over_switches(row, device, ready, ())
        arrival = max(ready, self._free[link]) + self._total[self._column[row]][link]
        target = self._target[link]
        if target >= self._npus:
            return self._over_switches(row, target, arrival, (link,))
        return (arrival, (link,)) if target in self._wanting[row] else None

    def _over_switches(self, row: int, switch: int, time: int, path: tuple[int, ...]) -> Message | None:
        """The message that arrives first from a switch on. time, path: when and how it comes there."""
        total, free, target = self._total[self._column[row]], self._free, self._target
        best: Message | None = None
        reached, heap = {switch: time}, [(time, switch, path)]
        while heap:
            time, switch, path = heappop(heap)
            if best is not None and time >= best[0]:
                break
            link = self._next_receiver(row, switch)
            if link >= 0:
                arrival = max(time, free[link]) + total[link]
                if best is None or arrival < best[0]:
                    best = arrival, (*path, link)
            out = self._between[switch]
            self.steps += len(out)
            for link in out:
                arrival = max(time, free[link]) + total[link]
                if arrival < reached.get(target[link], arrival + 1):
                    reached[target[link]] = arrival
                    heappush(heap, (arrival, target[link], (*path, link)))
        return best

    def _next_receiver(self, row: int, switch: int) -> int:
        """The link of a switch to an NPU that wants a row; -1 if there is none."""
        waiting, wanting, touched = self._waiting[row].get(switch), self._wanting[row], self._touched[row]
        while waiting:
            is_served, free, position, link = waiting[0]
            target = self._target[link]
            if target not in wanting:
                heappop(waiting)
                continue
            now = self._home[target] != switch and self._home[target] in touched, self._free[link]
            if now == (is_served, free):
                return link
            heapreplace(waiting, (*now, position, link))
            self.steps += 1
        return -1

    def _send(self, row: int, arrival: int, path: tuple[int, ...]) -> int:
        """Sends a message; all that it passes hold the chunk then. Returns when the sender may send again."""
        total, busy, target = self._total[self._column[row]], self._busy[self._column[row]], self._target[path[-1]]
        time = start = arrival - sum(total[link] for link in path)
        for position, link in enumerate(path):
            self.rows.append(row)
            self.links.append(link)
            self.starts.append(time)
            self._free[link] = time + busy[link]
            switch = self._source[link]
            if position and switch in self._repeaters:
                self._hold(row, switch, time if self._multicast[switch] else time + busy[link])
            time += total[link]
        self.end = max(self.end, arrival)
        self._wanting[row].remove(target)
        self._copies[row] += 1
        self._hold(row, target, arrival)
        first = path[0]
        return start if self._multicast[self._source[first]] else start + busy[first]
