"""A time expression as linear rows: one variable for each maximum, which is at least as large as its options."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.design.problem import FloatArray
from collc.design.time_expression import Maximum, TimeExpression


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
