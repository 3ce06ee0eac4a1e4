"""All-Reduce over pipelined trees: step counts, and reductions that count each contribution once."""

from __future__ import annotations

import pytest

from collc.diagnostics import NoSchedule
from collc.synthesis.bounds import lower_bound
from collc.synthesis.overlapped import overlapped
from collc.synthesis.task import Effort
from collc.ten.schedule import LinkModel
from tests.support import all_gather, all_reduce, dgx1, grid, network, reduce, reduce_scatter, ring, switched
from tests.synthesis.cases import kind, unequal_mesh
from tests.synthesis.checker import check
from tests.synthesis.test_tacos import HALF, STEP


@pytest.mark.parametrize(
    ("net", "chunks", "steps"),
    [
        (grid(8, 8), 8, 311),
        (grid(4, 4, 4), 4, 126),
        pytest.param(grid(16, 16), 4, 599, marks=pytest.mark.slow),
    ],
)
def test_beats_reduce_scatter_and_all_gather_on_meshes(net, chunks, steps):
    demand = all_reduce(net.npus.tolist(), chunks=chunks)
    time = check(net, demand, overlapped(net, demand, LinkModel.STORE, Effort()))
    assert lower_bound(net, demand, LinkModel.STORE).time <= time <= steps * STEP


@pytest.mark.parametrize("model", LinkModel)
@pytest.mark.parametrize("net", [ring(5), grid(3, 3), dgx1(), unequal_mesh(3, 4, kind(50, HALF), kind(75, HALF))])
@pytest.mark.parametrize("make", [all_reduce, reduce_scatter, reduce])
def test_any_reduction_is_right(net, make, model):
    for group in (net.npus.tolist(), net.npus.tolist()[::2]):
        demand = make(group, chunks=2)
        time = check(net, demand, overlapped(net, demand, model, Effort()))
        assert lower_bound(net, demand, model).time <= time


def test_what_it_cannot_do_is_refused():
    cases = [
        (ring(3), all_gather([0, 1, 2])),
        (switched(3), all_reduce([0, 1, 2])),
        (ring(3, one_way=True), all_reduce([0, 1, 2])),
        (network(2, [(0, 1)]), all_reduce([0, 1])),
    ]
    for net, demand in cases:
        with pytest.raises(NoSchedule):
            overlapped(net, demand, LinkModel.STORE, Effort())
