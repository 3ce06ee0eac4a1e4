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


def test_no_rows() -> None:
    rows, number = unique_rows([np.empty(0, np.int64)] * 2)
    assert rows.shape == (0, 2)
    assert len(number) == 0
