"""docs/limits.md states the limits that the code has."""

from __future__ import annotations

from pathlib import Path

from collc.application import build_clock, early_checks
from collc.base import interrupts, reading
from collc.source import limits, problems
from collc.source.parsing import parse

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8")

STATED = [
    parse.MAX_BYTES,
    reading.LIMIT,
    limits.MAX_LINKS,
    limits.MAX_CHUNKS,
    limits.MAX_DEVICES,
    limits.MAX_ITERATIONS,
    limits.MAX_DEPTH,
    limits.MAX_EXPANSIONS,
    limits.MAX_LOOP_DEPTH,
    limits.MAX_RUNS,
    limits.MAX_CHARACTERS,
    limits.MAX_ITEMS,
    problems.MAX_PROBLEMS,
    early_checks.MAX_PATH,
    early_checks.MAX_TIME,
    early_checks.MAX_TRANSFERS,
]


def test_the_page_states_the_limits_of_the_code() -> None:
    rows = [line.split("|")[2].strip() for line in PAGE.splitlines() if line.startswith("| ")][1:]
    assert rows == [f"{value:,}" for value in STATED]


def test_the_page_states_the_times_of_the_code() -> None:
    text = " ".join(PAGE.split())
    assert f"ended after {interrupts.GRACE:g} s of processor time" in text
    assert f"have {build_clock.ALLOWANCE:g} s of processor time and a tenth of the limit more" in text
    assert build_clock.SHARE == 0.1
    assert f"up to {interrupts._BUSY:g} times as long" in text
