"""Work that is counted: every synthesizer gives an attempt up when the most work is done."""

import numpy as np
import pytest

from collc.base.diagnostics import NoSchedule
from collc.graph.distances import UNREACHABLE
from collc.passes.synthesizers import SYNTHESIZERS
from collc.synthesis.auto.record import PhasePlanner
from collc.synthesis.conditions import conditions_of
from collc.synthesis.forest.problem import forest_problem
from collc.synthesis.forest.trees import Rerouting, tree_counts
from collc.synthesis.pccl.planning_order import PlanningOrder
from collc.synthesis.pccl.search import PathSearch
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.task import Effort, Task, WorkMeter
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel
from tests.support import all_gather, all_reduce, all_to_all, broadcast, gather, grid, switched


def built(name: str, module: Module, meter: WorkMeter, threads: int = 1) -> Module:
    record = SYNTHESIZERS[name]
    assert record.load is not None
    planner, effort = record.load(), Effort(threads=threads).with_work(meter)
    if isinstance(planner, PhasePlanner):
        return join(solve(module, lambda task: planner.plan(task, effort)))
    return join(planner.plan(module, effort, {}))


@pytest.mark.parametrize(
    ("name", "net", "demand"),
    [
        pytest.param("tacos", grid(5, 5), all_gather(list(range(25)), chunks=64), marks=pytest.mark.slow),
        ("tacos", grid(9, 9), all_gather(list(range(81)))),
        ("tacos", grid(9, 9), gather(list(range(81)))),
        ("pccl", grid(12, 12), all_reduce(list(range(144)))),
        ("swarm", switched(24), all_gather(list(range(24)), chunks=32)),
        ("overlapped", grid(5, 5), all_reduce(list(range(25)), chunks=12)),
        ("overlapped", grid(12, 12), all_reduce(list(range(144)))),
        ("exchange", grid(5, 5), all_reduce(list(range(25)), chunks=16)),
        ("one_shot", grid(6, 6), all_reduce(list(range(36)), 32)),
        ("hierarchical", grid(5, 5), all_gather(list(range(25)), chunks=32)),
        ("themis", grid(12, 12), all_gather(list(range(144)))),
        ("forest", switched(24), all_gather(list(range(24)), chunks=32)),
    ],
)
def test_an_attempt_is_given_up_when_the_most_work_is_done(name: str, net: Network, demand: Demand):
    """The meter has gone on a slice at most; with a little more work than a whole search took, it finds the same."""
    module = Module("m", net, demand, LinkModel.PIPELINED)
    whole = WorkMeter(1, most=1 << 40)
    first = built(name, module, whole)
    given_up = WorkMeter(1, most=whole.spent // 6)
    with pytest.raises(NoSchedule):
        built(name, module, given_up)
    assert given_up.is_exceeded
    assert given_up.spent <= whole.spent
    again = WorkMeter(1, most=whole.spent + 1)
    assert built(name, module, again).collective_time() == first.collective_time()
    assert again.spent == whole.spent


@pytest.mark.parametrize(
    ("net", "demand"),
    [
        (grid(7, 7), all_to_all(list(range(49)))),
        pytest.param(grid(9, 9), all_gather(list(range(81))), marks=pytest.mark.slow),
    ],
)
def test_threads_change_neither_the_schedule_nor_the_work(net: Network, demand: Demand):
    """Other threads run ahead; their work counts when their turn comes, and that of the compiler."""
    module = Module("m", net, demand)

    def outcome(most: int, threads: int) -> tuple[int, int, int]:
        meter = WorkMeter(1 << 40, most=most)
        try:
            time = built("pccl", module, meter, threads).collective_time()
        except NoSchedule:
            time = 0
        return time, meter.spent, meter.setup

    whole = outcome(1 << 50, 1)
    for part in range(1, 5):
        most = whole[1] * part // 4
        assert outcome(most, 1) == outcome(most, 2) == outcome(most, 4)


def test_one_chunk_over_a_wide_switch_is_given_up_on_its_way() -> None:
    """One call of a kernel plans it, which takes far more work than foreseen."""
    demand = broadcast(list(range(64)), 1000)
    chunks = np.arange(1, dtype=np.int32)
    conditions = conditions_of(Task(switched(64), demand, LinkModel.STORE, chunks))
    search = PathSearch.of(conditions, conditions.wanting, {0: conditions.times_to(0)}, False)
    order = PlanningOrder(chunks, np.zeros(1, np.int64))
    found, work = search.schedule(0, order, lambda: False, False, UNREACHABLE // 8)
    assert found is not None
    given_up, less = search.schedule(0, order, lambda: False, False, work // 8)
    assert given_up is None
    assert less < work // 4
    problem = forest_problem(conditions)
    with pytest.raises(NoSchedule):
        Rerouting(problem).trees(tree_counts(problem)[0], 256, 0)
