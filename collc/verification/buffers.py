"""The buffer slots of one chunk in one switch, over time."""

from __future__ import annotations

from dataclasses import dataclass, field


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
        """Store an arrival; False where the sum has one of its contributions already."""
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
        """Let the chunk leave to `target`: the contributions (0 where nothing is there), and whether a link may read.

        start, end: picoseconds while the link is occupied. partial: the transfer is a `reduce`. The second result is
        False where the switch has no multicast and another link is reading.
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
        idle = [slot for slot in slots if self.multicast or slot.free <= start]
        slot = (idle or slots)[-1]
        slot.free = max(slot.free, end)
        slot.sent += 1
        return slot.value, bool(idle)

    def stuck(self) -> list[BufferSlot]:
        """Partials that never left a switch that does not reduce."""
        return [] if self.reduces else self.partials

    def intervals(self) -> list[tuple[int, int]]:
        """(from, until) in picoseconds of each slot that was read."""
        slots = (*self.done, *self.copies, *self.partials)
        return [(slot.arrival, slot.free) for slot in slots if slot.free > slot.arrival]
