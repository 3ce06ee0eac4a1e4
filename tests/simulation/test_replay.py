"""Schedules replayed under both link models."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import CheckFailed
from collc.synthesis.pccl import pccl
from collc.synthesis.task import Effort, Task
from collc.ten.demand import Op
from collc.ten.schedule import LinkModel, RowSchedule, Schedule, Transfers
from tests.support import MiB, all_gather, all_to_all, demand_of, grid, network, ring, switched
from tests.synthesis.replay_checker import problems

from .replaying import replay

STEP = 20_031_250
LATENCY = 500_000


def rows(*table: tuple[int, int, int], reduce: bool = False) -> Schedule:
    chunk, link, start = (np.array(c) for c in zip(*table, strict=True))
    return RowSchedule(
        LinkModel.STORE, Transfers.of(chunk.astype(np.int32), link.astype(np.int32), start.astype(np.int64), reduce)
    )


def test_a_line_by_hand():
    net = network(3, [(0, 1), (1, 2)])
    demand = demand_of([(MiB, [0], [2], Op.COPY)] * 2)
    late = rows((0, 0, 7 * STEP), (1, 0, 8 * STEP), (0, 1, 9 * STEP), (1, 1, 10 * STEP))
    stored = replay(net, demand, late, LinkModel.STORE)
    assert stored.transfers.start.tolist() == [0, STEP, STEP, 2 * STEP]
    assert stored.time == 3 * STEP
    assert stored.busy.tolist() == [2 * STEP, 2 * STEP]
    assert stored.sent.tolist() == [2 * MiB, 2 * MiB]
    piped = replay(net, demand, late, LinkModel.PIPELINED)
    assert piped.time == 3 * STEP - LATENCY
    assert (stored.busy / stored.time).tolist() == [2 / 3, 2 / 3]


def test_reduction_waits_for_what_came_before():
    net = network(3, [(2, 1), (1, 0)])
    demand = demand_of([(MiB, [0, 1, 2], [0], Op.SUM)])
    result = replay(net, demand, rows((0, 0, 0), (0, 1, 5 * STEP), reduce=True), LinkModel.STORE)
    assert result.transfers.start.tolist() == [0, STEP]
    early = replay(net, demand, rows((0, 0, 0), (0, 1, 0), reduce=True), LinkModel.STORE)
    assert early.time == STEP


def test_chunk_that_never_comes():
    net = network(3, [(0, 1), (1, 2)])
    demand = demand_of([(MiB, [0], [2], Op.COPY)])
    with pytest.raises(CheckFailed, match=r"0:x\[0\] is never at the source of npu\[1\] -> npu\[2\]"):
        replay(net, demand, rows((0, 1, STEP)), LinkModel.STORE)


@pytest.mark.parametrize("make", [all_gather, all_to_all])
@pytest.mark.parametrize("net", [grid(2, 3), ring(6), switched(6)], ids=["mesh", "ring", "switch"])
@given(seed=st.integers(0, 100), model=st.sampled_from(LinkModel), other=st.sampled_from(LinkModel))
@settings(max_examples=5, deadline=None)
def test_replays_are_right_and_no_slower(make, net, seed, model, other):
    demand = make(list(range(6)))
    task = Task(net, demand, model, np.arange(len(demand.chunks), dtype=np.int32))
    schedule = pccl(task, Effort(seed=seed))
    result = replay(net, demand, schedule, other)
    found = problems(net, demand, result.transfers, other)
    assert [text for text in found if not text.startswith("switch")] == []
    assert len(result.transfers) == len(schedule)
    if other is model:
        assert result.time <= schedule.collective_time(net, demand)
