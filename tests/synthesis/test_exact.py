"""Least steps by Z3 against optima that others have proved."""

import numpy as np
import pytest

from collc.base.diagnostics import NoSchedule, SourceError
from collc.synthesis.exact import exact
from collc.synthesis.task import Effort, Task
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import LinkModel
from tests.support import all_gather, all_to_all, fully_connected, grid, network, ring, switched
from tests.synthesis.replay_checker import problems

STEP = 20_031_250


def task(net: Network, demand: Demand) -> Task:
    return Task(net, demand, LinkModel.STORE, np.arange(len(demand.chunks), dtype=np.int32))


@pytest.mark.parametrize(
    ("net", "demand", "steps"),
    [
        (ring(4), all_gather(list(range(4)), chunks=2), 3),
        (ring(8), all_gather(list(range(8))), 4),
        (ring(4, one_way=True), all_gather(list(range(4))), 3),
        (grid(2, 2), all_gather(list(range(4)), chunks=2), 3),
        (grid(3, 3, wrap=True), all_gather(list(range(9))), 2),
        (fully_connected(4), all_gather(list(range(4))), 1),
        (network(3, [(0, 1), (0, 2), (1, 2), (2, 0)]), all_gather([0, 1, 2]), 2),
        (grid(2, 2), all_to_all(list(range(4))), 2),
        (grid(2, 3), all_to_all(list(range(6))), 4),
    ],
)
def test_proved_optima(net: Network, demand: Demand, steps: int):
    schedule = exact(task(net, demand), Effort())
    assert problems(net, demand, schedule.transfers) == []
    assert schedule.collective_time(net, demand) == steps * STEP


def test_time_is_over():
    with pytest.raises(NoSchedule, match="no schedule was found within 0 s"):
        exact(task(ring(8), all_gather(list(range(8)))), Effort(time_limit=0.0))


def test_switches_are_refused():
    with pytest.raises(SourceError, match="unwind the switches"):
        exact(task(switched(4), all_gather(list(range(4)))), Effort())
