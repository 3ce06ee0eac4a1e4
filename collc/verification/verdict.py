"""The result of a check of a schedule: the outcome of each check, and its first offenders in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from collc.base.diagnostics import Diagnostic, Note, Outcome
from collc.base.units import format_time
from collc.base.wording import SHOWN
from collc.ten.demand import Demand
from collc.ten.network import Network

CHECKS: Final = ("causality", "congestion_free", "delivered", "reductions", "switches")
"""The checks of every schedule, as reports name them."""

ENDPOINTS: Final = "endpoints"
"""The check of what NPUs can send and receive, made if NPUs have limits."""

MOST_KEPT: Final = 50 * SHOWN
"""Offenders of a check that are kept at a time, of which the first SHOWN are reported."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """checks: name -> outcome. diagnostics: the first offenders of each failed check, by time."""

    checks: dict[str, Outcome]
    diagnostics: tuple[Diagnostic, ...]

    def failed_checks(self) -> tuple[str, ...]:
        """The checks that failed."""
        return tuple(name for name, outcome in self.checks.items() if outcome == "failed")

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed_checks()


def checks_of(network: Network) -> tuple[str, ...]:
    """The checks of schedules on a network."""
    return (*CHECKS, ENDPOINTS) if network.has_endpoints else CHECKS


def uniform_verdict(network: Network, outcome: Outcome) -> Verdict:
    """The verdict without offenders in which all checks have one outcome."""
    return Verdict(dict.fromkeys(checks_of(network), outcome), ())


@dataclass(slots=True)
class Findings:
    """Collects offenders; a check without one is ok."""

    network: Network
    demand: Demand
    offenders: dict[str, list[tuple[int, int, Diagnostic]]] = field(
        default_factory=dict[str, list[tuple[int, int, Diagnostic]]]
    )
    more: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        for name in checks_of(self.network):
            self.offenders[name], self.more[name] = [], 0

    def add(self, check: str, code: str, time: int, message: str, expected: str) -> None:
        """Add an offender: its time in picoseconds, what is wrong, and what was expected."""
        rows = self.offenders[check]
        diagnostic = Diagnostic(code, f"{check}: {message}", notes=(Note(f"expected: {expected}"),))
        rows.append((time, len(rows), diagnostic))
        if len(rows) >= MOST_KEPT:
            rows.sort(key=lambda row: row[:2])
            self.more[check] += len(rows) - SHOWN
            del rows[SHOWN:]

    def verdict(self, queued: bool = False, reached: bool = True) -> Verdict:
        """All findings, the earliest first. queued: messages wait for links, so that no two are on one at once.

        reached: whether the checks without findings were made.
        """
        outcomes: dict[str, Outcome] = {}
        reported: list[Diagnostic] = []
        for check, rows in self.offenders.items():
            outcomes[check] = "failed" if rows else "ok" if reached else "skipped"
            rows.sort(key=lambda row: row[:2])
            reported += [row[2] for row in rows[:SHOWN]]
            left = self.more[check] + max(0, len(rows) - SHOWN)
            if left:
                last = reported.pop()
                note = Note(f"and {left} more of this check")
                reported.append(Diagnostic(last.code, last.message, notes=(*last.notes, note)))
        if queued and outcomes["congestion_free"] == "ok":
            outcomes["congestion_free"] = "allowed"
        return Verdict(outcomes, tuple(reported))

    @property
    def has_offenders(self) -> bool:
        """Whether there is an offender."""
        return any(self.offenders.values())

    def chunk(self, number: int) -> str:
        """A chunk's name."""
        return self.demand.chunk_name(number) if 0 <= number < len(self.demand.chunks) else f"chunk {number}"

    def link(self, number: int) -> str:
        """A link's name with its number."""
        known = 0 <= number < self.network.link_count
        return f"{self.network.shown_link(number)} (link {number})" if known else f"link {number}"

    def device(self, number: int) -> str:
        """A device's name."""
        return self.network.shown_name(number)


def at(picoseconds: int) -> str:
    """A time as messages give it."""
    return format_time(picoseconds)
