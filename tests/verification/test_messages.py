"""Messages of several hops: their checks, and what makes each of them fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, QueuedMessages, RowSchedule, Transfers
from collc.verification import verify_schedule
from tests.support import MiB, demand_of, network, switched

STEP = 20_031_250
LINE = network(3, [(0, 1), (1, 2), (1, 0), (2, 1)])
SUM = demand_of([(MiB, [0, 1, 2], [2], Op.SUM)])

Row = tuple[int, int, bool, int, int]
"""Start in steps, link, whether it reduces, message, and when it is ready, in steps."""


def module_of(rows: list[Row], net: Network = LINE, demand: Demand = SUM) -> Module:
    start, link, reduce, number, ready = (np.array(column) for column in zip(*rows, strict=True))
    starts = (start * STEP).astype(np.int64)
    messages = QueuedMessages(number.astype(np.int32), (ready * STEP).astype(np.int64), starts)
    columns = np.zeros(len(rows), np.int32), link.astype(np.int32), starts
    transfers = Transfers.of(*columns, reduce.astype(np.bool_), None, messages)
    return Module("m", net, demand, LinkModel.STORE, RowSchedule(LinkModel.STORE, transfers))


GOOD: list[Row] = [(0, 0, True, 0, 0), (0, 1, True, 1, 0), (1, 1, True, 0, 1)]
"""npu[0] sends its contribution over npu[1] to npu[2], and npu[1] its own."""


def test_an_npu_forwards_a_partial_and_does_not_add_it() -> None:
    assert set(verify_schedule(module_of(GOOD)).checks.values()) == {"ok"}
    added = module_of([(start, link, reduce, -1, ready) for start, link, reduce, _, ready in GOOD])
    assert verify_schedule(added).failed_checks() == ("reductions",)


@pytest.mark.parametrize("large", [0, 100])
def test_a_message_that_waits_is_reported_as_allowed(large: int) -> None:
    """npu[1] sends what it held when the message joined the queue: the sum of both that came later is not in it."""
    rows: list[Row] = [(0, 1, True, 0, 0), (1, 1, True, 1, 0), (0, 0, True, 2, 0), (1, 1, True, 2, 1)]
    late: list[Row] = [(0, 0, True, 2, 0), (1, 1, True, 0, 0), (2, 1, True, 2, 1)]
    assert verify_schedule(module_of(late), large).checks["congestion_free"] == "allowed"
    assert verify_schedule(module_of(late), large).ok
    failed = verify_schedule(module_of(rows), large).failed_checks()
    assert "congestion_free" in failed


@pytest.mark.parametrize(
    "change",
    [
        (2, (0.5, 1, True, 0, 0.5)),  # before it has arrived
        (2, (1, 2, True, 0, 1)),  # from npu[1] back to npu[0], so that it ends there
        (2, (1, 3, True, 0, 1)),  # a link that does not begin where the first one ends
        (2, (1, 1, False, 0, 1)),  # a copy
        (2, (1, 1, True, 0, 0.5)),  # ready before the hop before has arrived
        (2, (1, 1, True, 0, 2)),  # ready after its start
        (0, (0, 0, True, 0, -1)),  # ready before time 0
    ],
)
def test_a_broken_message_is_found(change: tuple[int, Row]) -> None:
    rows = list(GOOD)
    rows[change[0]] = change[1]
    verdict = verify_schedule(module_of(rows))
    assert not verdict.ok
    if change[1][1] != 2:
        assert any(message.code == "V0109" for message in verdict.diagnostics)


def test_hops_of_a_message_occupy_slots_of_switches() -> None:
    """Two messages wait in a switch with one slot."""
    net = replace(switched(3), buffers=np.array([1], np.int64))
    into = {int(s): k for k, (s, t) in enumerate(zip(net.source, net.target, strict=True)) if t == 3}
    out = {int(t): k for k, (s, t) in enumerate(zip(net.source, net.target, strict=True)) if s == 3}
    rows: list[Row] = [
        (0, into[0], True, 0, 0),
        (0, into[1], True, 1, 0),
        (1, out[2], True, 0, 1),
        (2, out[2], True, 1, 1),
    ]
    assert verify_schedule(module_of(rows, net)).failed_checks() == ("switches",)
    assert verify_schedule(module_of(rows, switched(3))).ok
