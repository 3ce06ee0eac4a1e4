"""Formulas for what each transfer out of a switch reads, by the rules of docs/ten.md (section Switches).

The constant q_d_a is true if departure d reads arrival a. A copy is read from the slot that was filled last and is
not being read. A partial leaves once, the oldest first; it does not go back to the device that it came from while
another partial is there. In a switch that reduces, a departure reads all partials that arrived since the sum last left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collc.smt.script import Script, all_of, any_of
from collc.verification.property_proof.scheduled_transfers import ScheduledTransfer, ScheduledTransfers
from collc.verification.property_proof.time_terms import TimeTerms


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
        arrivals = sorted(transfers.into[chunk, switch], key=lambda m: (m.start + m.total, m.link))
        reduced = transfers.reduced(chunk)
        self.copies = [m for m in arrivals if not (m.reduce and reduced)]
        self.partials = [m for m in arrivals if m.reduce and reduced]
        self.departures: list[Departure] = []
        self._has_left: dict[int, str] = {}
        """Number of a partial -> the term that one of the departures so far has read it."""
        self._idle: dict[tuple[int, int], str] = {}
        """Numbers of a departure and of a copy -> the term that the copy has arrived and is not being read."""
        for transfer in sorted(transfers.out_of[chunk, switch], key=lambda m: (m.start, m.link)):
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
        """The partials that a departure reads where partials are added up: all since the sum last left."""
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
