"""Design problems in numbers, from the dimensions of a network, and why one may have no solution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.design.time_expression import TimeExpression
from collc.ten.network import Axis, Network
from collc.ten.training import TIERS, Constraint, PartCosts

FloatArray = NDArray[np.float64]

GIGA: Final = 10**9


@dataclass(frozen=True, slots=True)
class NetworkDimension:
    """One dimension of a network.

    kind: the template of the factor ("ring", ...). size: NPUs along it. tier: one of `training.TIERS`. switched:
    whether its links lead to switches. reduces: whether these reduce. unit_cost: dollars for one GB/s of all NPUs.
    """

    kind: str
    size: int
    tier: str
    switched: bool
    reduces: bool
    unit_cost: Fraction


def dimensions_of(
    network: Network, kind: str, tiers: Sequence[str], prices: Mapping[str, PartCosts]
) -> tuple[NetworkDimension, ...]:
    """The dimensions of a network, which are its `axes`; one without has a single dimension, of `kind`.

    prices: of the parts of each tier. tiers: the tier of each dimension, () for the defaults: the last dimension is
    inter_pod, the one before inter_node, and so on; more than four begin with several inter_chiplet ones.
    """
    axes = network.axes or (Axis(kind, len(network.npus)),)
    tiers = tiers or default_tiers(len(axes))
    found: list[NetworkDimension] = []
    for number, (axis, tier) in enumerate(zip(axes, tiers, strict=True)):
        own = network.link_axis == number if network.axes else np.ones(network.link_count, bool)
        switches = network.target[own & (network.target >= network.npu_count)] - network.npu_count
        switched = bool(len(switches))
        reduces = switched and bool(network.reduces[switches].all())
        parts = prices[tier]
        price = parts.link + (parts.switch + parts.nic if switched else 0)
        found.append(NetworkDimension(axis.kind, axis.size, tier, switched, reduces, price * len(network.npus)))
    return tuple(found)


def default_tiers(count: int) -> tuple[str, ...]:
    """The tiers of `count` dimensions if a design names none."""
    return (TIERS[0],) * (count - len(TIERS)) + TIERS[max(0, len(TIERS) - count) :]


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
    NUMBERS = "numbers"


class NoDesign(Exception):
    """A problem without a solution.

    INFEASIBLE: the constraints of `statements` contradict each other, and no fewer of them; or they allow no bandwidth
    to the one dimension of `dimensions`, which has traffic. DEADLINE: the least time is
    `time`, in ns. UNBOUNDED: nothing limits the bandwidth of `dimensions`, and the time falls with it. NO_FLOOR: time *
    cost falls down to bandwidths of 0. NO_COMPUTE: it falls, or stays equal, while the bandwidths grow without limit.
    NUMBERS: the solver found none, since numbers are too far apart.
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
