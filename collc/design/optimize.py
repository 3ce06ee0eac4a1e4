"""The bandwidths that minimize the training time, or time * cost.

Lower bounds of the least time that each cost buys, from the multipliers of solutions at some costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np

from collc.design.convex import ConvexProblem, ConvexSolution, DualBound, epigraph_of, solve, time_at
from collc.design.polyhedron import conflicting, growing_direction, is_feasible, least_value, upper_limits
from collc.design.problem import DesignProblem, FloatArray, NoDesign, NoDesignReason, Objective, Row
from collc.design.time_expression import TimeExpression, largest, weighted_sum


class TimeByCost:
    """The largest of several lower bounds of the least time, each a function of the cost c.

    With the price p of cost, the bound of a solution at another cost c is constant + 2 sqrt(t) roots - t (rest + p c)
    for any t > 0 (`DualBound`). The best t makes it constant + roots^2 / (rest + p c).
    """

    def __init__(self) -> None:
        self.tried: list[float] = []
        self.bounds: list[tuple[float, float, float, float]] = []
        """(constant, roots squared, rest, price) of each."""

    def add_time(self, cost: float, time: float) -> None:
        """Add that no cost buys a shorter time. cost: one at which that was found."""
        self.tried.append(cost)
        self.bounds.append((time, 0.0, 1.0, 0.0))

    def add_dual(self, cost: float, dual: DualBound, price: float) -> None:
        """Add the bound of the least time at a cost; price: how much it falls there for each dollar."""
        self.tried.append(cost)
        if price > 0:
            self.bounds.append((dual.constant, dual.roots**2, dual.charge - price * cost, price))

    def least_product(self, low: float, high: float) -> tuple[float, float]:
        """The least of c times the bound for c between low and high, and that c.

        It is where c times one of the bounds is least, if two are equal, or at an end.
        """
        table = np.array(self.bounds).T
        costs = np.concatenate([[low, high], _minima(table), _meetings(table)])
        costs = np.unique(costs[np.isfinite(costs) & (costs >= low) & (costs <= high)])
        constants, squares, rests, prices = (row[:, None] for row in table)
        charge = rests + prices * costs
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.where(charge > 0, constants + squares / charge, np.inf)
        products = costs * times.max(axis=0)
        best = int(np.argmin(products))
        return float(products[best]), float(costs[best])

    def untried(self, cost: float, low: float, high: float) -> float:
        """The cost; if it was tried already, or is an end, one between it and the next."""
        tried = np.unique([low, high, *self.tried])
        k = int(np.argmin(np.abs(tried - cost)))
        near = float(tried[k])
        if abs(cost - near) > 1e-10 * high:
            return cost
        if near <= low:
            return low + (float(tried[1]) - low) / 16
        other = float(tried[k - 1] if cost <= near or k + 1 == len(tried) else tried[k + 1])
        return (near + other) / 2


def _minima(table: FloatArray) -> FloatArray:
    """Where c times each bound is least: constant * c + squares * c / (rest + price c) for rests below 0."""
    constants, squares, rests, prices = table
    with np.errstate(divide="ignore", invalid="ignore"):
        return (np.sqrt(-rests * squares / constants) - rests) / prices


def _meetings(table: FloatArray) -> FloatArray:
    """The costs at which two of the bounds are equal: the roots of a quadratic for each pair."""
    first, second = np.triu_indices(table.shape[1], 1)
    (k1, s1, r1, p1), (k2, s2, r2, p2) = table[:, first], table[:, second]
    d = k1 - k2
    a = d * p1 * p2
    b = d * (r1 * p2 + r2 * p1) + s1 * p2 - s2 * p1
    c = d * r1 * r2 + s1 * r2 - s2 * r1
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(b * b - 4 * a * c)
        q: FloatArray = -(b + np.copysign(root, b)) / 2
        return np.concatenate([q / a, c / q])


TOLERANCE: Final = 1e-9
"""The search for the least time * cost ends at this gap."""

SEARCH_STEPS: Final = 60
"""Convex problems that the search for the least time * cost solves at most."""

_FREE: Final = 1e-7
"""A dimension with less than this share of the pressure may have other bandwidths at the same time."""

_VIOLATION: Final = 1e-6
"""A row that a solution violates by more, relative to its limit, may have no solution with finite times."""

_SAME_TIME: Final = 1e-10
"""Times that differ by less are equal when the cheapest of several designs is looked for."""


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
    if not is_feasible(problem.rows, len(problem.dimensions)):
        raise NoDesign(NoDesignReason.INFEASIBLE, conflicting(problem.rows, len(problem.dimensions)))
    _check_used(problem)
    search = DesignSearch(problem)
    match problem.objective:
        case Objective.TIME:
            return search.least_time()
        case Objective.COST:
            return search.least_cost()
        case Objective.PRODUCT:
            return search.least_product()


def _check_used(problem: DesignProblem) -> None:
    """Raise NoDesign if the rows allow no bandwidth to a dimension with traffic."""
    count = len(problem.dimensions)
    unit = np.eye(count)
    if least_value([*problem.rows, *_at_least_one(problem)], np.zeros(count)) is not None:
        return
    for k in np.flatnonzero(problem.time.used).tolist():
        least = least_value(problem.rows, -unit[k])
        if least is not None and least >= 0:
            rows = (*problem.rows, Row(-unit[k], -1.0, False, -1))
            statements = tuple(number for number in conflicting(rows, count) if number >= 0)
            raise NoDesign(NoDesignReason.INFEASIBLE, statements, (k,))


def _at_least_one(problem: DesignProblem) -> list[Row]:
    """1 GB/s or more in each dimension with traffic."""
    unit = np.eye(len(problem.dimensions))
    return [Row(-unit[k], -1.0, False, -1) for k in np.flatnonzero(problem.time.used)]


class DesignSearch:
    """The solution of one design problem."""

    def __init__(self, problem: DesignProblem) -> None:
        self.problem = problem
        self.count = len(problem.dimensions)
        self.growth = self._growth()
        self.limits: Callable[[], FloatArray] = cache(lambda: upper_limits(problem.rows, self.count))
        self.base = self._convex(problem.time)

    def _convex(self, time: TimeExpression) -> ConvexProblem:
        problem = self.problem
        guess = _first_guess(problem, time)
        return ConvexProblem(
            epigraph_of(time), time.used, problem.unit_cost, problem.rows, self.limits, guess, deadline=problem.deadline
        )

    def _growth(self) -> FloatArray:
        """The directions in which bandwidths can grow without end: 0 in dimensions if they cannot."""
        for row in self.problem.rows:
            if (row.coefficients > 0).all():
                return np.zeros(self.count)
        return growing_direction(self.problem.rows, self.count)

    # Least time

    def least_time(self) -> Optimum:
        """The least time; of several such designs the cheapest."""
        found = self._fastest()
        return self._optimum(found.bandwidth, found.bound)

    def _fastest(self) -> ConvexSolution:
        used = np.array(self.base.used)
        if (self.growth[used] > 0).any():
            return self._cheapest(self._fastest_unlimited())
        found = solve(replace(self.base, deadline=None))
        if found is None:
            raise NoDesign(NoDesignReason.INFEASIBLE, conflicting(self.problem.rows, self.count))
        self._check_deadline(found.bound)
        return self._cheapest(found)

    def _fastest_unlimited(self) -> ConvexSolution:
        """The least time where bandwidths can grow without end. Raises NoDesign if it is reached at none."""
        found = solve(replace(self.without_growing(), deadline=None))
        if found is None:
            raise NoDesign(NoDesignReason.INFEASIBLE, conflicting(self.problem.rows, self.count))
        self._check_deadline(found.bound)
        large = 1e9 * max(1.0, float(found.bandwidth.max()))
        bandwidth = found.bandwidth + large * self.growth / max(self.growth.max(), 1e-300)
        time = time_at(self.base.epigraph, bandwidth)
        if time > found.value * (1 + 1e-12):
            raise NoDesign(NoDesignReason.UNBOUNDED, dimensions=tuple(np.flatnonzero(self.growth).tolist()))
        return replace(found, bandwidth=bandwidth, value=time)

    def without_growing(self) -> ConvexProblem:
        """The problem in which dimensions that can grow without end take no time."""
        return self._convex(_without(self.problem.time, [bool(rise > 0) for rise in self.growth]))

    def _check_deadline(self, least: float) -> None:
        deadline = self.problem.deadline
        if deadline is not None and least > deadline * (1 + 1e-12):
            raise NoDesign(NoDesignReason.DEADLINE, time=least)

    def _cheapest(self, fastest: ConvexSolution) -> ConvexSolution:
        """The cheapest design with the least time: the dimensions that the time presses on keep their bandwidth.

        A time as convex as this one has one bandwidth only in each of these.
        """
        share = fastest.pressure / np.maximum(fastest.bandwidth, 1e-300) / max(fastest.value, 1e-300)
        free = share < _FREE
        cheaper = self.problem.unit_cost[free].sum() > 0
        if not free.any() or not cheaper:
            return fastest
        unit = np.eye(self.count)
        fixed = [Row(unit[k], float(fastest.bandwidth[k]), True, -1) for k in np.flatnonzero(~free)]
        tied = replace(
            self.base,
            rows=(*self.base.rows, *fixed),
            time_weight=0.0,
            cost_weight=1.0,
            deadline=fastest.value * (1 + _SAME_TIME),
            first_guess=np.maximum(np.where(free, self.base.first_guess, fastest.bandwidth), 1e-6),
        )
        found = solve(tied)
        if found is None or found.value > self.problem.cost(fastest.bandwidth) * (1 - 1e-9):
            return fastest
        unused = ~np.array(self.base.used) & (found.bandwidth < 1e-9 * found.bandwidth.max())
        for more in (0.0, 1e-9, 1e-8):  # the solver meets the deadline up to rounding only
            bandwidth = np.where(unused, 0.0, np.where(free, found.bandwidth * (1 + more), fastest.bandwidth))
            time = time_at(self.base.epigraph, bandwidth)
            if time <= fastest.value * (1 + 2 * _SAME_TIME):
                return replace(fastest, bandwidth=bandwidth, value=time)
        return fastest

    # Least cost

    def least_cost(self) -> Optimum:
        """The cheapest design, of those that meet the deadline if there is one. Raises NoDesign if it costs 0."""
        if self._least_cost_of_rows() <= 0 and self.problem.deadline is None:
            raise NoDesign(NoDesignReason.NO_FLOOR)
        found = self._cheapest_in_time()
        return self._optimum(found.bandwidth, found.bound)

    def _cheapest_in_time(self) -> ConvexSolution:
        """The least cost at the deadline. Raises NoDesign if it cannot be met."""
        found = solve(replace(self.base, time_weight=0.0, cost_weight=1.0))
        if found is None or found.value < 0:
            raise NoDesign(NoDesignReason.DEADLINE, time=self._least_possible_time())
        return found

    def _least_cost_of_rows(self) -> float:
        """The least cost without a deadline; 0 if it is negligible."""
        least = least_value(self.problem.rows, self.problem.unit_cost)
        assert least is not None
        return least if least > 1e-12 * self.problem.cost(self.base.first_guess) else 0.0

    # Least time * cost

    def least_product(self) -> Optimum:
        """The least time * cost: a search over the cost c of c times the least time that c buys.

        Each solution bounds the least time at every other cost from below. The next c is where c times the largest of
        these bounds is least; that is also the bound on time * cost.
        """
        low, size = self._least_cost(), float(self.problem.unit_cost.max())
        best, below, high = self._first_points()
        high = max(high, low)
        for _ in range(SEARCH_STEPS):
            bound, cost = below.least_product(low, high)
            best_value = self.problem.value(best.tolist())
            if bound >= best_value * (1 - TOLERANCE):
                break
            cost = below.untried(cost, low, high)
            found = solve(self._limited(cost, size))
            if found is None:
                low = cost
                continue
            below.add_dual(cost, found.dual, float(found.prices[-1]) / size)
            if self.problem.value(found.bandwidth.tolist()) < best_value:
                best = found.bandwidth
        bound, _ = below.least_product(low, high)
        return self._optimum(best, bound)

    def _limited(self, cost: float, size: float) -> ConvexProblem:
        """The least time with at most this cost; the last row says so, divided by `size`."""
        row = Row(self.problem.unit_cost / size, cost / size, False, -1)
        guess = self.base.first_guess * (cost / max(self.problem.cost(self.base.first_guess), 1e-300))
        return replace(self.base, rows=(*self.base.rows, row), first_guess=guess)

    def _least_cost(self) -> float:
        """The least cost that the rows allow; more than 0. Raises NoDesign if it is 0."""
        least = self._least_cost_of_rows()
        if least:
            return least
        if self.problem.deadline is None:
            raise NoDesign(NoDesignReason.NO_FLOOR)
        self._check_deadline(self._least_possible_time())
        return max(self._cheapest_in_time().bound, 1e-12 * self.problem.cost(self.base.first_guess))

    def _least_possible_time(self) -> float:
        found = solve(replace(self.without_growing(), deadline=None))
        return found.bound if found is not None else float("inf")

    def _first_points(self) -> tuple[FloatArray, TimeByCost, float]:
        """A first design, what is known of the least time by cost, and the largest cost that can be optimal."""
        below = TimeByCost()
        if not (self.growth[np.array(self.base.used)] > 0).any():
            fastest = self._fastest()
            cost = self.problem.cost(fastest.bandwidth)
            below.add_time(cost, fastest.bound)
            return fastest.bandwidth, below, cost
        least = self._least_possible_time()
        self._check_deadline(least)
        guess = self.base.first_guess
        time_unit, cost_unit = time_at(self.base.epigraph, guess), self.problem.cost(guess)
        found = solve(replace(self.base, time_weight=1.0, cost_weight=time_unit / cost_unit))
        if found is None:
            raise NoDesign(NoDesignReason.INFEASIBLE, conflicting(self.problem.rows, self.count))
        if least <= 1e-9 * time_at(self.base.epigraph, found.bandwidth):
            raise NoDesign(NoDesignReason.NO_COMPUTE)
        product = self.problem.value(found.bandwidth.tolist())
        high = product / least
        below.add_time(high, least)
        return found.bandwidth, below, high

    def _raise_without_bandwidth(self, bandwidth: FloatArray) -> None:
        """Raise NoDesign if the rows leave no bandwidth for a dimension with traffic."""
        least = 1e-6 * float(bandwidth.max())
        for k in np.flatnonzero(self.base.used):
            rows = (*self.problem.rows, Row(-np.eye(self.count)[k], -least, False, -1))
            if not is_feasible(rows, self.count):
                statements = tuple(s for s in conflicting(rows, self.count) if s >= 0)
                raise NoDesign(NoDesignReason.INFEASIBLE, statements)

    def _optimum(self, bandwidth: FloatArray, bound: float) -> Optimum:
        problem = self.problem
        negligible = ~np.array(self.base.used) & (bandwidth < 1e-9 * bandwidth.max())
        bandwidth = np.where(negligible, 0.0, bandwidth)
        rates = tuple(float(rate) for rate in bandwidth)
        if max((row.violation(bandwidth) for row in problem.rows), default=0.0) > _VIOLATION:
            self._raise_without_bandwidth(bandwidth)
        return Optimum(rates, problem.time.value(rates), problem.cost(rates), problem.value(rates), bound)


def _without(time: TimeExpression, dropped: Sequence[bool]) -> TimeExpression:
    """The time if traffic in some dimensions takes none."""
    sizes = tuple(b * 0 if drop else b for b, drop in zip(time.bytes, dropped, strict=True))
    parts = [(weight, largest([_without(o, dropped) for o in m.options])) for weight, m in time.maxima]
    own = TimeExpression(time.constant, sizes)
    return weighted_sum([(1, own), *parts], len(sizes))


def _first_guess(problem: DesignProblem, time: TimeExpression) -> FloatArray:
    """Bandwidths of a plausible size, in proportion to the square roots of the traffic."""
    epigraph = epigraph_of(time)
    _, traffic = epigraph.multipliers(1.0, np.ones(len(epigraph.options)))
    share = np.sqrt(np.where(traffic > 0, traffic, max(traffic.max(), 1.0)))
    share /= share.sum()
    limits = [
        row.limit / value for row in problem.rows if row.limit > 0 and (value := float(row.coefficients @ share)) > 0
    ]
    return share * (min(limits) if limits else 100.0 * len(share))
