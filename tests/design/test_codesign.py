"""A network that is designed together with its schedules (benchmarks/design.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import design
from collc.design.training_time import traffic

SMALL = design.TORUS.replace("ring(4,", "ring(3,").replace("1GiB, chunks: 8", "54MiB, chunks: 2")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same study on a 3x3x3 torus."""
    monkeypatch.setattr(design, "TORUS", SMALL)
    design.planned.cache_clear()
    yield
    design.planned.cache_clear()


@pytest.mark.usefixtures("small")
def test_rates_for_textbook_traffic_are_in_proportion_to_it() -> None:
    sizes = traffic("all_reduce", 54 * 2**20, (3, 3, 3), (False,) * 3)
    wanted = [1000 * float(size / sum(sizes)) for size in sizes]
    assert design.redesigned(design.EQUAL, design.TEXTBOOK) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.usefixtures("small")
def test_the_designed_network_is_faster_for_textbook_schedules_than_equal_bandwidths() -> None:
    equal, designed = [design.measure_torus(design.TEXTBOOK, rounds) for rounds in (0, 1)]
    assert equal.verified
    assert designed.verified
    assert equal.note.endswith("speed-up 1.000, per cost 1.000")
    assert designed.reached < equal.reached
    rates = design.redesigned(design.EQUAL, design.TEXTBOOK)
    cost, equal_cost = (4 * r[0] + 4 * r[1] + 7.8 * r[2] for r in (rates, design.EQUAL))
    speedup = equal.reached / designed.reached
    assert designed.note.endswith(f"speed-up {speedup:.3f}, per cost {speedup * equal_cost / cost:.3f}")


def test_the_study_has_a_case_for_each_row_of_its_table() -> None:
    names = [case.name for case in design.cases()]
    assert len(names) == len(set(names)) == 6


@pytest.mark.slow
def test_the_study_on_the_torus_of_64() -> None:
    """The first three rows of the table of docs/design.md, with schedules that are verified."""
    design.planned.cache_clear()
    found = [design.measure_torus(*case) for case in ((design.TEXTBOOK, 0), (design.TEXTBOOK, 1), ("tacos", 0))]
    assert all(result.verified for result in found)
    assert [result.reached for result in found] == pytest.approx([4832.8, 2380.2, 2114.9], rel=1e-4)
    assert "speed-up 2.030, per cost 2.558" in found[1].note
    assert "[761.9 190.5 47.6] GB/s" in found[1].note
