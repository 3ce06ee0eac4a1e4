"""When a step-by-link table is checked step by step: small ones, and those that this check does not cover, are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import LinkKind
from collc.ten.schedule import Clock, LinkModel, StepSchedule
from collc.verification import step_table_check, verify_schedule
from collc.verification.step_table_check import arrival_delay
from tests.support import MiB, all_gather, demand_of, network, ring

STEP = 20_031_250


def gather() -> Module:
    """All-Gather on a ring of three, one way, in two steps."""
    table = np.array([[0, 1, 2], [2, 0, 1]], np.uint16)
    schedule = StepSchedule(LinkModel.STORE, table, STEP)
    return Module("m", ring(3, one_way=True), all_gather([0, 1, 2]), schedule=schedule)


def delay(module: Module) -> int | None:
    assert isinstance(module.schedule, StepSchedule)
    return arrival_delay(module, module.schedule, Clock.of(module.network, module.demand, module.schedule.model))


def changed(**fields: object) -> Callable[[Module], Module]:
    return lambda module: replace(module, schedule=replace(module.schedule, **fields))


def of_network(**fields: object) -> Callable[[Module], Module]:
    return lambda module: replace(module, network=replace(module.network, **fields))


NOT_COVERED: dict[str, Callable[[Module], Module]] = {
    "reductions": changed(reduce_steps=1),
    "a sum": lambda module: replace(module, demand=demand_of([(MiB, [0], [1], Op.SUM)] * 3)),
    "no chunk": lambda module: replace(module, demand=Demand(())),
    "other links": lambda module: replace(module, network=ring(4, one_way=True)),
    "a switch": of_network(npu_count=2),
    "a removed NPU": of_network(present=np.array([True, True, False])),
    "a link to itself": of_network(target=np.array([1, 2, 2], np.int32)),
    "no step": changed(step=0),
    "late": changed(step=2**61),
    "links that are busy for more than a step": changed(step=STEP - 1),
    "unlike links": of_network(
        kinds=(LinkKind(0, Fraction(10**12)), LinkKind(STEP, Fraction(10**12))), kind=np.array([0, 1, 0], np.int32)
    ),
}


@pytest.mark.parametrize("name", NOT_COVERED)
def test_modules_that_the_step_check_does_not_cover(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_table_check, "LARGE_TABLE", 6)
    assert delay(gather()) == 1
    assert delay(NOT_COVERED[name](gather())) is None


def test_small_tables_are_checked_by_transfers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert delay(gather()) is None
    assert verify_schedule(gather()).ok
    monkeypatch.setattr(step_table_check, "LARGE_TABLE", 7)
    assert delay(gather()) is None


def test_chunks_that_arrive_after_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_table_check, "LARGE_TABLE", 0)
    for latency, steps in ((0, 1), (1, 2), (1000, 2), (1001, 3), (63_000, 64), (63_001, None)):
        net = network(2, [(0, 1, LinkKind(latency, Fraction(10**12)))])
        demand = demand_of([(1000, [0], [1], Op.COPY)])
        schedule = StepSchedule(LinkModel.PIPELINED, np.array([[0]], np.uint16), 1000)
        module = Module("m", net, demand, LinkModel.PIPELINED, schedule)
        assert delay(module) == steps
        assert verify_schedule(module).ok


def test_chunks_beyond_the_table_are_offenders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_table_check, "LARGE_TABLE", 0)
    module = gather()
    table = module.schedule.chunk.copy()
    table[1, 0] = 3
    assert verify_schedule(replace(module, schedule=replace(module.schedule, chunk=table))).failed() == (
        "causality",
        "delivered",
    )


def test_all_runs_must_be_delivered_whatever_the_module_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_table_check, "LARGE_TABLE", 0)
    empty = changed(chunk=np.full((2, 3), 0xFFFF, np.uint16))(gather())
    assert verify_schedule(replace(empty, planned=frozenset())).failed() == ("delivered",)
    assert verify_schedule(replace(empty, planned=frozenset({0}))).failed() == ("delivered",)
