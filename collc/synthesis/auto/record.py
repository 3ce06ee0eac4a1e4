"""The record of a synthesizer: all that the other parts of collc know about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collc.base.options import Options

if TYPE_CHECKING:
    from collc.synthesis.auto.shape import Estimate, ProblemShape
    from collc.synthesis.task import Effort, Task
    from collc.ten.module import Module
    from collc.ten.schedule import Schedule

IntOptions = Mapping[str, int]
"""Options of a synthesizer by name; those that are not given are left out."""


@dataclass(frozen=True, slots=True)
class PhasePlanner:
    """A synthesizer of copies. It plans each phase of a module by itself; the pass `invert` joins the phases."""

    plan: Callable[[Task, Effort], Schedule]


@dataclass(frozen=True, slots=True)
class ModulePlanner:
    """A synthesizer of whole modules: it returns the module with a schedule, or with one of each phase.

    names_itself: whether the result's algorithm and seed are set already.
    """

    plan: Callable[[Module, Effort, IntOptions], Module]
    names_itself: bool = False


@dataclass(frozen=True, slots=True)
class Synthesizer:
    """A synthesizer.

    supports: the problems that it is for, as in docs/language.md. options: with types, defaults and help.
    load: imports and returns the planner; None: for schedules whose runs all use handwritten algorithms.
    estimate: whether it applies to a problem, the work of its first schedule and how promising it is, for `auto`;
    None: `auto` does not try it. is_optimal: promises the optimum, so that its schedules cannot be retimed for NPUs
    with limits.
    """

    name: str
    supports: str
    options: Options
    load: Callable[[], PhasePlanner | ModulePlanner] | None = None
    estimate: Callable[[ProblemShape], Estimate | None] | None = None
    is_optimal: bool = False
