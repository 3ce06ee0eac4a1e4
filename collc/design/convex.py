"""Convex design problems, solved with Clarabel; every solution comes with a lower bound from its multipliers.

minimize  time_weight * T + cost_weight * C
s.t.      linear rows, T <= deadline,   where T contains x_i = 1 / B_i as the second-order cone B_i x_i >= 1

Goulart, Chen: Clarabel: An interior-point solver for conic programs with quadratic objectives (2024).

A time expression as linear rows: one variable for each maximum, which is at least as large as its options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from collc.design.problem import FloatArray, Row
from collc.design.time_expression import Maximum, TimeExpression

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class LinearTime:
    """constant + bytes @ (1 / bandwidth) + maxima @ (values of the maxima); ns."""

    constant: float
    bytes: FloatArray
    maxima: FloatArray


@dataclass(frozen=True, slots=True)
class Epigraph:
    """A time, and the options of each maximum in it.

    options: (number of the maximum, option). A maximum comes after all those that its options contain.
    """

    time: LinearTime
    options: tuple[tuple[int, LinearTime], ...]

    @property
    def count(self) -> int:
        """Number of maxima."""
        return len(self.time.maxima)

    def multipliers(self, weight: float, shares: FloatArray) -> tuple[float, FloatArray]:
        """The constant and the bytes in each dimension of weight * time where each maximum is a mean of its options.

        shares: for each option how much it counts, 0 or more; those of a maximum are scaled to a sum of 1. The mean is
        never more than the maximum, so constant + bytes @ (1 / bandwidth) is a lower bound of weight * time.
        """
        constant, total = weight * self.time.constant, weight * self.time.bytes
        weights = weight * self.time.maxima
        members: list[list[int]] = [[] for _ in range(self.count)]
        for row, (number, _) in enumerate(self.options):
            members[number].append(row)
        for number in reversed(range(self.count)):
            own = np.maximum(shares[members[number]], 0.0)
            own = own / own.sum() if own.sum() > 0 else np.full(len(own), 1 / len(own))
            for row, share in zip(members[number], own * weights[number], strict=True):
                option = self.options[row][1]
                constant += share * option.constant
                total = total + share * option.bytes
                weights = weights + share * option.maxima
        return float(constant), total


def epigraph_of(time: TimeExpression) -> Epigraph:
    """The epigraph of a time."""
    numbers: dict[Maximum, int] = {}

    def number(node: TimeExpression) -> None:
        for _, maximum in node.maxima:
            if maximum not in numbers:
                for option in maximum.options:
                    number(option)
                numbers[maximum] = len(numbers)

    number(time)

    def linear(node: TimeExpression) -> LinearTime:
        maxima = np.zeros(len(numbers))
        for weight, maximum in node.maxima:
            maxima[numbers[maximum]] += float(weight)
        return LinearTime(float(node.constant), np.array([float(b) for b in node.bytes]), maxima)

    options = tuple((k, linear(option)) for maximum, k in numbers.items() for option in maximum.options)
    return Epigraph(linear(time), options)


ACCURACY: Final = 1e-10
"""A solution whose gap is this small, relative to the objective, needs no further round."""

ROUNDS: Final = 4
"""How often a problem is solved at most, each time in units in which the last solution is near 1."""


@dataclass(frozen=True, slots=True)
class ConvexProblem:
    """A convex design problem.

    used: whether each dimension has traffic. limits: upper limits of the bandwidths that follow from the rows (inf
    if there are none); computed when first needed. first_guess: typical bandwidths, more than 0.
    """

    epigraph: Epigraph
    used: tuple[bool, ...]
    unit_cost: FloatArray
    rows: tuple[Row, ...]
    limits: Callable[[], FloatArray]
    first_guess: FloatArray
    time_weight: float = 1.0
    cost_weight: float = 0.0
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class DualBound:
    """A lower bound: constant + 2 roots - charge, where `roots` is the sum of sqrt(pressure * price of bandwidth).

    charge: the prices of the rows times their limits. With all these prices t times as large,
    constant + 2 sqrt(t) roots - t charge is a lower bound too.
    """

    constant: float
    roots: float
    charge: float

    @property
    def value(self) -> float:
        """The bound."""
        return self.constant + 2 * self.roots - self.charge


@dataclass(frozen=True, slots=True)
class ConvexSolution:
    """bandwidth: GB/s. value: time_weight * T + cost_weight * C there. dual: no solution has less.

    prices: for each row, how much the bound falls when its limit grows by one. pressure: the bytes in each dimension
    that the bound counts; 0 if more bandwidth would not help.
    """

    bandwidth: FloatArray
    value: float
    dual: DualBound
    prices: FloatArray
    pressure: FloatArray

    @property
    def bound(self) -> float:
        """No solution has less."""
        return self.dual.value

    @property
    def gap(self) -> float:
        """(value - bound) / value."""
        return (self.value - self.bound) / abs(self.value) if self.value else 0.0


def solve(problem: ConvexProblem) -> ConvexSolution | None:
    """The solution; None if the solver finds that there is none."""
    guess, best = problem.first_guess, None
    for _ in range(ROUNDS):
        found = _solve_scaled(problem, guess)
        if found is None:
            return best
        if best is None or abs(found.gap) < abs(best.gap):
            best = found
        if abs(best.gap) <= ACCURACY:
            break
        guess = np.where(problem.used, np.maximum(best.bandwidth, 1e-9 * best.bandwidth.max()), best.bandwidth.max())
    return best


class _ConeProgram:
    """The rows of a problem: bandwidths in units of `scale`, times and maxima in units of what they are there.

    The variables are the bandwidths, the reciprocals of those that are used, and the maxima. The rows are equalities,
    then inequalities, then three for each second-order cone.
    """

    def __init__(self, problem: ConvexProblem, scale: FloatArray) -> None:
        self.problem = problem
        self.scale = scale
        self.used = np.flatnonzero(problem.used)
        self.first_x = len(scale)
        self.first_u = self.first_x + len(self.used)
        self.width = self.first_u + problem.epigraph.count
        self.maximum_units = np.maximum(values_of_maxima(problem.epigraph, scale), 1e-300)
        self.time_unit = max(time_at(problem.epigraph, scale), 1e-300)
        self.unit = problem.time_weight * self.time_unit + problem.cost_weight * float(problem.unit_cost @ scale)
        self.entries: list[FloatArray] = []
        self.limits: list[float] = []
        self.sizes: list[float] = []
        """What each row was divided by."""
        self._add_rows()

    def _add_rows(self) -> None:
        problem = self.problem
        self.order = sorted(range(len(problem.rows)), key=lambda k: not problem.rows[k].equal)
        for k in self.order:
            row = np.zeros(self.width)
            row[: self.first_x] = problem.rows[k].coefficients * self.scale
            self._add(row, problem.rows[k].limit, float(np.abs(row).max()) or 1.0)
        for k in np.flatnonzero(~np.array(problem.used)):
            self._add(-np.eye(self.width)[k], 0.0)
        self.first_option = len(self.entries)
        for number, option in problem.epigraph.options:
            row = self._time(option)
            row[self.first_u + number] -= self.maximum_units[number]
            self._add(row, -option.constant, float(self.maximum_units[number]))
        self.total = self._time(problem.epigraph.time)
        self.deadline = len(self.entries)
        if problem.deadline is not None:
            self._add(self.total, problem.deadline - problem.epigraph.time.constant, self.time_unit)
        self.equalities = sum(row.equal for row in problem.rows)
        self.inequalities = len(self.entries) - self.equalities
        for k, dimension in enumerate(self.used):
            self._add_reciprocal(int(dimension), self.first_x + k)

    def _add(self, row: FloatArray, limit: float, size: float = 1.0) -> None:
        self.entries.append(row / size)
        self.limits.append(limit / size)
        self.sizes.append(size)

    def _time(self, time: LinearTime) -> FloatArray:
        """A time without its constant, in ns."""
        row = np.zeros(self.width)
        row[self.first_x : self.first_u] = (time.bytes / self.scale)[self.used]
        row[self.first_u :] = time.maxima * self.maximum_units
        return row

    def _add_reciprocal(self, bandwidth: int, reciprocal: int) -> None:
        """Rows for b x >= 1: (b + x, b - x, 2) is in the second-order cone."""
        for sign in (1.0, -1.0):
            row = np.zeros(self.width)
            row[bandwidth], row[reciprocal] = -1.0, -sign
            self._add(row, 0.0)
        self._add(np.zeros(self.width), 2.0)

    @property
    def objective(self) -> FloatArray:
        """The objective without its constant, in units of `unit`."""
        found = self.problem.time_weight * self.total
        found[: self.first_x] += self.problem.cost_weight * self.problem.unit_cost * self.scale
        return found / self.unit

    def solution(self, variables: FloatArray, multipliers: FloatArray) -> ConvexSolution:
        """The solution in the units of the problem, with the bound of the multipliers."""
        problem = self.problem
        bandwidth = np.maximum(variables[: self.first_x], 0.0) * self.scale
        dual = multipliers * self.unit / np.array(self.sizes)
        prices = np.zeros(len(problem.rows))
        for position, k in enumerate(self.order):
            prices[k] = dual[position] if problem.rows[k].equal else max(dual[position], 0.0)
        deadline_price = 0.0 if problem.deadline is None else max(float(dual[self.deadline]), 0.0)
        shares = dual[self.first_option : self.first_option + len(problem.epigraph.options)]
        bound, pressure = dual_bound(problem, prices, deadline_price, shares)
        if not np.isfinite(bound.charge):  # a price that rounding made positive, on a row that does not bind
            bound, pressure = dual_bound(problem, np.zeros(len(prices)), deadline_price, shares)
        cost = float(problem.unit_cost @ bandwidth)
        value = problem.time_weight * time_at(problem.epigraph, bandwidth) + problem.cost_weight * cost
        return ConvexSolution(bandwidth, value, bound, prices, pressure)


def _solve_scaled(problem: ConvexProblem, scale: FloatArray) -> ConvexSolution | None:
    """The solution of a problem, computed in units of `scale`; None if there is none."""
    import clarabel as package
    from scipy import sparse  # pyright: ignore[reportMissingTypeStubs]

    clarabel, csc = cast("Any", package), cast("Any", sparse).csc_matrix
    program = _ConeProgram(problem, scale)
    cones = [
        *([clarabel.ZeroConeT(program.equalities)] if program.equalities else []),
        *([clarabel.NonnegativeConeT(program.inequalities)] if program.inequalities else []),
        *(clarabel.SecondOrderConeT(3) for _ in program.used),
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = settings.tol_ktratio = 1e-13
    settings.max_iter = 200
    square, matrix = csc((program.width, program.width)), csc(np.array(program.entries))
    solver = clarabel.DefaultSolver(square, program.objective, matrix, np.array(program.limits), cones, settings)
    answer = solver.solve()
    variables, multipliers = np.array(answer.x, float), np.array(answer.z, float)
    if "Infeasible" in str(answer.status) or not (np.isfinite(variables).all() and np.isfinite(multipliers).all()):
        return None
    return program.solution(variables, multipliers)


def dual_bound(
    problem: ConvexProblem, prices: FloatArray, deadline_price: float, shares: FloatArray
) -> tuple[DualBound, FloatArray]:
    """A lower bound of the objective for any multipliers (of inequalities: 0 or more), and the pressure.

    With the multipliers the objective plus the violated rows is at least c + sum of a_i / B_i + g_i B_i, and each term
    is at least 2 sqrt(a_i g_i); where rounding makes g_i negative, B_i is at most its upper limit.
    """
    constant, pressure = problem.epigraph.multipliers(problem.time_weight + deadline_price, shares)
    slope = problem.cost_weight * problem.unit_cost
    charge = 0.0
    for price, row in zip(prices, problem.rows, strict=True):
        slope = slope + price * row.coefficients
        charge += price * row.limit
    if problem.deadline is not None:
        constant -= deadline_price * problem.deadline
    if (slope < 0).any():
        limits = problem.limits()
        charge -= float(np.sum(slope[slope < 0] * limits[slope < 0]))
    roots = float(np.sqrt(pressure * np.maximum(slope, 0.0)).sum())
    return DualBound(constant, roots, charge), pressure


def values_of_maxima(epigraph: Epigraph, bandwidth: FloatArray) -> FloatArray:
    """The value of each maximum at bandwidths in GB/s."""
    values = np.full(epigraph.count, -np.inf)
    for number, option in epigraph.options:
        values[number] = max(values[number], _time_of(option, bandwidth, values))
    return values


def time_at(epigraph: Epigraph, bandwidth: FloatArray) -> float:
    """The time in ns at bandwidths in GB/s; infinite if a dimension with traffic has none."""
    return _time_of(epigraph.time, bandwidth, values_of_maxima(epigraph, bandwidth))


def _time_of(time: LinearTime, bandwidth: FloatArray, maxima: FloatArray) -> float:
    sent, inner = time.bytes > 0, time.maxima > 0
    if (bandwidth[sent] <= 0).any():
        return float("inf")
    return time.constant + float((time.bytes[sent] / bandwidth[sent]).sum()) + float(time.maxima[inner] @ maxima[inner])
