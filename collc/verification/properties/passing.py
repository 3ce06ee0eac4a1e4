"""What leaves a switch when, as formulas, by the rules of docs/ten.md: q_d_a, departure d is of arrival a.

A copy leaves from the place that was filled last and is not being read; a partial leaves once, the oldest first, and
not back to where it came from while there is another one. Where partials add up, a place has all that came since the
sum last left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collc.verification.properties.world import Move, Times, World
from collc.verification.smt import Script, all_of, either


@dataclass(frozen=True, slots=True)
class Departure:
    """A move out of a switch. partial: whether it is of partials. copies, partials: q_d_a, by arrival, in order."""

    move: Move
    partial: str
    copies: list[tuple[Move, str]]
    partials: list[tuple[Move, str]]


class Passing:
    """The departures of one chunk from one switch; adds its definitions to the script."""

    def __init__(self, world: World, script: Script, times: Times, chunk: int, switch: int) -> None:
        self.script, self.times = script, times
        number = switch - world.network.npu_count
        self.multicast, self.adds = bool(world.network.multicast[number]), bool(world.network.reduces[number])
        arrivals = sorted(world.into[chunk, switch], key=lambda m: (m.start + m.total, m.link))
        reduced = world.reduced(chunk)
        self.copies = [m for m in arrivals if not (m.reduce and reduced)]
        self.partials = [m for m in arrivals if m.reduce and reduced]
        self.departures: list[Departure] = []
        for move in sorted(world.out_of[chunk, switch], key=lambda m: (m.start, m.link)):
            self.departures.append(self._departure(move, move.reduce and reduced))

    def _departure(self, move: Move, reduce: bool) -> Departure:
        """What a move is of: of the arrivals that could be there at all."""
        partials = [m for m in self.partials if m.start < move.start]
        copies = [m for m in self.copies if m.start < move.start]
        waiting = either(self._there(m, move) if self.adds else self._waits(m, move) for m in partials)
        none = f"(not {either(self._there(m, move) for m in copies)})"
        partial = self.script.define(f"q{move.number}", "Bool", all_of((waiting, *(() if reduce else (none,)))))
        taken = self._added(move, partial, partials) if self.adds else self._oldest(move, partial, partials)
        return Departure(move, partial, self._newest(move, partial, copies), taken)

    def _there(self, arrival: Move, move: Move) -> str:
        return self.times.le(self.times.arrival(arrival), move.t)

    def _waits(self, arrival: Move, move: Move) -> str:
        """A partial is there, and has not left."""
        gone = [name for d in self.departures for m, name in d.partials if m is arrival]
        return all_of((self._there(arrival, move), f"(not {either(gone)})"))

    def _choice(self, move: Move, chosen: list[tuple[Move, str]]) -> list[tuple[Move, str]]:
        return [(m, self.script.define(f"q{move.number}_{m.number}", "Bool", term)) for m, term in chosen]

    def _first(self, terms: list[str]) -> list[str]:
        """Whether each is the first that holds."""
        return [all_of((term, f"(not {either(terms[:number])})")) for number, term in enumerate(terms)]

    def _oldest(self, move: Move, partial: str, arrivals: list[Move]) -> list[tuple[Move, str]]:
        waits = [self._waits(m, move) for m in arrivals]
        on = [w if m.source != move.target else "false" for m, w in zip(arrivals, waits, strict=True)]
        back = f"(not {either(on)})"
        chosen = [
            all_of((partial, either((a, all_of((back, b))))))
            for a, b in zip(self._first(on), self._first(waits), strict=True)
        ]
        return self._choice(move, list(zip(arrivals, chosen, strict=True)))

    def _newest(self, move: Move, partial: str, arrivals: list[Move]) -> list[tuple[Move, str]]:
        there = [self._there(m, move) for m in reversed(arrivals)]
        idle = [all_of((self._there(m, move), f"(not {self._reading(m, move)})")) for m in reversed(arrivals)]
        none = f"(not {either(idle)})"
        chosen = [
            all_of((f"(not {partial})", either((a, all_of((none, b))))))
            for a, b in zip(self._first(idle), self._first(there), strict=True)
        ]
        return self._choice(move, list(zip(reversed(arrivals), chosen, strict=True)))

    def _reading(self, arrival: Move, move: Move) -> str:
        """A copy is being read by another link."""
        if self.multicast:
            return "false"
        readers = ((d.move, name) for d in self.departures for m, name in d.copies if m is arrival)
        return either(all_of((name, self.times.lt(move.t, self.times.end(reader)))) for reader, name in readers)

    def _added(self, move: Move, partial: str, arrivals: list[Move]) -> list[tuple[Move, str]]:
        """All that came after the sum left for the last time before the last arrival."""
        chosen: list[tuple[Move, str]] = []
        for m in arrivals:
            left = (
                all_of((self.left_between(m, other), self._there(other, move))) for other in arrivals if other is not m
            )
            chosen.append((m, all_of((partial, self._there(m, move), f"(not {either(left)})"))))
        return self._choice(move, chosen)

    def left_between(self, one: Move, other: Move) -> str:
        """The sum left when one arrival was there and the other was not."""
        arrived, comes = self.times.arrival(one), self.times.arrival(other)
        return either(
            all_of((d.partial, self.times.le(arrived, d.move.t), self.times.lt(d.move.t, comes)))
            for d in self.departures
        )

    # What must hold

    def single(self) -> Iterator[str]:
        """Each departure is of something that is not being read."""
        if self.multicast:
            return
        for number, departure in enumerate(self.departures):
            move = departure.move
            copies = [m for m, _ in departure.copies]
            idle = either(all_of((self._there(m, move), f"(not {self._before(m, number)})")) for m in copies)
            some = either(self._there(m, move) for m in copies)
            yield f"(or {departure.partial} (not {some}) {idle})"
            if self.adds:
                yield from self._sum_read_once(departure, self.departures[:number])

    def _before(self, arrival: Move, number: int) -> str:
        """A copy is being read when a departure begins."""
        move = self.departures[number].move
        readers = ((d.move, q) for d in self.departures[:number] for m, q in d.copies if m is arrival)
        return either(all_of((q, self.times.lt(move.t, self.times.end(reader)))) for reader, q in readers)

    def _sum_read_once(self, departure: Departure, before: list[Departure]) -> Iterator[str]:
        move = departure.move
        for other in before:
            anew = (
                all_of((self.times.lt(other.move.t, self.times.arrival(m)), self._there(m, move)))
                for m in self.partials
            )
            over = self.times.le(self.times.end(other.move), move.t)
            yield f"(or (not {departure.partial}) (not {other.partial}) {over} {either(anew)})"

    def all_left(self) -> Iterator[str]:
        """No partial stays in a switch that does not reduce."""
        if not self.adds:
            for m in self.partials:
                yield either(q for d in self.departures for arrival, q in d.partials if arrival is m)

    def places(self) -> Iterator[tuple[Move, str, list[tuple[Move, str]]]]:
        """The places that may be taken: by which arrival, whether it is the first one, and by whom it is read."""
        for m in self.copies:
            yield m, "true", [(d.move, q) for d in self.departures for arrival, q in d.copies if arrival is m]
        for number, m in enumerate(self.partials):
            first = "true"
            if self.adds:
                first = all_of(self.left_between(other, m) for other in self.partials[:number])
            yield m, first, [(d.move, q) for d in self.departures for arrival, q in d.partials if arrival is m]
