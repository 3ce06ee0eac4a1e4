"""The formulas of each property. What they say is negated by whoever asks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from collc.smt.script import Script, all_of, any_of
from collc.verification.properties.passing import Passing
from collc.verification.properties.world import Bits, Integers, Move, Times, World

Formulas = Callable[[World, Script, Times], Iterator[str]]


def _causality(world: World, _script: Script, times: Times) -> Iterator[str]:
    for move in world.moves:
        yield times.le(times.number(0), move.t)
        if move.source not in world.holders(move.chunk):
            yield any_of(times.le(times.arrival(m), move.t) for m in world.into[move.chunk, move.source])


def _congestion(world: World, _script: Script, times: Times) -> Iterator[str]:
    last: dict[int, Move] = {}
    for move in world.moves:
        if move.link in last:
            yield times.le(times.end(last[move.link]), move.t)
        last[move.link] = move


def _delivered(world: World, _script: Script, _times: Times) -> Iterator[str]:
    """Copies: all are sent by whoever holds them (causality), so an arrival is enough. Reductions: `_reductions`."""
    for chunk in range(len(world.table)):
        held = set(world.holders(chunk))
        for npu in world.wanted(chunk):
            yield "true" if npu in held or world.into[chunk, npu] else "false"


@dataclass(frozen=True, slots=True)
class _Sum:
    """The contributions of one reduction, as bits of a vector."""

    world: World
    times: Times
    chunk: int
    pre: tuple[int, ...]

    @property
    def full(self) -> str:
        """All contributions."""
        return "#b" + "1" * len(self.pre)

    @property
    def nothing(self) -> str:
        """No contribution."""
        return "#b" + "0" * len(self.pre)

    def value(self, move: Move) -> str:
        """The constant for what a move carries."""
        return f"v{move.number}"

    def at(self, device: int, time: str | None, moves: list[Move]) -> str:
        """What an NPU has at a time (None: at the end), of the arrivals `moves`."""
        copies = [m for m in moves if not m.reduce]

        def replaced(since: Move | None) -> str:
            """A copy came after `since` and until `time`."""
            terms: list[str] = []
            for m in copies:
                here = self.times.arrival(m)
                bounds = [] if since is None else [self.times.lt(self.times.arrival(since), here)]
                terms.append(all_of([*bounds, *([] if time is None else [self.times.le(here, time)])]))
            return any_of(terms)

        parts: list[str] = []
        if device in self.pre:
            own = "".join("1" if npu == device else "0" for npu in self.pre)
            parts.append(f"(ite {replaced(None)} {self.nothing} #b{own})")
        for m in moves:
            there = self.times.le(self.times.arrival(m), time) if time is not None else "true"
            parts.append(f"(ite (and {there} (not {replaced(m)})) {self.value(m)} {self.nothing})")
        return self.union(parts)

    def union(self, parts: list[str]) -> str:
        """All contributions of some terms."""
        found = self.nothing
        for part in parts:
            found = part if found == self.nothing else f"(bvor {found} {part})"
        return found

    def leaving(self, passing: Passing, move: Move) -> str:
        """What a move carries out of a switch."""
        departure = next(d for d in passing.departures if d.move is move)
        terms = [*departure.copies, *departure.partials]
        return self.union([f"(ite {q} {self.value(m)} {self.nothing})" for m, q in terms])


def _reductions(world: World, script: Script, times: Times) -> Iterator[str]:
    for move in world.moves:
        if move.reduce and not world.reduced(move.chunk):
            yield "false"
    by_chunk: dict[int, list[Move]] = defaultdict(list)
    for move in world.moves:
        by_chunk[move.chunk].append(move)
    for chunk in range(len(world.table)):
        if world.reduced(chunk):
            yield from _sum(_Sum(world, times, chunk, tuple(world.holders(chunk))), by_chunk[chunk], script)


def _sum(total: _Sum, moves: list[Move], script: Script) -> Iterator[str]:
    world, chunk, times = total.world, total.chunk, total.times
    if not total.pre:
        yield "false" if moves or world.wanted(chunk) else "true"
        return
    passing = {
        device: Passing(world, script, times, chunk, device)
        for device in sorted({end for move in moves for end in (move.source, move.target) if world.is_switch(end)})
    }
    for move in moves:
        # Moves that start no earlier can not have arrived yet.
        earlier = [m for m in world.into[chunk, move.source] if m.start < move.start]
        on = passing.get(move.source)
        carried = total.at(move.source, move.t, earlier) if on is None else total.leaving(on, move)
        script.define(total.value(move), f"(_ BitVec {len(total.pre)})", carried)
    for move in moves:
        value = total.value(move)
        yield f"(not (= {value} {total.nothing}))"
        if not move.reduce:
            yield f"(= {value} {total.full})"
        elif not world.is_switch(move.target):
            # What the receiver has just before: of what arrives at once, copies, and partials on links before this one.
            others = [
                m
                for m in world.into[chunk, move.target]
                if m is not move and (m.start + m.total, m.reduce, m.link) <= (move.start + move.total, True, move.link)
            ]
            yield f"(= {total.nothing} (bvand {value} {total.at(move.target, times.arrival(move), others)}))"
    for on in passing.values():
        yield from _apart(total, on)
    for npu in world.wanted(chunk):
        yield f"(= {total.full} {total.at(npu, None, world.into[chunk, npu])})"


def _apart(total: _Sum, passing: Passing) -> Iterator[str]:
    """What adds up in a switch has no contribution twice."""
    if passing.adds:
        for one, other in combinations(passing.partials, 2):
            both = f"(= {total.nothing} (bvand {total.value(one)} {total.value(other)}))"
            yield f"(or {both} {passing.left_between(one, other)})"


def _switches(world: World, script: Script, times: Times) -> Iterator[str]:
    network = world.network
    places: dict[int, list[_Place]] = defaultdict(list)
    for chunk, switch in sorted({*world.out_of, *world.into}):
        if not world.is_switch(switch):
            continue
        number = switch - network.npu_count
        limited = int(network.buffers[number]) >= 0
        if network.multicast[number] and not limited and not world.reduced(chunk):
            continue
        passing = Passing(world, script, times, chunk, switch)
        yield from passing.single()
        yield from passing.all_left()
        if limited:
            places[switch] += [_Place.of(script, times, *place) for place in passing.places()]
    for switch, found in places.items():
        limit = int(network.buffers[switch - network.npu_count])
        for here in found:
            at = times.arrival(here.arrival)
            taken = (f"(ite {place.taken(times, at)} 1 0)" for place in found if place.meets(here))
            yield f"(<= (+ 0 {' '.join(taken)}) {limit})"


@dataclass(frozen=True, slots=True)
class _Place:
    """A place of a buffer. first: whether its arrival is the first in it. until: the constant for when it is left.

    latest: when it is left at the latest, whoever reads it.
    """

    arrival: Move
    first: str
    until: str
    latest: int

    @staticmethod
    def of(script: Script, times: Times, arrival: Move, first: str, readers: list[tuple[Move, str]]) -> _Place:
        """A place with the departures that may read it."""
        until = times.number(0)
        for number, (reader, q) in enumerate(readers):
            end = times.end(reader)
            later = f"(ite {all_of((q, times.lt(until, end)))} {end} {until})"
            until = script.define(f"until{arrival.number}_{number}", times.sort, later)
        return _Place(arrival, first, until, max((reader.start + reader.busy for reader, _ in readers), default=0))

    def meets(self, other: _Place) -> bool:
        """Whether it can be taken when another place is filled."""
        now = other.arrival.start + other.arrival.total
        return self.arrival.start + self.arrival.total <= now < self.latest

    def taken(self, times: Times, at: str) -> str:
        """Whether it is taken at a time: its arrival was there, and leaves later."""
        return all_of((self.first, times.le(times.arrival(self.arrival), at), times.lt(at, self.until)))


PROPERTIES: Final[dict[str, tuple[type[Times], Formulas]]] = {
    "causality": (Integers, _causality),
    "congestion_free": (Integers, _congestion),
    "delivered": (Integers, _delivered),
    "reductions": (Bits, _reductions),
    "switches": (Integers, _switches),
}
"""By the names of the checks of `verify_schedule`: how times are written, and what must hold."""
