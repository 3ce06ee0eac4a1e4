"""What leaves a switch when, as formulas, by the rules of docs/ten.md (section Switches).

The constant q_d_a is true where departure d reads arrival a. A copy is read from the slot that was filled last and is
not being read; a partial leaves once, the oldest first, and not back to the device that it came from while another is
there. Where partials are added up, a departure reads all that arrived since the sum last left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collc.smt.script import Script, all_of, any_of
from collc.verification.property_proof.scheduled_transfers import ScheduledTransfer, ScheduledTransfers
from collc.verification.property_proof.time_terms import TimeTerms


@dataclass(frozen=True, slots=True)
class Departure:
    """A transfer out of a switch. partial: the term that it reads partials. copies, partials: q_d_a of each arrival."""

    transfer: ScheduledTransfer
    partial: str
    copies: list[tuple[ScheduledTransfer, str]]
    partials: list[tuple[ScheduledTransfer, str]]


class SwitchDepartures:
    """The departures of one chunk from one switch. Its definitions are added to the script."""

    def __init__(
        self, transfers: ScheduledTransfers, script: Script, times: TimeTerms, chunk: int, switch: int
    ) -> None:
        self.script, self.times = script, times
        number = switch - transfers.network.npu_count
        self.multicast, self.reduces = (
            bool(transfers.network.multicast[number]),
            bool(transfers.network.reduces[number]),
        )
        arrivals = sorted(transfers.into[chunk, switch], key=lambda m: (m.start + m.total, m.link))
        reduced = transfers.reduced(chunk)
        self.copies = [m for m in arrivals if not (m.reduce and reduced)]
        self.partials = [m for m in arrivals if m.reduce and reduced]
        self.departures: list[Departure] = []
        self._gone: dict[int, str] = {}
        """By number of a partial: the term that it has left so far."""
        self._idle: dict[tuple[int, int], str] = {}
        """By numbers of a departure and a copy: the term that the copy is there and not being read."""
        for transfer in sorted(transfers.out_of[chunk, switch], key=lambda m: (m.start, m.link)):
            self.departures.append(self._departure(transfer, transfer.reduce and reduced))

    def _departure(self, transfer: ScheduledTransfer, reduce: bool) -> Departure:
        """The terms of a departure; only arrivals that start before it can be there."""
        partials = [m for m in self.partials if m.start < transfer.start]
        copies = [m for m in self.copies if m.start < transfer.start]
        waiting = any_of(self._there(m, transfer) if self.reduces else self._waits(m, transfer) for m in partials)
        none = f"(not {any_of(self._there(m, transfer) for m in copies)})"
        partial = self.script.define(f"q{transfer.number}", "Bool", all_of((waiting, *(() if reduce else (none,)))))
        taken = self._added(transfer, partial, partials) if self.reduces else self._oldest(transfer, partial, partials)
        return Departure(transfer, partial, self._newest(transfer, partial, copies), taken)

    def _there(self, arrival: ScheduledTransfer, transfer: ScheduledTransfer) -> str:
        return self.times.le(self.times.arrival(arrival), transfer.t)

    def _waits(self, arrival: ScheduledTransfer, transfer: ScheduledTransfer) -> str:
        """A partial is there, and has not left."""
        return all_of((self._there(arrival, transfer), f"(not {self._gone.get(arrival.number, 'false')})"))

    def _choice(
        self, transfer: ScheduledTransfer, chosen: list[tuple[ScheduledTransfer, str]]
    ) -> list[tuple[ScheduledTransfer, str]]:
        return [(m, self.script.define(f"q{transfer.number}_{m.number}", "Bool", term)) for m, term in chosen]

    def _first(self, name: str, terms: list[str]) -> list[str]:
        """Whether each is the first that holds."""
        found, before = list[str](), "false"
        for number, term in enumerate(terms):
            found.append(all_of((term, f"(not {before})")))
            before = self.script.define(f"{name}_{number}", "Bool", any_of((before, term)))
        return found

    def _oldest(
        self, transfer: ScheduledTransfer, partial: str, arrivals: list[ScheduledTransfer]
    ) -> list[tuple[ScheduledTransfer, str]]:
        waits = [self._waits(m, transfer) for m in arrivals]
        on = [w if m.source != transfer.target else "false" for m, w in zip(arrivals, waits, strict=True)]
        back = self.script.define(f"back{transfer.number}", "Bool", f"(not {any_of(on)})")
        first, any_first = self._first(f"on{transfer.number}", on), self._first(f"any{transfer.number}", waits)
        chosen = [all_of((partial, any_of((a, all_of((back, b)))))) for a, b in zip(first, any_first, strict=True)]
        found = self._choice(transfer, list(zip(arrivals, chosen, strict=True)))
        for m, q in found:
            gone = any_of((self._gone.get(m.number, "false"), q))
            self._gone[m.number] = self.script.define(f"gone{transfer.number}_{m.number}", "Bool", gone)
        return found

    def _newest(
        self, transfer: ScheduledTransfer, partial: str, arrivals: list[ScheduledTransfer]
    ) -> list[tuple[ScheduledTransfer, str]]:
        newest = list(reversed(arrivals))
        there = [self._there(m, transfer) for m in newest]
        idle: list[str] = []
        for m in newest:
            term = all_of((self._there(m, transfer), f"(not {self._reading(m, transfer)})"))
            idle.append(self.script.define(f"idle{transfer.number}_{m.number}", "Bool", term))
            self._idle[transfer.number, m.number] = idle[-1]
        none = self.script.define(f"none{transfer.number}", "Bool", f"(not {any_of(idle)})")
        first, any_first = self._first(f"free{transfer.number}", idle), self._first(f"came{transfer.number}", there)
        chosen = [
            all_of((f"(not {partial})", any_of((a, all_of((none, b)))))) for a, b in zip(first, any_first, strict=True)
        ]
        return self._choice(transfer, list(zip(newest, chosen, strict=True)))

    def _reading(self, arrival: ScheduledTransfer, transfer: ScheduledTransfer) -> str:
        """A copy is being read by another link."""
        if self.multicast:
            return "false"
        # Moves that are over when this one starts read no more.
        late = (d for d in self.departures if d.transfer.start + d.transfer.busy > transfer.start)
        readers = ((d.transfer, name) for d in late for m, name in d.copies if m is arrival)
        return any_of(all_of((name, self.times.lt(transfer.t, self.times.end(reader)))) for reader, name in readers)

    def _added(
        self, transfer: ScheduledTransfer, partial: str, arrivals: list[ScheduledTransfer]
    ) -> list[tuple[ScheduledTransfer, str]]:
        """All that came after the sum left for the last time before the last arrival."""
        chosen: list[tuple[ScheduledTransfer, str]] = []
        for m in arrivals:
            left = (
                all_of((self.left_between(m, other), self._there(other, transfer)))
                for other in arrivals
                if other is not m
            )
            chosen.append((m, all_of((partial, self._there(m, transfer), f"(not {any_of(left)})"))))
        return self._choice(transfer, chosen)

    def left_between(self, one: ScheduledTransfer, other: ScheduledTransfer) -> str:
        """The sum left when one arrival was there and the other was not."""
        arrived, comes = self.times.arrival(one), self.times.arrival(other)
        return any_of(
            all_of((d.partial, self.times.le(arrived, d.transfer.t), self.times.lt(d.transfer.t, comes)))
            for d in self.departures
        )

    # What must hold

    def single(self) -> Iterator[str]:
        """Each departure is of something that is not being read."""
        if self.multicast:
            return
        for number, departure in enumerate(self.departures):
            transfer = departure.transfer
            copies = [m for m, _ in departure.copies]
            idle = any_of(self._idle[transfer.number, m.number] for m in copies)
            some = any_of(self._there(m, transfer) for m in copies)
            yield f"(or {departure.partial} (not {some}) {idle})"
            if self.reduces:
                yield from self._sum_read_once(departure, self.departures[:number])

    def _sum_read_once(self, departure: Departure, before: list[Departure]) -> Iterator[str]:
        transfer = departure.transfer
        for other in before:
            anew = (
                all_of((self.times.lt(other.transfer.t, self.times.arrival(m)), self._there(m, transfer)))
                for m in self.partials
            )
            over = self.times.le(self.times.end(other.transfer), transfer.t)
            yield f"(or (not {departure.partial}) (not {other.partial}) {over} {any_of(anew)})"

    def all_left(self) -> Iterator[str]:
        """No partial stays in a switch that does not reduce."""
        if not self.reduces:
            for m in self.partials:
                yield self._gone.get(m.number, "false")

    def slots(self) -> Iterator[tuple[ScheduledTransfer, str, list[tuple[ScheduledTransfer, str]]]]:
        """The slots that may be taken: by which arrival, whether it is the first one, and by whom it is read."""
        for m in self.copies:
            yield m, "true", [(d.transfer, q) for d in self.departures for arrival, q in d.copies if arrival is m]
        for number, m in enumerate(self.partials):
            first = "true"
            if self.reduces:
                first = all_of(self.left_between(other, m) for other in self.partials[:number])
            yield m, first, [(d.transfer, q) for d in self.departures for arrival, q in d.partials if arrival is m]
