"""What a switch passes on when, in Booleans, by the rules of docs/ten.md: p_c_e_k_c_f_j, departure k on edge e is of
what came on edge f as arrival j.

A copy leaves from the place that was filled last and is not being read; a partial leaves once, the oldest first, and
not back to where it came from while there is another one. (Switches that reduce: adding.py.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from collc.verification.question.context import Context
from collc.verification.question.problem import Passing, Problem
from collc.verification.question.times import Send, Times
from collc.verification.smt import Script, all_of, either


@dataclass
class Places:
    """The places of one chunk in one switch. partials: what comes may be partials (r_c_e_k)."""

    context: Context
    switch: int
    partials: bool
    departures: list[tuple[Send, dict[str, str]]] = field(default_factory=list[tuple[Send, dict[str, str]]])
    """In order, each with its names by arrival."""
    arrivals: dict[str, Send] = field(default_factory=dict[str, Send])
    read: dict[str, list[tuple[str, Send]]] = field(default_factory=lambda: defaultdict(list))
    """By arrival: the names for "this departure is of it", and the departures."""

    @property
    def problem(self) -> Problem:
        """What is asked about."""
        return self.context.problem

    @property
    def script(self) -> Script:
        """The text."""
        return self.context.script

    @property
    def times(self) -> Times:
        """When transfers can start."""
        return self.context.times

    def depart(self, send: Send, there: Iterable[Send]) -> dict[str, str]:
        """A departure, of one of the arrivals that are there: a name for each of them. Call it in order of time."""
        names: dict[str, str] = {}
        for arrival in there:
            name = self.script.declare(f"p{send.name[1:]}{arrival.name[1:]}")
            self.script.holds(f"(=> {name} (and {send.name} {arrival.name}))")
            self.arrivals[arrival.name] = arrival
            self.read[arrival.name].append((name, send))
            names[arrival.name] = name
        self.script.holds(f"(=> {send.name} {either(names.values())})")
        self.script.at_most(1, list(names.values()))
        self.departures.append((send, names))
        return names

    def close(self, occupied: dict[int, list[str]]) -> None:
        """What holds of each arrival; when it takes a place is added to `occupied`, by time."""
        limited = self.context.limited(self.switch)
        free = self.problem.passing[self.switch] is Passing.FREE
        for arrival, read in self.read.items():
            name_of = {send.name: name for name, send in read}
            if (self.problem.inverted or self.context.loose) and self.problem.passing[self.switch] is Passing.ONCE:
                self.script.at_most(1, list(name_of.values()))
            elif not free:
                for active in self.times.active([send for _, send in read]):
                    self.script.at_most(1, [name_of[name] for name in active])
            if limited:
                self._takes(self.arrivals[arrival], read, occupied)
        if not (self.problem.inverted or self.context.loose):
            for number in range(len(self.departures)):
                self._rules(number)

    def partial(self, arrival: Send) -> str:
        """Whether what comes is a partial."""
        return f"r{arrival.name[1:]}" if self.partials else "false"

    def _takes(self, arrival: Send, read: list[tuple[str, Send]], occupied: dict[int, list[str]]) -> None:
        """An arrival takes a place until its last departure is over; turned round in time, from its beginning."""
        times, inverted = self.times, self.problem.inverted
        begin = times.at[arrival.end]
        if inverted:
            begin -= times.free(arrival) - times.at[arrival.begin]
        until = {name: times.at[send.begin] if inverted else times.free(send) for name, send in read}
        for time, at in enumerate(times.at):
            names = [name for name, end in until.items() if begin <= at < end]
            if names:
                taken = self.script.define(f"o{arrival.name[1:]}_{self.switch}_{time}", "Bool", either(names))
                occupied.setdefault(time, []).append(taken)

    def _rules(self, number: int) -> None:
        """Which of the arrivals a departure is of."""
        send, names = self.departures[number]
        order = sorted(names, key=lambda arrival: (self.arrivals[arrival].end, self._link(self.arrivals[arrival])))
        for at, arrival in enumerate(order):
            for other in order[at + 1 :]:
                self._newest(send, names[arrival], arrival, other, number)
            if self.partials:
                for other in order:
                    if other != arrival:
                        self._oldest(send, names[arrival], arrival, other, order.index(other) < at, number)

    def _newest(self, send: Send, name: str, arrival: str, other: str, number: int) -> None:
        """A copy is passed on only where each later copy is being read."""
        busy: list[str] = []
        if self.problem.passing[self.switch] is not Passing.FREE:
            at = self.times.at[send.begin]
            busy = [names[other] for d, names in self.departures[:number] if other in names and self.times.free(d) > at]
        one, two = (self._copy(self.arrivals[each]) for each in (arrival, other))
        self.script.holds(f"(=> {all_of([name, *one, other, *two])} {either(busy)})")

    def _oldest(self, send: Send, name: str, arrival: str, other: str, older: bool, number: int) -> None:
        """A partial is passed on only where no other one that should go first is there."""
        target = self.problem.edges[send.edge].target
        back = [self.problem.edges[self.arrivals[each].edge].source == target for each in (arrival, other)]
        waits = [self.partial(self.arrivals[each]) for each in (arrival, other)]
        gone = [names[other] for _, names in self.departures[:number] if other in names]
        if (not back[1] and (older or back[0])) or (older and back[0] and back[1]):
            self.script.holds(f"(=> (and {name} {waits[0]} {other} {waits[1]}) {either(gone)})")
        # A partial goes before any copy, unless what leaves is a copy.
        reduce = f"r{send.name[1:]}"
        self.script.holds(f"(=> (and {name} (not {waits[0]}) {reduce} {other} {waits[1]}) {either(gone)})")
        self.script.holds(f"(=> (and {name} {waits[0]} (not {reduce}) {other}) {waits[1]})")

    def _copy(self, arrival: Send) -> list[str]:
        return [f"(not {self.partial(arrival)})"] if self.partials else []

    def _link(self, send: Send) -> int:
        return self.problem.edges[send.edge].links[0]
