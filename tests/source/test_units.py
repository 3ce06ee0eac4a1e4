"""Sizes and rates as people read them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from collc.base.units import shown_bytes, shown_rate


@pytest.mark.parametrize(
    ("size", "text"),
    [(80_000_000, "80MB"), (3 << 19, "1536KiB"), (80_125_000, "80.125MB"), (12_345_678, "12.35MB"), (1025, "1025B")],
)
def test_sizes_for_people_are_short(size: int, text: str) -> None:
    assert shown_bytes(size) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (Fraction(10**10, 3), "3.333GB/s"),
        (Fraction(50 * 2**30), "50GiB/s"),
        (Fraction(59_786 * 10**6), "59.786GB/s"),
        (Fraction(10**9, 7), "142.9MB/s"),
    ],
)
def test_rates_for_people_are_short(rate: Fraction, text: str) -> None:
    assert shown_rate(rate) == text
