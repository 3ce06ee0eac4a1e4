"""Grouping of rows of numbers, and the order of keys."""

from __future__ import annotations

import numpy as np
import pytest

from collc.ten.arrays import count_distinct, distinct, find_runs, order_of, unique_rows


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


@pytest.mark.parametrize("count", [1, 7, 2**16, 2**16 + 1, 2**31 - 1, 2**40])
def test_the_order_of_numbers_is_stable(count: int) -> None:
    chance = np.random.default_rng(count)
    keys = chance.integers(0, count, 40)[chance.integers(0, 40, 200)]
    keys[:2] = count - 1, 0
    assert order_of(keys, count).tolist() == np.argsort(keys, kind="stable").tolist()
    assert len(order_of(keys[:0], count)) == 0


@pytest.mark.parametrize("span", [1, 50, 5000, 2**40])
@pytest.mark.parametrize("kind", ["int32", "int64", "uint64"])
def test_distinct_items_near_and_far_apart(span: int, kind: str) -> None:
    low = 0 if kind == "uint64" else -(2**31)
    items = (np.random.default_rng(span).integers(0, span, 100) % 2**32 + low).astype(kind)
    assert distinct(items).tolist() == sorted({*items.tolist()})
    assert distinct(items).dtype == kind
    assert len(distinct(items[:0])) == 0


@pytest.mark.parametrize("span", [1, 50, 2**40])
def test_how_often_items_come(span: int) -> None:
    items = np.random.default_rng(span).integers(0, span, 40)[np.random.default_rng(1).integers(0, 40, 100)]
    for some in (items, items[:0]):
        expected, counts = np.unique(some, return_counts=True)
        different, times = count_distinct(some)
        assert different.tolist() == expected.tolist()
        assert times.tolist() == counts.tolist()


@pytest.mark.parametrize("keys", [[], [3], [0, 0, 2, 2, 2, 5]])
def test_where_equal_keys_begin_and_end(keys: list[int]) -> None:
    wanted = np.array([2, -1, 0, 5, 6, 3, 1])
    low, high = find_runs(np.array(keys, np.int64), wanted)
    assert np.array_equal(low, np.searchsorted(np.array(keys, np.int64), wanted))
    assert np.array_equal(high, np.searchsorted(np.array(keys, np.int64), wanted, "right"))
