"""Optimality of a schedule: it meets a lower bound, or no shorter schedule exists (docs/verification.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, Literal

import numpy as np

from collc.base.units import format_time
from collc.smt.encoding import DeadlineEncoding
from collc.smt.problem import ScheduleProblem, problem_of
from collc.smt.script import Undecided
from collc.smt.solution import transfers_of
from collc.smt.solver import Certificate, SolverLimits, solve
from collc.ten.module import Bound, Module
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from collc.verification.schedule_check import verify_schedule

Progress = Callable[[float, str], None]

_TRIMMED: Final = 300
"""The most transfers of a schedule with reductions or switches that is tried without each of them."""


@dataclass(frozen=True, slots=True)
class Optimality:
    """Whether a schedule is as short as any.

    reason: in words. steps: of the schedule, None if transfers take different times. shorter: with "refuted", the
    module with the shortest verified schedule that was found; least: whether it is proved that none is shorter still.
    timed_out: with "undecided", whether more time could help. certificates: what the solver was asked, in order; ()
    if no solver was needed. seconds: wall-clock time.
    """

    answer: Literal["proved", "refuted", "undecided"]
    reason: str
    steps: int | None = None
    shorter: Module | None = None
    least: bool = False
    timed_out: bool = False
    certificates: tuple[Certificate, ...] = ()
    seconds: float = 0.0


@dataclass(slots=True)
class _ShorterSearch:
    """Asks Z3 for schedules of a module that end earlier. end: when to stop, by the monotonic clock."""

    module: Module
    problem: ScheduleProblem
    end: float
    progress: Progress
    certificates: list[Certificate]

    @staticmethod
    def of(module: Module, end: float, progress: Progress) -> _ShorterSearch:
        """Raises Undecided if the module has no problem that Z3 can be asked about."""
        problem = problem_of(module.network, module.demand, _model(module), module.relays)
        return _ShorterSearch(module, problem, end, progress, [])

    def find(self, until: int) -> tuple[Certificate, Module | None]:
        """The answer whether a schedule ends by `until` (picoseconds), and the module with one if it does.

        Raises Undecided if the question is too large.
        """
        encoding = DeadlineEncoding(self.problem, until)
        certificate, true = self._solve(encoding, until)
        if certificate.answer != "sat":
            return certificate, None
        found = _with_transfers(self.module, transfers_of(encoding, true))
        trims = bool(self.problem.rules) or any(goal.reduced for goal in self.problem.goals)
        return certificate, _trim(found) if trims else found

    def excludes(self, until: int) -> bool:
        """Whether not even the relaxed question has a schedule that ends by `until`."""
        return self._solve(DeadlineEncoding(self.problem, until, relaxed=True), until)[0].answer == "unsat"

    def _solve(self, encoding: DeadlineEncoding, until: int) -> tuple[Certificate, frozenset[str]]:
        text = encoding.build()
        words = f"asking Z3 for a schedule {_of_length(self.problem, until)}"
        limits = SolverLimits(self.end - monotonic(), progress=lambda share: self.progress(share, words))
        certificate, true = solve(text, limits, propositional=True)
        self.certificates.append(certificate)
        return certificate, true


def _model(module: Module) -> LinkModel:
    return module.schedule.model if module.schedule is not None else module.model


def _with_transfers(module: Module, transfers: Transfers) -> Module:
    model = _model(module)
    found = module.with_schedule(RowSchedule(model, transfers), "z3")
    return replace(found, model=model, seed=None)


def _trim(module: Module) -> Module:
    """Leave out transfers, the last ones first, as long as the schedule is right."""
    assert module.schedule is not None
    kept = module.schedule.transfers
    if len(kept) > _TRIMMED or not verify_schedule(module).ok:
        return module
    for row in reversed(range(len(kept))):
        fewer = kept.select(np.delete(np.arange(len(kept)), row))
        if verify_schedule(_with_transfers(module, fewer)).ok:
            kept = fewer
    return _with_transfers(module, kept)


def _of_length(problem: ScheduleProblem, until: int) -> str:
    """The description used in messages for a schedule that ends by `until`: a number of steps, or a time."""
    step = problem.step
    return f"of {until // step} steps" if step else f"shorter than {format_time(until + 1)}"


def prove_optimal(
    module: Module,
    timeout: float = 60.0,
    progress: Progress = lambda _share, _words: None,
    bound: Bound | None = None,
) -> Optimality:
    """Prove that no schedule of the module's demand is shorter than its own, which must be right, or find the shortest.

    bound: a lower bound that the caller has computed, not one that a file says; a module that meets it is optimal
    without asking the solver. timeout: seconds for the solver. progress: called with the share of the time that is
    over and a few words.
    """
    began = monotonic()
    schedule = module.schedule
    if schedule is None:
        return Optimality("undecided", "there is no schedule")
    time = schedule.collective_time(module.network, module.demand)
    if time == 0:
        return Optimality("proved", "nothing has to be transferred", 0)
    if bound is not None and time <= bound.time:
        return Optimality("proved", f"the lower bound is met ({bound.name})")
    try:
        search = _ShorterSearch.of(module, began + timeout, progress)
    except Undecided as why:
        return Optimality("undecided", str(why), seconds=monotonic() - began)
    found = _shortest(search, time, 0 if bound is None else bound.time)
    return replace(found, certificates=tuple(search.certificates), seconds=monotonic() - began)


def _shortest(search: _ShorterSearch, time: int, bound: int) -> Optimality:
    """Ask for shorter and shorter schedules; `time`: picoseconds of the first one."""
    problem, best, taken = search.problem, None, time
    steps = -(-time // problem.step) if problem.step else None
    why = ""
    while taken > bound or best is None:
        shorter = _of_length(problem, taken - 1)
        try:
            none, found, why = _next(search, taken - 1, shorter)
        except Undecided as undecided:
            none, found, why = False, None, str(undecided)
        if none and best is None:
            return Optimality("proved", f"no schedule {shorter} exists", steps)
        if found is None or found.schedule is None:
            break
        best, taken = found, found.schedule.collective_time(found.network, found.demand)
    if best is None:
        timed_out = bool(search.certificates) and search.certificates[-1].answer == "unknown"
        return Optimality("undecided", why, steps, timed_out=timed_out)
    said = f"there is a schedule {_of_length(problem, taken) if problem.step else 'of ' + format_time(taken)}"
    said += f", and it is not known whether one is shorter: {why}" if why else ", and none is shorter"
    return Optimality("refuted", said, steps, best, not why)


def _next(search: _ShorterSearch, until: int, shorter: str) -> tuple[bool, Module | None, str]:
    """Whether no schedule ends by `until`; the module with one if one does; else why it is not known."""
    problem = search.problem
    if problem.needs_relaxed and search.excludes(until):
        return True, None, ""
    certificate, found = search.find(until)
    if certificate.answer == "unsat":
        if not problem.needs_relaxed:
            return True, None, ""
        why = "with limited buffers it could start at other times than were asked for"
        if any(goal.reduced for goal in problem.goals):
            why = "partials that NPUs relay, and other times than were asked for, were left out"
        return False, None, f"Z3 found none {shorter}, but {why}"
    if found is None:
        return False, None, f"Z3 found no answer for a schedule {shorter} in the time given"
    if not verify_schedule(found).ok:
        what = "it fills a buffer that was left out: of a switch that reduces"
        return False, None, f"Z3 found a schedule {shorter}, but {what}"
    return False, found, ""
