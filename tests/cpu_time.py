"""Limits of processor time for tests, in proportion to the speed of the machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

REFERENCE: Final = 0.005
"""CPU seconds of `_some_work` on the machine on which the limits were measured (2 cores of a server of 2023)."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail if the block takes more processor time than this; a slower machine gets more, in proportion."""
    before = slowness()
    began = time.process_time()
    yield
    taken = time.process_time() - began
    allowed = seconds * max(before, slowness(), 1.0)
    assert taken < allowed, f"{taken:.1f} s of CPU, at most {allowed:.1f} s"


def slowness() -> float:
    """How many times longer some work takes than on the reference machine."""
    began = time.process_time()
    _some_work()
    return (time.process_time() - began) / REFERENCE


def _some_work() -> int:
    seen: dict[int, list[int]] = {}
    for number in range(60_000):
        seen.setdefault(number * 7919 % 1009, []).append(number)
    return sum(len(numbers) for numbers in seen.values())
