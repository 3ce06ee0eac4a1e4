"""The bandwidths that minimize the training time, the cost, or time * cost.

The multipliers of each convex problem "the least of time + w cost" bound the time of all designs by their cost c. The
bound constant + 2 sqrt(t) roots - t (charge + w c) holds for any t > 0 (`DualBound`), and the best t makes it
constant + roots^2 / (charge + w c).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np

from collc.design.convex import ACCURACY, VIOLATION, ConvexProblem, ConvexSolution, LinearTime, solve
from collc.design.problem import (
    DesignProblem,
    FloatArray,
    NoDesign,
    NoDesignReason,
    Objective,
    Row,
    TimeExpression,
    largest,
    weighted_sum,
)

TOLERANCE: Final = 1e-9
"""The search for the least time * cost ends at this gap; a bandwidth, cost or time that is smaller, relative to the
largest, counts as none.
"""

SEARCH_STEPS: Final = 60
"""Convex problems that the search for the least time * cost solves at most."""

_FREE: Final = 1e-7
"""A dimension with less than this share of the pressure may have other bandwidths at the same time."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """A design. bandwidth: GB/s. time: ns. cost: dollars. objective: as minimized. bound: no design has less."""

    bandwidth: tuple[float, ...]
    time: float
    cost: float
    objective: float
    bound: float

    @property
    def gap(self) -> float:
        """(objective - bound) / objective, at least 0."""
        return max(0.0, (self.objective - self.bound) / self.objective) if self.objective else 0.0


def optimum(problem: DesignProblem) -> Optimum:
    """The best design; of several the cheapest. Raises NoDesign if there is none."""
    search = DesignSearch(problem)
    match problem.objective:
        case Objective.TIME:
            design = search.fastest()
            bandwidth, bound = design.bandwidth, design.bound
        case Objective.COST:
            design = search.cheapest()
            bandwidth, bound = design.bandwidth, design.bound
        case Objective.PRODUCT:
            bandwidth, bound = search.least_product()
    used = np.array(problem.time.has_traffic)
    bandwidth = np.where(~used & (bandwidth < TOLERANCE * bandwidth.max()), 0.0, bandwidth)
    rates = tuple(map(float, bandwidth))
    best = Optimum(rates, problem.time.value(rates), problem.cost(rates), problem.value(rates), bound)
    violation = max((row.violation(bandwidth) for row in problem.rows), default=0.0)
    if problem.deadline is not None:
        violation = max(violation, best.time / problem.deadline - 1)
    if violation > VIOLATION or not np.isfinite([best.time, best.cost, best.objective, best.bound]).all():
        raise NoDesign(NoDesignReason.NUMBERS)
    return best


class DesignSearch:
    """The solution of one design problem. Raises NoDesign if the rows allow none, as its methods do."""

    def __init__(self, problem: DesignProblem) -> None:
        self.problem = problem
        count = len(problem.dimensions)
        least = [_least_value(problem.rows, -unit) for unit in np.eye(count)]
        if None in least:
            raise NoDesign(NoDesignReason.INFEASIBLE, _conflicting_statements(problem.rows, count))
        limits = -np.array(least, float)  # the largest bandwidth that the rows allow; inf if there is none
        for k in np.flatnonzero(problem.time.has_traffic).tolist():
            if limits[k] <= 1e-12:  # GB/s
                rows = (*problem.rows, Row(-np.eye(count)[k], -1.0, False, -1))
                raise NoDesign(NoDesignReason.INFEASIBLE, _conflicting_statements(rows, count), (k,))
        self.growth = np.zeros(count)
        """A direction in which bandwidths can grow without end, positive in as many dimensions as possible: the sum of
        the directions that grow most in each dimension.
        """
        if np.isinf(limits).any():
            unit = np.eye(count)
            capped = [*(replace(row, limit=0.0) for row in problem.rows), *(Row(own, 1.0, False, -1) for own in unit)]
            total = np.sum([_linprog(-own, capped).x for own in unit], axis=0)
            self.growth = np.where(total > 1e-9, total, 0.0)
        self.base = self._convex(problem.time, limits)
        grows = (self.growth > 0).tolist()
        unlimited = self._convex(_drop_traffic(problem.time, grows), limits) if any(grows) else self.base
        self.by_time = replace(unlimited, deadline=None)
        """The time that infinite bandwidths would give, if these are allowed."""
        self.by_cost = replace(self.base, time_weight=0.0, cost_weight=1.0)

    def _convex(self, time: TimeExpression, limits: FloatArray) -> ConvexProblem:
        problem, linear = self.problem, LinearTime.of(time)
        _, traffic = linear.multipliers(1.0, np.ones(len(linear.number)))
        # Bandwidths of a plausible size, in proportion to the square roots of the traffic.
        share = np.sqrt(np.where(traffic > 0, traffic, max(traffic.max(), 1.0)))
        share /= share.sum()
        sums = [(row.limit, float(row.coefficients @ share)) for row in problem.rows if row.limit > 0]
        guess = share * min((limit / value for limit, value in sums if value > 0), default=100.0 * len(share))
        return ConvexProblem(time, linear, problem.unit_cost, problem.rows, limits, guess, deadline=problem.deadline)

    @property
    def is_unlimited(self) -> bool:
        """Whether a dimension with traffic can have any bandwidth."""
        return bool((self.growth[np.array(self.problem.time.has_traffic)] > 0).any())

    def _least_time(self) -> ConvexSolution:
        """The least time, without limits of bandwidths that can grow. Raises NoDesign if it is above the deadline."""
        solution = solve(self.by_time)
        if solution is None:
            raise NoDesign(NoDesignReason.NUMBERS)
        if self.problem.deadline is not None and solution.bound > self.problem.deadline * (1 + 1e-12):
            raise NoDesign(NoDesignReason.DEADLINE, time=solution.bound)
        return solution

    def fastest(self) -> ConvexSolution:
        """The least time, at the least cost. Raises NoDesign if the time falls with every increase of a bandwidth."""
        solution = self._least_time()
        if self.is_unlimited:
            large = 1e9 * max(1.0, float(solution.bandwidth.max()))
            bandwidth = solution.bandwidth + large * self.growth / self.growth.max()
            time = self.base.value(bandwidth)
            if time > solution.value * (1 + 1e-12):
                raise NoDesign(NoDesignReason.UNBOUNDED, dimensions=tuple(np.flatnonzero(self.growth).tolist()))
            solution = replace(solution, bandwidth=bandwidth, value=time)
        return self._cheaper(solution)

    def _cheaper(self, fastest: ConvexSolution) -> ConvexSolution:
        """The cheapest design with the least time: the dimensions that the time presses on keep their bandwidth.

        A time as convex as this one has one bandwidth only in each of these.
        """
        share = fastest.pressure / np.maximum(fastest.bandwidth, 1e-300) / max(fastest.value, 1e-300)
        free = share < _FREE
        if self.problem.unit_cost[free].sum() <= 0:
            return fastest
        unit = np.eye(len(free))
        fixed = [Row(unit[k], float(fastest.bandwidth[k]), True, -1) for k in np.flatnonzero(~free)]
        tied = replace(
            self.by_cost,
            rows=(*self.base.rows, *fixed),
            deadline=fastest.value * (1 + ACCURACY),
            guess=np.maximum(np.where(free, self.base.guess, fastest.bandwidth), 1e-6),
        )
        cheaper = solve(tied)
        if cheaper is None or cheaper.value > self.problem.cost(fastest.bandwidth) * (1 - TOLERANCE):
            return fastest
        for more in (0.0, 1e-9, 1e-8):  # the solver meets the deadline up to rounding only
            bandwidth = np.where(free, cheaper.bandwidth * (1 + more), fastest.bandwidth)
            time = self.base.value(bandwidth)
            if time <= fastest.value * (1 + 2 * ACCURACY):
                return replace(fastest, bandwidth=bandwidth, value=time)
        return fastest

    def cheapest(self) -> ConvexSolution:
        """The least cost, within the deadline. Raises NoDesign if the cost is 0, or the deadline cannot be met."""
        floor = _least_value(self.problem.rows, self.problem.unit_cost) or 0.0
        if floor <= 1e-12 * self.problem.cost(self.base.guess) and self.problem.deadline is None:
            raise NoDesign(NoDesignReason.NO_FLOOR)
        solution = solve(self.by_cost)
        if solution is None or solution.value < 0:
            reason = NoDesignReason.NUMBERS if self.problem.deadline is None else NoDesignReason.DEADLINE
            raise NoDesign(reason, time=self._least_time().bound)
        return solution

    def least_product(self) -> tuple[FloatArray, float]:
        """The bandwidths with the least time * cost, and the bound on it.

        The next weight is that of the design that would be best if the times were those of the bounds.
        """
        low = max(self.cheapest().bound, 1e-12 * self.problem.cost(self.base.guess))
        shortest = self._least_time().bound
        curves = [(shortest, 0.0, 1.0, 0.0)]
        best, bound, least, tried = None, 0.0, float("inf"), set[float]()
        weight = self.base.value(self.base.guess) / self.problem.cost(self.base.guess)
        while len(tried) < SEARCH_STEPS and weight not in tried:
            tried.add(weight)
            solution = solve(replace(self.base, cost_weight=weight))
            if solution is None:
                break
            curves.append((solution.dual.constant, solution.dual.roots**2, solution.dual.charge, weight))
            if (value := self.problem.value(solution.bandwidth.tolist())) < least:
                best, least = solution.bandwidth, value
            bound, cost = _least_product_of_bounds(np.array(curves).T, low)
            if bound >= least * (1 - TOLERANCE):
                break
            weight = bound / cost**2
        if best is None:
            raise NoDesign(NoDesignReason.NUMBERS)
        if self.is_unlimited and shortest <= TOLERANCE * self.base.value(best):
            raise NoDesign(NoDesignReason.NO_COMPUTE)
        return best, min(bound, least)


def _least_product_of_bounds(curves: FloatArray, low: float) -> tuple[float, float]:
    """The least of c times the largest of all bounds at a cost c, which is at least `low`, and that c.

    curves: the constants, the squares of the roots, the charges and the weights of the bounds. c times a bound is least
    at a cost at which two bounds are equal (the roots of a quadratic) or it is flat (if its charge is below 0), or at
    `low`.
    """
    constants, squares, charges, weights = curves
    first, second = np.triu_indices(len(constants), 1)
    (k1, s1, r1, p1), (k2, s2, r2, p2) = curves[:, first], curves[:, second]
    d = k1 - k2
    a, b, c = d * p1 * p2, d * (r1 * p2 + r2 * p1) + s1 * p2 - s2 * p1, d * r1 * r2 + s1 * r2 - s2 * r1
    with np.errstate(divide="ignore", invalid="ignore"):
        q: FloatArray = -(b + np.copysign(np.sqrt(b * b - 4 * a * c), b)) / 2
        flat = (np.sqrt(-charges * squares / constants) - charges) / weights
        costs = np.concatenate([[low], flat, q / a, c / q])
        costs = np.unique(costs[np.isfinite(costs) & (costs >= low)])
        charge = charges[:, None] + weights[:, None] * costs
        times = np.where(charge > 0, constants[:, None] + squares[:, None] / charge, np.inf)
    products = costs * times.max(axis=0)
    least = int(np.argmin(products))
    return float(products[least]), float(costs[least])


def _drop_traffic(time: TimeExpression, dropped: Sequence[bool]) -> TimeExpression:
    """The time if traffic in some dimensions takes none."""
    sizes = tuple(b * 0 if drop else b for b, drop in zip(time.bytes, dropped, strict=True))
    parts = [(weight, largest([_drop_traffic(o, dropped) for o in m.options])) for weight, m in time.maxima]
    own = TimeExpression(time.constant, sizes)
    return weighted_sum([(1, own), *parts], len(sizes))


# Linear programs over the bandwidths that satisfy the linear constraints


def _least_value(rows: Sequence[Row], weights: FloatArray) -> float | None:
    """The least weights @ bandwidth over bandwidths of 0 or more; -inf if there is none, None if infeasible."""
    answer = _linprog(weights, rows)
    if answer.status == 0:
        return float(weights @ answer.x)
    unbounded = answer.status == 3 or (answer.status == 4 and _linprog(0 * weights, rows).status == 0)
    return float("-inf") if unbounded else None  # status 2: infeasible; 4: one of both


def _conflicting_statements(rows: Sequence[Row], count: int) -> tuple[int, ...]:
    """The statements of rows that cannot hold together, while any fewer of them can."""
    kept = list(rows)
    for row in rows:
        without = [other for other in kept if other is not row]
        if _least_value(without, np.zeros(count)) is None:
            kept = without
    return tuple(sorted({row.statement for row in kept} - {-1}))


def _linprog(weights: FloatArray, rows: Sequence[Row]) -> Any:  # noqa: ANN401
    """SciPy's answer, computed in units of the smallest limit: its tolerances are not relative."""
    from scipy.optimize import linprog  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    unit = min((abs(row.limit) for row in rows if row.limit), default=1.0)
    given: dict[str, Any] = {}
    for name, some in (("ub", [row for row in rows if not row.equal]), ("eq", [row for row in rows if row.equal])):
        if some:
            given |= {f"A_{name}": [row.coefficients for row in some], f"b_{name}": [row.limit / unit for row in some]}
    answer = cast("Any", linprog)(weights / (np.abs(weights).max() or 1.0), **given, method="highs")
    if answer.x is not None:
        answer.x = np.asarray(answer.x, float) * unit
    return answer
