"""The checks that a `verify` statement asks for beyond those that always run."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, Note
from collc.base.outcome import Outcome
from collc.base.units import decimal, format_time
from collc.source.program import CheckRequest
from collc.ten.module import Module
from collc.ten.schedule import LinkModel

_COMPARE: Final[dict[str, Callable[[Fraction, Fraction], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What a finished schedule is measured by. time, bound: picoseconds. steps: None where there are none."""

    time: int
    bound: int
    bound_name: str
    steps: int | None


def step_time(module: Module) -> int | None:
    """Picoseconds of a step where links and chunks are all alike under `store`: latency + size/bandwidth; else None."""
    sizes = module.demand.chunks.size
    network = module.network
    used = np.unique(network.kind)
    alike = len({network.kinds[int(kind)] for kind in used}) == 1 and len(sizes) > 0 and sizes.min() == sizes.max()
    if module.model is not LinkModel.STORE or not alike:
        return None
    kind = int(used[0])
    return int(network.latencies[kind] + network.occupancy(sizes[:1])[kind, 0])


def steps_of(module: Module, time: int) -> int | None:
    """How many steps a time is, or None where it is no whole number of them or there are none."""
    step = step_time(module)
    return time // step if step and time % step == 0 else None


def _least(request: CheckRequest, measured: Measured) -> Fraction:
    """What no schedule can undercut: the bound, in steps where these are limited."""
    if request.name == "steps":
        return Fraction(-(-measured.bound * (measured.steps or 0) // max(1, measured.time)))
    return Fraction(measured.bound)


def check_limit(request: CheckRequest, measured: Measured) -> tuple[Outcome, Diagnostic | None]:
    """Whether `time <= ...` or `steps <= ...` holds; if not, why."""
    if request.name == "steps":
        if measured.steps is None:
            message = "'steps' cannot be checked: links, chunks or their times differ, so this schedule has no steps"
            return "failed", Diagnostic("C0101", message, request.span, hint="ask for a time: 'verify time <= 100us'")
        actual, base = Fraction(measured.steps), Fraction(1)
        shown = str
    else:
        actual, base = Fraction(measured.time), Fraction(measured.bound if request.of_bound else 1)
        shown = format_time
    limit = request.limit * base
    if _COMPARE[request.operator](actual, limit):
        return "ok", None
    what = "the number of steps" if request.name == "steps" else f"the {request.name}"
    told = f"{shown(int(actual))} is not {request.operator} {shown(limit)}"
    if request.of_bound:
        told += f" ({decimal(request.limit)} x the bound of {format_time(measured.bound)})"
    note = Note(f"no schedule can take less than {format_time(measured.bound)} ({measured.bound_name})")
    hint = "try more trials or another algorithm, or relax the limit"
    least = _least(request, measured)
    if request.operator in (">", ">=", "!="):
        hint = "relax the limit"
    elif least > limit or (least == limit and request.operator == "<"):
        hint = "no schedule can keep to it: give more time or steps, less data, or faster links"
    return "failed", Diagnostic("C0102", f"{what} is not as asked: {told}", request.span, (note,), hint)
