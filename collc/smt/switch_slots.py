"""Which arrival each departure from a switch reads, by the rules of docs/ten.md (section Switches).

The constant p_c_e_k_c_f_j is true where the departure of chunk c on edge e at time k reads what entered edge f at time
j. A copy is read from the slot that was filled last and is not being read. A partial leaves once, the oldest first, and
not back to the device that it came from while another partial is there. Switches that reduce: `switch_sums`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from collc.smt.context import EncodingContext
from collc.smt.problem import ScheduleProblem, SwitchRule
from collc.smt.script import Script, all_of, any_of
from collc.smt.start_times import PossibleTransfer, StartTimes


@dataclass
class SlotFormulas:
    """The buffer slots of one chunk in one switch.

    partials: what arrives may be a partial (r_c_e_k). departures: in order of time, each with its constants by name of
    the arrival. arrivals: by name. read: by name of the arrival, its constants with the departures.
    """

    context: EncodingContext
    switch: int
    partials: bool
    departures: list[tuple[PossibleTransfer, dict[str, str]]] = field(
        default_factory=list[tuple[PossibleTransfer, dict[str, str]]]
    )
    arrivals: dict[str, PossibleTransfer] = field(default_factory=dict[str, PossibleTransfer])
    read: dict[str, list[tuple[str, PossibleTransfer]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def problem(self) -> ScheduleProblem:
        """The problem of the question."""
        return self.context.problem

    @property
    def script(self) -> Script:
        """The script of the question."""
        return self.context.script

    @property
    def times(self) -> StartTimes:
        """The times of the question."""
        return self.context.times

    def add_departure(self, transfer: PossibleTransfer, there: Iterable[PossibleTransfer]) -> dict[str, str]:
        """Add a departure that reads one of the arrivals `there`; return its constants by name of the arrival.

        Departures must be added in order of time.
        """
        names: dict[str, str] = {}
        for arrival in there:
            name = self.script.declare(f"p{transfer.name[1:]}{arrival.name[1:]}")
            self.script.require(f"(=> {name} (and {transfer.name} {arrival.name}))")
            self.arrivals[arrival.name] = arrival
            self.read[arrival.name].append((name, transfer))
            names[arrival.name] = name
        self.script.require(f"(=> {transfer.name} {any_of(names.values())})")
        self.script.at_most(1, list(names.values()))
        self.departures.append((transfer, names))
        return names

    def finish(self, occupied: dict[int, list[str]]) -> None:
        """Add what holds for each arrival; add to `occupied` the terms for its slot, by position of the time."""
        limited = self.context.limited(self.switch)
        rule = self.problem.rules[self.switch]
        for arrival, read in self.read.items():
            name_of = {transfer.name: name for name, transfer in read}
            if (self.problem.inverted or self.context.relaxed) and rule is SwitchRule.ONCE:
                self.script.at_most(1, list(name_of.values()))
            elif rule is not SwitchRule.FREE:
                for on_links in self.times.on_links([transfer for _, transfer in read]):
                    self.script.at_most(1, [name_of[name] for name in on_links])
            if limited:
                self._add_occupied(self.arrivals[arrival], read, occupied)
        if not (self.problem.inverted or self.context.relaxed):
            for number in range(len(self.departures)):
                self._add_order(number)

    def partial(self, arrival: PossibleTransfer) -> str:
        """The term that is true where what arrives is a partial."""
        return arrival.reduces if self.partials else "false"

    def _add_occupied(
        self, arrival: PossibleTransfer, read: list[tuple[str, PossibleTransfer]], occupied: dict[int, list[str]]
    ) -> None:
        """An arrival occupies a slot until the end of its last departure.

        Reversed in time, it occupies the slot from the moment at which it begins to arrive until its last departure
        begins.
        """
        times, inverted = self.times, self.problem.inverted
        begin = times.at[arrival.arrival]
        if inverted:
            begin -= times.link_free(arrival) - times.at[arrival.start]
        until = {name: times.at[reader.start] if inverted else times.link_free(reader) for name, reader in read}
        for time, at in enumerate(times.at):
            names = [name for name, end in until.items() if begin <= at < end]
            if names:
                taken = self.script.define(f"o{arrival.name[1:]}_{self.switch}_{time}", "Bool", any_of(names))
                occupied.setdefault(time, []).append(taken)

    def _add_order(self, number: int) -> None:
        """Add the order in which departure `number` chooses among its arrivals."""
        transfer, names = self.departures[number]
        order = sorted(names, key=lambda name: (self.arrivals[name].arrival, self._link(self.arrivals[name])))
        for position, arrival in enumerate(order):
            for other in order[position + 1 :]:
                self._add_newest_first(transfer, names[arrival], arrival, other, number)
            if self.partials:
                for other in order:
                    if other != arrival:
                        older = order.index(other) < position
                        self._add_oldest_first(transfer, names[arrival], arrival, other, older, number)

    def _add_newest_first(self, transfer: PossibleTransfer, name: str, arrival: str, other: str, number: int) -> None:
        """A copy is read only where each copy that arrived later is being read."""
        reading: list[str] = []
        if self.problem.rules[self.switch] is not SwitchRule.FREE:
            now = self.times.at[transfer.start]
            reading = [
                names[other]
                for departure, names in self.departures[:number]
                if other in names and self.times.link_free(departure) > now
            ]
        first, second = (self._not_partial(self.arrivals[each]) for each in (arrival, other))
        self.script.require(f"(=> {all_of([name, *first, other, *second])} {any_of(reading)})")

    def _add_oldest_first(
        self, transfer: PossibleTransfer, name: str, arrival: str, other: str, older: bool, number: int
    ) -> None:
        """A partial leaves only where no other partial that precedes it is there. older: `other` arrived before."""
        target = self.problem.edges[transfer.edge].target
        back = [self.problem.edges[self.arrivals[each].edge].source == target for each in (arrival, other)]
        partial = [self.partial(self.arrivals[each]) for each in (arrival, other)]
        gone = [names[other] for _, names in self.departures[:number] if other in names]
        if (not back[1] and (older or back[0])) or (older and back[0] and back[1]):
            self.script.require(f"(=> (and {name} {partial[0]} {other} {partial[1]}) {any_of(gone)})")
        # A `reduce` takes a partial before any copy; a `send` takes one only where no copy is there.
        both = f"(and {name} (not {partial[0]}) {transfer.reduces} {other} {partial[1]})"
        self.script.require(f"(=> {both} {any_of(gone)})")
        self.script.require(f"(=> (and {name} {partial[0]} (not {transfer.reduces}) {other}) {partial[1]})")

    def _not_partial(self, arrival: PossibleTransfer) -> list[str]:
        return [f"(not {self.partial(arrival)})"] if self.partials else []

    def _link(self, transfer: PossibleTransfer) -> int:
        return self.problem.edges[transfer.edge].links[0]
