"""The two layouts of a schedule give the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.network import LinkKind
from collc.ten.schedule import LinkModel, RowSchedule, StepSchedule, Transfers
from tests.support import GiB, demand_of, network

KINDS = [LinkKind(latency, Fraction(rate * GiB)) for latency, rate in ((0, 100), (500_000, 100), (9_000_000, 3))]
NONE = 65535


@given(
    st.lists(st.lists(st.sampled_from([0, 1, 2, NONE]), min_size=4, max_size=4), max_size=6),
    st.lists(st.sampled_from(KINDS), min_size=4, max_size=4),
    st.sampled_from([1, 10**6, 10**9]),
    st.sampled_from(LinkModel),
)
def test_time_of_a_step_by_link_table_is_that_of_its_rows(rows, kinds, step, model):
    net = network(2, [(k % 2, 1 - k % 2, kind) for k, kind in enumerate(kinds)])
    demand = demand_of([(size, [0], [1], Op.COPY) for size in (1, 1 << 20, 1 << 24)])
    steps = StepSchedule(model, np.array(rows, np.uint16).reshape(-1, 4), step)
    assert steps.collective_time(net, demand) == RowSchedule(model, steps.transfers).collective_time(net, demand)


def test_a_module_computes_the_time_of_its_schedule_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search compares its best schedule with every other one."""
    net, asked = network(2, [(0, 1, KINDS[0])]), list[int]()
    blocks = RowSchedule.blocks

    def counted(schedule: RowSchedule, rows: int = 1 << 22) -> Iterator[Transfers]:
        asked.append(rows)
        return blocks(schedule, rows)

    monkeypatch.setattr(RowSchedule, "blocks", counted)
    row = Transfers(np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int64), np.zeros(1, np.bool_))
    module = Module("m", net, demand_of([(1 << 20, [0], [1], Op.COPY)]), schedule=RowSchedule(LinkModel.STORE, row))
    assert module.collective_time() == module.collective_time() > 0
    assert len(asked) == 1


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=6))
def test_rows_are_sorted_if_they_are_not_yet(rows: list[tuple[int, int, int, bool]]) -> None:
    columns = [np.array([row[k] for row in rows]) for k in range(4)]
    chunk, link = columns[0].astype(np.int32), columns[1].astype(np.int32)
    given_rows = Transfers(chunk, link, columns[2].astype(np.int64), columns[3].astype(np.bool_))
    in_order = sorted(rows, key=lambda row: (row[2], row[1], row[0]))
    found = RowSchedule(LinkModel.STORE, given_rows).transfers
    sorted_rows = zip(
        found.chunk.tolist(), found.link.tolist(), found.start.tolist(), found.reduce.tolist(), strict=True
    )
    assert list(sorted_rows) == in_order
    assert given_rows.is_sorted is ([row[:3] for row in rows] == [row[:3] for row in in_order])
    assert found.is_sorted
    assert (found is given_rows) is given_rows.is_sorted
