"""What leaves a switch when, as formulas, by the rules of docs/ten.md: q_d_a, departure d is of arrival a.

A copy leaves from the place that was filled last and is not being read; a partial leaves once, the oldest first, and
not back to where it came from while there is another one. Where partials add up, a place has all that came since the
sum last left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collc.smt.script import Script, all_of, any_of
from collc.verification.properties.world import Move, Times, World


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
        self._gone: dict[int, str] = {}
        """By partial: whether it has left so far."""
        self._idle: dict[tuple[int, int], str] = {}
        """By departure and copy: whether it is there and not being read."""
        for move in sorted(world.out_of[chunk, switch], key=lambda m: (m.start, m.link)):
            self.departures.append(self._departure(move, move.reduce and reduced))

    def _departure(self, move: Move, reduce: bool) -> Departure:
        """What a move is of: of the arrivals that could be there at all."""
        partials = [m for m in self.partials if m.start < move.start]
        copies = [m for m in self.copies if m.start < move.start]
        waiting = any_of(self._there(m, move) if self.adds else self._waits(m, move) for m in partials)
        none = f"(not {any_of(self._there(m, move) for m in copies)})"
        partial = self.script.define(f"q{move.number}", "Bool", all_of((waiting, *(() if reduce else (none,)))))
        taken = self._added(move, partial, partials) if self.adds else self._oldest(move, partial, partials)
        return Departure(move, partial, self._newest(move, partial, copies), taken)

    def _there(self, arrival: Move, move: Move) -> str:
        return self.times.le(self.times.arrival(arrival), move.t)

    def _waits(self, arrival: Move, move: Move) -> str:
        """A partial is there, and has not left."""
        return all_of((self._there(arrival, move), f"(not {self._gone.get(arrival.number, 'false')})"))

    def _choice(self, move: Move, chosen: list[tuple[Move, str]]) -> list[tuple[Move, str]]:
        return [(m, self.script.define(f"q{move.number}_{m.number}", "Bool", term)) for m, term in chosen]

    def _first(self, name: str, terms: list[str]) -> list[str]:
        """Whether each is the first that holds."""
        found, before = list[str](), "false"
        for number, term in enumerate(terms):
            found.append(all_of((term, f"(not {before})")))
            before = self.script.define(f"{name}_{number}", "Bool", any_of((before, term)))
        return found

    def _oldest(self, move: Move, partial: str, arrivals: list[Move]) -> list[tuple[Move, str]]:
        waits = [self._waits(m, move) for m in arrivals]
        on = [w if m.source != move.target else "false" for m, w in zip(arrivals, waits, strict=True)]
        back = self.script.define(f"back{move.number}", "Bool", f"(not {any_of(on)})")
        first, any_first = self._first(f"on{move.number}", on), self._first(f"any{move.number}", waits)
        chosen = [all_of((partial, any_of((a, all_of((back, b)))))) for a, b in zip(first, any_first, strict=True)]
        found = self._choice(move, list(zip(arrivals, chosen, strict=True)))
        for m, q in found:
            gone = any_of((self._gone.get(m.number, "false"), q))
            self._gone[m.number] = self.script.define(f"gone{move.number}_{m.number}", "Bool", gone)
        return found

    def _newest(self, move: Move, partial: str, arrivals: list[Move]) -> list[tuple[Move, str]]:
        newest = list(reversed(arrivals))
        there = [self._there(m, move) for m in newest]
        idle: list[str] = []
        for m in newest:
            term = all_of((self._there(m, move), f"(not {self._reading(m, move)})"))
            idle.append(self.script.define(f"idle{move.number}_{m.number}", "Bool", term))
            self._idle[move.number, m.number] = idle[-1]
        none = self.script.define(f"none{move.number}", "Bool", f"(not {any_of(idle)})")
        first, any_first = self._first(f"free{move.number}", idle), self._first(f"came{move.number}", there)
        chosen = [
            all_of((f"(not {partial})", any_of((a, all_of((none, b)))))) for a, b in zip(first, any_first, strict=True)
        ]
        return self._choice(move, list(zip(newest, chosen, strict=True)))

    def _reading(self, arrival: Move, move: Move) -> str:
        """A copy is being read by another link."""
        if self.multicast:
            return "false"
        # Moves that are over when this one starts read no more.
        late = (d for d in self.departures if d.move.start + d.move.busy > move.start)
        readers = ((d.move, name) for d in late for m, name in d.copies if m is arrival)
        return any_of(all_of((name, self.times.lt(move.t, self.times.end(reader)))) for reader, name in readers)

    def _added(self, move: Move, partial: str, arrivals: list[Move]) -> list[tuple[Move, str]]:
        """All that came after the sum left for the last time before the last arrival."""
        chosen: list[tuple[Move, str]] = []
        for m in arrivals:
            left = (
                all_of((self.left_between(m, other), self._there(other, move))) for other in arrivals if other is not m
            )
            chosen.append((m, all_of((partial, self._there(m, move), f"(not {any_of(left)})"))))
        return self._choice(move, chosen)

    def left_between(self, one: Move, other: Move) -> str:
        """The sum left when one arrival was there and the other was not."""
        arrived, comes = self.times.arrival(one), self.times.arrival(other)
        return any_of(
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
            idle = any_of(self._idle[move.number, m.number] for m in copies)
            some = any_of(self._there(m, move) for m in copies)
            yield f"(or {departure.partial} (not {some}) {idle})"
            if self.adds:
                yield from self._sum_read_once(departure, self.departures[:number])

    def _sum_read_once(self, departure: Departure, before: list[Departure]) -> Iterator[str]:
        move = departure.move
        for other in before:
            anew = (
                all_of((self.times.lt(other.move.t, self.times.arrival(m)), self._there(m, move)))
                for m in self.partials
            )
            over = self.times.le(self.times.end(other.move), move.t)
            yield f"(or (not {departure.partial}) (not {other.partial}) {over} {any_of(anew)})"

    def all_left(self) -> Iterator[str]:
        """No partial stays in a switch that does not reduce."""
        if not self.adds:
            for m in self.partials:
                yield self._gone.get(m.number, "false")

    def places(self) -> Iterator[tuple[Move, str, list[tuple[Move, str]]]]:
        """The places that may be taken: by which arrival, whether it is the first one, and by whom it is read."""
        for m in self.copies:
            yield m, "true", [(d.move, q) for d in self.departures for arrival, q in d.copies if arrival is m]
        for number, m in enumerate(self.partials):
            first = "true"
            if self.adds:
                first = all_of(self.left_between(other, m) for other in self.partials[:number])
            yield m, first, [(d.move, q) for d in self.departures for arrival, q in d.partials if arrival is m]
