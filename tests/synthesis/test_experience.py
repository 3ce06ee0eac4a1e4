"""What searches with several numbers of chunks learn for the next one."""

from __future__ import annotations

from fractions import Fraction

import pytest

from collc.synthesis.auto import auto
from collc.synthesis.experience import Experience
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.schedule import LinkModel
from tests.support import all_gather, all_reduce, dgx1

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
