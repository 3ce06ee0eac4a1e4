"""Convex design problems, solved with Clarabel; every solution comes with a lower bound from its multipliers.

minimize  time + cost_weight * cost   (or the cost alone)
s.t.      linear rows, time <= deadline;   the time contains x_i = 1 / B_i as the second-order cone B_i x_i >= 1

Goulart, Chen: Clarabel: An interior-point solver for conic programs with quadratic objectives (2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import numpy as np

from collc.design.problem import FloatArray, Maximum, Row, TimeExpression, maxima_of
from collc.ten.arrays import Int64Array


@dataclass(frozen=True, slots=True)
class LinearTime:
    """A time as linear rows over reciprocal bandwidths and maxima: first itself, then each option of each maximum.

    constants: float64[rows], ns. bytes: float64[rows, dimensions]. weights: float64[rows, maxima]. number: int64[rows -
    1], the maximum of each option. A maximum comes after those that its options contain.
    """

    maxima: tuple[Maximum, ...]
    constants: FloatArray
    bytes: FloatArray
    weights: FloatArray
    number: Int64Array

    @classmethod
    def of(cls, time: TimeExpression) -> LinearTime:
        """The rows of a time."""
        numbers = maxima_of(time)
        options = [(option, number) for maximum, number in numbers.items() for option in maximum.options]
        rows = [time, *(option for option, _ in options)]
        weights = np.zeros((len(rows), len(numbers)))
        for row, expression in enumerate(rows):
            for weight, maximum in expression.maxima:
                weights[row, numbers[maximum]] += float(weight)
        constants = np.array([float(row.constant) for row in rows])
        sizes = np.array([[float(size) for size in row.bytes] for row in rows])
        return cls(tuple(numbers), constants, sizes, weights, np.array([number for _, number in options], np.int64))

    def multipliers(self, weight: float, shares: FloatArray) -> tuple[float, FloatArray]:
        """The constant and the bytes in each dimension of weight * time if each maximum is a mean of its options.

        shares: for each option how much it counts, 0 or more, in units of the sum over its maximum. The mean is never
        more than the maximum, so constant + bytes @ (1 / bandwidth) is a lower bound of weight * time.
        """
        factors = np.zeros(len(self.constants))
        factors[0] = weight
        for number in reversed(range(len(self.maxima))):
            options = np.flatnonzero(self.number == number)
            own = np.maximum(shares[options], 0.0)
            own = own / own.sum() if own.sum() > 0 else np.full(len(own), 1 / len(own))
            factors[1 + options] = own * float(factors @ self.weights[:, number])
        return float(factors @ self.constants), factors @ self.bytes


ACCURACY: Final = 1e-10
"""A solution whose gap is this small, relative to the objective, needs no further round."""

ROUNDS: Final = 4
"""How often a problem is solved at most, each time in units in which the last solution is near 1."""

_LOOSE: Final = 1e4
"""A row is left out if its limit is this many times its largest term in units in which the solution is near 1."""

VIOLATION: Final = 1e-6
"""A row or deadline holds if it is violated by less, relative to its limit."""


@dataclass(frozen=True, slots=True)
class ConvexProblem:
    """A convex design problem. limits: the largest bandwidth of each dimension that the rows allow; inf if any.

    guess: typical bandwidths, more than 0. time_weight, cost_weight: of both in the objective.
    """

    time: TimeExpression
    linear: LinearTime
    unit_cost: FloatArray
    rows: tuple[Row, ...]
    limits: FloatArray
    guess: FloatArray
    time_weight: float = 1.0
    cost_weight: float = 0.0
    deadline: float | None = None

    def value(self, bandwidth: FloatArray) -> float:
        """The objective at bandwidths in GB/s."""
        cost = self.cost_weight * float(self.unit_cost @ bandwidth)
        return (self.time_weight * self.time.value(bandwidth.tolist()) if self.time_weight else 0.0) + cost


class DualBound(NamedTuple):
    """A lower bound: constant + 2 roots - charge, where `roots` is the sum of sqrt(pressure * price of bandwidth).

    charge: the prices of the rows times their limits. With all these prices t times as large,
    constant + 2 sqrt(t) roots - t charge is a lower bound too.
    """

    constant: float
    roots: float
    charge: float


@dataclass(frozen=True, slots=True)
class ConvexSolution:
    """bandwidth: GB/s. value: the objective there. dual: the bound in parts.

    pressure: the bytes in each dimension that the bound counts; 0 if more bandwidth would not help. slope: the price of
    bandwidth. The bound is that of pressure / B + slope * B in each dimension.
    """

    bandwidth: FloatArray
    value: float
    dual: DualBound
    pressure: FloatArray
    slope: FloatArray

    @property
    def bound(self) -> float:
        """No solution has less."""
        return self.dual.constant + 2 * self.dual.roots - self.dual.charge

    @property
    def gap(self) -> float:
        """(value - bound) / value."""
        return (self.value - self.bound) / abs(self.value) if self.value else 0.0


def solve(problem: ConvexProblem) -> ConvexSolution | None:
    """The solution; None if the solver finds that there is none."""
    guess, best, least, used = problem.guess, None, float("inf"), np.array(problem.time.has_traffic)
    for _ in range(ROUNDS):
        solution = _solve_scaled(problem, guess, np.flatnonzero(used))
        if solution is None or not np.isfinite(solution.value):
            return best
        gap = (
            abs(solution.gap) if all(row.violation(solution.bandwidth) < VIOLATION for row in problem.rows) else np.inf
        )
        if best is None or gap < least:
            best, least = solution, gap
        if least <= ACCURACY:
            break
        largest = best.bandwidth.max()
        guess = np.where(used, np.maximum(best.bandwidth, 1e-9 * largest), largest)
    return best


def _solve_scaled(problem: ConvexProblem, scale: FloatArray, used: Int64Array) -> ConvexSolution | None:
    """The solution of a problem, computed in units of `scale` for bandwidths; None if there is none.

    The variables are the bandwidths, the reciprocals of those in `used`, and the maxima. The rows are equalities, then
    inequalities, then three for each second-order cone.
    """
    linear, count = problem.linear, len(scale)
    width = count + len(used) + len(linear.maxima)
    maxima = [max(maximum.value(scale.tolist()), 1e-300) for maximum in linear.maxima]
    units = np.concatenate([scale, 1 / scale[used], maxima])
    times = np.hstack([np.zeros((len(linear.constants), count)), linear.bytes[:, used], linear.weights])
    objective = problem.time_weight * times[0]
    objective[:count] += problem.cost_weight * problem.unit_cost
    times[1 + np.arange(len(linear.number)), count + len(used) + linear.number] -= 1.0

    equal = [k for k, row in enumerate(problem.rows) if row.equal]
    terms = [float(np.abs(row.coefficients * scale).max()) for row in problem.rows]
    order = equal + [k for k, row in enumerate(problem.rows) if not row.equal and row.limit <= _LOOSE * terms[k]]
    rows = np.zeros((len(order), width))
    for position, k in enumerate(order):
        rows[position, :count] = problem.rows[k].coefficients
    unused = np.setdiff1d(np.arange(count), used)
    total, deadline = (times[:0], []) if problem.deadline is None else (times[:1], [problem.deadline])
    matrix = np.vstack([rows, -np.eye(width)[unused], times[1:], total]) * units
    limits = np.concatenate([[problem.rows[k].limit for k in order], 0.0 * unused, -linear.constants[1:], deadline])
    limits[len(limits) - len(deadline) :] -= linear.constants[0]
    sizes = np.maximum(np.abs(matrix).max(axis=1), 1e-300)
    unit = max(problem.value(scale), 1e-300)
    pairs = np.stack([used, count + np.arange(len(used))], axis=1)
    answer = _clarabel(objective * units / unit, matrix / sizes[:, None], limits / sizes, len(equal), pairs)
    if answer is None:
        return None

    bandwidth, dual = np.maximum(answer[0][:count], 0.0) * scale, answer[1][: len(sizes)] * unit / sizes
    prices = np.zeros(len(problem.rows))
    for position, k in enumerate(order):
        prices[k] = dual[position] if problem.rows[k].equal else max(dual[position], 0.0)
    shares = dual[len(order) + len(unused) :][: len(linear.number)]
    deadline_price = max(float(dual[-1]), 0.0) if deadline else 0.0
    proof = dual_bound(problem, prices, deadline_price, shares)
    if not np.isfinite(proof[0].charge):  # a price that rounding made positive, on a row that does not bind
        proof = dual_bound(problem, np.zeros(len(prices)), deadline_price, shares)
    return ConvexSolution(bandwidth, problem.value(bandwidth), *proof)


def _clarabel(
    objective: FloatArray, matrix: FloatArray, limits: FloatArray, equalities: int, reciprocals: Int64Array
) -> tuple[FloatArray, FloatArray] | None:
    """The variables and multipliers of the least objective; None if there is none.

    The first rows of matrix @ variables <= limits are equalities. reciprocals: pairs of variables whose product is 1 or
    more: (b + x, b - x, 2) is in the second-order cone.
    """
    import clarabel as package
    from scipy import sparse  # pyright: ignore[reportMissingTypeStubs]

    clarabel, csc = cast("Any", package), cast("Any", sparse).csc_matrix
    cones = np.zeros((3 * len(reciprocals), len(objective)))
    for k, (bandwidth, reciprocal) in enumerate(reciprocals.tolist()):
        cones[3 * k : 3 * k + 2, [bandwidth, reciprocal]] = [[-1.0, -1.0], [-1.0, 1.0]]
    sizes = [
        *([clarabel.ZeroConeT(equalities)] if equalities else []),
        *([clarabel.NonnegativeConeT(len(matrix) - equalities)] if len(matrix) > equalities else []),
        *(clarabel.SecondOrderConeT(3) for _ in reciprocals),
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = settings.tol_ktratio = 1e-13
    matrix, limits = np.vstack([matrix, cones]), np.concatenate([limits, np.tile([0.0, 0.0, 2.0], len(reciprocals))])
    square = csc((len(objective), len(objective)))
    answer = clarabel.DefaultSolver(square, objective, csc(matrix), limits, sizes, settings).solve()
    variables, multipliers = np.array(answer.x, float), np.array(answer.z, float)
    is_finite = bool(np.isfinite(variables).all() and np.isfinite(multipliers).all())
    return (variables, multipliers) if is_finite and "Infeasible" not in str(answer.status) else None


def dual_bound(
    problem: ConvexProblem, prices: FloatArray, deadline_price: float, shares: FloatArray
) -> tuple[DualBound, FloatArray, FloatArray]:
    """A lower bound of the objective for any multipliers (of inequalities: 0 or more), with pressure and slope.

    With the multipliers the objective plus the violated rows is at least c + sum of a_i / B_i + g_i B_i, and each term
    is at least 2 sqrt(a_i g_i); if rounding makes g_i negative, B_i is at most its upper limit.
    """
    constant, pressure = problem.linear.multipliers(problem.time_weight + deadline_price, shares)
    slope, charge = problem.cost_weight * problem.unit_cost, 0.0
    for price, row in zip(prices, problem.rows, strict=True):
        slope = slope + price * row.coefficients
        charge += price * row.limit
    if problem.deadline is not None:
        constant -= deadline_price * problem.deadline
    negative = slope < 0
    charge -= float(np.sum(slope[negative] * problem.limits[negative]))
    return DualBound(constant, float(np.sqrt(pressure * np.maximum(slope, 0.0)).sum()), charge), pressure, slope
