"""`verify optimal`, `verify proved` and `--prove`: what is asked of Z3, and how the answer is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from collc.diagnostics import Diagnostic, Note, Span
from collc.report import Outcome
from collc.ten.module import Module
from collc.units import format_time

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Proved:
    """An outcome, and how it came about. certificates: SMT-LIB texts by name; shorter: a better schedule, verified."""

    outcome: Outcome
    diagnostics: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()
    certificates: dict[str, str] = field(default_factory=dict[str, str])
    shorter: Module | None = None


def optimality(module: Module, span: Span | None, timeout: float, progress: Progress) -> Proved:
    """Whether no schedule is shorter: a lower bound is met, or Z3 shows it; not proved is failed.

    timeout: seconds.
    """
    from collc.verification.optimal import prove_optimal

    found = prove_optimal(module, timeout, progress)
    certificates = {f"optimal {number}": str(each) for number, each in enumerate(found.certificates)}
    if found.answer == "proved":
        return Proved("ok", (), (f"optimal: {found.reason}",), certificates)
    note = Note(found.reason)
    if found.shorter is not None and found.shorter.schedule is not None:
        better = found.shorter.schedule.collective_time(module.network, module.demand)
        message = f"the schedule is not optimal: one of {format_time(better)} exists"
        hint = "take it with 'synthesize exact', or try more trials"
        told = Diagnostic("C0104", message, span, (note,), hint)
        return Proved("failed", (told,), (), certificates, found.shorter)
    message = "it is not decided whether the schedule is optimal"
    hint = "give the proof more time with --time-limit, or ask for 'verify time <= 1.05 * bound'"
    return Proved("failed", (Diagnostic("C0103", message, span, (note,), hint),), (), certificates)


def properties(module: Module, span: Span | None, timeout: float, progress: Progress) -> Proved:
    """Whether Z3 proves all properties of the schedule; not proved is failed.

    timeout: seconds, for each property.
    """
    from collc.verification.prove import prove_properties

    found = prove_properties(module, timeout, progress)
    certificates = {name: str(certificate) for name, certificate in found.certificates.items()}
    open_ = [name for name, outcome in found.outcomes.items() if outcome != "proved"]
    if not open_:
        return Proved("ok", (), ("proved: " + ", ".join(found.outcomes),), certificates)
    notes = tuple(Note(f"{name}: {found.outcomes[name]}. {found.reasons.get(name, '')}") for name in open_)
    hint = "proofs are for small schedules; give them more time with --time-limit"
    told = Diagnostic("C0105", f"Z3 does not prove {', '.join(open_)}", span, notes, hint)
    return Proved("failed", (told,), (), certificates)
