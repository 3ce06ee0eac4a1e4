"""Schedules with a limit on their steps, for tests of proofs."""

from __future__ import annotations

from time import monotonic

from collc.smt.problem import problem_of
from collc.ten.module import Module
from collc.ten.schedule import LinkModel
from collc.verification.optimal import _ShorterSearch
from collc.verification.schedule_check import verify_schedule


def find_within(module: Module, time: int, timeout: float = 60.0) -> Module | None:
    """The module with a verified schedule of at most `time` picoseconds, None if Z3 finds none in `timeout` seconds.

    Raises Undecided if the question is too large.
    """
    search = _ShorterSearch.of(module, monotonic() + timeout, lambda _share, _words: None)
    found = search.find(time)[1]
    return found if found is not None and verify_schedule(found).ok else None


def find_within_steps(module: Module, steps: int) -> Module | None:
    """The module with a verified schedule of at most `steps` steps; None if Z3 finds none.

    All transfers must take the same time.
    """
    step = problem_of(module.network, module.demand, LinkModel.STORE, module.relays).step
    assert step is not None
    return find_within(module, steps * step)
