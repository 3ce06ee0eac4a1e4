"""Design problems in numbers: training time as a function of the bandwidths, dimensions, constraints, what may fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

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
    dimensions: list[NetworkDimension] = []
    for number, (axis, tier) in enumerate(zip(axes, tiers, strict=True)):
        own = network.link_axis == number if network.axes else np.ones(network.link_count, bool)
        switches = network.target[own & (network.target >= network.npu_count)] - network.npu_count
        switched = bool(len(switches))
        reduces = switched and bool(network.reduces[switches].all())
        parts = prices[tier]
        price = parts.link + (parts.switch + parts.nic if switched else 0)
        dimensions.append(NetworkDimension(axis.kind, axis.size, tier, switched, reduces, price * len(network.npus)))
    return tuple(dimensions)


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
    exact: list[ExactRow] = []
    for constraint in constraints:
        linear = constraint.expression
        unit = 1 if linear.cost else GIGA
        row = [(b * GIGA + linear.cost * cost) / unit for b, cost in zip(linear.bandwidth, unit_cost, strict=True)]
        exact.append(ExactRow(tuple(row), constraint.operator, -linear.constant / unit))
    return tuple(exact)


def rows_of(exact: Sequence[ExactRow]) -> tuple[Row, ...]:
    """The rows in floating point, each scaled so that its largest coefficient is 1."""
    rounded: list[Row] = []
    for number, row in enumerate(exact):
        sign = -1.0 if row.operator == ">=" else 1.0
        coefficients = np.array([float(value) for value in row.coefficients])
        scale = sign / (float(np.abs(coefficients).max()) or 1.0)
        rounded.append(Row(coefficients * scale, float(row.limit) * scale, row.operator == "==", number))
    return tuple(rounded)


@dataclass(frozen=True, slots=True)
class TimeExpression:
    """constant + sum of bytes[i] / bandwidth[i] + sum of weight * maximum, in ns.

    It is convex in the bandwidths: all numbers are 0 or more. bytes: one number for each dimension; bytes / (GB/s) is
    a time in ns.
    """

    constant: Fraction
    bytes: tuple[Fraction, ...]
    maxima: tuple[tuple[Fraction, Maximum], ...] = ()

    def value(self, bandwidth: Sequence[float]) -> float:
        """The time in ns at bandwidths in GB/s; infinite if a dimension with traffic has none."""
        total = float(self.constant)
        for size, rate in zip(self.bytes, bandwidth, strict=True):
            if size:
                total += float(size) / rate if rate > 0 else float("inf")
        return total + sum(float(weight) * maximum.value(bandwidth) for weight, maximum in self.maxima)

    @property
    def has_traffic(self) -> tuple[bool, ...]:
        """Whether each dimension has traffic."""
        inner = [option.has_traffic for _, maximum in self.maxima for option in maximum.options]
        return tuple(bool(size) or any(u[k] for u in inner) for k, size in enumerate(self.bytes))


@dataclass(frozen=True, slots=True)
class Maximum:
    """The largest of several times."""

    options: tuple[TimeExpression, ...]

    def value(self, bandwidth: Sequence[float]) -> float:
        """The time in ns at bandwidths in GB/s."""
        return max(option.value(bandwidth) for option in self.options)


def maxima_of(time: TimeExpression) -> dict[Maximum, int]:
    """The maxima in a time and in their options, numbered so that a maximum comes after those that it contains."""
    numbers: dict[Maximum, int] = {}

    def visit(node: TimeExpression) -> None:
        for _, maximum in node.maxima:
            if maximum not in numbers:
                for option in maximum.options:
                    visit(option)
                numbers[maximum] = len(numbers)

    visit(time)
    return numbers


def constant(time: Fraction | int, dimensions: int) -> TimeExpression:
    """A time in ns that does not depend on the bandwidths."""
    return TimeExpression(Fraction(time), (Fraction(0),) * dimensions)


def weighted_sum(parts: Iterable[tuple[Fraction | int, TimeExpression]], dimensions: int) -> TimeExpression:
    """The sum of weight * expression; equal maxima are added up. Weights are 0 or more."""
    total = Fraction(0)
    sizes = [Fraction(0)] * dimensions
    maxima: dict[Maximum, Fraction] = {}
    for weight, part in parts:
        total += weight * part.constant
        for k, size in enumerate(part.bytes):
            sizes[k] += weight * size
        for inner, maximum in part.maxima:
            maxima[maximum] = maxima.get(maximum, Fraction(0)) + weight * inner
    return TimeExpression(total, tuple(sizes), tuple((w, m) for m, w in maxima.items() if w))


def largest(options: Sequence[TimeExpression]) -> TimeExpression:
    """The maximum of expressions, in a normal form: its largest number is 1, so that multiples of it are equal."""
    kept = [option for k, option in enumerate(options) if not _is_dominated(k, options)]
    dimensions = len(options[0].bytes)
    if len(kept) == 1:
        return kept[0]
    scale = max(_largest_number(option) for option in kept)
    scaled = tuple(weighted_sum([(1 / scale, option)], dimensions) for option in kept)
    return TimeExpression(Fraction(0), (Fraction(0),) * dimensions, ((scale, Maximum(scaled)),))


def collective_time(sizes: Sequence[Fraction]) -> TimeExpression:
    """The time of a collective with these bytes in each dimension, which its slowest dimension takes."""
    zero = (Fraction(0),) * len(sizes)
    rows = [TimeExpression(Fraction(0), (*zero[:k], size, *zero[k + 1 :])) for k, size in enumerate(sizes) if size]
    return largest(rows) if rows else constant(0, len(sizes))


def _largest_number(option: TimeExpression) -> Fraction:
    inner = (weight * max(_largest_number(o) for o in maximum.options) for weight, maximum in option.maxima)
    return max(option.constant, *option.bytes, *inner)


def _is_dominated(index: int, options: Sequence[TimeExpression]) -> bool:
    """Whether another option is never smaller than this one; of equal ones the first is kept."""
    own = options[index]
    if own.maxima:
        return False
    for k, other in enumerate(options):
        if k == index or (k > index and own == other):
            continue
        if other.constant >= own.constant and all(a >= b for a, b in zip(other.bytes, own.bytes, strict=True)):
            return True
    return False
