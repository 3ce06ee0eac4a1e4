"""Times as terms of SMT-LIB: integers, or bit vectors of 64 bits."""

from __future__ import annotations

from abc import ABC, abstractmethod

from collc.smt.script import Script, Undecided
from collc.verification.property_proof.scheduled_transfers import ScheduledTransfer


class TimeTerms(ABC):
    """How times are written as terms. logic, sort: as SMT-LIB names them."""

    logic: str
    sort: str

    @abstractmethod
    def number(self, value: int) -> str:
        """The term for a number of picoseconds."""

    @abstractmethod
    def later(self, transfer: ScheduledTransfer, by: int) -> str:
        """The term for `by` picoseconds after the start of a transfer."""

    @abstractmethod
    def le(self, a: str, b: str) -> str:
        """The term a <= b."""

    @abstractmethod
    def lt(self, a: str, b: str) -> str:
        """The term a < b."""

    def end(self, transfer: ScheduledTransfer) -> str:
        """The term for the time at which a transfer leaves its link."""
        return self.later(transfer, transfer.busy)

    def arrival(self, transfer: ScheduledTransfer) -> str:
        """The term for the arrival of a transfer."""
        return self.later(transfer, transfer.total)

    def declare(self, script: Script, transfer: ScheduledTransfer) -> None:
        """Add the constant for the start of a transfer, and its value."""
        script.declare(transfer.t, self.sort)
        script.require(f"(= {transfer.t} {self.number(transfer.start)})")


class IntegerTimes(TimeTerms):
    """Times as integers, in linear arithmetic."""

    logic, sort = "QF_LIA", "Int"

    def number(self, value: int) -> str:
        """See TimeTerms."""
        return str(value) if value >= 0 else f"(- {-value})"

    def later(self, transfer: ScheduledTransfer, by: int) -> str:
        """See TimeTerms."""
        return f"(+ {transfer.t} {by})"

    def le(self, a: str, b: str) -> str:
        """See TimeTerms."""
        return f"(<= {a} {b})"

    def lt(self, a: str, b: str) -> str:
        """See TimeTerms."""
        return f"(< {a} {b})"


class BitVectorTimes(TimeTerms):
    """Times as bit vectors of 64 bits, for formulas that have other bit vectors."""

    logic, sort = "QF_BV", "(_ BitVec 64)"

    def number(self, value: int) -> str:
        """See TimeTerms."""
        if not -(2**63) <= value < 2**63:
            raise Undecided("a time does not fit in 64 bits")
        return f"(_ bv{value % 2**64} 64)"

    def later(self, transfer: ScheduledTransfer, by: int) -> str:
        """See TimeTerms."""
        self.number(transfer.start + by)
        return f"(bvadd {transfer.t} {self.number(by)})"

    def le(self, a: str, b: str) -> str:
        """See TimeTerms."""
        return f"(bvsle {a} {b})"

    def lt(self, a: str, b: str) -> str:
        """See TimeTerms."""
        return f"(bvslt {a} {b})"
