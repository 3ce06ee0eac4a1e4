"""Questions about schedules: rounds, buffers without slots, and parallel links. Optima: tests/verification."""

from __future__ import annotations

import pytest

from collc.smt.encoding import DeadlineEncoding
from collc.smt.problem import problem_of
from collc.smt.script import Undecided
from collc.smt.solver import SolverLimits, solve
from collc.ten.demand import Demand, Op
from collc.ten.network import Network
from collc.ten.schedule import LinkModel
from tests.support import MiB, all_gather, demand_of, network, ring, switched


def possible(net: Network, demand: Demand, steps: int, rounds: int | None = None, relaxed: bool = False) -> bool:
    problem = problem_of(net, demand, LinkModel.STORE, relays=False)
    assert problem.step is not None
    text = DeadlineEncoding(problem, steps * problem.step, relaxed, rounds).build()
    return solve(text, SolverLimits(20.0), propositional=True)[0].answer == "sat"


@pytest.mark.parametrize(
    ("chunks", "steps", "rounds", "expected"),
    [(2, 1, 1, False), (2, 1, 2, True), (3, 1, 2, False), (3, 1, 3, True), (3, 2, 2, False), (3, 2, 3, True)],
)
def test_rounds_of_one_link(chunks: int, steps: int, rounds: int, expected: bool) -> None:
    demand = demand_of([(MiB, [0], [1], Op.COPY)] * chunks)
    assert possible(network(2, [(0, 1)]), demand, steps, rounds) is expected


def test_rounds_of_parallel_links() -> None:
    demand = demand_of([(MiB, [0], [1], Op.COPY)] * 5)
    pair = network(2, [(0, 1), (0, 1)])
    assert [possible(pair, demand, 1, rounds) for rounds in (1, 2, 3)] == [False, False, True]


def test_a_chunk_leaves_a_device_in_a_later_step_than_it_arrives() -> None:
    demand = demand_of([(MiB, [0], [2], Op.COPY)])
    line = network(3, [(0, 1), (1, 2)])
    assert not possible(line, demand, 1, 5)
    assert possible(line, demand, 2, 2)


def test_nothing_passes_a_buffer_without_slots() -> None:
    for relaxed in (False, True):
        assert not possible(switched(3, buffer=0), all_gather([0, 1, 2]), 9, relaxed=relaxed)
        assert possible(switched(3, buffer=1), all_gather([0, 1, 2]), 9, relaxed=relaxed)


def test_a_search_can_be_stopped_while_the_question_is_written() -> None:
    problem = problem_of(ring(4), all_gather([0, 1, 2, 3]), LinkModel.STORE, relays=False)
    with pytest.raises(Undecided, match="stopped"):
        DeadlineEncoding(problem, 10**9).build(stop=lambda: True)
