"""The formulas of each property of a schedule. Together they say that it holds; the proof refutes their negation.

Formulas for what each transfer out of a switch reads, by the rules of docs/ten.md (section Switches).

The constant q_d_a is true if departure d reads arrival a. A copy is read from the slot that was filled last and is
not being read. A partial leaves once, the oldest first; it does not go back to the device that it came from while
another partial is there. In a switch that reduces, a departure reads all partials that arrived since the sum last left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Final

from collc.base.units import serialization_time
from collc.smt.script import Script, all_of, any_of
from collc.ten.limited import Ports
from collc.verification.property_proof.scheduled_transfers import (
    BIT_VECTORS,
    INTEGERS,
    ScheduledTransfer,
    ScheduledTransfers,
    TimeTerms,
)


@dataclass(frozen=True, slots=True)
class Departure:
    """A transfer out of a switch.

    partial: the term that it reads partials, not a copy. copies, partials: the arrivals that it may read, each with its
    constant q_d_a.
    """

    transfer: ScheduledTransfer
    partial: str
    copies: list[tuple[ScheduledTransfer, str]]
    partials: list[tuple[ScheduledTransfer, str]]


class SwitchDepartures:
    """The departures of one chunk from one switch. Their definitions are added to the script."""

    def __init__(
        self, transfers: ScheduledTransfers, script: Script, times: TimeTerms, chunk: int, switch: int
    ) -> None:
        self.script, self.times = script, times
        number = switch - transfers.network.npu_count
        self.multicast = bool(transfers.network.multicast[number])
        self.reduces = bool(transfers.network.reduces[number])
        arrivals = sorted(transfers.arrivals[chunk, switch], key=lambda m: (m.start + m.total, m.link))
        reduced = transfers.is_reduction(chunk)
        self.copies = [m for m in arrivals if not (m.reduce and reduced)]
        self.partials = [m for m in arrivals if m.reduce and reduced]
        self.departures: list[Departure] = []
        self._has_left: dict[int, str] = {}
        """Number of a partial -> the term that one of the departures so far has read it."""
        self._idle: dict[tuple[int, int], str] = {}
        """Numbers of a departure and of a copy -> the term that the copy has arrived and is not being read."""
        for transfer in sorted(transfers.departures[chunk, switch], key=lambda m: (m.start, m.link)):
            self.departures.append(self._departure(transfer, transfer.reduce and reduced))

    def _departure(self, transfer: ScheduledTransfer, reduce: bool) -> Departure:
        """The terms of a departure. Only arrivals that start before it can have arrived.

        reduce: whether the transfer reduces; then it reads a partial even if a copy has arrived.
        """
        partials = [m for m in self.partials if m.start < transfer.start]
        copies = [m for m in self.copies if m.start < transfer.start]
        waiting = any_of(
            self._has_arrived(m, transfer) if self.reduces else self._is_waiting(m, transfer) for m in partials
        )
        none = f"(not {any_of(self._has_arrived(m, transfer) for m in copies)})"
        partial = self.script.define(f"q{transfer.number}", "Bool", all_of((waiting, *(() if reduce else (none,)))))
        read = self._summands_read if self.reduces else self._partials_read
        taken = read(transfer, partial, partials)
        return Departure(transfer, partial, self._copies_read(transfer, partial, copies), taken)

    def _has_arrived(self, arrival: ScheduledTransfer, transfer: ScheduledTransfer) -> str:
        """The term that an arrival is complete when a transfer starts."""
        return self.times.le(self.times.arrival(arrival), transfer.t)

    def _is_waiting(self, arrival: ScheduledTransfer, transfer: ScheduledTransfer) -> str:
        """The term that a partial has arrived and has not left."""
        return all_of((self._has_arrived(arrival, transfer), f"(not {self._has_left.get(arrival.number, 'false')})"))

    def _define_reads(
        self, transfer: ScheduledTransfer, chosen: list[tuple[ScheduledTransfer, str]]
    ) -> list[tuple[ScheduledTransfer, str]]:
        """Define the constant that a transfer reads an arrival, for each of the chosen arrivals and their terms."""
        return [(m, self.script.define(f"q{transfer.number}_{m.number}", "Bool", term)) for m, term in chosen]

    def _first_true(self, name: str, terms: list[str]) -> list[str]:
        """For each term the term that it is the first true one. name: prefix of the constants."""
        found, before = list[str](), "false"
        for number, term in enumerate(terms):
            found.append(all_of((term, f"(not {before})")))
            before = self.script.define(f"{name}_{number}", "Bool", any_of((before, term)))
        return found

    def _partials_read(
        self, transfer: ScheduledTransfer, partial: str, arrivals: list[ScheduledTransfer]
    ) -> list[tuple[ScheduledTransfer, str]]:
        """The partial that a departure reads without addition: the oldest, preferably from another device."""
        waits = [self._is_waiting(m, transfer) for m in arrivals]
        on = [w if m.source != transfer.target else "false" for m, w in zip(arrivals, waits, strict=True)]
        back = self.script.define(f"back{transfer.number}", "Bool", f"(not {any_of(on)})")
        first = self._first_true(f"on{transfer.number}", on)
        any_first = self._first_true(f"any{transfer.number}", waits)
        chosen = [all_of((partial, any_of((a, all_of((back, b)))))) for a, b in zip(first, any_first, strict=True)]
        found = self._define_reads(transfer, list(zip(arrivals, chosen, strict=True)))
        for m, q in found:
            gone = any_of((self._has_left.get(m.number, "false"), q))
            self._has_left[m.number] = self.script.define(f"gone{transfer.number}_{m.number}", "Bool", gone)
        return found

    def _copies_read(
        self, transfer: ScheduledTransfer, partial: str, arrivals: list[ScheduledTransfer]
    ) -> list[tuple[ScheduledTransfer, str]]:
        """The copy that a departure reads: the newest that is not being read, or the newest if all are."""
        newest = list(reversed(arrivals))
        there = [self._has_arrived(m, transfer) for m in newest]
        idle: list[str] = []
        for m in newest:
            term = all_of((self._has_arrived(m, transfer), f"(not {self._is_being_read(m, transfer)})"))
            idle.append(self.script.define(f"idle{transfer.number}_{m.number}", "Bool", term))
            self._idle[transfer.number, m.number] = idle[-1]
        none = self.script.define(f"none{transfer.number}", "Bool", f"(not {any_of(idle)})")
        first = self._first_true(f"free{transfer.number}", idle)
        any_first = self._first_true(f"came{transfer.number}", there)
        chosen = [
            all_of((f"(not {partial})", any_of((a, all_of((none, b)))))) for a, b in zip(first, any_first, strict=True)
        ]
        return self._define_reads(transfer, list(zip(newest, chosen, strict=True)))

    def _is_being_read(self, arrival: ScheduledTransfer, transfer: ScheduledTransfer) -> str:
        """The term that another departure reads a copy when a transfer starts; false with multicast."""
        if self.multicast:
            return "false"
        # Departures that end before this transfer starts do not matter.
        late = (d for d in self.departures if d.transfer.start + d.transfer.busy > transfer.start)
        readers = ((d.transfer, name) for d in late for m, name in d.copies if m is arrival)
        return any_of(all_of((name, self.times.lt(transfer.t, self.times.end(reader)))) for reader, name in readers)

    def _summands_read(
        self, transfer: ScheduledTransfer, partial: str, arrivals: list[ScheduledTransfer]
    ) -> list[tuple[ScheduledTransfer, str]]:
        """The partials that a departure reads if partials are added up: all since the sum last left."""
        chosen: list[tuple[ScheduledTransfer, str]] = []
        for m in arrivals:
            left = (
                all_of((self.left_between(m, other), self._has_arrived(other, transfer)))
                for other in arrivals
                if other is not m
            )
            chosen.append((m, all_of((partial, self._has_arrived(m, transfer), f"(not {any_of(left)})"))))
        return self._define_reads(transfer, chosen)

    def left_between(self, one: ScheduledTransfer, other: ScheduledTransfer) -> str:
        """The term that the sum left after one arrival and before the other."""
        arrived, comes = self.times.arrival(one), self.times.arrival(other)
        return any_of(
            all_of((d.partial, self.times.le(arrived, d.transfer.t), self.times.lt(d.transfer.t, comes)))
            for d in self.departures
        )

    def exclusive_reads(self) -> Iterator[str]:
        """Requirements: without multicast, what a departure reads is not being read by another one."""
        if self.multicast:
            return
        for number, departure in enumerate(self.departures):
            transfer = departure.transfer
            copies = [m for m, _ in departure.copies]
            idle = any_of(self._idle[transfer.number, m.number] for m in copies)
            some = any_of(self._has_arrived(m, transfer) for m in copies)
            yield f"(or {departure.partial} (not {some}) {idle})"
            if self.reduces:
                yield from self._sum_read_once(departure, self.departures[:number])

    def _sum_read_once(self, departure: Departure, before: list[Departure]) -> Iterator[str]:
        """Requirements: two departures that overlap in time read different sums."""
        transfer = departure.transfer
        for other in before:
            anew = (
                all_of((self.times.lt(other.transfer.t, self.times.arrival(m)), self._has_arrived(m, transfer)))
                for m in self.partials
            )
            over = self.times.le(self.times.end(other.transfer), transfer.t)
            yield f"(or (not {departure.partial}) (not {other.partial}) {over} {any_of(anew)})"

    def partials_have_left(self) -> Iterator[str]:
        """Requirements: every partial has left a switch that does not reduce."""
        if not self.reduces:
            for m in self.partials:
                yield self._has_left.get(m.number, "false")

    def slots(self) -> Iterator[tuple[ScheduledTransfer, str, list[tuple[ScheduledTransfer, str]]]]:
        """The slots: the arrival, the term that it occupies a slot of its own, and its readers with their terms."""
        for m in self.copies:
            yield m, "true", [(d.transfer, q) for d in self.departures for arrival, q in d.copies if arrival is m]
        for number, m in enumerate(self.partials):
            first = "true"
            if self.reduces:
                first = all_of(self.left_between(other, m) for other in self.partials[:number])
            yield m, first, [(d.transfer, q) for d in self.departures for arrival, q in d.partials if arrival is m]


Formulas = Callable[[ScheduledTransfers, Script, TimeTerms], Iterator[str]]


def _causality(transfers: ScheduledTransfers, _script: Script, times: TimeTerms) -> Iterator[str]:
    for transfer in transfers.all:
        yield times.le(times.number(0), transfer.t)
        if transfer.relayed >= 0:
            came = transfers.arrivals[transfer.chunk, transfer.source]
            yield any_of(times.le(times.arrival(m), transfer.t) for m in came if m.link == transfer.relayed)
        elif transfer.source not in transfers.holders(transfer.chunk):
            came = transfers.arrivals[transfer.chunk, transfer.source]
            yield any_of(times.le(times.arrival(m), transfer.t) for m in came if not m.kept)


def _congestion(transfers: ScheduledTransfers, _script: Script, times: TimeTerms) -> Iterator[str]:
    last: dict[int, ScheduledTransfer] = {}
    for transfer in transfers.all:
        if transfer.link in last:
            yield times.le(times.end(last[transfer.link]), transfer.t)
        last[transfer.link] = transfer


def _delivery(transfers: ScheduledTransfers, _script: Script, _times: TimeTerms) -> Iterator[str]:
    """An arrival is enough, since causality shows that the sender held the chunk. Sums: `_reductions`."""
    for chunk in range(len(transfers.table)):
        held = set(transfers.holders(chunk))
        for npu in transfers.receivers(chunk):
            yield "true" if npu in held or any(not m.kept for m in transfers.arrivals[chunk, npu]) else "false"


@dataclass(frozen=True, slots=True)
class _ReductionTerms:
    """The contributions of one reduction, as bits of a vector."""

    transfers: ScheduledTransfers
    times: TimeTerms
    chunk: int
    pre: tuple[int, ...]

    @property
    def all_contributions(self) -> str:
        """All contributions."""
        return "#b" + "1" * len(self.pre)

    @property
    def no_contribution(self) -> str:
        """No contribution."""
        return "#b" + "0" * len(self.pre)

    def value(self, transfer: ScheduledTransfer) -> str:
        """The constant for what a transfer carries."""
        return f"v{transfer.number}"

    def at(self, device: int, time: str | None, arrivals: list[ScheduledTransfer]) -> str:
        """What an NPU holds at a time (None: at the end), given the transfers that may have arrived."""
        arrivals = [m for m in arrivals if not m.kept]
        copies = [m for m in arrivals if not m.reduce]

        def is_replaced(since: ScheduledTransfer | None) -> str:
            """Whether a copy arrived after `since`, up to `time`."""
            terms: list[str] = []
            for m in copies:
                here = self.times.arrival(m)
                bounds = [] if since is None else [self.times.lt(self.times.arrival(since), here)]
                terms.append(all_of([*bounds, *([] if time is None else [self.times.le(here, time)])]))
            return any_of(terms)

        parts: list[str] = []
        if device in self.pre:
            own = "".join("1" if npu == device else "0" for npu in self.pre)
            parts.append(f"(ite {is_replaced(None)} {self.no_contribution} #b{own})")
        for m in arrivals:
            there = self.times.le(self.times.arrival(m), time) if time is not None else "true"
            parts.append(f"(ite (and {there} (not {is_replaced(m)})) {self.value(m)} {self.no_contribution})")
        return self.union(parts)

    def kept_value(self, link: int, time: str, arrivals: list[ScheduledTransfer]) -> str:
        """What came last over a link until a time, given the transfers that may have arrived."""
        found = self.no_contribution
        for m in sorted((m for m in arrivals if m.link == link), key=lambda m: m.start):
            found = f"(ite {self.times.le(self.times.arrival(m), time)} {self.value(m)} {found})"
        return found

    def union(self, parts: list[str]) -> str:
        """The union of the contributions of some terms."""
        found = self.no_contribution
        for part in parts:
            found = part if found == self.no_contribution else f"(bvor {found} {part})"
        return found

    def leaving_value(self, departures: SwitchDepartures, transfer: ScheduledTransfer) -> str:
        """What a transfer carries out of a switch."""
        departure = next(d for d in departures.departures if d.transfer is transfer)
        terms = [*departure.copies, *departure.partials]
        return self.union([f"(ite {q} {self.value(m)} {self.no_contribution})" for m, q in terms])


def _reductions(transfers: ScheduledTransfers, script: Script, times: TimeTerms) -> Iterator[str]:
    for transfer in transfers.all:
        if transfer.reduce and not transfers.is_reduction(transfer.chunk):
            yield "false"
    by_chunk: dict[int, list[ScheduledTransfer]] = defaultdict(list)
    for transfer in transfers.all:
        by_chunk[transfer.chunk].append(transfer)
    for chunk in range(len(transfers.table)):
        if transfers.is_reduction(chunk):
            yield from _sum(
                _ReductionTerms(transfers, times, chunk, tuple(transfers.holders(chunk))), by_chunk[chunk], script
            )


def _sum(total: _ReductionTerms, chunk_transfers: list[ScheduledTransfer], script: Script) -> Iterator[str]:
    transfers, chunk, times = total.transfers, total.chunk, total.times
    if not total.pre:
        yield "false" if chunk_transfers or transfers.receivers(chunk) else "true"
        return
    departures = {
        device: SwitchDepartures(transfers, script, times, chunk, device)
        for device in sorted(
            {
                end
                for transfer in chunk_transfers
                for end in (transfer.source, transfer.target)
                if transfers.is_switch(end)
            }
        )
    }
    for transfer in chunk_transfers:
        # Transfers that start no earlier cannot have arrived yet.
        earlier = [m for m in transfers.arrivals[chunk, transfer.source] if m.start < transfer.start]
        on = departures.get(transfer.source)
        if transfer.relayed >= 0:
            carried = total.kept_value(transfer.relayed, transfer.t, earlier)
        else:
            carried = (
                total.at(transfer.source, transfer.t, earlier) if on is None else total.leaving_value(on, transfer)
            )
        script.define(total.value(transfer), f"(_ BitVec {len(total.pre)})", carried)
    for transfer in chunk_transfers:
        value = total.value(transfer)
        yield f"(not (= {value} {total.no_contribution}))"
        if not transfer.reduce:
            yield f"(= {value} {total.all_contributions})"
        elif not (transfer.kept or transfers.is_switch(transfer.target)):
            # What the receiver holds before: of what arrives at the same time, copies, and partials on lower links.
            others = [
                m
                for m in transfers.arrivals[chunk, transfer.target]
                if m is not transfer
                and (m.start + m.total, m.reduce, m.link) <= (transfer.start + transfer.total, True, transfer.link)
            ]
            held = total.at(transfer.target, times.arrival(transfer), others)
            yield f"(= {total.no_contribution} (bvand {value} {held}))"
    for on in departures.values():
        yield from _disjoint_sums(total, on)
    for npu in transfers.receivers(chunk):
        yield f"(= {total.all_contributions} {total.at(npu, None, transfers.arrivals[chunk, npu])})"


def _disjoint_sums(total: _ReductionTerms, departures: SwitchDepartures) -> Iterator[str]:
    """What is added up in a switch has no contribution twice."""
    if departures.reduces:
        for one, other in combinations(departures.partials, 2):
            both = f"(= {total.no_contribution} (bvand {total.value(one)} {total.value(other)}))"
            yield f"(or {both} {departures.left_between(one, other)})"


def _switches(transfers: ScheduledTransfers, script: Script, times: TimeTerms) -> Iterator[str]:
    network = transfers.network
    slots: dict[int, list[_SlotTerms]] = defaultdict(list)
    for chunk, switch in sorted({*transfers.departures, *transfers.arrivals}):
        if not transfers.is_switch(switch):
            continue
        number = switch - network.npu_count
        limited = int(network.buffers[number]) >= 0
        if network.multicast[number] and not limited and not transfers.is_reduction(chunk):
            continue
        departures = SwitchDepartures(transfers, script, times, chunk, switch)
        yield from departures.exclusive_reads()
        yield from departures.partials_have_left()
        if limited:
            slots[switch] += [_SlotTerms.of(script, times, *slot) for slot in departures.slots()]
    for switch, found in slots.items():
        limit = int(network.buffers[switch - network.npu_count])
        for here in found:
            at = times.arrival(here.arrival)
            taken = (f"(ite {slot.is_taken(times, at)} 1 0)" for slot in found if slot.meets(here))
            yield f"(<= (+ 0 {' '.join(taken)}) {limit})"


@dataclass(frozen=True, slots=True)
class _SlotTerms:
    """A buffer slot. first: the term that its arrival is the first in it. until: the constant for when it is free.

    latest: picoseconds when it is free at the latest, whichever departures read it.
    """

    arrival: ScheduledTransfer
    first: str
    until: str
    latest: int

    @staticmethod
    def of(
        script: Script,
        times: TimeTerms,
        arrival: ScheduledTransfer,
        first: str,
        readers: list[tuple[ScheduledTransfer, str]],
    ) -> _SlotTerms:
        """A slot with the departures that may read it."""
        until = times.number(0)
        for number, (reader, q) in enumerate(readers):
            end = times.end(reader)
            later = f"(ite {all_of((q, times.lt(until, end)))} {end} {until})"
            until = script.define(f"until{arrival.number}_{number}", times.sort, later)
        return _SlotTerms(arrival, first, until, max((reader.start + reader.busy for reader, _ in readers), default=0))

    def meets(self, other: _SlotTerms) -> bool:
        """Whether it can be occupied when another slot is filled."""
        now = other.arrival.start + other.arrival.total
        return self.arrival.start + self.arrival.total <= now < self.latest

    def is_taken(self, times: TimeTerms, at: str) -> str:
        """The term that it is occupied at a time: the arrival was there, and leaves later."""
        return all_of((self.first, times.le(times.arrival(self.arrival), at), times.lt(at, self.until)))


def _endpoints(transfers: ScheduledTransfers, _script: Script, times: TimeTerms) -> Iterator[str]:
    """An NPU with a rate sends, and receives, each transfer after the one before."""
    ports = Ports.of(transfers.network)
    used: dict[int, list[tuple[int, int, ScheduledTransfer, int]]] = defaultdict(list)
    for transfer in transfers.all:
        size = int(transfers.table.size[transfer.chunk])
        port = int(ports.out[transfer.source])
        if port >= 0:
            taken = _time_at(ports, port, size)
            used[port].append((transfer.start, transfer.number, transfer, taken))
        port = int(ports.into[transfer.target])
        if port >= 0:
            taken = _time_at(ports, port, size)
            used[port].append((transfer.start + transfer.total - taken, transfer.number, transfer, taken))
    for port, rows in used.items():
        for (_, _, one, taken), (_, _, other, following) in pairwise(sorted(rows, key=lambda row: row[:2])):
            if ports.sends[port]:
                yield times.le(times.later(one, taken), other.t)
            else:
                yield times.le(times.arrival(one), times.later(other, other.total - following))


def _time_at(ports: Ports, port: int, size: int) -> int:
    """Picoseconds for which a transfer occupies a port."""
    rate = ports.rates[port]
    return ports.overheads[port] + (0 if rate is None else serialization_time(size, rate))


PROPERTIES: Final[dict[str, tuple[TimeTerms, Formulas]]] = {
    "causality": (INTEGERS, _causality),
    "congestion_free": (INTEGERS, _congestion),
    "delivered": (INTEGERS, _delivery),
    "reductions": (BIT_VECTORS, _reductions),
    "switches": (INTEGERS, _switches),
    "endpoints": (INTEGERS, _endpoints),
}
"""By the name of the check of `verify_schedule`: how times are written, and the formulas."""
