"""Schedules of at most so many steps, for tests of proofs."""

from __future__ import annotations

from collc.smt.problem import problem_of
from collc.ten.module import Module
from collc.ten.schedule import LinkModel
from collc.verification.optimal import find_within


def find_within_steps(module: Module, steps: int) -> Module | None:
    """The module with a verified schedule of at most `steps` steps; None where Z3 finds none.

    All transfers must take the same time.
    """
    step = problem_of(module.network, module.demand, LinkModel.STORE, module.relays).step
    assert step is not None
    return find_within(module, steps * step)
