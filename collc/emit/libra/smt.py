"""The file for SMT solvers: is there a design as good as the solution, and one a thousandth better?"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from collc.design.time_expression import Maximum, TimeExpression
from collc.emit.libra.model import LibraModel

SLACK: Final = Fraction(1, 10**6)
"""How much more than the computed optimum the first question allows, since that is rounded."""

BETTER: Final = Fraction(999, 1000)


def smt_text(model: LibraModel) -> str:
    """NAME.smt2: two questions in exact rationals (QF_NRA), to which the answers are sat and unsat.

    Of time * cost the first question gives the cost of the solution too, without which solvers may not find an answer.
    B_i: GB/s. x_i: at least 1 / B_i. m_k: at least each of its options. time in ms, cost in dollars.
    """
    lines = [
        f"; Design {model.name}. Expected answers: sat, unsat.",
        "(set-logic QF_NRA)",
        *(f"(declare-const B{k} Real)" for k in range(len(model.dimensions))),
        *(f"(declare-const x{k} Real)" for k, used in enumerate(model.time.used) if used),
    ]
    names: dict[Maximum, str] = {}
    time = _time(model.time, names, lines, 10**6)
    lines += [f"(assert (>= B{k} 0))" for k in range(len(model.dimensions))]
    for k, used in enumerate(model.time.used):
        if used:
            lines += [f"(assert (> x{k} 0))", f"(assert (>= (* B{k} x{k}) 1))"]
    for row in model.rows:
        operator = row.operator.replace("==", "=")
        lines.append(f"(assert ({operator} {_sum(row.coefficients)} {_number(row.limit)}))")
    lines.append(f"(define-fun time () Real {time})")
    lines.append(f"(define-fun cost () Real {_sum([d.unit_cost for d in model.dimensions])})")
    if model.deadline is not None:
        lines.append(f"(assert (<= time {_number(model.deadline / 10**6)}))")
    value = {"time": "time", "cost": "cost"}.get(model.objective, "(* time cost)")
    unit = 1 if model.objective == "cost" else 10**6
    best = Fraction(f"{model.best_value / unit:.15g}")
    for asked in (_as_good(model, value, best * (1 + SLACK)), f"(<= {value} {_number(best * BETTER)})"):
        lines += ["(push 1)", f"(assert {asked})", "(check-sat)", "(pop 1)"]
    return "\n".join([*lines, ""])


def _as_good(model: LibraModel, value: str, limit: Fraction) -> str:
    """That a value is at most a limit; of time * cost, by limits of both whose product it is, which is linear."""
    if model.objective != "time * cost":
        return f"(<= {value} {_number(limit)})"
    cost = Fraction(f"{model.best_cost:.15g}") * (1 + SLACK / 2)
    return f"(and (<= cost {_number(cost)}) (<= time {_number(limit / cost)}))"


def _time(time: TimeExpression, names: dict[Maximum, str], lines: list[str], unit: int = 1) -> str:
    """A time over `unit` as a term; declares its maxima."""
    parts = [_number(time.constant / unit)] if time.constant else []
    parts += [f"(* {_number(size / unit)} x{k})" for k, size in enumerate(time.bytes) if size]
    for weight, maximum in time.maxima:
        if maximum not in names:
            options = [_time(option, names, lines) for option in maximum.options]
            name = names[maximum] = f"m{len(names)}"
            lines.append(f"(declare-const {name} Real)")
            lines += [f"(assert (>= {name} {option}))" for option in options]
        parts.append(f"(* {_number(weight / unit)} {names[maximum]})")
    return _added(parts)


def _sum(coefficients: list[Fraction] | tuple[Fraction, ...]) -> str:
    return _added([f"(* {_number(value)} B{k})" for k, value in enumerate(coefficients) if value])


def _added(parts: list[str]) -> str:
    return "0.0" if not parts else parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"


def _number(value: Fraction) -> str:
    """An exact rational."""
    size = abs(value)
    text = f"{size.numerator}.0" if size.denominator == 1 else f"(/ {size.numerator}.0 {size.denominator}.0)"
    return f"(- {text})" if value < 0 else text
