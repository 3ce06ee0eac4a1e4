"""Sums and All-Gathers on Cayley graphs as translations of the transfers of one NPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from collc.base.diagnostics import SourceError
from collc.synthesis.bounds import lower_bound
from collc.synthesis.bounds.cuts import most_sets
from collc.synthesis.reductions.compose import join
from collc.synthesis.symmetric import bundled_exchange, symmetric_module, translated
from collc.synthesis.task import Effort
from collc.ten.bundled_schedule import FactoredBundles
from collc.ten.demand import Demand
from collc.ten.factored_schedule import ChunkNumbers, FactoredSchedule
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel, RowSchedule
from collc.verification import verify_schedule
from collc.verification.schedule_check import is_proved
from tests.support import all_gather, all_reduce, all_to_all, fully_connected, grid, hypercube, reduce_scatter, ring

KINDS = {"all_gather": all_gather, "reduce_scatter": reduce_scatter, "all_reduce": all_reduce, "all_to_all": all_to_all}
NETWORKS = {
    "torus": grid(3, 5, wrap=True),
    "one way": ring(7, one_way=True),
    "cube": hypercube(3),
    "full": fully_connected(8),
}


@pytest.fixture(autouse=True)
def unlisted(monkeypatch: pytest.MonkeyPatch) -> None:
    """All schedules are for networks that are too large to list them."""
    monkeypatch.setattr(translated, "MOST_LISTED", 38)


def planned(net: Network, kind: str, chunks: int, model: LinkModel) -> Module:
    group = np.random.default_rng(1).permutation(net.npu_count).tolist()
    return symmetric_module(Module("m", net, KINDS[kind](group, chunk=4096, chunks=chunks), model), Effort())


@pytest.mark.parametrize("model", LinkModel, ids=lambda model: model.value)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", KINDS)
def test_translations_are_right_and_as_short_as_the_list(
    name: str, kind: str, model: LinkModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = NETWORKS[name]
    chunks = 1 if kind == "all_to_all" else 2
    module = planned(net, kind, chunks, model)
    schedule = module.schedule
    assert isinstance(schedule, FactoredSchedule)
    assert schedule.translations.count == net.npu_count
    assert is_proved(module, schedule)
    rows = module.with_schedule(RowSchedule(model, schedule.transfers), "")
    assert verify_schedule(rows).ok
    monkeypatch.setattr(translated, "MOST_LISTED", 10**6)
    listed = join(planned(net, kind, chunks, model))
    assert listed.schedule is not None
    time = schedule.collective_time(net, module.demand)
    assert time == rows.collective_time()
    assert time <= 1.25 * listed.collective_time()


def test_what_is_not_symmetric_is_none() -> None:
    demand = all_gather(list(range(12)))
    assert translated.translated_schedule(Module("m", grid(3, 4), demand, LinkModel.STORE), Effort()) is None
    some = all_gather(list(range(11)))
    whole = grid(3, 4, wrap=True)
    assert translated.translated_schedule(Module("m", whole, some, LinkModel.STORE), Effort()) is None


def test_bundles_if_half_of_the_npus_would_send_the_other_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translated, "MOST_LISTED", 0)
    schedule = planned(ring(4), "all_to_all", 1, LinkModel.STORE).schedule
    assert isinstance(schedule, FactoredBundles)


@pytest.mark.parametrize(
    ("sizes", "chunk", "model"),
    [
        ((3, 5, 8), 1, LinkModel.PIPELINED),
        ((3, 5, 8), 2**16, LinkModel.PIPELINED),
        ((3, 5, 8), 2**16, LinkModel.STORE),
        ((8, 8), 2**9, LinkModel.PIPELINED),
        ((4, 4, 4), 2**12, LinkModel.STORE),
    ],
)
def test_bundles_are_near_the_bound(
    sizes: tuple[int, ...], chunk: int, model: LinkModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any size: if latencies or if loads count most, and if both do."""
    monkeypatch.setattr(translated, "MOST_PLAIN", 0)
    net = grid(*sizes, wrap=True)
    module = Module("m", net, all_to_all(net.npus.tolist(), chunk=chunk), model)
    schedule = translated.translated_schedule(module, Effort())
    assert isinstance(schedule, FactoredBundles)
    assert is_proved(module, schedule)
    bound = lower_bound(net, module.demand, model).time
    assert bound <= schedule.collective_time(net, module.demand) <= 1.02 * bound


def test_bundles_of_many_hops_move_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly as fast as if a generator served one after another; loads count most."""
    monkeypatch.setattr(translated, "MOST_PLAIN", 0)
    monkeypatch.setattr(bundled_exchange, "MOST_PLAIN", 0)
    net = ring(31)
    module = Module("m", net, all_to_all(net.npus.tolist(), chunk=2**16), LinkModel.PIPELINED)
    schedule = translated.translated_schedule(module, Effort())
    assert isinstance(schedule, FactoredBundles)
    assert is_proved(module, schedule)
    bound = lower_bound(net, module.demand, LinkModel.PIPELINED).time
    assert bound <= schedule.collective_time(net, module.demand) <= 1.01 * bound


def test_a_bundled_schedule_is_for_npus_that_are_alike() -> None:
    """What is planned at the time limit, of any size."""

    def planned_at_once(net: Network, demand: Demand) -> Module | None:
        module = Module("m", net, demand, LinkModel.STORE)
        schedule = translated.bundled_schedule(module)
        return None if schedule is None else module.with_schedule(schedule, "")

    everyone, whole = all_to_all(list(range(9))), grid(3, 3, wrap=True)
    module = planned_at_once(whole, everyone)
    assert module is not None
    assert verify_schedule(module).ok
    assert planned_at_once(grid(3, 3), everyone) is None
    assert planned_at_once(whole, all_gather(list(range(9)))) is None
    assert planned_at_once(whole, all_to_all(list(range(8)))) is None
    assert planned_at_once(replace(whole, kinds=(LinkKind(None, None),)), everyone) is None


def test_an_exchange_with_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module("m", ring(9), all_to_all(list(range(9))), LinkModel.STORE)
    monkeypatch.setattr(translated, "MOST_PLAIN", 0)
    monkeypatch.setattr(bundled_exchange, "MOST_EXPANDED", 2 * (1 + 2 + 3 + 4))
    assert isinstance(translated.translated_schedule(module, Effort()), FactoredBundles)
    monkeypatch.setattr(bundled_exchange, "MOST_EXPANDED", 19)
    with pytest.raises(SourceError, match=r"of 9 NPUs needs 20 rows, more than the limit of 19"):
        translated.translated_schedule(module, Effort())


def test_copies_of_one_npu_are_listed_for_repairs_if_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    demand = all_to_all(list(range(9)), chunks=2)
    numbers = ChunkNumbers.of(demand)
    assert numbers is not None
    monkeypatch.setattr(translated, "MOST_PLAIN", 0)
    for most, found in ((23, False), (24, True)):
        monkeypatch.setattr(translated, "MOST_EXPANDED", most)
        copies = translated.tree_copies(grid(3, 3, wrap=True), LinkModel.PIPELINED, numbers, 4096, Effort())
        assert (copies is not None and len(copies) == 24) == found


def test_an_all_reduce_counts_partials_and_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine NPUs send 9 * 8 of each."""
    module = Module("m", grid(3, 3, wrap=True), all_reduce(list(range(9))), LinkModel.STORE)
    for most, found in ((2 * 9 * 8, False), (2 * 9 * 8 - 1, True)):
        monkeypatch.setattr(translated, "MOST_LISTED", most)
        assert (translated.translated_schedule(module, Effort()) is not None) == found


def test_chunks_without_numbers_of_32_bits_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = planned(NETWORKS["torus"], "all_to_all", 1, LinkModel.STORE).schedule
    assert isinstance(schedule, FactoredSchedule)
    chunks = 15 * 15
    monkeypatch.setattr("collc.ten.factored_schedule.MOST_NUMBERED", chunks - 1)
    with pytest.raises(SourceError, match=f"the transfers of {chunks} chunks cannot be listed"):
        next(schedule.blocks())
    monkeypatch.setattr("collc.ten.factored_schedule.MOST_NUMBERED", chunks)
    assert sum(map(len, schedule.blocks())) == len(schedule)


def test_few_sets_of_a_large_network_are_bounds() -> None:
    small, large = ring(64), replace(ring(64), source=np.zeros(3_000_000, np.int32))
    assert most_sets(small, 16) == 16
    assert most_sets(large, 16) == 2
