"""Types and exact arithmetic."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collc.base.wording import closest_name
from collc.source.elaboration.arithmetic import compute, log2_of
from collc.source.types import (
    ANY,
    BYTES,
    FLOAT,
    GROUP,
    INT,
    NPU,
    RATE,
    STRING,
    TIME,
    fits,
    join,
    list_of,
    operation_type,
)

QUANTITIES = (INT, FLOAT, BYTES, TIME, RATE)
UNITS = {INT: (0, 0), FLOAT: (0, 0), BYTES: (1, 0), TIME: (0, 1), RATE: (1, -1)}
"""Exponents of byte and second."""


@pytest.mark.parametrize(("left", "right"), list(product(QUANTITIES, QUANTITIES)))
def test_units_of_products_and_quotients(left: object, right: object) -> None:
    """The type of each allowed product and quotient has the units of physics."""
    for name, sign in (("*", 1), ("/", -1)):
        result = operation_type(name, left, right)  # type: ignore[arg-type]
        expected = tuple(a + sign * b for a, b in zip(UNITS[left], UNITS[right], strict=True))  # type: ignore[index]
        known = {UNITS[q] for q in QUANTITIES}
        if result is not None:
            assert UNITS[result] == expected
        elif expected in known:
            assert UNITS[left] == (0, 0) and name == "/"  # type: ignore[index]  # noqa: PT018


@pytest.mark.parametrize(("left", "right"), list(product((BYTES, TIME, RATE, STRING, INT), repeat=2)))
def test_sums_are_of_one_kind(left: object, right: object) -> None:
    assert (operation_type("-", left, right) is not None) == (left == right and left != STRING)  # type: ignore[arg-type]


def test_fits() -> None:
    assert fits(INT, FLOAT)
    assert not fits(FLOAT, INT)
    assert not fits(INT, BYTES)
    assert fits(list_of(NPU), GROUP)
    assert fits(list_of(ANY), GROUP)
    assert not fits(list_of(INT), GROUP)
    assert not fits(NPU, GROUP)
    assert join(INT, FLOAT) == FLOAT
    assert join(INT, TIME) is None


big = st.integers(-(2**70), 2**70)
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_}


@example("*", [(0, 2**63)])
@given(st.sampled_from(sorted(OPERATORS)), st.lists(st.tuples(big, big), min_size=1, max_size=5))
def test_arithmetic_never_overflows(name: str, pairs: list[tuple[int, int]]) -> None:
    def column(items: list[int]) -> np.ndarray:
        fit = all(abs(i) < 2**63 for i in items)
        result = np.empty(len(items), np.int64 if fit else object)
        result[:] = items
        return result

    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    expected = [OPERATORS[name](a, b) for a, b in pairs]
    assert compute(name, column(left), column(right)).tolist() == expected
    assert compute(name, column(left), right[0]).tolist() == [OPERATORS[name](a, right[0]) for a in left]


@given(st.integers(1, 2**80))
def test_log2_never_rounds_to_a_whole_number(n: int) -> None:
    result = log2_of(n)
    exact = n & (n - 1) == 0
    assert (Fraction(result).denominator == 1) == exact
    assert math.ceil(result) == (n - 1).bit_length()
    assert math.floor(result) == n.bit_length() - 1
    assert abs(float(result) - math.log2(n)) < 1e-9


@given(st.fractions(Fraction(1, 10**6), 10**6))
def test_log2_of_fractions(x: Fraction) -> None:
    if x > 0:
        assert abs(float(log2_of(x)) - math.log2(x)) < 1e-9


def test_near_names() -> None:
    assert closest_name("bandwith", ["bandwidth", "latency"]) == "bandwidth"
    assert closest_name("rnig", ["ring", "line"]) == "ring"
    assert closest_name("x", ["abc"]) is None
