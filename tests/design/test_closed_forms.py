"""The optimizer against closed forms, which share nothing with it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from collc.design.comparison import by_message, smart
from collc.design.optimize import optimum
from collc.design.problem import (
    DesignProblem,
    NetworkDimension,
    Row,
    TimeExpression,
    collective_time,
    weighted_sum,
)


def sized(draw: np.random.Generator, dimensions: int, chosen: set[int]) -> list[Fraction]:
    return [Fraction(int(10 ** draw.uniform(5, 10))) if k in chosen else Fraction(0) for k in range(dimensions)]


def with_sum(time: TimeExpression, total: float) -> DesignProblem:
    n = len(time.bytes)
    dims = tuple(NetworkDimension("ring", 4, "inter_pod", False, False, Fraction(1)) for _ in range(n))
    return DesignProblem(dims, time, np.arange(1.0, n + 1), (Row(np.ones(n), total, True, 0),))


@pytest.mark.parametrize("seed", range(3))
def test_one_collective_has_bandwidths_in_proportion_to_its_traffic(seed: int) -> None:
    draw = np.random.default_rng(seed)
    for _ in range(25):
        n, total = int(draw.integers(1, 6)), 10 ** draw.uniform(1, 4)
        sizes = sized(draw, n, set(range(n)))
        found = optimum(with_sum(collective_time(sizes), total))
        assert found.time == pytest.approx(float(sum(sizes)) / total, rel=1e-8)
        assert found.bandwidth == pytest.approx(by_message(total, [float(size) for size in sizes]), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_two_groups_in_turn_have_the_bandwidths_of_smart(seed: int) -> None:
    """Tensor traffic in the leading dimensions, data traffic in the rest, perhaps with one of both."""
    draw = np.random.default_rng(100 + seed)
    for _ in range(25):
        n, total = int(draw.integers(2, 6)), 10 ** draw.uniform(1, 4)
        cut, shared = int(draw.integers(1, n)), bool(draw.random() < 0.7)
        tensor, data = sized(draw, n, set(range(cut))), sized(draw, n, set(range(cut - shared, n)))
        time = weighted_sum([(1, collective_time(tensor)), (1, collective_time(data))], n)
        rates = smart(total, [float(size) for size in tensor], [float(size) for size in data])
        assert rates is not None
        assert sum(rates) == pytest.approx(total, rel=1e-9)
        assert optimum(with_sum(time, total)).time == pytest.approx(time.value(rates), rel=1e-8)
