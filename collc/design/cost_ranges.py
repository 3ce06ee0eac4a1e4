"""Why no design has less time * cost: ranges of the cost, in each of which linear constraints already say so.

In a range low <= cost <= high, time * cost <= limit implies time <= limit (low + high - cost) / (low high), since
1 / cost is convex; and B x >= 1 implies x >= 2 / b - B / b^2 for any b > 0. With both a range is a linear program. The
range is refuted where the least of time + limit cost / (low high) is above limit (1 / low + 1 / high); the bandwidths b
are those at which the linear program has the same least value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from collc.design.convex import ConvexProblem, ConvexSolution, solve
from collc.design.optimize import DesignSearch
from collc.design.problem import DesignProblem

MARGIN: Final = 1e-8
"""How far above the limit the least value of a range must be, relative to it, so that rounding does not matter."""

MOST_RANGES: Final = 1000


@dataclass(frozen=True, slots=True)
class CostRange:
    """low, high: dollars; the first range begins at 0, the last one ends at inf. tangents: GB/s; 0: none."""

    low: float
    high: float
    tangents: tuple[float, ...]


def cost_ranges(problem: DesignProblem, limit: float) -> tuple[CostRange, ...]:
    """Ranges from 0 to inf, in none of which time * cost <= limit (ns * dollars); () where one of them has a design."""
    search = DesignSearch(problem)
    base = search.base
    by_cost, by_time = replace(base, time_weight=0.0, cost_weight=1.0), replace(search.without_growing(), deadline=None)
    cheapest, fastest = solve(by_cost), solve(by_time)
    if cheapest is None or fastest is None or min(cheapest.bound, fastest.bound) <= 0:
        return ()
    low = _rounded(cheapest.bound * (1 - MARGIN))
    high = _rounded(max(limit / (fastest.bound * (1 - 2 * MARGIN)), low))
    found = [CostRange(0.0, low, _tangents(by_cost, cheapest))]
    waiting = [(low, high)] if low < high else []
    while waiting:
        low, high = waiting.pop()
        weight = limit / low / high
        mixed = replace(base, cost_weight=weight)
        least = solve(mixed)
        if least is not None and least.bound > weight * (low + high) * (1 + MARGIN):
            found.append(CostRange(low, high, _tangents(mixed, least)))
            continue
        middle = _rounded((low * high) ** 0.5)
        if not low < middle < high or len(found) + len(waiting) > MOST_RANGES:
            return ()
        waiting += [(middle, high), (low, middle)]
    return (*found, CostRange(found[-1].high, float("inf"), _tangents(by_time, fastest)))


def _rounded(cost: float) -> float:
    """Nine digits, so that the same decimal number is written at both sides."""
    return float(f"{cost:.9g}")


def _tangents(problem: ConvexProblem, found: ConvexSolution) -> tuple[float, ...]:
    """Where a / B + g B is least: with a tangent there the bound of the solution follows by linear arithmetic."""
    slope = problem.cost_weight * problem.unit_cost
    for price, row in zip(found.prices, problem.rows, strict=True):
        slope = slope + price * row.coefficients
    known = (found.pressure > 0) & (slope > 0)
    points = np.sqrt(np.where(known, found.pressure, 1.0) / np.where(known, slope, 1.0))
    return tuple(np.where(known, points, 0.0).tolist())
