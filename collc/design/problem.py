"""Design problems in numbers, and why one may have no solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.design.dimensions import NetworkDimension
from collc.design.time_expression import TimeExpression
from collc.ten.training import Constraint

FloatArray = NDArray[np.float64]

GIGA: Final = 10**9


class Objective(StrEnum):
    """What a design minimizes, as the language writes it."""

    TIME = "time"
    COST = "cost"
    PRODUCT = "time * cost"


@dataclass(frozen=True, slots=True)
class Row:
    """coefficients @ bandwidth <= limit, or == limit; GB/s. statement: the number of the constraint it comes from."""

    coefficients: FloatArray
    limit: float
    equal: bool
    statement: int

    def violation(self, bandwidth: FloatArray) -> float:
        """How far the row is from holding, relative to its terms; 0 if it holds."""
        terms = self.coefficients * bandwidth
        excess = float(terms.sum()) - self.limit
        size = max(abs(self.limit), float(np.abs(terms).max(initial=0.0))) or 1.0
        return max(0.0, abs(excess) if self.equal else excess) / size


@dataclass(frozen=True, slots=True)
class DesignProblem:
    """The choice of the bandwidth of each dimension.

    time: in ns. unit_cost: dollars per GB/s of each dimension. rows: linear constraints. deadline: the longest time
    allowed in ns, or None.
    """

    dimensions: tuple[NetworkDimension, ...]
    time: TimeExpression
    unit_cost: FloatArray
    rows: tuple[Row, ...]
    deadline: float | None = None
    objective: Objective = Objective.TIME

    def cost(self, bandwidth: Sequence[float] | FloatArray) -> float:
        """Dollars at bandwidths in GB/s."""
        return float(self.unit_cost @ np.asarray(bandwidth, float))

    def value(self, bandwidth: Sequence[float]) -> float:
        """What is minimized, at bandwidths in GB/s: ns, dollars, or ns times dollars."""
        if self.objective is Objective.COST:
            return self.cost(bandwidth)
        time = self.time.value(bandwidth)
        return time if self.objective is Objective.TIME else time * self.cost(bandwidth)


class NoDesignReason(Enum):
    """Why a problem has no solution."""

    INFEASIBLE = "infeasible"
    DEADLINE = "deadline"
    UNBOUNDED = "unbounded"
    NO_FLOOR = "no floor"
    NO_COMPUTE = "no compute"


class NoDesign(Exception):
    """A problem without a solution.

    INFEASIBLE: the constraints of `statements` contradict each other, and no fewer of them; or they allow no bandwidth
    to the one dimension of `dimensions`, which has traffic. DEADLINE: the least time is
    `time`, in ns. UNBOUNDED: nothing limits the bandwidth of `dimensions`, and the time falls with it. NO_FLOOR: time *
    cost falls down to bandwidths of 0. NO_COMPUTE: it falls, or stays equal, while the bandwidths grow without limit.
    """

    def __init__(
        self,
        reason: NoDesignReason,
        statements: tuple[int, ...] = (),
        dimensions: tuple[int, ...] = (),
        time: float = 0.0,
    ) -> None:
        super().__init__(reason.value)
        self.reason: NoDesignReason = reason
        self.statements: tuple[int, ...] = statements
        self.dimensions: tuple[int, ...] = dimensions
        self.time: float = time


@dataclass(frozen=True, slots=True)
class ExactRow:
    """coefficients @ bandwidth (GB/s), then `<=`, `==` or `>=`, then limit."""

    coefficients: tuple[Fraction, ...]
    operator: str
    limit: Fraction


def exact_rows(constraints: Sequence[Constraint], unit_cost: Sequence[Fraction]) -> tuple[ExactRow, ...]:
    """Constraints on bandwidths and the cost as constraints on the bandwidths alone. unit_cost: dollars per GB/s."""
    found: list[ExactRow] = []
    for constraint in constraints:
        linear = constraint.expression
        unit = 1 if linear.cost else GIGA
        row = [(b * GIGA + linear.cost * cost) / unit for b, cost in zip(linear.bandwidth, unit_cost, strict=True)]
        found.append(ExactRow(tuple(row), constraint.operator, -linear.constant / unit))
    return tuple(found)


def rows_of(exact: Sequence[ExactRow]) -> tuple[Row, ...]:
    """The rows in floating point, each scaled so that its largest coefficient is 1."""
    found: list[Row] = []
    for number, row in enumerate(exact):
        sign = -1.0 if row.operator == ">=" else 1.0
        coefficients = np.array([float(value) for value in row.coefficients])
        scale = sign / (float(np.abs(coefficients).max()) or 1.0)
        found.append(Row(coefficients * scale, float(row.limit) * scale, row.operator == "==", number))
    return tuple(found)
