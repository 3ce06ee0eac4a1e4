"""The exact check of one chunk: its transfers are replayed in order of time, with contributions as bits.

A chunk that is copied counts as a reduction with one contribution, which all holders of the precondition have.

The buffer slots of one chunk in one switch, over time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import Clock, MessageHops, Transfers
from collc.verification.verdict import Findings, at


@dataclass(slots=True)
class BufferSlot:
    """A slot of the buffer and what it holds.

    arrival: picoseconds. value: the contributions, as bits. origin: the device that it came from. free: when the last
    link that reads it is free again, -1 before any has read it. sent: departures so far.
    """

    arrival: int
    value: int
    origin: int
    free: int = -1
    sent: int = 0


@dataclass(slots=True)
class ChunkBuffer:
    """One chunk in one switch, by the rules of docs/ten.md (section Switches).

    A copy is read from the slot that was filled last and is not being read. A partial leaves once, the oldest first,
    and not back to the device that it came from while another is there. A switch that reduces adds up what arrives
    until the sum has left. partials, copies: slots in order of arrival. done: slots of partials that have left.
    """

    multicast: bool
    reduces: bool
    partials: list[BufferSlot] = field(default_factory=list[BufferSlot])
    copies: list[BufferSlot] = field(default_factory=list[BufferSlot])
    done: list[BufferSlot] = field(default_factory=list[BufferSlot])

    def arrive(self, slot: BufferSlot, partial: bool) -> bool:
        """Store an arrival; False if the sum has one of its contributions already."""
        if not partial:
            self.copies.append(slot)
            return True
        if self.reduces and self.partials and not self.partials[-1].sent:
            waiting = self.partials[-1]
            once = not waiting.value & slot.value
            waiting.value |= slot.value
            return once
        self.partials.append(slot)
        return True

    def depart(self, start: int, end: int, target: int, partial: bool) -> tuple[int, bool]:
        """Let the chunk leave to `target`: the contributions (0 if nothing is there), and whether a link may read.

        start, end: picoseconds while the link is occupied. partial: the transfer is a `reduce`. The second result is
        False if the switch has no multicast and another link is reading.
        """
        if partial and self.reduces and self.partials:
            return self._read(self.partials[-1:], start, end)
        if self.partials and not self.reduces and (partial or not self.copies):
            slot = next((slot for slot in self.partials if slot.origin != target), self.partials[0])
            self.partials.remove(slot)
            slot.free = end
            self.done.append(slot)
            return slot.value, True
        return self._read(self.copies or self.partials[-1:], start, end)

    def _read(self, slots: list[BufferSlot], start: int, end: int) -> tuple[int, bool]:
        if not slots:
            return 0, True
        idle = next((slot for slot in reversed(slots) if self.multicast or slot.free <= start), None)
        slot = idle or slots[-1]
        slot.free = max(slot.free, end)
        slot.sent += 1
        return slot.value, idle is not None

    def stuck_partials(self) -> list[BufferSlot]:
        """Partials that never left a switch that does not reduce."""
        return [] if self.reduces else self.partials

    def intervals(self) -> list[tuple[int, int]]:
        """(from, until) in picoseconds of each slot that was read."""
        slots = (*self.done, *self.copies, *self.partials)
        return [(slot.arrival, slot.free) for slot in slots if slot.free > slot.arrival]


Interval = tuple[int, int, int, int]
"""(switch, from, until, chunk): a buffer slot that is occupied, in picoseconds."""


_Carried = tuple[int, int, int, int, int, int, bool, int, bool]
"""What goes from device to device: start, how long it occupies its link, time until it arrives (picoseconds), link,
source, target, whether it is a partial, the link over which came what it relays, and whether it is only kept apart."""


class ChunkCheck:
    """Checks single chunks. intervals: of the buffer slots that the chunks checked so far have occupied."""

    def __init__(self, module: Module, transfers: Transfers, clock: Clock, findings: Findings) -> None:
        self.network, self.table, self.findings = module.network, module.demand.chunks, findings
        self.transfers, self.clock = transfers, clock
        self.intervals: list[Interval] = []

    def check(self, chunk: int, rows: NDArray[np.intp]) -> None:
        """Check one chunk; `rows` are the rows of its transfers, by start."""
        _ChunkReplay(self, chunk).replay(rows)


class _ChunkReplay:
    """What every device holds of one chunk.

    value: contributions of NPUs, as bits. full: all contributions. apart: by link, what came over it last.
    """

    def __init__(self, check: ChunkCheck, chunk: int) -> None:
        self.check, self.chunk = check, chunk
        self.network, self.findings = check.network, check.findings
        table = check.table
        self.copy = int(table.op[chunk]) == Op.COPY
        self.pre: list[int] = table.sets[int(table.pre[chunk])].tolist()
        self.post: list[int] = table.sets[int(table.post[chunk])].tolist()
        self.full = 1 if self.copy else (1 << len(self.pre)) - 1
        self.value = {device: 1 if self.copy else 1 << k for k, device in enumerate(self.pre)}
        self.buffers: dict[int, ChunkBuffer] = {}
        self.apart: dict[int, int] = {}

    def replay(self, rows: NDArray[np.intp]) -> None:
        """Replay all transfers by time, then check the postcondition."""
        # Copies arrive before partials of the same time, so that a partial that is added to a complete value is found.
        coming: list[tuple[int, bool, int, int, int, int, bool]] = []
        for start, occupied, until_arrival, number, source, target, flag, relayed, kept in self._moves(rows):
            while coming and coming[0][0] <= start:
                self._arrive(*heapq.heappop(coming))
            reduce = flag and not self.copy
            if flag and self.copy:
                self._report("V0401", start, number, "is reduced, but is a chunk to copy", "a plain send")
            carried = self._depart(start, start + occupied, number, source, target, reduce, relayed)
            if carried:
                heapq.heappush(coming, (start + until_arrival, reduce, number, source, target, carried, kept))
        while coming:
            self._arrive(*heapq.heappop(coming))
        self._settle()

    def _moves(self, rows: NDArray[np.intp]) -> Iterable[_Carried]:
        """What goes from device to device: transfers, and the hops of each message as one, which begins when it joins
        the first queue.
        """
        check, network = self.check, self.network
        moved = check.transfers.select(rows)
        busy, total = check.clock.busy_of(moved), check.clock.total_of(moved)
        source, target = network.source[moved.link], network.target[moved.link]
        first = last = np.arange(len(moved))
        ready = moved.start
        if moved.messages is not None:
            number = moved.messages.number
            hops = MessageHops.of(number, moved.start)
            for before, after in zip(hops.before.tolist(), hops.after.tolist(), strict=True):
                if target[before] >= network.npu_count:
                    arrival, left = int(moved.start[before] + total[before]), int(moved.start[after] + busy[after])
                    check.intervals.append((int(target[before]), arrival, left, self.chunk))
            ready = np.where(number >= 0, moved.messages.ready, moved.start)
            order = np.argsort(ready[hops.first], kind="stable")
            first, last = hops.first[order], hops.last[order]
        taken = moved.start[last] + total[last] - ready[first]
        ends = moved.link[last], source[first], target[last]
        columns = ready[first], busy[first], taken, *ends, moved.reduce[first], moved.relays[first], moved.keeps[first]
        return zip(*(column.tolist() for column in columns), strict=True)

    def _report(self, code: str, time: int, link: int, what: str, expected: str) -> None:
        check = {"1": "causality", "3": "delivered", "4": "reductions", "5": "switches"}[code[2]]
        on = f" on {self.findings.link(link)}" if link >= 0 else ""
        self.findings.add(check, code, time, f"{self.findings.chunk(self.chunk)}{on} at {at(time)} {what}", expected)

    def _depart(self, start: int, end: int, link: int, source: int, target: int, reduce: bool, relayed: int) -> int:
        if relayed >= 0:
            carried = self.apart.get(relayed, 0)
        elif source < self.network.npu_count:
            carried = self.value.get(source, 0)
        else:
            carried, single = self._buffer(source).depart(start, end, target, reduce)
            if not single:
                what = f"leaves {self.findings.device(source)} on two links at once"
                self._report("V0501", start, link, what, "one departure at a time from a switch without multicast")
        if not carried:
            what = f"is sent by {self.findings.device(source)}, which does not hold it yet"
            self._report("V0101", start, link, what, "an arrival, or the precondition, at or before the start")
        elif not reduce and carried != self.full:
            what = f"is sent as final, but holds {self._share(carried)}"
            self._report("V0402", start, link, what, "the finished reduction")
        return carried

    def _arrive(self, time: int, reduce: bool, link: int, source: int, target: int, carried: int, kept: bool) -> None:
        once = True
        self.apart[link] = carried
        if kept:
            return
        if target >= self.network.npu_count:
            once = self._buffer(target).arrive(BufferSlot(time, carried, source), reduce)
        elif reduce:
            old = self.value.get(target, 0)
            once = not old & carried
            self.value[target] = old | carried
        else:
            self.value[target] = carried
        if not once:
            what = f"brings {self.findings.device(target)} a contribution that it has already"
            self._report("V0403", time, link, what, "every contribution exactly once")

    def _buffer(self, switch: int) -> ChunkBuffer:
        buffer = self.buffers.get(switch)
        if buffer is None:
            number = switch - self.network.npu_count
            buffer = ChunkBuffer(bool(self.network.multicast[number]), bool(self.network.reduces[number]))
            self.buffers[switch] = buffer
        return buffer

    def _share(self, value: int) -> str:
        return f"{value.bit_count()} of {len(self.pre)} contributions"

    def _settle(self) -> None:
        name = self.findings.chunk
        for switch, buffer in self.buffers.items():
            self.check.intervals += [(switch, low, high, self.chunk) for low, high in buffer.intervals()]
            for slot in buffer.stuck_partials():
                what = f"is a partial that reaches {self.findings.device(switch)} and never leaves"
                self._report("V0503", slot.arrival, -1, what, "a switch forwards partials, it does not reduce")
        for device in self.post:
            value = self.value.get(device, 0)
            if value == self.full and value:
                continue
            who = self.findings.device(device)
            if not value:
                message = f"{who} never gets {name(self.chunk)}"
                self.findings.add("delivered", "V0301", 0, message, "its postcondition")
                continue
            message = f"{who} ends with {self._share(value)} of {name(self.chunk)}"
            self.findings.add("delivered", "V0302", 0, message, "the finished reduction")
            self.findings.add("reductions", "V0404", 0, message, "every contribution exactly once")
