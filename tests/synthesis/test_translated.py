"""Sums and All-Gathers on Cayley graphs as translations of the transfers of one NPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from collc.base.diagnostics import SourceError
from collc.synthesis.bounds.cuts import most_sets
from collc.synthesis.reductions.compose import join
from collc.synthesis.symmetric import symmetric_module, translated
from collc.synthesis.task import Effort
from collc.ten.factored_schedule import FactoredSchedule
from collc.ten.module import Module
from collc.ten.network import Network
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
    halves = all_to_all(list(range(4)))  # half of the NPUs reach the opposite one in the other direction
    assert translated.translated_schedule(Module("m", ring(4), halves, LinkModel.STORE), Effort()) is None


def test_an_exchange_with_too_many_transfers_of_one_npu_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module("m", grid(3, 3, wrap=True), all_to_all(list(range(9))), LinkModel.STORE)
    hops = 4 + 4 * 2
    for most, found in ((hops - 1, False), (hops, True)):
        monkeypatch.setattr(translated, "MOST_EXPANDED", most)
        assert (translated.translated_schedule(module, Effort()) is not None) == found
    monkeypatch.setattr(translated, "MOST_EXPANDED", hops - 1)
    monkeypatch.setattr(translated, "MAX_TRANSFERS", 9 * hops - 1)
    with pytest.raises(SourceError, match=r"of 9 NPUs needs 12 transfers .* more than the limit of 11"):
        translated.translated_schedule(module, Effort())


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
