"""A chunk that is reduced in a switch that reduces: partials add up in one slot until the sum leaves (docs/ten.md).

The slots of the buffer are not counted, so that these formulas allow more than the rules do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from collc.smt.problem import SwitchRule
from collc.smt.script import Script, all_of, any_of
from collc.smt.start_times import PossibleTransfer, StartTimes


@dataclass
class SwitchSumFormulas:
    """The sum of one chunk in one switch, time after time, as terms.

    carried: the contributions that a transfer brings, one term each. rule: for copies and sums that leave.
    value: by contribution, whether it is in the sum. sent: whether the sum has left. sums, copies: whether any partial
    or copy has arrived.
    """

    script: Script
    times: StartTimes
    name: str
    carried: Callable[[PossibleTransfer], list[str]]
    rule: SwitchRule
    value: list[str]
    sent: str = "false"
    sums: str = "false"
    copies: str = "false"
    _new_sum: dict[int, str] = field(default_factory=dict[int, str])
    """By time: whether a new sum begins."""
    _copies_arrived: list[str] = field(default_factory=list[str])
    """Whether at least 1, 2, ... copies have arrived."""
    _left: list[tuple[PossibleTransfer, str]] = field(default_factory=list[tuple[PossibleTransfer, str]])
    """Departures so far, each with whether it takes the sum (else a copy)."""

    def arrive(self, time: int, transfers: list[PossibleTransfer]) -> None:
        """Add what arrives at a time."""
        partials = [f"(and {transfer.name} {transfer.reduces})" for transfer in transfers]
        for number, (transfer, partial) in enumerate(zip(transfers, partials, strict=True)):
            self._require_disjoint(f"(and {partial} (not {self.sent}))", self.carried(transfer), self.value)
            for other, also in zip(transfers[:number], partials, strict=False):
                self._require_disjoint(f"(and {partial} {also})", self.carried(transfer), self.carried(other))
        some = self._define("s", time, any_of(partials))
        self._new_sum[time] = self._define("a", time, f"(and {some} {self.sent})")
        kept = f"(not {self._new_sum[time]})"
        for number, had in enumerate(self.value):
            brought = [all_of((p, self.carried(t)[number])) for t, p in zip(transfers, partials, strict=True)]
            self.value[number] = self._define(f"u{number}", time, any_of([f"(and {kept} {had})", *brought]))
        self.sums = self._define("m", time, f"(or {self.sums} {some})")
        copied = [f"(and {transfer.name} (not {transfer.reduces}))" for transfer in transfers]
        self.copies = self._define("c", time, any_of([self.copies, *copied]))
        for copy in copied:
            self._copies_arrived = self.script.counted(self._copies_arrived, copy, len(self._copies_arrived) + 1)
        self.sent = self._define("t", time, f"(and {self.sent} (not {some}))")

    def depart(self, transfer: PossibleTransfer) -> list[str]:
        """Add a departure; return a term for each contribution that it carries."""
        takes_sum = f"(and {self.sums} (or {transfer.reduces} (not {self.copies})))"
        partial = self._define(f"d_{transfer.edge}", transfer.start, takes_sum)
        parts = [f"(or (and {partial} {term}) (and (not {partial}) {self.copies}))" for term in self.value]
        if self.rule is not SwitchRule.FREE:
            self._require_single(transfer, partial)
        self._left.append((transfer, partial))
        return [self._define(f"v{number}_{transfer.edge}", transfer.start, part) for number, part in enumerate(parts)]

    def _require_single(self, transfer: PossibleTransfer, partial: str) -> None:
        """The sum leaves on one link at a time, and so does each copy that arrived."""
        now = self.times.at[transfer.start]
        reading = [(other, also) for other, also in self._left if self.times.link_free(other) > now]
        for other, also in reading:
            new = [term for time, term in self._new_sum.items() if other.start < time <= transfer.start]
            self.script.require(f"(=> (and {transfer.name} {partial} {other.name} {also}) {any_of(new)})")
        gone: list[str] = []
        for other, also in [*reading, (transfer, partial)]:
            gone = self.script.counted(gone, f"(and {other.name} (not {also}))", len(self._copies_arrived) + 1)
        for number, term in enumerate(gone):
            enough = self._copies_arrived[number] if number < len(self._copies_arrived) else "false"
            self.script.require(f"(=> {term} {enough})")

    def end_time(self, time: int) -> None:
        """Note, after the departures of a time, whether the sum has left."""
        gone = [f"(and {transfer.name} {partial})" for transfer, partial in self._left if transfer.start == time]
        self.sent = self._define("l", time, any_of([self.sent, *gone]))

    def _define(self, what: str, time: int, term: str) -> str:
        return self.script.define(f"{self.name}_{what}_{time}", "Bool", term)

    def _require_disjoint(self, where: str, one: list[str], other: list[str]) -> None:
        for a, b in zip(one, other, strict=True):
            self.script.require(f"(not (and {where} {a} {b}))")
