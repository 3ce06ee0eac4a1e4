"""The optimizer against methods that share nothing with it: closed forms and grids that are refined."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from collc.design.comparison import by_message, smart
from collc.design.optimize import optimum
from collc.design.problem import (
    DesignProblem,
    NetworkDimension,
    NoDesign,
    Objective,
    Row,
    TimeExpression,
    collective_time,
    weighted_sum,
)
from tests.design.test_optimize import random_problem

Floats = NDArray[np.float64]
POINTS, ROUNDS = 31, 120
"""Points of the grid in each direction, and how often it is refined."""

CLOSE = {2: 1e-6, 3: 0.02}
"""How near the grid comes to the optimum; in three dimensions it can stop on a ridge of a maximum."""


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


def times(expression: TimeExpression, rates: Floats) -> Floats:
    """The times at many bandwidths, float64[points, dimensions]."""
    total = np.full(len(rates), float(expression.constant))
    for k, size in enumerate(expression.bytes):
        total += float(size) / rates[:, k] if size else 0.0
    for weight, maximum in expression.maxima:
        total += float(weight) * np.max([times(option, rates) for option in maximum.options], axis=0)
    return total


def by_grid(wanted: DesignProblem) -> float:
    """The least value on a grid of the logarithms of bandwidth[k] / bandwidth[0], refined around its best point.

    At given ratios the least time is that of the most bandwidth, and the least time * cost that of the least.
    """
    n, unit = len(wanted.unit_cost), wanted.unit_cost

    def values(ratios: Floats) -> Floats:
        shape = np.column_stack([np.ones(len(ratios)), np.exp(ratios)])
        least, most = np.full(len(shape), 1e-12), np.full(len(shape), 1e12)
        for row in wanted.rows:
            slope = shape @ row.coefficients
            slope[np.abs(slope) <= 1e-12 * shape.max(axis=1)] = 0
            with np.errstate(divide="ignore", invalid="ignore"):
                bound = row.limit / slope
            most = np.where((slope > 0) | ((slope == 0) & (row.limit < 0)), np.minimum(most, bound), most)
            least = np.where((slope < 0) | ((slope > 0) & row.equal), np.maximum(least, bound), least)
        times_cost = wanted.objective is Objective.PRODUCT
        rates = shape * (least if times_cost else most)[:, None]
        allowed = least <= most * (1 + 1e-12)
        found = times(wanted.time, np.where(allowed[:, None], rates, 1.0))
        return np.where(allowed, found * (rates @ unit) if times_cost else found, np.inf)

    best = np.zeros(n - 1)
    for step in range(ROUNDS):
        half = 20 * 0.85**step
        around = np.linspace(-half, half, POINTS)
        points = np.stack(np.meshgrid(*[around] * (n - 1), indexing="ij"), axis=-1).reshape(-1, n - 1) + best
        points = np.vstack([best, points])
        best = points[int(np.argmin(values(points)))]
    return float(values(best[None, :])[0])


def compared(seed: int, objective: Objective) -> int:
    """The dimensions, 2 or 3, of a random design whose solution is that of the grid; else, or without one, 0."""
    wanted = random_problem(seed, objective)
    dimensions = len(wanted.unit_cost)
    if dimensions not in CLOSE:
        return 0
    try:
        found = optimum(wanted)
    except NoDesign:
        return 0
    grid = by_grid(wanted)
    assert grid >= found.bound * (1 - 1e-9), seed
    assert grid <= found.objective * (1 + CLOSE[dimensions]), seed
    return dimensions


@pytest.mark.parametrize("objective", [Objective.TIME, Objective.PRODUCT])
def test_no_grid_finds_a_better_design(objective: Objective) -> None:
    assert {compared(seed, objective) for seed in range(1000, 1012)} == {0, 2, 3}


@pytest.mark.slow
@pytest.mark.parametrize("objective", [Objective.TIME, Objective.PRODUCT])
def test_no_grid_finds_a_better_design_of_many(objective: Objective) -> None:
    outcomes = [compared(seed, objective) for seed in range(2000, 2150)]
    assert outcomes.count(2) >= 20, outcomes
    assert outcomes.count(3) >= 20, outcomes
