"""Latency and bandwidth of a link from measured times: t(s) = alpha + beta * s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Final

LEAST_SIZES: Final = 6
LEAST_SPAN: Final = 1000
"""The largest size over the smallest one, at least."""


@dataclass(frozen=True, slots=True)
class LineFit:
    """alpha: seconds. beta: seconds per byte. errors: of each time, (fitted - measured) / measured."""

    alpha: float
    beta: float
    errors: tuple[float, ...]

    @property
    def worst(self) -> float:
        """The largest error, without its sign."""
        return max(abs(error) for error in self.errors)


def fit_line(sizes: Sequence[int], times: Sequence[float]) -> LineFit:
    """The line with the least sum of squares of relative errors, so that small sizes count as much as large ones.

    Raises ZeroDivisionError if all sizes are equal.
    """
    weights = [1 / time**2 for time in times]
    total = fsum(weights)
    mean_size = fsum(w * s for w, s in zip(weights, sizes, strict=True)) / total
    mean_time = fsum(w * t for w, t in zip(weights, times, strict=True)) / total
    spread = fsum(w * (s - mean_size) ** 2 for w, s in zip(weights, sizes, strict=True))
    product = fsum(w * (s - mean_size) * (t - mean_time) for w, s, t in zip(weights, sizes, times, strict=True))
    beta = product / spread
    alpha = mean_time - beta * mean_size
    return LineFit(alpha, beta, _errors(alpha, beta, sizes, times))


def fit_slope(sizes: Sequence[int], times: Sequence[float]) -> LineFit:
    """The same without latency: alpha is 0."""
    ratios = [size / time for size, time in zip(sizes, times, strict=True)]
    beta = fsum(ratios) / fsum(ratio**2 for ratio in ratios)
    return LineFit(0.0, beta, _errors(0.0, beta, sizes, times))


def _errors(alpha: float, beta: float, sizes: Sequence[int], times: Sequence[float]) -> tuple[float, ...]:
    return tuple((alpha + beta * size) / time - 1 for size, time in zip(sizes, times, strict=True))
