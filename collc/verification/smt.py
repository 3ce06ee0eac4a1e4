"""SMT-LIB texts, and the one place that talks to Z3. What the solver is given is the text of the certificate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

Answer = Literal["sat", "unsat", "unknown"]


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


class Script:
    """An SMT-LIB text under construction."""

    def __init__(self, logic: str, *comments: str) -> None:
        self.lines = [f"; {comment}" for comment in comments]
        self.lines.append(f"(set-logic {logic})")
        self._fresh = 0

    def declare(self, name: str, sort: str = "Bool") -> str:
        """A new constant."""
        self.lines.append(f"(declare-const {name} {sort})")
        return name

    def define(self, name: str, sort: str, term: str) -> str:
        """A name for a term."""
        self.lines.append(f"(define-fun {name} () {sort} {term})")
        return name

    def holds(self, term: str) -> None:
        """Something that must hold."""
        self.lines.append(f"(assert {term})")

    def at_most(self, limit: int, names: Sequence[str]) -> None:
        """At most `limit` of the constants are true (the sequential counter of Sinz, CP 2005)."""
        if len(names) <= limit:
            return
        self._fresh += 1
        counts: list[str] = []
        for row, name in enumerate(names):
            before = counts
            counts = [self.declare(f"n{self._fresh}_{row}_{k}") for k in range(limit)] if row < len(names) - 1 else []
            if before:
                self.holds(f"(not (and {name} {before[-1]}))")
            for k, count in enumerate(counts):
                if before:
                    self.holds(f"(=> {before[k]} {count})")
                if k == 0:
                    self.holds(f"(=> {name} {count})")
                elif before:
                    self.holds(f"(=> (and {name} {before[k - 1]}) {count})")

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


def solve(text: str, timeout: float, finite: bool) -> tuple[Certificate, frozenset[str]]:
    """Ask Z3, for at most `timeout` seconds; the Boolean constants that are true in its model.

    finite: the text has only Booleans, and goes to the SAT solver.
    """
    z3: Any = import_module("z3")
    solver = z3.SolverFor("QF_FD") if finite else z3.Solver()
    solver.set("timeout", max(1, int(timeout * 1000)))
    solver.from_string(text)
    said = str(solver.check())
    answer: Answer = "sat" if said == "sat" else "unsat" if said == "unsat" else "unknown"
    true: frozenset[str] = frozenset()
    if answer == "sat":
        model = solver.model()
        true = frozenset(str(name) for name in model.decls() if z3.is_true(model[name]))
    return Certificate(text, answer, f"Z3 {z3.get_version_string()}"), true
