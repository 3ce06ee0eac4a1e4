"""All-Reduce over pipelined trees: step counts, and reductions that count each contribution once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import collc.synthesis.list_schedule as list_schedule
from collc.base.diagnostics import NoSchedule, SourceError
from collc.synthesis.bounds import lower_bound
from collc.synthesis.overlapped import overlap_trees
from collc.synthesis.task import Effort
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import LinkKind
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from collc.ten.transform import remove_parts
from collc.verification.schedule_check import verify_schedule
from tests.kernel_choice import choose_kernels
from tests.support import (
    GiB,
    all_gather,
    all_reduce,
    all_to_all,
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
from tests.synthesis.checker import check
from tests.synthesis.test_tacos import HALF, STEP


def planned(net, demand, model=LinkModel.STORE, effort=None):
    """The time of the schedule, which is right and no better than the bound."""
    schedule = overlap_trees(net, demand, model, effort or Effort())
    time = check(net, demand, schedule)
    assert verify_schedule(Module("m", net, demand, model).with_schedule(schedule, "")).ok
    assert lower_bound(net, demand, model).time <= time
    return time


@pytest.mark.parametrize(
    ("net", "chunks", "steps"),
    [
        pytest.param(grid(8, 8), 8, 291, marks=pytest.mark.slow),
        pytest.param(grid(4, 4, 4), 4, 115, marks=pytest.mark.slow),
        (grid(8, 8), 1, 51),
        pytest.param(grid(16, 16), 4, 568, marks=pytest.mark.slow),
    ],
)
def test_beats_reduce_scatter_and_all_gather_on_meshes(net, chunks, steps):
    """Reduce-Scatter and All-Gather take 504, 168, 64 and 1020 steps; the volume bound is 288, 112, 36 and 544."""
    demand = all_reduce(net.npus.tolist(), chunks=chunks)
    time = check(net, demand, overlap_trees(net, demand, LinkModel.STORE, Effort()))
    assert lower_bound(net, demand, LinkModel.STORE).time <= time <= steps * STEP


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", LinkModel)
@pytest.mark.parametrize("net", [ring(5), grid(3, 3), dgx1(), unequal_mesh(3, 4, kind(50, HALF), kind(75, HALF))])
@pytest.mark.parametrize("make", [all_reduce, reduce_scatter, reduce])
def test_any_reduction_is_right(net, make, model):
    for group in (net.npus.tolist(), net.npus.tolist()[::2]):
        planned(net, make(group, chunks=2), model)


@pytest.mark.parametrize("make", [all_reduce, reduce_scatter, reduce])
def test_links_may_lead_one_way(make):
    for net in (ring(5, one_way=True), network(3, [(0, 1), (0, 2), (1, 2), (2, 0)])):
        planned(net, make(net.npus.tolist(), chunks=3))


def test_a_one_way_ring_is_near_the_optimum():
    assert planned(ring(4, one_way=True), all_reduce([0, 1, 2, 3], chunks=16)) <= 100 * STEP  # its links carry 96


def test_failed_links_are_avoided():
    mesh = grid(4, 4)
    broken = remove_parts(mesh, [5], np.array([0, 1], np.int64))
    assert planned(broken, all_reduce(broken.npus.tolist(), chunks=2)) < 120 * STEP


def test_trees_may_use_npus_outside_the_group():
    """The corners of a mesh are not neighbours."""
    net = grid(3, 3)
    assert planned(net, all_reduce([0, 2, 6, 8])) <= 9 * STEP
    assert planned(network(3, [(0, 1), (1, 0), (1, 2), (2, 1)]), all_reduce([0, 2])) <= 5 * STEP


def test_groups_share_the_links():
    """Reduce-Scatter and All-Gather by matching take 28 steps on rows, and 56 on one row."""
    net = grid(8, 8)
    rows = Demand(tuple(run for k in range(8) for run in all_reduce(list(range(8 * k, 8 * k + 8)), chunks=2).runs))
    assert planned(net, rows) <= 24 * STEP
    assert planned(net, all_reduce(list(range(8)), chunks=4)) <= 27 * STEP


def test_copies_beside_reductions():
    whole = list(range(6))
    rows = [(2**20, whole, whole, Op.SUM), (2**20, [1, 4], whole, Op.COPY), (2**18, [0], [5], Op.COPY)]
    rows += [(2**20, whole, [3], Op.MAX), (2**20, [2], [2, 3], Op.SUM), (2**20, [2], [2], Op.COPY)]
    planned(grid(2, 3), demand_of(rows))
    both = Demand((*all_reduce(whole).runs, *all_to_all(whole).runs))
    planned(grid(2, 3), both)


@pytest.mark.parametrize("model", LinkModel)
def test_reserved_links_are_not_used(model):
    net = grid(3, 3)
    demand = Demand((*all_gather([0, 1]).runs, *all_reduce(list(range(9)), chunks=2).runs))
    first = int(demand.first_chunk[1])
    link = int(np.flatnonzero((net.source == 0) & (net.target == 1))[0])
    back = int(np.flatnonzero((net.source == 1) & (net.target == 0))[0])
    reserved = Transfers.of(np.array([0, 1]), np.array([link, back]), np.array([7 * STEP // 2, 5 * STEP], np.int64))
    chunks = np.arange(first, len(demand.chunks), dtype=np.int32)
    own = overlap_trees(net, demand, model, Effort(), chunks, reserved)
    check(net, demand, RowSchedule(model, Transfers.concatenate([own.transfers, reserved])))
    assert not set(own.transfers.chunk.tolist()) & {0, 1}


def test_unsuitable_problems_are_refused():
    cases = [
        (ring(3), all_gather([0, 1, 2]), "nothing is to be reduced"),
        (switched(3), all_reduce([0, 1, 2]), "has switches"),
        (network(2, [(0, 1)]), all_reduce([0, 1]), "do not lead from each NPU"),
        (network(4, [(0, 1), (1, 0), (2, 3), (3, 2)]), reduce([0, 1, 2, 3]), "do not lead from each NPU"),
        (network(2, [(0, 1, LinkKind(None, None)), (1, 0, LinkKind(None, None))]), all_reduce([0, 1]), "no bandwidth"),
    ]
    for net, demand, message in cases:
        with pytest.raises(SourceError, match=message):
            overlap_trees(net, demand, LinkModel.STORE, Effort())


def test_a_request_to_stop_is_obeyed():
    net, demand = grid(4, 4), all_reduce(list(range(16)), chunks=4)
    asked = 0

    def after(polls):
        def stop():
            nonlocal asked
            asked += 1
            return asked > polls

        return stop

    with pytest.raises(NoSchedule, match="stopped before"):
        overlap_trees(net, demand, LinkModel.STORE, Effort(stop=lambda: True))
    whole = planned(net, demand)
    for polls in range(80, 120, 4):
        asked = 0
        assert planned(net, demand, effort=Effort(stop=after(polls))) >= whole


@st.composite
def problems(draw):
    """A network of two kinds of links, some of them one-way, and a reduction over a group."""
    n = draw(st.integers(2, 7))
    kinds = [kind(50, HALF), LinkKind(250_000, Fraction(draw(st.sampled_from([10, 75, 200])) * GiB))]
    pairs = [(i, (i + 1) % n) for i in range(n)]
    pairs += draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1])))
    if draw(st.booleans()):
        pairs = [pair for a, b in pairs for pair in ((a, b), (b, a))]
    net = network(n, [(a, b, kinds[draw(st.integers(0, 1))]) for a, b in pairs])
    group = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True))
    make = draw(st.sampled_from([all_reduce, reduce_scatter, reduce]))
    return net, make(group, draw(st.sampled_from([1, 1 << 16, 1 << 22])), draw(st.integers(1, 3)))


@given(problems(), st.sampled_from(LinkModel))
@settings(max_examples=32, deadline=None)
def test_random_networks(problem, model):
    planned(*problem, model)


@pytest.mark.parametrize("model", LinkModel)
def test_same_kernels_compiled_plan_the_same(model, monkeypatch):
    mesh = unequal_mesh(3, 4, kind(50, HALF), kind(75, HALF))
    demand = Demand((*all_reduce(list(range(12)), chunks=3).runs, *all_gather([0, 1]).runs))
    link = int(np.flatnonzero((mesh.source == 0) & (mesh.target == 1))[0])
    reserved = Transfers.of(np.array([36]), np.array([link]), np.array([STEP], np.int64))
    chunks = np.arange(36, dtype=np.int32)
    plain = overlap_trees(mesh, demand, model, Effort(), chunks, reserved).transfers
    choose_kernels(monkeypatch, True)
    monkeypatch.setattr(list_schedule, "BATCH", 7)
    compiled = overlap_trees(mesh, demand, model, Effort(), chunks, reserved).transfers
    for column in ("chunk", "link", "start", "reduce"):
        assert np.array_equal(getattr(plain, column), getattr(compiled, column))
