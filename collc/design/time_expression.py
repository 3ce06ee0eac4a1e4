"""Training time as a function of the bandwidths: sums and maxima of constants and of bytes / bandwidth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction


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
