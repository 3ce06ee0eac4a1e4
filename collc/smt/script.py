"""SMT-LIB 2.6 scripts under construction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

MOST_BYTES: Final = 60_000_000
"""The size of a script above which Z3 would take long only to read it."""


class Undecided(Exception):
    """A question that the solver does not answer, or cannot be asked; the message is the reason."""


class Stopped(Undecided):
    """A question that was given up while it was written, since it was asked to stop."""

    def __init__(self) -> None:
        super().__init__("the search was stopped")


class Script:
    """An SMT-LIB script under construction. Every method that adds a line raises Undecided at `most` bytes."""

    def __init__(self, logic: str, *comments: str, most: int = MOST_BYTES) -> None:
        self.lines = [f"; {comment}" for comment in comments]
        self.lines.append(f"(set-logic {logic})")
        self._counters = 0
        self._size, self._most = 0, most

    def _add(self, line: str) -> None:
        self.lines.append(line)
        self._size += len(line)
        if self._size > self._most:
            raise Undecided(f"the question would be larger than {self._most // 10**6} MB")

    def declare(self, name: str, sort: str = "Bool") -> str:
        """Add a new constant; return its name."""
        self._add(f"(declare-const {name} {sort})")
        return name

    def define(self, name: str, sort: str, term: str) -> str:
        """Add a name for a term; return the name."""
        self._add(f"(define-fun {name} () {sort} {term})")
        return name

    def require(self, term: str) -> None:
        """Assert that a term is true."""
        self._add(f"(assert {term})")

    def require_not_all(self, terms: Iterable[str]) -> None:
        """Assert that at least one of the terms is false; each gets a name, must0, must1, ..."""
        names: list[str] = []
        for number, term in enumerate(terms):
            names.append(self.define(f"must{number}", "Bool", term))
        self.require(f"(not {all_of(names)})")

    def at_most(self, limit: int, names: Sequence[str], unless: str = "") -> None:
        """Assert that at most `limit` of the constants are true, or that `unless` is.

        The formulas are the sequential counter of Sinz (CP 2005). On the questions of `tests/smt` they refute faster
        than Z3's own `at-most`, and any solver reads them.
        """
        if len(names) <= limit:
            return
        self._counters += 1
        counts: list[str] = []
        for row, name in enumerate(names):
            before = counts
            last = row == len(names) - 1
            counts = [] if last else [self.declare(f"n{self._counters}_{row}_{k}") for k in range(limit)]
            if before:
                both = f"(not (and {name} {before[-1]}))"
                self.require(f"(or {unless} {both})" if unless else both)
            elif limit == 0:
                self.require(f"(or {unless} (not {name}))" if unless else f"(not {name})")
            for k, count in enumerate(counts):
                if before:
                    self.require(f"(=> {before[k]} {count})")
                if k == 0:
                    self.require(f"(=> {name} {count})")
                elif before:
                    self.require(f"(=> (and {name} {before[k - 1]}) {count})")

    def count_one_more(self, counts: Sequence[str], term: str, most: int) -> list[str]:
        """Count one term more: terms for "at least 1, 2, ..., `most` are true".

        counts: these terms for what was counted before.
        """
        self._counters += 1
        counted: list[str] = []
        for k in range(min(most, len(counts) + 1)):
            now = term if k == 0 else f"(and {counts[k - 1]} {term})"
            either_way = f"(or {counts[k]} {now})" if k < len(counts) else now
            counted.append(self.define(f"c{self._counters}_{k}", "Bool", either_way))
        return counted

    def text(self) -> str:
        """The whole script, which ends by asking for an answer."""
        return "\n".join([*self.lines, "(check-sat)", ""])


def any_of(terms: Iterable[str]) -> str:
    """The disjunction of terms; "false" if there is none."""
    listed = list(terms)
    return f"(or {' '.join(listed)})" if len(listed) > 1 else listed[0] if listed else "false"


def all_of(terms: Iterable[str]) -> str:
    """The conjunction of terms; "true" if there is none."""
    listed = list(terms)
    return f"(and {' '.join(listed)})" if len(listed) > 1 else listed[0] if listed else "true"
