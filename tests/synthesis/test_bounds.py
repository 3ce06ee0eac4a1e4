"""Bounds: numbers worked out by hand, and never above the optimum found by trying everything."""

from __future__ import annotations

import numpy as np
import pytest

from collc.synthesis.bounds import lower_bound
from collc.ten.demand import Op
from collc.ten.schedule import LinkModel
from tests.support import (
    MiB,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    demand_of,
    dgx1,
    grid,
    network,
    reduce,
    reduce_scatter,
    ring,
    switched,
)
from tests.synthesis.cases import kind, unequal_mesh
from tests.synthesis.test_tacos import HALF, STEP

STORE = LinkModel.STORE


@pytest.mark.parametrize(
    ("net", "demand", "steps", "name"),
    [
        (grid(3, 3), all_gather(list(range(9))), 4, "the links into npu[0, 0]"),
        (grid(3, 3), reduce_scatter(list(range(9))), 4, "the links out of npu[0, 0]"),
        (grid(3, 3), broadcast(list(range(9))), 4, "path from npu[0, 0] to npu[2, 2]"),
        (grid(3, 3), reduce(list(range(9))), 4, "path from npu[2, 2] to npu[0, 0]"),
        (grid(8, 8), all_to_all(list(range(64))), 128, "the links into npu[0..4, *]"),
        (grid(8, 8), all_reduce(list(range(64)), chunks=8), 288, "total load"),
        (grid(3, 3), all_reduce(list(range(9))), 8, "the links out of npu[0, 0] and the path to npu[2, 2]"),
        (ring(8), all_gather(list(range(8))), 4, "the links into npu[0]"),
        (ring(4, one_way=True), all_gather(list(range(4))), 3, "the links into npu[0]"),
        (grid(3, 3), all_gather([0, 8]), 4, "path from npu[0, 0] to npu[2, 2]"),
        (switched(4), all_to_all([0, 1, 2, 3]), 4, "the links into npu[0]"),
    ],
)
def test_bounds_worked_out_by_hand(net, demand, steps, name):
    bound = lower_bound(net, demand, STORE)
    assert (bound.time, bound.name) == (steps * STEP, name)


def test_unequal_links_are_scheduled_exactly():
    """A corner of a 5x5 mesh: 10 chunks by the slow link, 14 by the fast one."""
    net = unequal_mesh(5, 5, kind(50, HALF), kind(75, HALF))
    slow = kind(50, HALF)
    chunk = 4_294_968 * 10
    one = -(-chunk * 10**12 // int(slow.bandwidth)) + 500_000
    assert lower_bound(net, all_gather(list(range(25)), chunk), STORE).time == 10 * one


def test_pipelined_pays_latency_once():
    bound = lower_bound(ring(8), all_gather(list(range(8))), LinkModel.PIPELINED)
    path = 4 * STEP
    assert bound.time == path
    assert (
        lower_bound(ring(4), all_gather([0, 1, 2, 3], chunks=8), LinkModel.PIPELINED).time == 12 * 19_531_250 + 500_000
    )


def test_last_chunk_must_still_spread():
    """Two pairs, one slow link each way: when both chunks are in, the second member of the pair lacks the last."""
    fast, slow = kind(200, HALF), kind(50, HALF)
    net = network(4, [(0, 1, fast), (1, 0, fast), (2, 3, fast), (3, 2, fast), (0, 2, slow), (2, 0, slow)])
    bound = lower_bound(net, all_gather([0, 1, 2, 3]), STORE)
    assert bound.time == 2 * STEP + 5_382_813


def test_loads_of_runs_add_up():
    from collc.ten.demand import Demand

    demand = all_gather(list(range(8)))
    both = Demand((demand.runs[0], demand.runs[0]))
    assert lower_bound(ring(8), both, STORE).time == 7 * STEP


def test_nothing_to_do():
    assert lower_bound(ring(3), demand_of([(MiB, [0, 1], [1], Op.COPY)]), STORE).time == 0


@pytest.mark.parametrize(("side", "steps"), [(4, 16), (8, 128)])
def test_large_patterns_are_not_expanded(side, steps):
    members = side * side

    class Unexpanded:
        def __len__(self):
            return members * members

        def expand(self):
            raise AssertionError("expanded")

    from dataclasses import replace

    from collc.ten.demand import Demand

    run = all_to_all(list(range(members))).runs[0]
    demand = Demand((replace(run, pattern=Unexpanded()),))
    assert lower_bound(grid(side, side), demand, STORE).time == steps * STEP


def test_dgx1_all_gather():
    step = 42_643_040
    assert lower_bound(dgx1(), all_gather(list(range(8)), chunks=6), STORE).time == 7 * step
    assert np.gcd(step, 1) == 1
