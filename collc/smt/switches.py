"""What leaves a switch, by the rules of docs/ten.md (section Switches).

SlotFormulas: the constant p_c_e_k_c_f_j is true if the departure of chunk c on edge e at time k reads what entered edge
f at time j. A copy is read from the slot that was filled last and is not being read. A partial leaves once, the oldest
first, and not back to the device that it came from while another partial is there.

SwitchSumFormulas: in a switch that reduces, partials add up in one slot until the sum leaves. The slots of the buffer
are not counted, so that these formulas allow more than the rules do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from collc.smt.context import EncodingContext, PossibleTransfer, StartTimes
from collc.smt.problem import SwitchRule
from collc.smt.script import Script, all_of, any_of


class SlotFormulas:
    """The buffer slots of one chunk in one switch.

    partials: whether what arrives may be a partial (r_c_e_k). read: by name of the arrival, its constants with the
    departures.
    """

    def __init__(self, context: EncodingContext, switch: int, partials: bool) -> None:
        self._context, self._switch, self._partials = context, switch, partials
        self._problem, self._script, self._times = context.problem, context.script, context.times
        # In order of time, each with its constants by name of the arrival.
        self._departures: list[tuple[PossibleTransfer, dict[str, str]]] = []
        self._arrivals: dict[str, PossibleTransfer] = {}
        self.read: dict[str, list[tuple[str, PossibleTransfer]]] = defaultdict(list)

    def add_departure(self, transfer: PossibleTransfer, there: Iterable[PossibleTransfer]) -> dict[str, str]:
        """Add a departure that reads one of the arrivals `there`; return its constants by name of the arrival.

        Departures must be added in order of time.
        """
        names: dict[str, str] = {}
        for arrival in there:
            name = self._script.declare(f"p{transfer.name[1:]}{arrival.name[1:]}")
            self._script.require(f"(=> {name} (and {transfer.name} {arrival.name}))")
            self._arrivals[arrival.name] = arrival
            self.read[arrival.name].append((name, transfer))
            names[arrival.name] = name
        self._script.require(f"(=> {transfer.name} {any_of(names.values())})")
        self._script.at_most(1, list(names.values()))
        self._departures.append((transfer, names))
        return names

    def finish(self, occupied: dict[int, list[str]]) -> None:
        """Add what holds for each arrival; add to `occupied` the terms for its slot, by position of the time."""
        limited = self._context.is_limited(self._switch)
        rule = self._problem.rules[self._switch]
        for arrival, read in self.read.items():
            name_of = {transfer.name: name for name, transfer in read}
            if (self._problem.inverted or self._context.relaxed) and rule is SwitchRule.ONCE:
                self._script.at_most(1, list(name_of.values()))
            elif rule is not SwitchRule.FREE:
                for on_links in self._times.on_links([transfer for _, transfer in read]):
                    self._script.at_most(1, [name_of[name] for name in on_links])
            if limited:
                self._add_occupied(self._arrivals[arrival], read, occupied)
        if not (self._problem.inverted or self._context.relaxed):
            for number in range(len(self._departures)):
                self._add_order(number)

    def partial(self, arrival: PossibleTransfer) -> str:
        """The term that is true if what arrives is a partial."""
        return arrival.reduces if self._partials else "false"

    def _add_occupied(
        self, arrival: PossibleTransfer, read: list[tuple[str, PossibleTransfer]], occupied: dict[int, list[str]]
    ) -> None:
        """An arrival occupies a slot until the end of its last departure.

        Reversed in time, it occupies the slot from the moment at which it begins to arrive until its last departure
        begins.
        """
        times, inverted = self._times, self._problem.inverted
        begin = times.at[arrival.arrival]
        if inverted:
            begin -= times.link_free(arrival) - times.at[arrival.start]
        until = {name: times.at[reader.start] if inverted else times.link_free(reader) for name, reader in read}
        for time, present in enumerate(times.at):
            names = [name for name, end in until.items() if begin <= present < end]
            if names:
                taken = self._script.define(f"o{arrival.name[1:]}_{self._switch}_{time}", "Bool", any_of(names))
                occupied.setdefault(time, []).append(taken)

    def _add_order(self, number: int) -> None:
        """Add the order in which departure `number` chooses among its arrivals."""
        transfer, names = self._departures[number]
        order = sorted(names, key=lambda name: (self._arrivals[name].arrival, self._link(self._arrivals[name])))
        for position, arrival in enumerate(order):
            for other in order[position + 1 :]:
                self._add_newest_first(transfer, names[arrival], arrival, other, number)
            if self._partials:
                for other in order:
                    if other != arrival:
                        older = order.index(other) < position
                        self._add_oldest_first(transfer, names[arrival], arrival, other, older, number)

    def _add_newest_first(self, transfer: PossibleTransfer, name: str, arrival: str, other: str, number: int) -> None:
        """A copy is read only if each copy that arrived later is being read."""
        reading: list[str] = []
        if self._problem.rules[self._switch] is not SwitchRule.FREE:
            now = self._times.at[transfer.start]
            reading = [
                names[other]
                for departure, names in self._departures[:number]
                if other in names and self._times.link_free(departure) > now
            ]
        copies = [f"(not {self.partial(self._arrivals[each])})" for each in (arrival, other)] if self._partials else []
        self._script.require(f"(=> {all_of([name, *copies[:1], other, *copies[1:]])} {any_of(reading)})")

    def _add_oldest_first(
        self, transfer: PossibleTransfer, name: str, arrival: str, other: str, older: bool, number: int
    ) -> None:
        """A partial leaves only if no other partial that precedes it is there. older: `other` arrived before."""
        target = self._problem.edges[transfer.edge].target
        back = [self._problem.edges[self._arrivals[each].edge].source == target for each in (arrival, other)]
        partial = [self.partial(self._arrivals[each]) for each in (arrival, other)]
        gone = [names[other] for _, names in self._departures[:number] if other in names]
        if (not back[1] and (older or back[0])) or (older and back[0] and back[1]):
            self._script.require(f"(=> (and {name} {partial[0]} {other} {partial[1]}) {any_of(gone)})")
        # A `reduce` takes a partial before any copy; a `send` takes one only if no copy is there.
        both = f"(and {name} (not {partial[0]}) {transfer.reduces} {other} {partial[1]})"
        self._script.require(f"(=> {both} {any_of(gone)})")
        self._script.require(f"(=> (and {name} {partial[0]} (not {transfer.reduces}) {other}) {partial[1]})")

    def _link(self, transfer: PossibleTransfer) -> int:
        return self._problem.edges[transfer.edge].links[0]


class SwitchSumFormulas:
    """The sum of one chunk in one switch that reduces, time after time, as terms.

    name: prefix of the constants. contributions: how many there are. carried: the contributions that a transfer brings,
    one term each. rule: for copies and sums that leave.
    """

    def __init__(
        self,
        script: Script,
        times: StartTimes,
        name: str,
        contributions: int,
        carried: Callable[[PossibleTransfer], list[str]],
        rule: SwitchRule,
    ) -> None:
        self._script, self._times, self._name, self._carried, self._rule = script, times, name, carried, rule
        self._value = ["false"] * contributions  # whether each is in the sum
        self._sent = "false"  # whether the sum has left
        self._sums, self._copies = "false", "false"  # whether any partial, or any copy, has arrived
        self._new_sum: dict[int, str] = {}  # by time, whether a new sum begins
        self._copies_arrived: list[str] = []  # whether at least 1, 2, ... have
        self._left: list[tuple[PossibleTransfer, str]] = []  # departures, each with whether it takes the sum

    def arrive(self, time: int, transfers: list[PossibleTransfer]) -> None:
        """Add what arrives at a time."""
        partials = [f"(and {transfer.name} {transfer.reduces})" for transfer in transfers]
        for number, (transfer, partial) in enumerate(zip(transfers, partials, strict=True)):
            self._require_disjoint(f"(and {partial} (not {self._sent}))", self._carried(transfer), self._value)
            for other, also in zip(transfers[:number], partials, strict=False):
                self._require_disjoint(f"(and {partial} {also})", self._carried(transfer), self._carried(other))
        some = self._define("s", time, any_of(partials))
        self._new_sum[time] = self._define("a", time, f"(and {some} {self._sent})")
        kept = f"(not {self._new_sum[time]})"
        for number, had in enumerate(self._value):
            brought = [all_of((p, self._carried(t)[number])) for t, p in zip(transfers, partials, strict=True)]
            self._value[number] = self._define(f"u{number}", time, any_of([f"(and {kept} {had})", *brought]))
        self._sums = self._define("m", time, f"(or {self._sums} {some})")
        copied = [f"(and {transfer.name} (not {transfer.reduces}))" for transfer in transfers]
        self._copies = self._define("c", time, any_of([self._copies, *copied]))
        for copy in copied:
            self._copies_arrived = self._script.count_one_more(
                self._copies_arrived, copy, len(self._copies_arrived) + 1
            )
        self._sent = self._define("t", time, f"(and {self._sent} (not {some}))")

    def depart(self, transfer: PossibleTransfer) -> list[str]:
        """Add a departure; return a term for each contribution that it carries."""
        takes_sum = f"(and {self._sums} (or {transfer.reduces} (not {self._copies})))"
        partial = self._define(f"d_{transfer.edge}", transfer.start, takes_sum)
        parts = [f"(or (and {partial} {term}) (and (not {partial}) {self._copies}))" for term in self._value]
        if self._rule is not SwitchRule.FREE:
            self._require_single(transfer, partial)
        self._left.append((transfer, partial))
        return [
            self._define(f"v{number}_{transfer.edge}", transfer.start, formula) for number, formula in enumerate(parts)
        ]

    def _require_single(self, transfer: PossibleTransfer, partial: str) -> None:
        """The sum leaves on one link at a time, and so does each copy that arrived."""
        now = self._times.at[transfer.start]
        reading = [(other, also) for other, also in self._left if self._times.link_free(other) > now]
        for other, also in reading:
            new = [term for time, term in self._new_sum.items() if other.start < time <= transfer.start]
            self._script.require(f"(=> (and {transfer.name} {partial} {other.name} {also}) {any_of(new)})")
        gone: list[str] = []
        for other, also in [*reading, (transfer, partial)]:
            gone = self._script.count_one_more(gone, f"(and {other.name} (not {also}))", len(self._copies_arrived) + 1)
        for number, term in enumerate(gone):
            enough = self._copies_arrived[number] if number < len(self._copies_arrived) else "false"
            self._script.require(f"(=> {term} {enough})")

    def end_time(self, time: int) -> None:
        """Note, after the departures of a time, whether the sum has left."""
        gone = [f"(and {transfer.name} {partial})" for transfer, partial in self._left if transfer.start == time]
        self._sent = self._define("l", time, any_of([self._sent, *gone]))

    def _define(self, what: str, time: int, term: str) -> str:
        return self._script.define(f"{self._name}_{what}_{time}", "Bool", term)

    def _require_disjoint(self, condition: str, left: list[str], right: list[str]) -> None:
        for a, b in zip(left, right, strict=True):
            self._script.require(f"(not (and {condition} {a} {b}))")
