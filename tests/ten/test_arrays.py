"""Grouping of rows of numbers."""

from __future__ import annotations

import numpy as np
import pytest

from collc.ten.arrays import unique_rows


@pytest.mark.parametrize("largest", [1, 5, 2**31, 2**60])
def test_rows_that_differ(largest: int) -> None:
    """Columns whose rows fit in one number of 64 bits, and those that do not."""
    chance = np.random.default_rng(largest)
    columns = [chance.integers(-largest, largest + 1, 7)[chance.integers(0, 7, 200)] for _ in range(3)]
    rows, number = unique_rows(columns)
    expected, positions = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    assert np.array_equal(rows, expected)
    assert np.array_equal(number, positions.reshape(-1))


def test_rows_with_one_hash() -> None:
    """The key of a row is its first number * M + its second one, modulo 2^64."""
    first = np.array([1, 0, 1, -(2**62)])
    second = np.array([0, 0x5851F42D4C957F2D, 0, 2**62])
    rows, number = unique_rows([first, second])
    assert rows.tolist() == [[-(2**62), 2**62], [0, 0x5851F42D4C957F2D], [1, 0]]
    assert number.tolist() == [2, 1, 2, 0]


def test_no_rows() -> None:
    rows, number = unique_rows([np.empty(0, np.int64)] * 2)
    assert rows.shape == (0, 2)
    assert len(number) == 0
