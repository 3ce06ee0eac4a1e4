"""`verify optimal`, `verify proved` and `--prove`: what is asked of Z3, and how the answer is told."""

from __future__ import annotations

from collections.abc import Callable

from collc.diagnostics import Diagnostic, Note, Span
from collc.report import Outcome
from collc.settings import Settings
from collc.ten.module import Module
from collc.units import format_time

Progress = Callable[[float, str], None]
Found = tuple[dict[str, Outcome], tuple[Diagnostic, ...], tuple[str, ...]]


def optimality(module: Module, span: Span | None, settings: Settings, progress: Progress) -> Found:
    """Whether no schedule is shorter: a lower bound is met, or Z3 shows it; not proved is failed."""
    assert module.schedule is not None
    assert module.bound is not None
    taken = module.schedule.collective_time(module.network, module.demand)
    if taken == module.bound.time:
        return {"optimal": "ok"}, (), (f"optimal: the lower bound is met ({module.bound.name})",)
    message = f"{format_time(taken)} is not proved to be optimal"
    note = Note(f"the lower bound is {format_time(module.bound.time)} ({module.bound.name})")
    hint = "try more trials, or `verify time <= 1.05 * bound`"
    return {"optimal": "failed"}, (Diagnostic("C0103", message, span, (note,), hint),), ()
