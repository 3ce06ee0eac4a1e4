"""The check by trees: it holds of what is right, and never of what the replay refuses."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from collc.synthesis.symmetric import symmetric_module
from collc.synthesis.task import Effort
from collc.ten.factored_schedule import FactoredSchedule
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from collc.verification import verify_schedule
from collc.verification.factored_check import representatives_of
from collc.verification.schedule_check import is_proved
from collc.verification.trees import trees_are_right
from tests.support import all_gather, all_reduce, all_to_all, fully_connected, reduce, reduce_scatter, switched
from tests.synthesis.clusters import pods, rails

KINDS = {"all_gather": all_gather, "reduce_scatter": reduce_scatter, "all_reduce": all_reduce, "all_to_all": all_to_all}


def _no_plan(*_: object) -> None:
    """In place of a plan that is one-shot on some levels."""


def representatives(net: Network, kind: str) -> Module:
    """The representatives' chunks in a Reduce-Scatter, an All-Gather, or both."""
    demand = KINDS[kind](list(range(net.npu_count)), chunk=2**20, chunks=2)
    module = Module("m", net, demand, LinkModel.PIPELINED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("collc.synthesis.symmetric.cluster.plan_one_shot", _no_plan)
        schedule = symmetric_module(module, Effort()).schedule
    assert isinstance(schedule, FactoredSchedule)
    found = representatives_of(module, schedule)
    assert found is not None
    return found


def with_rows(module: Module, rows: Transfers) -> Module:
    return replace(module, schedule=RowSchedule(module.model, rows))


def rows_of(module: Module) -> Transfers:
    assert isinstance(module.schedule, RowSchedule)
    return module.schedule.rows


@pytest.mark.parametrize("net", [switched(4), rails(2, 3), pods(2, 2, 2)], ids=lambda net: net.name)
@pytest.mark.parametrize("kind", KINDS)
def test_plans_are_trees_and_what_is_wrong_is_none(net: Network, kind: str) -> None:
    module = representatives(net, kind)
    assert trees_are_right(module)
    chance, rows, refused = random.Random(kind + net.name), rows_of(module), 0
    for _ in range(60):
        row, other = chance.randrange(len(rows)), chance.randrange(len(rows))
        chunk, link, start, reduce = rows.chunk.copy(), rows.link.copy(), rows.start.copy(), rows.reduce.copy()
        kept = np.ones(len(rows), np.bool_)
        match chance.randrange(5):
            case 0:
                start[row] += chance.choice([-1, 1]) * chance.randrange(1, 10**8)
            case 1:
                link[row] = chance.randrange(net.link_count)
            case 2:
                chunk[row] = chunk[other]
            case 3:
                reduce[row] = not reduce[row]
            case _:
                kept[row] = False
        wrong = with_rows(module, Transfers.of(chunk[kept], link[kept], start[kept], reduce[kept]))
        if trees_are_right(wrong):
            outcomes = verify_schedule(wrong, large=10**9).checks
            assert {name: outcomes[name] for name in ("causality", "delivered", "reductions")} == dict.fromkeys(
                ("causality", "delivered", "reductions"), "ok"
            )
        else:
            refused += 1
    assert refused >= 20


@pytest.fixture
def reduced() -> Module:
    """Two nodes of three GPUs: partials go over switches to one GPU, and the sum back."""
    return representatives(rails(2, 3), "all_reduce")


def changed(module: Module, row: int, **values: int) -> Module:
    rows = rows_of(module)
    columns = rows.chunk.copy(), rows.link.copy(), rows.start.copy(), rows.reduce.copy()
    for column, name in zip(columns, ("chunk", "link", "start", "reduce"), strict=True):
        if name in values:
            column[row] = values[name]
    return with_rows(module, Transfers.of(*columns))


def without(module: Module, row: int) -> Module:
    return with_rows(module, rows_of(module).select(np.arange(len(rows_of(module))) != row))


def first(module: Module, *, reduce: bool, from_switch: bool = False) -> int:
    """The first row of a sort."""
    rows = rows_of(module)
    switched_ = module.network.source[rows.link] >= module.network.npu_count
    return int(np.flatnonzero((rows.reduce == reduce) & (switched_ == from_switch))[0])


def test_each_condition_is_needed(reduced: Module) -> None:
    rows = rows_of(reduced)
    assert trees_are_right(reduced)
    late = int(rows.start.max()) + 10**12
    last_copy = int(np.flatnonzero(~rows.reduce)[-1])
    cases = {
        "before time 0": changed(reduced, first(reduced, reduce=True), start=-1),
        "sums are not complete when copies begin": changed(
            reduced, first(reduced, reduce=True, from_switch=True), start=late
        ),
        "a copy leaves before it has come": changed(reduced, first(reduced, reduce=False, from_switch=True), start=0),
        "what is wanted does not come": without(reduced, last_copy),
        "a partial stays in a switch": without(reduced, first(reduced, reduce=True, from_switch=True)),
        "a contribution is never sent": without(reduced, first(reduced, reduce=True)),
    }
    for name, wrong in cases.items():
        assert not trees_are_right(wrong), name


def test_a_partial_is_sent_once(reduced: Module) -> None:
    """The same partial over another rail would be added twice."""
    rows, row = rows_of(reduced), first(reduced, reduce=True)
    twice = Transfers.concatenate([rows, rows.select(np.array([row])).at(rows.start[[row]] + 1)])
    assert not trees_are_right(with_rows(reduced, twice))


@pytest.mark.parametrize(
    ("contributors", "sends", "right"),
    [
        ([0, 1, 2], [(1, 0), (2, 0)], True),
        ([0, 1, 2], [(1, 2), (2, 0)], True),
        ([0, 1, 2], [(1, 0), (2, 0), (2, 0)], False),  # 2 counts twice
        ([0, 1, 2], [(2, 1), (1, 0), (2, 0)], False),
        ([0, 1, 2], [(2, 0), (1, 2)], False),  # the partial of 1 stays at 2, which has sent its own
        ([0, 1], [(1, 2)], False),  # and at 2, which adds nothing
        ([0, 1], [(1, 0), (2, 0)], False),  # 2 has nothing to send
    ],
)
def test_partials_over_links(contributors: list[int], sends: list[tuple[int, int]], right: bool) -> None:
    net = fully_connected(3)
    ends = list(zip(net.source.tolist(), net.target.tolist(), strict=True))
    links = np.array([ends.index(pair) for pair in sends])
    rows = Transfers.of(np.zeros(len(sends), np.int32), links, 10**9 * np.arange(len(sends)), True)
    module = Module("m", net, reduce(contributors, root=0), LinkModel.STORE, RowSchedule(LinkModel.STORE, rows))
    assert trees_are_right(module) == right
    assert verify_schedule(module).ok == right


def test_a_chunk_that_is_copied_has_no_partials() -> None:
    module = representatives(rails(2, 3), "all_gather")
    assert not trees_are_right(changed(module, first(module, reduce=False), reduce=True))


def test_devices_that_are_missing_carry_nothing(reduced: Module) -> None:
    present = reduced.network.present.copy()
    present[reduced.network.target[rows_of(reduced).link[0]]] = False
    assert not trees_are_right(replace(reduced, network=replace(reduced.network, present=present)))


def test_what_is_no_tree_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One-shot sums are proved by the replay, if what it keeps fits in memory."""
    module = Module("m", rails(2, 3), all_reduce(list(range(6)), chunk=64, chunks=1), LinkModel.PIPELINED)
    schedule = symmetric_module(module, Effort()).schedule
    assert isinstance(schedule, FactoredSchedule)
    found = representatives_of(module, schedule)
    assert found is not None
    assert not trees_are_right(found)
    assert is_proved(module, schedule)
    monkeypatch.setattr("collc.verification.schedule_check.MOST_STATES", 0)
    assert not is_proved(module, schedule)


def test_keys_fit_in_64_bits(reduced: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = len(reduced.demand.chunks) * reduced.network.device_count
    monkeypatch.setattr("collc.verification.trees.MOST_KEYS", keys + 1)
    assert trees_are_right(reduced)
    monkeypatch.setattr("collc.verification.trees.MOST_KEYS", keys)
    assert not trees_are_right(reduced)
