"""What searches with several numbers of chunks learn for the next one."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from collc.base.diagnostics import NoSchedule
from collc.passes.synthesizers import auto
from collc.synthesis.experience import Experience
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from tests.support import GiB, all_gather, all_reduce, dgx1, fully_connected, grid, network


def two_islands() -> Network:
    """Two rings of four with one slow edge between them, and links of unlike rates."""
    rates = [100, 50, 25, 100, 50, 100, 25, 50]
    edges = [(4 * (i // 4) + i % 4, 4 * (i // 4) + (i + 1) % 4, rates[i]) for i in range(8)] + [(0, 4, 20), (2, 6, 10)]
    both = [*edges, *((b, a, rate) for a, b, rate in edges)]
    return network(8, [(a, b, LinkKind(700_000, Fraction(rate * GiB))) for a, b, rate in both])


FAR, NEARER, NEAR = Fraction(3, 2), Fraction(6, 5), Fraction(21, 20)


@pytest.mark.parametrize(
    ("ratios", "hopeless"),
    [
        ([], False),
        ([FAR], False),
        ([None], False),
        ([None, None], True),
        ([FAR, FAR], True),
        ([NEARER, FAR], True),
        ([FAR, NEARER], False),
        ([NEAR, NEAR], False),
        ([FAR, FAR, NEAR], False),
        ([None, FAR], False),
        ([FAR, None], False),
    ],
)
def test_what_is_far_and_comes_no_nearer_is_hopeless(ratios: list[Fraction | None], hopeless: bool) -> None:
    experience = Experience()
    for ratio in ratios:
        experience.add(10, {"a": ratio})
    assert experience.is_hopeless("a") == hopeless
    assert experience.spent == 10 * len(ratios)


def test_auto_leaves_out_what_is_hopeless_and_says_so() -> None:
    experience = Experience()
    for _ in range(2):
        experience.add(0, {"pccl": FAR, "swarm": None})
    module = Module("m", dgx1(), all_reduce(list(range(8)), chunks=2), LinkModel.PIPELINED)
    found = auto(module, Effort(experience=experience))
    for name in ("pccl", "swarm"):
        assert f"auto: left out {name}, which was not competitive with fewer chunks" in found.notes
    assert experience.spent > 0
    assert any(note.startswith("auto: tacos takes") for note in found.notes)


def test_where_all_are_hopeless_all_are_tried() -> None:
    names = ("symmetric", "tacos", "pccl", "swarm", "overlapped", "exchange", "forest")
    experience = Experience()
    for _ in range(2):
        experience.add(0, dict.fromkeys(names))
    module = Module("m", dgx1(), all_gather(list(range(8)), chunks=4), LinkModel.PIPELINED)
    found = auto(module, Effort(experience=experience))
    assert not any("not competitive" in note for note in found.notes)


def test_the_work_of_all_searches_has_a_limit() -> None:
    module = Module("m", dgx1(), all_reduce(list(range(8)), chunks=2), LinkModel.PIPELINED)
    fresh, tired = Experience(), Experience(spent=10**9)
    for experience in (fresh, tired):
        auto(module, Effort(experience=experience))
    assert tired.spent - 10**9 <= fresh.spent
    assert (fresh.is_used_up, tired.is_used_up) == (False, True)


SEARCH = "collc.synthesis.auto.synthesizer."
HELD = "collc.synthesis.auto.tried."


def searched(module: Module, experience: Experience | None, **effort: Any) -> Module:
    return auto(module, Effort(experience=experience, **effort))


def test_long_searches_are_held_back_until_the_number_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then they go on, without what was done before, and find what they find at once by themselves."""
    monkeypatch.setattr(HELD + "HELD_BACK", 10**9)
    monkeypatch.setattr(HELD + "HELD_TO", 0)
    module = Module("m", grid(3, 3), all_reduce(list(range(9)), chunks=8), LinkModel.STORE)
    alone, experience = Experience(is_last=True), Experience()
    time = searched(module, alone).collective_time()
    first = searched(module, experience)
    assert len(experience.held_back) == 1
    spent, experience.is_last = experience.spent, True
    found = searched(module, experience)
    assert found.collective_time() == time <= first.collective_time()
    assert not experience.held_back
    assert spent < alone.spent
    assert 0 < experience.spent - spent < alone.spent
    assert [note for note in first.notes if "tacos" in note] == [note for note in found.notes if "tacos" in note]


def test_nothing_is_held_back_with_a_time_limit_or_for_the_last_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HELD + "HELD_BACK", 10**9)
    monkeypatch.setattr(HELD + "HELD_TO", 0)
    module = Module("m", two_islands(), all_reduce(list(range(8)), chunks=8), LinkModel.PIPELINED)
    for experience, limit in ((Experience(), 100.0), (Experience(is_last=True), None)):
        searched(module, experience, time_limit=limit)
        assert not experience.held_back


def test_a_long_search_waits_where_others_were_better_with_the_last_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first it has what one search may take; only where it was longer before it waits."""
    module = Module("m", two_islands(), all_reduce(list(range(8)), chunks=8), LinkModel.PIPELINED)
    monkeypatch.setattr(HELD + "HELD_BACK", 1)
    for ratio, waits in ((Fraction(1), False), (NEAR, True)):
        experience = Experience()
        experience.add(0, dict.fromkeys(("forest", "swarm", "tacos"), ratio))
        searched(module, experience)
        assert bool(experience.held_back) is waits


def test_what_was_best_with_the_last_number_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARE_WORK", "SPARE_WORK_IF_LONG"):
        monkeypatch.setattr(SEARCH + name, -(10**6))
    module = Module("m", two_islands(), all_reduce(list(range(8)), chunks=2), LinkModel.PIPELINED)
    for best, tried in (("", False), ("swarm", True)):
        notes = searched(module, Experience(best=best)).notes
        assert any(note.startswith("auto: swarm takes") for note in notes) is tried


def test_no_number_follows_beyond_the_work_of_all_but_by_what_needs_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no schedule yet, the cheapest is made whatever it takes."""
    monkeypatch.setattr(SEARCH + "LEAST_WORK_PART", 10**9)
    group = list(range(8))
    unlike = Module("m", two_islands(), all_gather(group), LinkModel.PIPELINED)
    alike = Module("m", fully_connected(8), all_gather(group), LinkModel.PIPELINED)
    used_up = 10**9
    assert searched(unlike, Experience(spent=used_up)).schedule is not None
    with pytest.raises(NoSchedule):
        searched(unlike, Experience(spent=used_up, best="forest"))
    assert searched(alike, Experience(spent=used_up, best="forest")).algorithm == "symmetric"
    monkeypatch.setattr(SEARCH + "BEYOND_BUDGET_PART", 10**9)
    with pytest.raises(NoSchedule):
        searched(alike, Experience(spent=used_up, best="forest"))
