"""Axes of charts: ticks at round numbers, positions, and texts of times, sizes and rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal

from collc.base.units import decimal, format_time

Scale = Literal["linear", "log", "log2"]

_SI: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_BINARY: Final = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def _shorten_number(value: float, prefixes: Sequence[tuple[int, str]], unit: str) -> str:
    scale, prefix = next((entry for entry in prefixes if abs(value) >= entry[0]), (1, ""))
    return decimal(Fraction(f"{value / scale:.4g}")) + prefix + unit if value else "0"


def number_label(value: float) -> str:
    """A number of at most four digits: `0.25`, `1200`, `35k`."""
    return _shorten_number(value, _SI if abs(value) >= 10_000 else (), "")


def time_label(value: float) -> str:
    """A time given in picoseconds: `80.13us`."""
    return format_time(Fraction(f"{value:.4g}")) if value else "0"


def bytes_label(value: float) -> str:
    """A size given in bytes, in binary units: `1.5MiB`."""
    return _shorten_number(value, _BINARY, "B")


def rate_label(value: float) -> str:
    """A rate given in bytes per second, in decimal units: `62.5GB/s`."""
    return _shorten_number(value, _SI, "B/s")


def percent_label(value: float) -> str:
    """A share: `62.5 %`."""
    return decimal(Fraction(f"{value * 100:.4g}")) + " %"


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows: its label, its scale (log2 has ticks at powers of two), and the text of a value.

    ticks: where the ticks are, instead of at round numbers.
    """

    label: str
    scale: Scale = "linear"
    text: Callable[[float], str] = number_label
    ticks: Sequence[float] = field(default=())


@dataclass(frozen=True, slots=True)
class Range:
    """The values that an axis spans, from `low` to `high`, over the pixels from `begin` to `end`."""

    axis: Axis
    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value."""
        ends = (self.low, self.high, value)
        low, high, place = ends if self.axis.scale == "linear" else (math.log(max(x, 1e-300)) for x in ends)
        return self.begin + (self.end - self.begin) * ((place - low) / (high - low) if high > low else 0.5)

    def ticks(self, most: int) -> list[float]:
        """At most about `most` ticks."""
        if self.axis.ticks:
            inside = [tick for tick in self.axis.ticks if self.low <= tick <= self.high]
            return inside[:: -(-len(inside) // max(1, most))]
        if self.axis.scale == "linear":
            return _linear_ticks(self.low, self.high, most)
        return _log_ticks(self.low, self.high, most, 2 if self.axis.scale == "log2" else 10)


def range_of(axis: Axis, values: Sequence[float], begin: float, end: float, *, from_zero: bool = True) -> Range:
    """The range of an axis for some values: linear ones from 0 if `from_zero`, to a round number at the top.

    Raises ValueError if a value is not finite, or not positive on a logarithmic axis.
    """
    if not all(math.isfinite(value) for value in values):
        raise ValueError(f"axis '{axis.label}': values must be finite")
    low, high = min(values, default=0.0), max(values, default=1.0)
    if axis.scale == "linear":
        low = min(low, 0.0) if from_zero else low
        if high <= low:
            high = low + (abs(low) or 1.0)
        if from_zero and not axis.ticks:
            step = _step(high - low, 6)
            high = math.ceil(high / step - 1e-9) * step
        return Range(axis, low, high, begin, end)
    if low <= 0:
        raise ValueError(f"axis '{axis.label}': a logarithmic axis has positive values only")
    base = 2.0 if axis.scale == "log2" else 10.0
    if high == low:
        low, high = low / base, high * base
    return Range(axis, low, high, begin, end)


def _step(span: float, most: int) -> float:
    """The least of 1, 2, 5 times a power of ten that divides a span into at most `most` parts."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor * most >= span * (1 - 1e-9))


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    step = _step(high - low, max(1, most))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)) + 1)
    return [round(k * step, digits) for k in range(first, last + 1)]


def _log_ticks(low: float, high: float, most: int, base: int) -> list[float]:
    """Powers of the base; of ten, with 2 and 5 times them too if few powers are inside."""
    first = math.floor(math.log(low, base) - 1e-9)
    last = math.ceil(math.log(high, base) + 1e-9)
    factors = (1, 2, 5) if base == 10 and last - first <= max(2, most // 3) else (1,)
    ticks = [factor * float(base) ** k for k in range(first, last + 1) for factor in factors]
    inside = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
    return inside[:: max(1, -(-len(inside) // max(1, most)))] or [low, high]
