"""The two layouts of a schedule give the same answers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collc.ten.demand import Op
from collc.ten.network import LinkKind
from collc.ten.schedule import LinkModel, RowSchedule, StepSchedule
from tests.support import GiB, demand_of, network

KINDS = [LinkKind(latency, Fraction(rate * GiB)) for latency, rate in ((0, 100), (500_000, 100), (9_000_000, 3))]
NONE = 65535


@given(
    st.lists(st.lists(st.sampled_from([0, 1, 2, NONE]), min_size=4, max_size=4), max_size=6),
    st.lists(st.sampled_from(KINDS), min_size=4, max_size=4),
    st.sampled_from([1, 10**6, 10**9]),
    st.sampled_from(LinkModel),
)
def test_time_of_a_grid_is_that_of_its_rows(rows, kinds, step, model):
    net = network(2, [(k % 2, 1 - k % 2, kind) for k, kind in enumerate(kinds)])
    demand = demand_of([(size, [0], [1], Op.COPY) for size in (1, 1 << 20, 1 << 24)])
    steps = StepSchedule(model, np.array(rows, np.uint16).reshape(-1, 4), step)
    assert steps.collective_time(net, demand) == RowSchedule(model, steps.transfers).collective_time(net, demand)
