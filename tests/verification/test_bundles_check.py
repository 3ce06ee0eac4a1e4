"""The proof of factored bundles: it holds of what is right, and never of what the check of all rows refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from collc.synthesis.symmetric import symmetric_module, translated
from collc.synthesis.task import Effort
from collc.ten.bundled_schedule import FactoredBundles
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, RowSchedule
from collc.verification import verify_schedule
from collc.verification.schedule_check import is_proved
from tests.support import all_to_all, fully_connected, grid, hypercube, network, ring

NETWORKS = {
    "torus": grid(3, 4, wrap=True),
    "cube": hypercube(3),
    "even ring": ring(6),
    "one way": ring(5, one_way=True),
    "full": fully_connected(4),
    "circulant": network(11, [(i, (i + by) % 11) for i in range(11) for by in (1, -1, 3, -3)]),
    "parallel": network(3, [(i, (i + 1) % 3) for i in range(3)] * 2),
}


def planned(net: Network, chunks: int, model: LinkModel, monkeypatch: pytest.MonkeyPatch) -> Module:
    """An All-to-All in bundles, as on networks that are too large for anything else."""
    monkeypatch.setattr(translated, "MOST_LISTED", 0)
    monkeypatch.setattr(translated, "MOST_PLAIN", 0)
    group = np.random.default_rng(1).permutation(net.npu_count).tolist()
    return symmetric_module(Module("m", net, all_to_all(group, chunk=4096, chunks=chunks), model), Effort())


def bundles_of(module: Module) -> FactoredBundles:
    assert isinstance(module.schedule, FactoredBundles)
    return module.schedule


def row_check(module: Module, schedule: FactoredBundles) -> bool:
    """The check of all rows, which knows nothing of translations and bundles."""
    return verify_schedule(module.with_schedule(RowSchedule(module.model, schedule.transfers), "")).ok


@pytest.mark.parametrize("model", LinkModel, ids=lambda model: model.value)
@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_right_is_proved(name: str, model: LinkModel, monkeypatch: pytest.MonkeyPatch) -> None:
    for chunks in (1, 3):
        module = planned(NETWORKS[name], chunks, model, monkeypatch)
        schedule = bundles_of(module)
        assert is_proved(module, schedule)
        assert row_check(module, schedule)
        assert len(schedule.transfers) == len(schedule) > schedule.row_count
        assert schedule.collective_time(module.network, module.demand) == schedule.chunk_schedule.collective_time(
            module.network, module.demand
        )


def with_start(schedule: FactoredBundles, row: int, start: int) -> FactoredBundles:
    starts = schedule.rows.start.copy()
    starts[row] = start
    return replace(schedule, rows=replace(schedule.rows, start=starts))


def without_bundle(schedule: FactoredBundles) -> FactoredBundles:
    """Without the last bundle: some chunks do not come where they are wanted."""
    last, kept = len(schedule.first) - 2, slice(0, int(schedule.first[-2]))
    rows = np.flatnonzero(schedule.rows.chunk != last)
    return replace(
        schedule,
        rows=schedule.rows.select(rows),
        turn=schedule.turn[rows],
        first=schedule.first[:-1],
        chunks=schedule.chunks[kept],
        elements=schedule.elements[kept],
    )


def second(schedule: FactoredBundles) -> int:
    """The first row of the bundle that begins last."""
    bundles = schedule.rows.chunk
    return max(int(np.argmax(bundles == bundle)) for bundle in set(bundles.tolist()))


CHANGES: dict[str, Callable[[FactoredBundles], FactoredBundles]] = {
    "two bundles on a link": lambda s: with_start(s, 1, int(s.rows.start[1]) - 1),
    "a phase too early": lambda s: with_start(s, second(s), 0),
    "before time 0": lambda s: replace(s, rows=replace(s.rows, start=s.rows.start - 1)),
    "no end": lambda s: replace(s, rows=replace(s.rows, start=s.rows.start + 2**50)),
    "twice as dense": lambda s: replace(s, turn=s.turn // 2),
    "a bundle is missing": without_bundle,
    "a hop is missing": lambda s: replace(s, rows=s.rows.select(slice(1, None)), turn=s.turn[1:]),
    "from elsewhere": lambda s: replace(s, elements=(s.elements + 1) % 12),
    "of other chunks": lambda s: replace(s, chunks=s.chunks[::-1]),
    "of one chunk": lambda s: replace(s, chunks=np.zeros_like(s.chunks)),
    "of no chunk": lambda s: replace(s, chunks=s.chunks + 10**6),
    "no element": lambda s: replace(s, elements=s.elements - 1),
    "no such bundle": lambda s: replace(s, rows=replace(s.rows, chunk=s.rows.chunk + 10**6)),
    "an empty bundle": lambda s: replace(s, first=np.append(s.first, s.first[-1])),
    "chunks of no bundle": lambda s: replace(s, first=s.first[:-1]),
    "on no link": lambda s: replace(s, rows=replace(s.rows, link=s.rows.link + 10**6)),
    "sums": lambda s: replace(s, rows=replace(s.rows, reduce=~s.rows.reduce)),
    "no rows": lambda s: replace(s, rows=s.rows.select(slice(0, 0)), turn=s.turn[:0]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_broken_is_not_proved(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = planned(NETWORKS["torus"], 1, LinkModel.PIPELINED, monkeypatch)
    assert is_proved(module, bundles_of(module))
    assert not is_proved(module, CHANGES[name](bundles_of(module)))


def test_another_demand_or_network_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    module = planned(NETWORKS["torus"], 1, LinkModel.PIPELINED, monkeypatch)
    schedule, net = bundles_of(module), module.network
    target = net.target.copy()
    target[[0, 5]] = target[[5, 0]]
    others = [
        replace(module, model=LinkModel.STORE),
        replace(module, network=replace(net, target=target)),
        replace(module, network=replace(net, present=np.arange(12) != 3)),
        replace(module, demand=all_to_all(list(range(12)), chunk=4096)),
        replace(module, demand=all_to_all(module.demand.runs[0].group.tolist(), chunk=8192)),
        replace(module, demand=all_to_all(module.demand.runs[0].group.tolist(), chunk=4096, chunks=2)),
    ]
    assert not any(is_proved(other, schedule) for other in others)


def changed(schedule: FactoredBundles, chance: random.Random) -> FactoredBundles:
    """A schedule with one number changed."""
    row, member = chance.randrange(len(schedule.rows)), chance.randrange(len(schedule.chunks))
    by = chance.choice([-1, 1]) * chance.choice([1, 10**4, 10**6])
    choice = chance.randrange(6)
    if choice == 0:
        return with_start(schedule, row, max(0, int(schedule.rows.start[row]) + by))
    columns = {
        "chunks": (schedule.chunks, member, chance.randrange(144)),
        "elements": (schedule.elements, member, chance.randrange(12)),
        "turn": (schedule.turn, row, max(0, int(schedule.turn[row]) + by)),
        "first": (schedule.first, chance.randrange(1, len(schedule.first) - 1), chance.randrange(30)),
    }
    if choice <= len(columns):
        name = list(columns)[choice - 1]
        column, place, value = columns[name]
        new = column.copy()
        new[place] = value
        return replace(schedule, **{name: new})
    links = schedule.rows.link.copy()
    links[row] = chance.randrange(schedule.translations.link.shape[1])
    return replace(schedule, rows=replace(schedule.rows, link=links))


def test_random_changes_are_proved_only_if_they_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    module, chance, proved = planned(NETWORKS["torus"], 1, LinkModel.PIPELINED, monkeypatch), random.Random(7), 0
    for _ in range(100):
        other = changed(bundles_of(module), chance)
        if is_proved(module, other):
            proved += 1
            assert row_check(module, other)
    assert 5 <= proved <= 60
