"""SMT-LIB texts, and the one place that talks to Z3. What the solver is given is the text of the certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from time import monotonic
from typing import Any, Final, Literal

Answer = Literal["sat", "unsat", "unknown"]

MOST_BYTES: Final = 60_000_000
"""Of a text; larger ones would take Z3 long to read alone."""
_SLICE: Final = 2.0
"""Seconds after which a search is interrupted to tell of its progress, at first; they double."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A question that any SMT solver can answer again.

    text: SMT-LIB 2.6. answer: what the solver said. solver: its name and version.
    """

    text: str
    answer: Answer
    solver: str

    def __str__(self) -> str:
        """The file: the text, and above it what was answered."""
        return f"; answer: {self.answer}\n; solver: {self.solver}\n{self.text}"


class Unclear(Exception):
    """There is nothing that Z3 could be asked; the reason in words."""


class Interrupted(Unclear):
    """Ctrl-C while Z3 was at work."""

    def __init__(self) -> None:
        super().__init__("the proof was interrupted by Ctrl-C")


class Script:
    """An SMT-LIB text under construction; what is added raises Unclear where it would be too large."""

    def __init__(self, logic: str, *comments: str, most: int = MOST_BYTES) -> None:
        self.lines = [f"; {comment}" for comment in comments]
        self.lines.append(f"(set-logic {logic})")
        self._fresh = 0
        self._size, self._most = 0, most

    def _add(self, line: str) -> None:
        self.lines.append(line)
        self._size += len(line)
        if self._size > self._most:
            raise Unclear(f"the question would be larger than {self._most // 10**6} MB")

    def declare(self, name: str, sort: str = "Bool") -> str:
        """A new constant."""
        self._add(f"(declare-const {name} {sort})")
        return name

    def define(self, name: str, sort: str, term: str) -> str:
        """A name for a term."""
        self._add(f"(define-fun {name} () {sort} {term})")
        return name

    def holds(self, term: str) -> None:
        """Something that must hold."""
        self._add(f"(assert {term})")

    def refute(self, terms: Iterable[str]) -> None:
        """Not all of the terms hold, each of which gets a name."""
        names: list[str] = []
        for number, term in enumerate(terms):
            names.append(self.define(f"must{number}", "Bool", term))
        self.holds(f"(not {all_of(names)})")

    def at_most(self, limit: int, names: Sequence[str], unless: str = "") -> None:
        """At most `limit` of the constants are true, or `unless` is (the sequential counter of Sinz, CP 2005)."""
        if len(names) <= limit:
            return
        self._fresh += 1
        counts: list[str] = []
        for row, name in enumerate(names):
            before = counts
            counts = [self.declare(f"n{self._fresh}_{row}_{k}") for k in range(limit)] if row < len(names) - 1 else []
            if before:
                both = f"(not (and {name} {before[-1]}))"
                self.holds(f"(or {unless} {both})" if unless else both)
            for k, count in enumerate(counts):
                if before:
                    self.holds(f"(=> {before[k]} {count})")
                if k == 0:
                    self.holds(f"(=> {name} {count})")
                elif before:
                    self.holds(f"(=> (and {name} {before[k - 1]}) {count})")

    def one_more(self, counts: Sequence[str], term: str, most: int) -> list[str]:
        """Terms for "at least 1, 2, ... `most` hold", from those for the terms before and one term more."""
        self._fresh += 1
        found: list[str] = []
        for k in range(min(most, len(counts) + 1)):
            now = term if k == 0 else f"(and {counts[k - 1]} {term})"
            found.append(
                self.define(f"c{self._fresh}_{k}", "Bool", f"(or {counts[k]} {now})" if k < len(counts) else now)
            )
        return found

    def text(self) -> str:
        """The whole text."""
        return "\n".join([*self.lines, "(check-sat)", ""])


def either(terms: Iterable[str]) -> str:
    """The disjunction of terms."""
    found = list(terms)
    return f"(or {' '.join(found)})" if len(found) > 1 else found[0] if found else "false"


def all_of(terms: Iterable[str]) -> str:
    """The conjunction of terms."""
    found = list(terms)
    return f"(and {' '.join(found)})" if len(found) > 1 else found[0] if found else "true"


def solve(
    text: str, timeout: float, finite: bool, progress: Callable[[float], None] = lambda _share: None
) -> tuple[Certificate, frozenset[str]]:
    """Ask Z3, for at most `timeout` seconds; the Boolean constants that are true in its model.

    finite: the text has only Booleans, and goes to the SAT solver. progress: is told which share of the time is over,
    now and then. Raises Interrupted at Ctrl-C, which Z3 catches itself.
    """
    z3: Any = import_module("z3")
    began = monotonic()
    solver = z3.SolverFor("QF_FD") if finite else z3.Solver()
    solver.from_string(text)
    said, share = "unknown", _SLICE
    while said == "unknown" and (left := timeout - (monotonic() - began)) > 0:
        progress(1 - left / timeout)
        solver.set("timeout", max(1, int(min(left, share) * 1000)))
        said = str(solver.check())
        if said == "unknown" and "interrupt" in str(solver.reason_unknown()):
            raise Interrupted
        share *= 2
    answer: Answer = "sat" if said == "sat" else "unsat" if said == "unsat" else "unknown"
    true: frozenset[str] = frozenset()
    if answer == "sat":
        model = solver.model()
        true = frozenset(str(name) for name in model.decls() if z3.is_true(model[name]))
    return Certificate(text, answer, f"Z3 {z3.get_version_string()}"), true
