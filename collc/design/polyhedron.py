"""Linear programs over the bandwidths that satisfy a problem's linear constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from collc.design.problem import FloatArray, Row

_INFEASIBLE, _UNBOUNDED, _UNKNOWN = 2, 3, 4
"""Values of `status` of scipy.optimize.linprog."""


def least_value(rows: Sequence[Row], weights: FloatArray) -> float | None:
    """The least weights @ bandwidth over bandwidths of 0 or more; -inf if there is none, None if infeasible."""
    found = _linprog(weights, rows)
    if found.status == _UNKNOWN:  # infeasible or unbounded
        found = _linprog(np.zeros(len(weights)), rows)
        return None if found.status == _INFEASIBLE else float("-inf")
    if found.status == _INFEASIBLE:
        return None
    return float("-inf") if found.status == _UNBOUNDED else float(found.fun)


def is_feasible(rows: Sequence[Row], count: int) -> bool:
    """Whether some bandwidths of `count` dimensions satisfy the rows."""
    return least_value(rows, np.zeros(count)) is not None


def upper_limits(rows: Sequence[Row], count: int) -> FloatArray:
    """The largest bandwidth of each dimension that the rows allow; inf if there is none."""
    unit = np.eye(count)
    values = [least_value(rows, -unit[k]) for k in range(count)]
    return np.array([np.inf if value is None else -value for value in values])


def growing_direction(rows: Sequence[Row], count: int) -> FloatArray:
    """A direction in which bandwidths can grow without end, positive in as many dimensions as possible."""
    still = [Row(row.coefficients, 0.0, row.equal, row.statement) for row in rows]
    unit = np.eye(count)
    # The sum of the directions that grow most in each dimension is positive wherever any direction is.
    capped = [*still, *(Row(unit[k], 1.0, False, -1) for k in range(count))]
    total = np.zeros(count)
    for k in range(count):
        found = _linprog(-unit[k], capped)
        total += np.asarray(found.x, float)
    return np.where(total > 1e-9, total, 0.0)


def conflicting(rows: Sequence[Row], count: int) -> tuple[int, ...]:
    """The statements of rows that cannot hold together, while any fewer of them can."""
    kept = list(rows)
    for row in rows:
        without = [other for other in kept if other is not row]
        if not is_feasible(without, count):
            kept = without
    return tuple(sorted({row.statement for row in kept}))


def _linprog(weights: FloatArray, rows: Sequence[Row]) -> Any:  # noqa: ANN401
    from scipy.optimize import linprog  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    unequal = [row for row in rows if not row.equal]
    equal = [row for row in rows if row.equal]
    solve = cast("Any", linprog)
    return solve(
        weights,
        A_ub=np.array([row.coefficients for row in unequal]) if unequal else None,
        b_ub=[row.limit for row in unequal] if unequal else None,
        A_eq=np.array([row.coefficients for row in equal]) if equal else None,
        b_eq=[row.limit for row in equal] if equal else None,
        method="highs",
    )
