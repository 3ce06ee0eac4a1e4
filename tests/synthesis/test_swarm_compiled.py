"""Compiled attempts of swarm: the same plans and the same work as plain ones."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from collc.base.diagnostics import CollcError
from collc.synthesis.conditions import conditions_of
from collc.synthesis.reductions.compose import solve
from collc.synthesis.swarm import swarm
from collc.synthesis.swarm.plans import PathTransfers, as_stored
from collc.synthesis.swarm.problem import SwarmProblem, swarm_problem, with_all_relays
from collc.synthesis.swarm.spread import Spread, SpreadRule
from collc.synthesis.task import Effort, Task, WorkMeter
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import Schedule
from tests.support import demand_of
from tests.synthesis.random_problems import KIB, pods, random_kind, random_module

RULES = [(3, None), (3, 5), (0, None), (2, 8)]


def problems_of(module: Module) -> list[SwarmProblem]:
    """The problems of all phases of a module, with those of more relays and of the other link model."""
    found: list[SwarmProblem] = []

    def plan(task: Task) -> Schedule:
        conditions = conditions_of(task)
        if len(conditions):
            problem = swarm_problem(conditions, lambda _edges: None)
            wide = with_all_relays(problem)
            both = [problem] if wide is None else [problem, wide]
            found.extend([*both, as_stored(problem)])
        return swarm(task, Effort(work=WorkMeter(limit=0)))

    with suppress(CollcError):
        solve(module, plan)
    return found


def attempt(problem: SwarmProblem, rule: SpreadRule, limit: int | None, most: int | None) -> tuple[object, int]:
    """What a plain attempt finds, and its work; asserts that a compiled one is the same."""
    plain, fast = Spread(problem, compile_it=False), Spread(problem, compile_it=True)
    found = plain.run(rule, limit, lambda: False, most)
    assert fast.run(rule, limit, lambda: False, most) == found
    assert fast.work == plain.work
    return found, plain.work


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(40))
def test_random_problems(seed: int) -> None:
    problems = problems_of(random_module(random.Random(seed)))
    for problem in filter(Spread.can_be_compiled, problems):
        for rule in RULES:
            found, work = attempt(problem, SpreadRule(*rule), None, None)
            attempt(problem, SpreadRule(*rule), None, work // 2)
            if isinstance(found, PathTransfers):
                attempt(problem, SpreadRule(*rule), found.end - 1, None)
                attempt(problem, SpreadRule(*rule), found.end, None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("relays", [False, True], ids=["repeating", "relaying"])
def test_reductions_over_switches_with_several_sizes(relays: bool) -> None:
    """Phases with reserved links, release times, and sets of more than 64 chunks."""
    rng = random.Random(3)
    net = pods(rng, random_kind(rng), random_kind(rng))
    group = net.npus.tolist()
    rows = [(KIB << (k % 2), group, group, Op.SUM) for k in range(16 * len(group))]
    names = [(npu, k) for npu in group for k in range(16)]
    demand = demand_of(rows, names, group)
    problems = problems_of(Module("m", net, demand, relays=relays))
    assert {len(problem.sizes) for problem in problems} == {2}
    assert any(problem.later for problem in problems)
    for problem in problems:
        assert Spread.can_be_compiled(problem)
        for rule in RULES:
            attempt(problem, SpreadRule(*rule), None, None)
