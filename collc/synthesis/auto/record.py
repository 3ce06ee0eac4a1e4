"""The record of a synthesizer: all that the other parts of collc know about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collc.base.options import Options

if TYPE_CHECKING:
    from collc.synthesis.auto.kinds import ProblemKind
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
    """A synthesizer of whole modules: it returns the module with a schedule, or with one of each phase."""

    plan: Callable[[Module, Effort, IntOptions], Module]


@dataclass(frozen=True, slots=True)
class Synthesizer:
    """A synthesizer.

    supports: the problems that it is for, as in docs/language.md. options: with types, defaults and help.
    load: imports and returns the planner; None: for schedules whose runs all use handwritten algorithms.
    applies: whether `auto` tries it on a problem, asked before it is loaded.
    chooses_others: whether it runs others, so that it counts limits of NPUs itself and names the one that it chose.
    counts_limits: whether it plans with the limits of NPUs in view.
    is_optimal: whether it promises the optimum, so that its schedules cannot be retimed for limits of NPUs.
    """

    name: str
    supports: str
    options: Options
    load: Callable[[], PhasePlanner | ModulePlanner] | None = None
    applies: Callable[[ProblemKind], bool] = lambda _: False
    chooses_others: bool = False
    counts_limits: bool = False
    is_optimal: bool = False
