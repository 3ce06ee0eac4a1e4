"""One reduction in a switch that reduces, in Booleans: partials add up in one place until the sum leaves (docs/ten.md).

The places of the buffer are left out: more is allowed here than by the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from collc.verification.question.problem import Passing
from collc.verification.question.times import Send, Times
from collc.verification.smt import Script, all_of, either


@dataclass
class Adder:
    """The state of the switch, time after time, as terms.

    value: for each contribution, whether the sum has it. sent: whether it has left. sums, copies: whether any partial
    or copy has come. carried: what each departure brings. passing: of copies and sums that leave.
    """

    script: Script
    times: Times
    name: str
    carried: Callable[[Send], list[str]]
    passing: Passing
    value: list[str]
    sent: str = "false"
    sums: str = "false"
    copies: str = "false"
    _anew: dict[int, str] = field(default_factory=dict[int, str])
    _came: list[str] = field(default_factory=list[str])
    _left: list[tuple[Send, str]] = field(default_factory=list[tuple[Send, str]])

    def arrive(self, time: int, sends: list[Send]) -> None:
        """Take in what comes at a time."""
        partials = [f"(and {send.name} r{send.name[1:]})" for send in sends]
        for number, (send, partial) in enumerate(zip(sends, partials, strict=True)):
            self._apart(f"(and {partial} (not {self.sent}))", self.carried(send), self.value)
            for other, also in zip(sends[:number], partials, strict=False):
                self._apart(f"(and {partial} {also})", self.carried(send), self.carried(other))
        some = self._define("s", time, either(partials))
        self._anew[time] = self._define("a", time, f"(and {some} {self.sent})")
        kept = f"(not {self._anew[time]})"
        for number, had in enumerate(self.value):
            brought = [all_of((p, self.carried(send)[number])) for send, p in zip(sends, partials, strict=True)]
            self.value[number] = self._define(f"u{number}", time, either([f"(and {kept} {had})", *brought]))
        self.sums = self._define("m", time, f"(or {self.sums} {some})")
        copied = [f"(and {send.name} (not r{send.name[1:]}))" for send in sends]
        self.copies = self._define("c", time, either([self.copies, *copied]))
        for copy in copied:
            self._came = self.script.one_more(self._came, copy, len(self._came) + 1)
        self.sent = self._define("t", time, f"(and {self.sent} (not {some}))")

    def depart(self, send: Send) -> list[str]:
        """Let something out: a term for each contribution."""
        reduce = f"r{send.name[1:]}"
        partial = self._define(f"d_{send.edge}", send.begin, f"(and {self.sums} (or {reduce} (not {self.copies})))")
        parts = [f"(or (and {partial} {term}) (and (not {partial}) {self.copies}))" for term in self.value]
        if self.passing is not Passing.FREE:
            self._single(send, partial)
        self._left.append((send, partial))
        return [self._define(f"v{number}_{send.edge}", send.begin, part) for number, part in enumerate(parts)]

    def _single(self, send: Send, partial: str) -> None:
        """The sum leaves on one link at a time, and each copy that came too."""
        reading = [(o, also) for o, also in self._left if self.times.free(o) > self.times.at[send.begin]]
        for other, also in reading:
            anew = [term for time, term in self._anew.items() if other.begin < time <= send.begin]
            self.script.holds(f"(=> (and {send.name} {partial} {other.name} {also}) {either(anew)})")
        gone: list[str] = []
        for other, also in [*reading, (send, partial)]:
            gone = self.script.one_more(gone, f"(and {other.name} (not {also}))", len(self._came) + 1)
        for number, term in enumerate(gone):
            self.script.holds(f"(=> {term} {self._came[number] if number < len(self._came) else 'false'})")

    def leave(self, time: int) -> None:
        """After the departures of a time: the sum may have left."""
        gone = [f"(and {send.name} {partial})" for send, partial in self._left if send.begin == time]
        self.sent = self._define("l", time, either([self.sent, *gone]))

    def _define(self, what: str, time: int, term: str) -> str:
        return self.script.define(f"{self.name}_{what}_{time}", "Bool", term)

    def _apart(self, where: str, one: list[str], other: list[str]) -> None:
        for a, b in zip(one, other, strict=True):
            self.script.holds(f"(not (and {where} {a} {b}))")
