"""Optimality of schedules: a lower bound is met, or no schedule that ends earlier exists (docs/verification.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Literal

from collc.base.units import format_time
from collc.ten.module import Module
from collc.verification.question.answer import schedule_of
from collc.verification.question.encoding import Encoding
from collc.verification.question.problem import Problem, problem_of
from collc.verification.schedule_check import verify_schedule
from collc.verification.smt import Certificate, Unclear, solve

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Optimality:
    """Whether a schedule is as short as can be.

    reason: in words. steps: of the schedule, None where there are none. shorter: with "refuted", the module with the
    shortest verified schedule that was found; least: and whether it is proved that none is shorter still.
    timed_out: with "undecided", whether more time could help.
    certificates: what the solver was asked, in order; () where no solver was needed.
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
class _Search:
    """Asks for ever shorter schedules, until there is none or the time is over."""

    problem: Problem
    end: float
    progress: Progress
    certificates: list[Certificate]

    def ask(self, until: int) -> tuple[Certificate, Module | None]:
        """Whether a schedule ends by `until` (picoseconds), and if so one. Raises Unclear where it is too large."""
        encoding = Encoding(self.problem, until)
        certificate, true = self._solve(encoding, until)
        return certificate, schedule_of(encoding, true) if certificate.answer == "sat" else None

    def excluded(self, until: int) -> bool:
        """Whether nothing at all ends by `until`."""
        return self._solve(Encoding(self.problem, until, loose=True), until)[0].answer == "unsat"

    def _solve(self, encoding: Encoding, until: int) -> tuple[Certificate, frozenset[str]]:
        text = encoding.build()
        words = f"asking Z3 for a schedule {_of(self.problem, until)}"
        certificate, true = solve(text, self.end - monotonic(), True, lambda share: self.progress(share, words))
        self.certificates.append(certificate)
        return certificate, true


def _of(problem: Problem, until: int) -> str:
    """What a schedule that ends by `until` is called: by steps where there are some."""
    step = problem.step
    return f"of {until // step} steps" if step else f"shorter than {format_time(until + 1)}"


def find_schedule(module: Module, steps: int, timeout: float = 60.0) -> Module | None:
    """The module with a verified schedule of at most `steps` steps, or None where Z3 finds none in time.

    Raises ValueError where the module has no steps.
    """
    problem = problem_of(module)
    if problem.step is None:
        raise ValueError("transfers take different times")
    return find_within(module, steps * problem.step, timeout)


def find_within(module: Module, time: int, timeout: float = 60.0) -> Module | None:
    """The module with a verified schedule of at most `time` picoseconds, or None where Z3 finds none in time."""
    found = _Search(problem_of(module), monotonic() + timeout, lambda _share, _words: None, []).ask(time)[1]
    return found if found is not None and verify_schedule(found).ok else None


def prove_optimal(
    module: Module, timeout: float = 60.0, progress: Progress = lambda _share, _words: None, use_bound: bool = True
) -> Optimality:
    """Prove that no schedule of the module's demand is shorter than its own, which must be right, or find the shortest.

    use_bound: a module whose time equals its lower bound is optimal without asking the solver.
    timeout: seconds for the solver. progress: see synthesis.task.Effort.
    """
    began = monotonic()
    schedule = module.schedule
    if schedule is None:
        return Optimality("undecided", "there is no schedule")
    time = schedule.collective_time(module.network, module.demand)
    if time == 0:
        return Optimality("proved", "nothing has to move", 0)
    if use_bound and module.bound is not None and time <= module.bound.time:
        return Optimality("proved", f"the lower bound is met ({module.bound.name})")
    certificates: list[Certificate] = []
    try:
        problem = problem_of(module)
        search = _Search(problem, began + timeout, progress, certificates)
        bound = module.bound.time if use_bound and module.bound is not None else 0
        found = _shortened(search, time, bound)
    except Unclear as why:
        found = Optimality("undecided", str(why))
    return replace(found, certificates=tuple(certificates), seconds=monotonic() - began)


def _shortened(search: _Search, time: int, bound: int) -> Optimality:
    """What comes of asking for ever shorter schedules; `time`: picoseconds of the first one."""
    problem, best, taken = search.problem, None, time
    steps = -(-time // problem.step) if problem.step else None
    why = ""
    while taken > bound or best is None:
        shorter = _of(problem, taken - 1)
        try:
            none, found, why = _next(search, taken - 1, shorter)
        except Unclear as unclear:
            none, found, why = False, None, str(unclear)
        if none and best is None:
            return Optimality("proved", f"no schedule {shorter} exists", steps)
        if found is None or found.schedule is None:
            break
        best, taken = found, found.schedule.collective_time(found.network, found.demand)
    if best is None:
        timed_out = bool(search.certificates) and search.certificates[-1].answer == "unknown"
        return Optimality("undecided", why, steps, timed_out=timed_out)
    said = f"there is a schedule {_of(problem, taken) if problem.step else 'of ' + format_time(taken)}"
    said += f", and it is not known whether one is shorter: {why}" if why else ", and none is shorter"
    return Optimality("refuted", said, steps, best, not why)


def _next(search: _Search, until: int, shorter: str) -> tuple[bool, Module | None, str]:
    """Whether no schedule ends by `until`; if there is one, it; else why it is not known."""
    problem = search.problem
    if problem.needs_loose and search.excluded(until):
        return True, None, ""
    certificate, found = search.ask(until)
    if certificate.answer == "unsat":
        if not problem.needs_loose:
            return True, None, ""
        what = "reductions" if any(goal.reduced for goal in problem.goals) else "limited buffers"
        return (
            False,
            None,
            f"Z3 found none {shorter}, but with {what} it could start at other times than were asked for",
        )
    if found is None:
        return False, None, f"Z3 found no answer for a schedule {shorter} in the time given"
    if not verify_schedule(found).ok:
        what = "it fills a buffer that was left out: of a switch that reduces"
        return False, None, f"Z3 found a schedule {shorter}, but {what}"
    return False, found, ""
