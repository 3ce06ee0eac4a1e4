"""A design with its solution as files for solvers: JSON, CPLEX LP and MPS, and SMT-LIB.

The LP files have times in ms and costs in thousands of dollars; a maximum is a time over the largest number in it, so
that no coefficient is far from 1. The SMT-LIB file asks: is there a design as good as the solution, and one a
thousandth better?

Why no design has less time * cost: ranges of the cost, in each of which linear constraints already say so.
In a range low <= cost <= high, time * cost <= limit implies time <= limit (low + high - cost) / (low high), since
1 / cost is convex; and B x >= 1 implies x >= 2 / b - B / b^2 for any b > 0. With both a range is a linear program. The
range is refuted if the least of time + limit cost / (low high) is above limit (1 / low + 1 / high); the bandwidths b
are those at which the linear program has the same least value.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isinf
from typing import Final

import numpy as np

from collc.design.convex import ConvexSolution, solve
from collc.design.optimize import DesignSearch
from collc.design.problem import (
    DesignProblem,
    ExactRow,
    Maximum,
    NetworkDimension,
    Objective,
    TimeExpression,
    maxima_of,
    rows_of,
)
from collc.ten.training import PartCosts, Workload

MEGA: Final = 10**6
KILO: Final = 10**3
_MPS_TYPES: Final = {"<=": "L", ">=": "G", "==": "E"}


def lp_text(model: LibraModel) -> str:
    """NAME.lp: the whole problem in the LP format of CPLEX, with B_i x_i >= 1 as quadratic rows.

    B_i is the bandwidth of dimension i, x_i at least 1 / B_i, m_k a maximum, T the time and C the cost.
    """
    maxima = maxima_of(model.time)
    rows = [f" time: T{_minus(model.time, maxima, MEGA)} >= {_decimal(model.time.constant / MEGA)}"]
    for option, k in [(option, k) for maximum, k in maxima.items() for option in maximum.options]:
        rows.append(f" m{k}_option: m{k}{_minus(option, maxima)} >= {_decimal(option.constant)}")
    cost = "".join(f" - {_decimal(d.unit_cost / KILO)} B{k}" for k, d in enumerate(model.dimensions))
    rows.append(f" cost: C{cost} = 0")
    for k, row in enumerate(map(_scale_row, model.rows)):
        left = "".join(_term(value, f"B{i}") for i, value in enumerate(row.coefficients) if value)
        rows.append(f" require{k}:{left} {row.operator.replace('==', '=')} {_decimal(row.limit)}")
    if model.deadline is not None:
        rows.append(f" deadline: T <= {_decimal(model.deadline / MEGA)}")
    rows += [f" reciprocal{k}: [ B{k} * x{k} ] >= 1" for k, used in enumerate(model.time.has_traffic) if used]
    objective = {"time": "T", "cost": "C"}.get(model.objective, "[ 2 T * C ] / 2")
    names = ["T", "C", *(f"B{k}" for k in range(len(model.dimensions)))]
    seen = Counter[str]()
    distinct: list[str] = []
    for row in rows:
        name, _, rest = row.partition(":")
        seen[name] += 1
        distinct.append(row if seen[name] == 1 else f"{name}_{seen[name]}:{rest}")
    return "\n".join(
        [
            f"\\ Design {model.name}: bandwidths B in GB/s, time T in ms, cost C in thousands of dollars",
            "Minimize",
            f" objective: {objective}",
            "Subject To",
            *distinct,
            "Bounds",
            *(f" {name} >= 0" for name in names),
            "End",
            "",
        ]
    )


def _minus(time: TimeExpression, maxima: Mapping[Maximum, int], unit: int = 1) -> str:
    """A time without its constant, divided by `unit` and subtracted: " - 3 x0 - 2 m1"."""
    sizes = [_term(-size / unit, f"x{k}") for k, size in enumerate(time.bytes) if size]
    return "".join([*sizes, *(_term(-weight / unit, f"m{maxima[maximum]}") for weight, maximum in time.maxima)])


def _scale_row(row: ExactRow) -> ExactRow:
    """A constraint whose largest coefficient is 1 or -1."""
    scale = max(abs(value) for value in row.coefficients)
    return replace(row, coefficients=tuple(value / scale for value in row.coefficients), limit=row.limit / scale)


def mps_text(model: LibraModel) -> str:
    """NAME_deadline.mps: the least cost at which each communication is as fast as in the solution, a pure LP.

    A communication of a bytes in dimension i that ends after t needs B_i >= a / t. The constraints of the design hold
    too, so that the optimum of `cost` and of `time * cost` is an optimum of this program.
    """
    rounding = 1 - 1e-9 if model.rows else 1.0  # the solution keeps the constraints up to its own rounding errors
    floors = [floor * rounding for floor in deadline_floors(model)]
    rows = [_scale_row(row) for row in model.rows]
    lines = [f"NAME          {model.name[:60]}", "ROWS", " N  cost"]
    lines += [f" G  floor{k}" for k in range(len(floors))]
    lines += [f" {_MPS_TYPES[row.operator]}  require{k}" for k, row in enumerate(rows)]
    lines.append("COLUMNS")
    for k, dimension in enumerate(model.dimensions):
        lines.append(f"    B{k}  cost  {_decimal(dimension.unit_cost / KILO)}")
        lines.append(f"    B{k}  floor{k}  1")
        entries = [(i, row.coefficients[k]) for i, row in enumerate(rows) if row.coefficients[k]]
        lines += [f"    B{k}  require{i}  {_decimal(value)}" for i, value in entries]
    lines.append("RHS")
    lines += [f"    RHS  floor{k}  {_decimal(Fraction(floor))}" for k, floor in enumerate(floors)]
    lines += [f"    RHS  require{k}  {_decimal(row.limit)}" for k, row in enumerate(rows)]
    return "\n".join([*lines, "ENDATA", ""])


def deadline_floors(model: LibraModel) -> tuple[float, ...]:
    """The least bandwidth of each dimension in GB/s at which no communication is slower than in the solution."""
    floors = [0.0] * len(model.dimensions)

    def visit(time: TimeExpression, limit: float | None) -> None:
        """limit: the time in ns that a lone communication may take; None: as long as in the solution."""
        sent = [k for k, size in enumerate(time.bytes) if size]
        for k in sent:
            if limit is not None and len(sent) == 1 and not time.maxima:
                floors[k] = max(floors[k], float(time.bytes[k]) / (limit - float(time.constant)))
            else:
                floors[k] = max(floors[k], model.bandwidth[k])
        for _, maximum in time.maxima:
            for option in maximum.options:
                visit(option, maximum.value(model.bandwidth))

    visit(model.time, None)
    return tuple(floors)


def _term(value: Fraction, name: str) -> str:
    return f" {'-' if value < 0 else '+'} {_decimal(abs(value))} {name}"


def _decimal(value: Fraction) -> str:
    """A number in floating point, with as few digits as give it back."""
    return repr(float(value)).removesuffix(".0")


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
    refuted = [CostRange(0.0, low, _tangent_points(cheapest))]
    waiting = [(low, high)] if low < high else []
    while waiting:
        low, high = waiting.pop()
        weight = limit / low / high
        least = solve(replace(search.base, cost_weight=weight))
        if least is not None and least.bound > weight * (low + high) * (1 + MARGIN):
            refuted.append(CostRange(low, high, _tangent_points(least)))
            continue
        middle = _cost_in_digits((low * high) ** 0.5)
        if not low < middle < high or len(refuted) + len(waiting) > MOST_RANGES:
            return ()
        waiting += [(middle, high), (low, middle)]
    return (*refuted, CostRange(refuted[-1].high, float("inf"), _tangent_points(fastest)))


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
    # Of time * cost, the first question limits both by numbers whose product is the limit, which is linear.
    as_good = f"(<= {value} {_number(best * (1 + SLACK))})"
    if model.objective == "time * cost":
        cost = Fraction(f"{model.best_cost:.15g}") * (1 + SLACK / 2)
        as_good = f"(and (<= cost {_number(cost)}) (<= time {_number(best * (1 + SLACK) / cost)}))"
    products = [f"(>= (* B{k} x{k}) 1)" for k, used in enumerate(model.time.has_traffic) if used]
    near = [
        f"(and (>= B{k} {_number(rate * (1 - 10 * SLACK))}) (<= B{k} {_number(rate * (1 + 10 * SLACK))}))"
        for k, rate in enumerate(Fraction(f"{rate:.9g}") for rate in model.bandwidth)
    ]
    good = [*near, *products, as_good]
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


def _consequences(model: LibraModel, limit: Fraction) -> list[str]:
    """Linear constraints that follow from a limit of the objective and from B x >= 1, and contradict each other.

    Of time * cost (ms * dollars): in one of these ranges of the cost, time is below a line, and each x above a tangent.
    """
    if model.objective != "time * cost":
        return _tangents(model, model.bandwidth)
    deadline = None if model.deadline is None else float(model.deadline)
    unit_cost = np.array([float(d.unit_cost) for d in model.dimensions])
    objective, rows = Objective(model.objective), rows_of(model.rows)
    problem = DesignProblem(model.dimensions, model.time, unit_cost, rows, deadline, objective)
    ranges = cost_ranges(problem, float(limit) * 10**6)
    return [f"(or {' '.join(_in_range(model, costs, limit) for costs in ranges)})"] if ranges else []


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
    tangents: list[str] = []
    for k, (used, rate) in enumerate(zip(model.time.has_traffic, bandwidth, strict=True)):
        if used and rate:
            point = Fraction(f"{rate:.9g}")
            tangents.append(f"(>= (+ x{k} (* {_number(1 / point**2)} B{k})) {_number(2 / point)})")
    return tangents


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


@dataclass(frozen=True, slots=True)
class TrainedTime:
    """A workload, its weight in the time of the design, and its own time in ns."""

    workload: Workload
    weight: Fraction
    time: TimeExpression


@dataclass(frozen=True, slots=True)
class LibraModel:
    """A design problem with its solution.

    time: in ns. rows: constraints on the bandwidths in GB/s. deadline: ns, or None. objective: "time", "cost" or
    "time * cost". bandwidth, best_time, best_cost: the solution in GB/s, ns and dollars. prices: of the parts of each
    tier. trained: the workloads, each with its weight and its own time; () for a schedule, whose traffic was measured.
    """

    name: str
    dimensions: tuple[NetworkDimension, ...]
    time: TimeExpression
    rows: tuple[ExactRow, ...]
    deadline: Fraction | None
    objective: str
    bandwidth: tuple[float, ...]
    best_time: float
    best_cost: float
    prices: Mapping[str, PartCosts]
    trained: tuple[TrainedTime, ...] = ()

    @property
    def best_value(self) -> float:
        """The objective of the solution."""
        values = {"time": self.best_time, "cost": self.best_cost}
        return values.get(self.objective, self.best_time * self.best_cost)


def number(value: Fraction | float) -> int | str | float:
    """A number as JSON: an exact fraction as an integer or as "p/q", a float with nine digits."""
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else str(value)
    return float(f"{value:.9g}")


def time_tree(time: TimeExpression, factor: Fraction = Fraction(1)) -> dict[str, object]:
    """A multiple of a time as a tree of {"sum": [..]}, {"max": [..]}, {"const": ns} and {"bytes", "dimension"}."""
    parts: list[dict[str, object]] = []
    if time.constant:
        parts.append({"const": number(factor * time.constant)})
    for k, size in enumerate(time.bytes):
        if size:
            parts.append({"bytes": number(factor * size), "dimension": k})
    for weight, maximum in time.maxima:
        inner: dict[str, object] = {"max": [time_tree(option, factor * weight) for option in maximum.options]}
        parts.append(inner)
    if not parts:
        return {"const": 0}
    return parts[0] if len(parts) == 1 else {"sum": parts}


def json_text(model: LibraModel) -> str:
    """NAME.libra.json: everything that the other files say."""
    weighted: list[dict[str, object]] = [
        {"workload": training.workload.name, "weight": number(training.weight), "of": time_tree(training.time)}
        for training in model.trained
    ]
    time = {"sum": weighted} if len(weighted) > 1 else time_tree(model.time)
    content = {
        "format": "collc libra 1",
        "name": model.name,
        "units": {"bandwidth": "GB/s of one NPU", "time": "ns", "cost": "USD", "bytes / bandwidth": "ns"},
        "dimensions": [
            {"kind": d.kind, "npus": d.size, "tier": d.tier, "cost_per_GBps": number(d.unit_cost)}
            for d in model.dimensions
        ],
        "time": time,
        "objective": model.objective,
        "constraints": [
            {"coefficients": _numbers(row.coefficients), "operator": row.operator, "limit": number(row.limit)}
            for row in model.rows
        ],
        "deadline": None if model.deadline is None else number(model.deadline),
        "optimum": {
            "bandwidth_GBps": _numbers(model.bandwidth),
            "time_ns": number(model.best_time),
            "cost": number(model.best_cost),
        },
    }
    return json.dumps(content, indent=2) + "\n"


def _numbers(values: Sequence[Fraction | float]) -> list[int | str | float]:
    return [number(value) for value in values]
