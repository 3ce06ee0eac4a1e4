"""What a switch holds of one chunk over time: places in its buffer."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class BufferSlot:
    """A place in the buffer.

    arrival: picoseconds. value: contributions in it, as bits. origin: the device it came from. free: when the link
    that carries it away is done with it (the last one so far). sent: departures so far.
    """

    arrival: int
    value: int
    origin: int
    free: int = -1
    sent: int = 0


@dataclass(slots=True)
class ChunkBuffer:
    """One chunk in one switch.

    A copy leaves from the place that was filled last and is not being read; a partial leaves once, the oldest first,
    and not back to where it came from if another is there. A switch that reduces adds up what arrives until the sum
    has left.
    """

    multicast: bool
    reduces: bool
    partials: list[BufferSlot] = field(default_factory=list[BufferSlot])
    copies: list[BufferSlot] = field(default_factory=list[BufferSlot])
    done: list[BufferSlot] = field(default_factory=list[BufferSlot])

    def arrive(self, place: BufferSlot, partial: bool) -> bool:
        """Take something in; False where a contribution came twice."""
        if not partial:
            self.copies.append(place)
            return True
        if self.reduces and self.partials and not self.partials[-1].sent:
            waiting = self.partials[-1]
            once = not waiting.value & place.value
            waiting.value |= place.value
            return once
        self.partials.append(place)
        return True

    def depart(self, start: int, end: int, target: int, partial: bool) -> tuple[int, bool]:
        """Let something out: its contributions (0: there is nothing), and whether the multicast rule is kept."""
        if partial and self.reduces and self.partials:
            return self._read(self.partials[-1:], start, end)
        if self.partials and not self.reduces and (partial or not self.copies):
            place = next((p for p in self.partials if p.origin != target), self.partials[0])
            self.partials.remove(place)
            place.free = end
            self.done.append(place)
            return place.value, True
        return self._read(self.copies or self.partials[-1:], start, end)

    def _read(self, places: list[BufferSlot], start: int, end: int) -> tuple[int, bool]:
        if not places:
            return 0, True
        idle = [place for place in places if self.multicast or place.free <= start]
        place = (idle or places)[-1]
        place.free = max(place.free, end)
        place.sent += 1
        return place.value, bool(idle)

    def stuck(self) -> list[BufferSlot]:
        """Partials that never left a switch that does not reduce."""
        return [] if self.reduces else self.partials

    def intervals(self) -> list[tuple[int, int]]:
        """(from, until) of each place that something left."""
        places = (*self.done, *self.copies, *self.partials)
        return [(place.arrival, place.free) for place in places if place.free > place.arrival]
