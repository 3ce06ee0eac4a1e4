"""Schedules by symmetry: optimal step counts on Cayley graphs, and symmetry that is checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from collc.diagnostics import NoSchedule
from collc.synthesis.bounds import lower_bound
from collc.synthesis.symmetric import find_group, representative, symmetric
from collc.synthesis.task import Effort
from collc.ten.demand import Standard
from collc.ten.schedule import LinkModel
from tests.support import all_gather, all_to_all, broadcast, dgx1, fully_connected, grid, hypercube, ring
from tests.synthesis.cases import task_of
from tests.synthesis.checker import check

NETWORKS = [
    ring(5),
    ring(6, one_way=True),
    fully_connected(5),
    hypercube(3),
    hypercube(4),
    grid(5, 5, wrap=True),
    grid(3, 4, 5, wrap=True),
]


@pytest.mark.parametrize("net", NETWORKS)
@pytest.mark.parametrize("make", [all_gather, all_to_all])
@pytest.mark.parametrize("chunks", [1, 2])
def test_schedules_are_right(net, make, chunks):
    demand = make(net.npus.tolist()[::-1], chunks=chunks)
    time = check(net, demand, symmetric(task_of(net, demand), Effort()))
    assert lower_bound(net, demand, LinkModel.STORE).time <= time


@pytest.mark.parametrize(
    ("sizes", "kind", "steps"),
    [
        ((32, 32), "all_gather", 256),
        ((16, 16, 16), "all_gather", 683),
        ((8, 8, 8), "all_to_all", 512),
        ((16, 16, 16), "all_to_all", 8192),
    ],
)
def test_tori_meet_the_bound(sizes, kind, steps):
    group = find_group(grid(*sizes, wrap=True))
    assert group is not None
    assert representative(group, Standard(kind, 1, 1), Effort()).steps == steps


def test_symmetry_is_checked_link_by_link():
    torus = grid(4, 4, wrap=True)
    assert find_group(torus) is not None
    target = torus.target.copy()
    target[[0, 5]] = target[[5, 0]]
    assert find_group(replace(torus, target=target)) is None
    assert find_group(replace(torus, present=np.arange(16) != 3)) is None
    assert find_group(grid(4, 4)) is None
    assert find_group(dgx1()) is None


def test_what_is_not_symmetric_is_refused():
    net = ring(4)
    with pytest.raises(NoSchedule, match="not symmetric"):
        symmetric(task_of(net, broadcast([0, 1, 2, 3])), Effort())
    with pytest.raises(NoSchedule, match="not symmetric"):
        symmetric(task_of(net, all_gather([0, 1, 2])), Effort())
