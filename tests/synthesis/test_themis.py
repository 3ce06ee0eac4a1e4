"""The orders of dimensions that Themis chooses: loads computed by hand, the rule of the paper, and all orders."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.passes.registry import Invert, PassContext, Synthesize
from collc.synthesis.by_dimension.orders import MOST_DIMENSIONS, balanced_orders, greedy_orders, order_load
from collc.ten.module import Module
from collc.ten.transform import product
from collc.verification import verify_schedule
from tests.support import all_gather, all_reduce, grid, ring

RULES = [greedy_orders, balanced_orders]


def loads(orders, sizes, times):
    """The load of each dimension by all chunks together."""
    return [sum(column) for column in zip(*(order_load(order, sizes, times) for order in orders), strict=True)]


def test_loads_computed_by_hand() -> None:
    """2 x 4 x 4 NPUs: 1 copy along the first dimension of the order, 2 x 3 along the next, 8 x 3 along the last."""
    assert order_load((0, 1, 2), (2, 4, 4), (1, 1, 1)) == [1, 6, 24]
    assert order_load((2, 1, 0), (2, 4, 4), (1, 1, 1)) == [16, 12, 3]
    assert order_load((2, 0, 1), (2, 4, 4), (5, 2, 1)) == [4 * 5, 8 * 3 * 2, 3]


@pytest.mark.parametrize("rule", RULES)
def test_orders_alternate_between_equal_dimensions(rule) -> None:
    """4 x 4: after the first chunk the loads are 3 and 12, so the next gets the other order; then they are equal."""
    orders = rule((1, 0), (4, 4), (1, 1), 4)
    assert [tuple(order) for order in orders] == [(1, 0), (0, 1), (1, 0), (0, 1)]
    assert loads(orders, (4, 4), (1, 1)) == [30, 30]


def test_the_rule_of_the_paper() -> None:
    """Two dimensions of 4, the second twice as slow. Loads: (12, 6) after the first chunk; the second dimension is the
    least loaded and comes last: (15, 30); then the first: (27, 36), (39, 42), (51, 48), and the second again."""
    orders = greedy_orders((1, 0), (4, 4), (1, 2), 6)
    assert [tuple(order) for order in orders] == [(1, 0), (0, 1), (1, 0), (1, 0), (1, 0), (0, 1)]
    assert loads(orders[:5], (4, 4), (1, 2)) == [51, 48]


@pytest.mark.parametrize("rule", RULES)
def test_a_slow_dimension_is_never_last_where_that_costs_more(rule) -> None:
    """Ten times as slow: load 30 for a chunk with this dimension first (12 on the other one), 120 with it last."""
    assert {tuple(order) for order in rule((1, 0), (4, 4), (1, 10), 8)} == {(1, 0)}


@st.composite
def dimensions(draw: st.DrawFn):
    count = draw(st.integers(2, 3))
    sizes = tuple(draw(st.integers(2, 4)) for _ in range(count))
    times = tuple(draw(st.integers(1, 8)) for _ in range(count))
    return tuple(range(count)), sizes, times


@settings(max_examples=24, deadline=None)
@given(dimensions(), st.integers(1, 4))
def test_against_all_assignments_of_orders(problem, chunks: int) -> None:
    """No rule is better than the best assignment, and the balanced rule is no worse than one order for all chunks."""
    base, sizes, times = problem
    every = list(itertools.permutations(base))
    best = min(max(loads(given_, sizes, times)) for given_ in itertools.combinations_with_replacement(every, chunks))
    one_order = min(chunks * max(order_load(order, sizes, times)) for order in every)
    found = [max(loads(rule(base, sizes, times, chunks), sizes, times)) for rule in RULES]
    assert min(found) >= best
    assert found[1] <= one_order


def test_more_dimensions_than_orders_can_be_tried() -> None:
    """2^5 NPUs as five rings of two: the greedy rule balances the dimensions within a tenth."""
    net = ring(2)
    for _ in range(4):
        net = product(net, ring(2), "cube", ("ring", "ring"))
    assert len(net.axes) == 5 > MOST_DIMENSIONS
    demand = all_gather(net.npus.tolist(), chunks=5)
    module = Invert().run(Synthesize("themis").run(Module("m", net, demand), PassContext()), PassContext())
    assert verify_schedule(module).ok
    links = module.schedule.transfers.link
    counts = [int((net.link_axis[links] == axis).sum()) for axis in range(5)]
    assert max(counts) < 1.1 * min(counts)


@pytest.mark.parametrize("make", [all_gather, all_reduce])
def test_shorter_than_one_order_for_all_on_equal_dimensions(make) -> None:
    net = grid(4, 4, wrap=True)
    times = []
    for synthesizer in (Synthesize("hierarchical"), Synthesize("themis")):
        module = Invert().run(
            synthesizer.run(Module("m", net, make(list(range(16)), chunks=4)), PassContext()), PassContext()
        )
        assert verify_schedule(module).ok
        times.append(module.schedule.collective_time(net, module.demand))
    assert times[1] < 0.8 * times[0]
