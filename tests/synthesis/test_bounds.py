"""Bounds: numbers worked out by hand, and never above the optimum found by trying everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def least_steps(count, links, pre, post, most=8):
    """The fewest steps of unit links by breadth-first search over all matchings of copies."""
    start = tuple(frozenset(c for c in range(len(pre)) if n in pre[c]) for n in range(count))
    goal = [(n, c) for c in range(len(post)) for n in post[c]]
    states = {start}
    for steps in range(most):
        if any(all(c in state[n] for n, c in goal) for state in states):
            return steps
        grown = set()
        for state in states:
            options = [[(b, c) for c in state[a] - state[b]] or [None] for a, b in links]
            for choice in itertools.product(*options):
                after = list(state)
                for move in choice:
                    if move is not None:
                        after[move[0]] = after[move[0]] | {move[1]}
                grown.add(tuple(after))
        states = {s for s in grown if not any(s != t and all(a <= b for a, b in zip(s, t, strict=True)) for t in grown)}
    return None


@st.composite
def small_copies(draw):
    count = draw(st.integers(2, 4))
    ends = st.integers(0, count - 1)
    extra = draw(st.lists(st.tuples(ends, ends), max_size=2))
    links = [(a, (a + 1) % count) for a in range(count)] + [(a, b) for a, b in extra if a != b]
    holders = st.lists(ends, min_size=1, max_size=count, unique=True)
    chunks = draw(st.integers(1, 3))
    return count, links, [draw(holders) for _ in range(chunks)], [draw(holders) for _ in range(chunks)]


@settings(max_examples=50, deadline=None)
@given(small_copies())
def test_never_above_the_optimum_by_brute_force(problem):
    count, links, pre, post = problem
    best = least_steps(count, links, pre, post)
    demand = demand_of([(MiB, a, b, Op.COPY) for a, b in zip(pre, post, strict=True)])
    bound = lower_bound(network(count, links), demand, STORE)
    assert best is not None
    assert bound.time <= best * STEP
    turned = demand_of([(MiB, [*b], [a[0]], Op.SUM) for a, b in zip(pre, post, strict=True)])
    single = demand_of([(MiB, [a[0]], [*b], Op.COPY) for a, b in zip(pre, post, strict=True)])
    inverse = least_steps(count, [(b, a) for a, b in links], [a[:1] for a in pre], post, 12)
    assert inverse is not None
    assert lower_bound(network(count, links), turned, STORE).time <= inverse * STEP
    assert lower_bound(network(count, [(b, a) for a, b in links]), single, STORE).time <= inverse * STEP


def test_dgx1_all_gather():
    step = 42_643_040
    assert lower_bound(dgx1(), all_gather(list(range(8)), chunks=6), STORE).time == 7 * step
    assert np.gcd(step, 1) == 1
