"""The file for SMT solvers: is there a design as good as the solution, and one a thousandth better?

Why no design has less time * cost: ranges of the cost, in each of which linear constraints already say so.

In a range low <= cost <= high, time * cost <= limit implies time <= limit (low + high - cost) / (low high), since
1 / cost is convex; and B x >= 1 implies x >= 2 / b - B / b^2 for any b > 0. With both a range is a linear program. The
range is refuted if the least of time + limit cost / (low high) is above limit (1 / low + 1 / high); the bandwidths b
are those at which the linear program has the same least value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isinf
from typing import Final

import numpy as np

from collc.design.convex import ConvexSolution, solve
from collc.design.optimize import DesignSearch
from collc.design.problem import DesignProblem, Objective, rows_of
from collc.design.time_expression import Maximum, TimeExpression, maxima_of
from collc.emit.libra.model import LibraModel

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
    """Ranges from 0 to inf, in none of which time * cost <= limit (ns * dollars); () if one of them has a design."""
    search = DesignSearch(problem)
    cheapest, fastest = solve(search.by_cost), solve(search.by_time)
    if cheapest is None or fastest is None or min(cheapest.bound, fastest.bound) <= 0:
        return ()
    low = _cost_in_digits(cheapest.bound * (1 - MARGIN))
    high = _cost_in_digits(max(limit / (fastest.bound * (1 - 2 * MARGIN)), low))
    found = [CostRange(0.0, low, _tangent_points(cheapest))]
    waiting = [(low, high)] if low < high else []
    while waiting:
        low, high = waiting.pop()
        weight = limit / low / high
        least = solve(replace(search.base, cost_weight=weight))
        if least is not None and least.bound > weight * (low + high) * (1 + MARGIN):
            found.append(CostRange(low, high, _tangent_points(least)))
            continue
        middle = _cost_in_digits((low * high) ** 0.5)
        if not low < middle < high or len(found) + len(waiting) > MOST_RANGES:
            return ()
        waiting += [(middle, high), (low, middle)]
    return (*found, CostRange(found[-1].high, float("inf"), _tangent_points(fastest)))


def _cost_in_digits(cost: float) -> float:
    """Nine digits, so that the same decimal number is written at both sides."""
    return float(f"{cost:.9g}")


def _tangent_points(solution: ConvexSolution) -> tuple[float, ...]:
    """The bandwidths at which a / B + g B is least: with tangents there, linear arithmetic gives the bound."""
    known = (solution.pressure > 0) & (solution.slope > 0)
    points = np.sqrt(np.where(known, solution.pressure, 0.0) / np.where(known, solution.slope, 1.0))
    return tuple(points.tolist())


SLACK: Final = Fraction(1, 10**6)
"""How much more than the computed optimum the first question allows, since that is rounded."""

NEAR: Final = Fraction(1, 10**5)
"""How far from the solution, relative to it, the first question looks for a design."""

BETTER: Final = Fraction(999, 1000)


def smt_text(model: LibraModel) -> str:
    """NAME.smt2: two questions in exact rationals (QF_NRA), to which the answers are sat and unsat.

    The first one asks for a design near the solution, since solvers may not find one elsewhere.
    In the second one linear constraints that follow from B x >= 1 and from the limit of time * cost are in their place:
    solvers decide linear arithmetic, and if these have no solution, what they follow from has none.
    B_i: GB/s. x_i: at least 1 / B_i. m_k: at least each of its options. time in ms, cost in dollars.
    """
    lines = [
        f"; Design {model.name}. Expected answers: sat, unsat.",
        "(set-logic QF_NRA)",
        *(f"(declare-const B{k} Real)" for k in range(len(model.dimensions))),
        *(f"(declare-const x{k} Real)" for k, used in enumerate(model.time.has_traffic) if used),
    ]
    maxima = maxima_of(model.time)
    for maximum, k in maxima.items():
        lines.append(f"(declare-const m{k} Real)")
        lines += [f"(assert (>= m{k} {_time(option, maxima)}))" for option in maximum.options]
    lines += [f"(assert (>= B{k} 0))" for k in range(len(model.dimensions))]
    lines += [f"(assert (> x{k} 0))" for k, used in enumerate(model.time.has_traffic) if used]
    for row in model.rows:
        operator = row.operator.replace("==", "=")
        lines.append(f"(assert ({operator} {_sum(row.coefficients)} {_number(row.limit)}))")
    lines.append(f"(define-fun time () Real {_time(model.time, maxima, 10**6)})")
    lines.append(f"(define-fun cost () Real {_sum([d.unit_cost for d in model.dimensions])})")
    if model.deadline is not None:
        lines.append(f"(assert (<= time {_number(model.deadline / 10**6)}))")
    value = {"time": "time", "cost": "cost"}.get(model.objective, "(* time cost)")
    unit = 1 if model.objective == "cost" else 10**6
    best = Fraction(f"{model.best_value / unit:.15g}")
    products = [f"(>= (* B{k} x{k}) 1)" for k, used in enumerate(model.time.has_traffic) if used]
    good = [*_near_solution(model), *products, _as_good(model, value, best * (1 + SLACK))]
    lines += _question("as good as the solution, near it", good)
    limit = f"(<= {value} {_number(best * BETTER)})"
    implied = _consequences(model, best * BETTER)
    asked = implied if model.objective == "time * cost" and implied else [limit, *(implied or products)]
    lines += [f"; That {' '.join([limit, *products])} implies the following."]
    lines += _question("better by a thousandth", asked)
    return "\n".join([*lines, ""])


def _question(name: str, terms: list[str]) -> list[str]:
    """Whether there is a design for which all terms hold."""
    return [
        f"; Is there a design {name}?",
        "(push 1)",
        *(f"(assert {term})" for term in terms),
        "(check-sat)",
        "(pop 1)",
    ]


def _as_good(model: LibraModel, value: str, limit: Fraction) -> str:
    """That a value is at most a limit; of time * cost, by limits of both whose product it is, which is linear."""
    if model.objective != "time * cost":
        return f"(<= {value} {_number(limit)})"
    cost = Fraction(f"{model.best_cost:.15g}") * (1 + SLACK / 2)
    return f"(and (<= cost {_number(cost)}) (<= time {_number(limit / cost)}))"


def _near_solution(model: LibraModel) -> list[str]:
    """That bandwidths are near those of the solution."""
    found: list[str] = []
    for k, rate in enumerate(model.bandwidth):
        at = Fraction(f"{rate:.9g}")
        found.append(f"(and (>= B{k} {_number(at * (1 - NEAR))}) (<= B{k} {_number(at * (1 + NEAR))}))")
    return found


def _consequences(model: LibraModel, limit: Fraction) -> list[str]:
    """Linear constraints that follow from a limit of the objective and from B x >= 1, and contradict each other.

    Of time * cost (ms * dollars): in one of these ranges of the cost, time is below a line, and each x above a tangent.
    """
    if model.objective != "time * cost":
        return _tangents(model, model.bandwidth)
    ranges = cost_ranges(_problem(model), float(limit) * 10**6)
    return [f"(or {' '.join(_in_range(model, one, limit) for one in ranges)})"] if ranges else []


def _in_range(model: LibraModel, one: CostRange, limit: Fraction) -> str:
    """That the cost is in a range, with what follows from it."""
    parts = _tangents(model, one.tangents)
    low = Fraction(f"{one.low:.9g}")
    if isinf(one.high):
        parts += [f"(>= cost {_number(low)})", f"(<= time {_number(limit / low)})"]
    else:
        high = Fraction(f"{one.high:.9g}")
        parts += [f"(<= cost {_number(high)})"]
        if low:
            slope = limit / (low * high)
            line = f"(+ time (* {_number(slope)} cost))"
            parts += [f"(>= cost {_number(low)})", f"(<= {line} {_number(slope * (low + high))})"]
    return f"(and {' '.join(parts)})"


def _tangents(model: LibraModel, bandwidth: Sequence[float]) -> list[str]:
    """Of each 1 / B the tangent at a bandwidth, if this is not 0; x is above it."""
    found: list[str] = []
    for k, (used, rate) in enumerate(zip(model.time.has_traffic, bandwidth, strict=True)):
        if used and rate:
            at = Fraction(f"{rate:.9g}")
            found.append(f"(>= (+ x{k} (* {_number(1 / at**2)} B{k})) {_number(2 / at)})")
    return found


def _problem(model: LibraModel) -> DesignProblem:
    deadline = None if model.deadline is None else float(model.deadline)
    unit_cost = np.array([float(d.unit_cost) for d in model.dimensions])
    rows = rows_of(model.rows)
    return DesignProblem(model.dimensions, model.time, unit_cost, rows, deadline, Objective(model.objective))


def _time(time: TimeExpression, maxima: Mapping[Maximum, int], unit: int = 1) -> str:
    """A time over `unit` as a term."""
    parts = [_number(time.constant / unit)] if time.constant else []
    parts += [f"(* {_number(size / unit)} x{k})" for k, size in enumerate(time.bytes) if size]
    return _sum_of([*parts, *(f"(* {_number(weight / unit)} m{maxima[m]})" for weight, m in time.maxima)])


def _sum(coefficients: list[Fraction] | tuple[Fraction, ...]) -> str:
    return _sum_of([f"(* {_number(value)} B{k})" for k, value in enumerate(coefficients) if value])


def _sum_of(parts: list[str]) -> str:
    return "0.0" if not parts else parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"


def _number(value: Fraction) -> str:
    """An exact rational."""
    size = abs(value)
    text = f"{size.numerator}.0" if size.denominator == 1 else f"(/ {size.numerator}.0 {size.denominator}.0)"
    return f"(- {text})" if value < 0 else text
