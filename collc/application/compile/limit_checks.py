"""The checks that a `verify` statement asks for by comparison: `verify time <= 100us`, `verify steps <= 4`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from collc.base.diagnostics import Diagnostic, Note
from collc.base.outcome import Outcome
from collc.base.units import decimal, format_time
from collc.source.program import CheckRequest

_COMPARE: Final[dict[str, Callable[[Fraction, Fraction], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class ScheduleLength:
    """How long a schedule is, and its lower bound.

    time_ps, bound_ps: picoseconds. bound: what sets the lower bound. steps: None if there are no steps.
    """

    time_ps: int
    bound_ps: int
    bound: str
    steps: int | None


def check_limit(request: CheckRequest, length: ScheduleLength) -> tuple[Outcome, Diagnostic | None]:
    """Whether the comparison holds for a schedule, and the message (C0101, C0102) if it does not."""
    if request.name == "steps" and length.steps is None:
        message = "'steps' cannot be checked: links, chunks or their times differ, so this schedule has no steps"
        return "failed", Diagnostic("C0101", message, request.span, hint="ask for a time: 'verify time <= 100us'")
    if request.name == "steps":
        actual, limit, shown, noun = Fraction(length.steps or 0), request.limit, str, "the number of steps"
    else:
        base = length.bound_ps if request.of_bound else 1
        actual, limit, shown, noun = Fraction(length.time_ps), request.limit * base, format_time, f"the {request.name}"
    if _COMPARE[request.operator](actual, limit):
        return "ok", None
    bound = format_time(length.bound_ps)
    comparison = f"{shown(int(actual))} is not {request.operator} {shown(limit)}"
    if request.of_bound:
        comparison += f" ({decimal(request.limit)} x the bound of {bound})"
    message = f"{noun} violates its limit: {comparison}"
    note = Note(f"no schedule can take less than {bound} ({length.bound})")
    return "failed", Diagnostic("C0102", message, request.span, (note,), _hint(request, length, limit))


def _hint(request: CheckRequest, length: ScheduleLength, limit: Fraction) -> str:
    """What to try; it depends on whether any schedule can meet the limit."""
    if request.operator in (">", ">=", "!="):
        return "relax the limit"
    least = _least(request, length)
    if least > limit or (least == limit and request.operator == "<"):
        return "no schedule can meet it: allow more time or steps, less data, or faster links"
    return "try more trials or another synthesizer, or relax the limit"


def _least(request: CheckRequest, length: ScheduleLength) -> Fraction:
    """The lower bound: picoseconds, or steps (rounded up) if the comparison is about steps."""
    if request.name == "steps":
        return Fraction(-(-length.bound_ps * (length.steps or 0) // max(1, length.time_ps)))
    return Fraction(length.bound_ps)
