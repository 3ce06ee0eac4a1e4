"""The choice among ways of synthesis; every result is checked by collc.verification."""

import pytest

from collc.diagnostics import NoSchedule
from collc.synthesis.auto import auto
from collc.synthesis.bounds import lower_bound
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.verification import verify_schedule
from tests.support import all_gather, all_reduce, all_to_all, dgx1, grid, reduce, reduce_scatter, switched

EIGHT = list(range(8))


@pytest.mark.parametrize(
    ("net", "demand", "algorithm"),
    [
        (grid(3, 3), all_gather(list(range(9))), "tacos"),
        (grid(3, 3), reduce_scatter(list(range(9))), "tacos"),
        (grid(2, 3), all_to_all(list(range(6))), "pccl"),
        (grid(3, 3), all_reduce(list(range(9)), chunks=4), "overlapped"),
        (dgx1(), all_reduce(EIGHT, chunks=2), "tacos"),
        (switched(8), all_gather(EIGHT), "tacos on unwound switches"),
        (switched(8), all_to_all(EIGHT), "pccl"),
        (switched(8, buffer=4), all_reduce(EIGHT), "tacos on unwound switches"),
        (switched(6, multicast=True), reduce(list(range(6))), "tacos on unwound switches"),
    ],
)
def test_choice_is_verified_and_explained(net: Network, demand: Demand, algorithm: str):
    result = auto(Module("m", net, demand), Effort())
    assert result.algorithm == algorithm
    assert "failed" not in verify_schedule(result).checks.values()
    assert result.schedule is not None
    time = result.schedule.collective_time(result.network, result.demand)
    bound = lower_bound(result.network, result.demand, result.model).time
    assert time >= bound
    assert f"chose {algorithm}" in " ".join(result.notes)
    assert (time == bound) == any("meets the bound" in note for note in result.notes)
    assert result.network.unwound == any("unwound network" in note for note in result.notes)


def test_stopped():
    with pytest.raises(NoSchedule):
        auto(Module("m", grid(2, 2), all_gather([0, 1, 2, 3])), Effort(stop=lambda: True))
