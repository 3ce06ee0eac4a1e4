"""Exact bytes, times and rates: parsing, arithmetic and printing.

A size is an integer number of bytes, a time an integer number of picoseconds (in the IR) or an
exact fraction of one (in the source language), a rate an exact fraction of bytes per second.
No value is a float, so that equal programs give equal results on all machines.
"""

from __future__ import annotations

import re
from enum import StrEnum
from fractions import Fraction
from math import ceil
from typing import Final

PICOSECONDS: Final = 10**12
"""Picoseconds in a second."""


class Dimension(StrEnum):
    """The physical dimension of a quantity."""

    BYTES = "bytes"
    TIME = "time"
    RATE = "rate"


_PREFIXES: Final[dict[str, int]] = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "Ki": 2**10,
    "M": 10**6,
    "Mi": 2**20,
    "G": 10**9,
    "Gi": 2**30,
    "T": 10**12,
    "Ti": 2**40,
    "P": 10**15,
    "Pi": 2**50,
}

_TIMES: Final[dict[str, int]] = {
    "ps": 1,
    "ns": 10**3,
    "us": 10**6,
    "ms": 10**9,
    "s": 10**12,
}


def _units() -> dict[str, tuple[Dimension, Fraction]]:
    """All units of the source language; a rate is also given in bits per second (`Gb/s`)."""
    units = {name: (Dimension.TIME, Fraction(scale)) for name, scale in _TIMES.items()}
    for prefix, scale in _PREFIXES.items():
        units[f"{prefix}B"] = (Dimension.BYTES, Fraction(scale))
        units[f"{prefix}B/s"] = (Dimension.RATE, Fraction(scale))
        units[f"{prefix}b/s"] = (Dimension.RATE, Fraction(scale, 8))
    return units


UNITS: Final[dict[str, tuple[Dimension, Fraction]]] = _units()
"""Name of a unit -> its dimension, and its value in bytes, picoseconds or bytes per second."""

MAX_DIGITS: Final = 40
"""Digits of the longest number that is accepted; this bounds the memory that a number takes."""

_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)([A-Za-z]+(?:/s)?)")


def number(text: str) -> Fraction:
    """The exact value of `42`, `0.5` or `1e9`. Raises OverflowError for more than MAX_DIGITS digits."""
    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) > MAX_DIGITS or (exponent and (len(exponent) > 4 or abs(int(exponent)) > MAX_DIGITS)):
        raise OverflowError(text[:MAX_DIGITS])
    return Fraction(text)


def quantity(text: str) -> tuple[Dimension, Fraction]:
    """The dimension of `9MiB`, `0.5us` or `400Gb/s`, and its value in bytes, picoseconds or bytes per second.

    Raises ValueError if it is not a number with a unit, KeyError with the unit if there is no such unit, and
    OverflowError for more than MAX_DIGITS digits.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    dimension, scale = UNITS[match[2]]
    return dimension, number(match[1]) * scale


def quantity_in(text: str, dimension: Dimension) -> Fraction | None:
    """The value of a quantity of this dimension, as `quantity` reads it; None for any other text."""
    try:
        own, value = quantity(text)
    except (ValueError, KeyError, OverflowError):
        return None
    return value if own is dimension else None


def serialization_time(size: int, bandwidth: Fraction) -> int:
    """Time in picoseconds for which `size` bytes occupy a link of `bandwidth` bytes per second, rounded up."""
    return -((-size * PICOSECONDS * bandwidth.denominator) // bandwidth.numerator)


def decimal(value: Fraction, digits: int = 6) -> str:
    """`value` in decimal, rounded to `digits` decimal places, without trailing zeros."""
    scale = 10**digits
    scaled = round(value * scale)
    whole, part = divmod(abs(scaled), scale)
    sign = "-" if scaled < 0 else ""
    fraction = f"{part:0{digits}d}".rstrip("0")
    return f"{sign}{whole:,}".replace(",", "") + (f".{fraction}" if fraction else "")


def _exact(value: Fraction, units: list[tuple[str, Fraction]]) -> str | None:
    """`value` in the largest unit in which at most three decimal places are exact; None if there is no such unit."""
    for name, scale in units:
        scaled = value / scale
        if abs(scaled) >= 1 and (scaled * 1000).denominator == 1:
            return decimal(scaled, 3) + name
    return None


def format_bytes(size: int) -> str:
    """The exact text of a size, which the language reads as the same number: `1MiB`, `1500B`."""
    units = [(f"{p}iB", Fraction(2 ** (10 * k))) for k, p in ((4, "T"), (3, "G"), (2, "M"), (1, "K"))]
    for name, scale in units:
        if size and size % scale == 0:
            return f"{size // scale}{name}"
    decimals = [(f"{p}B", 10**k) for k, p in ((12, "T"), (9, "G"), (6, "M"), (3, "k"))]
    for name, whole in decimals:
        if size and size % whole == 0:
            return f"{size // whole}{name}"
    return f"{size}B"


_MOST_DIGITS: Final = 4
"""Digits of sizes and rates that people read, if no exact text is short."""


def shown_bytes(size: int) -> str:
    """A size for people, exact if that is short, else with four digits: `80MB`, not `78125KiB`; `12.35MB`.

    `format_bytes` is for text that is read back.
    """
    text = format_bytes(size)
    return text if sum(c.isdigit() for c in text) <= _MOST_DIGITS else _short_text(Fraction(size), "B")


def shown_rate(rate: Fraction) -> str:
    """A rate for people, exact if that is short, else with four digits: `3.333GB/s`.

    `format_rate` is for text that is read back.
    """
    text = format_rate(rate)
    return text if len(text) <= len("1234.567GB/s") else _short_text(rate, "B/s")


def _short_text(value: Fraction, unit: str) -> str:
    """`value` in the largest decimal unit in which it is not below 1: exact with three decimals, else four digits."""
    prefixes = (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3))
    prefix, scale = next(((name, whole) for name, whole in prefixes if value >= whole), ("", 1))
    scaled = value / scale
    digits = 3 if (scaled * 1000).denominator == 1 else max(0, _MOST_DIGITS - len(str(int(scaled))))
    return f"{decimal(scaled, digits)}{prefix}{unit}"


def format_time(picoseconds: int | Fraction) -> str:
    """The text of a time, rounded to six decimal places of its unit: `80.125us`."""
    value = Fraction(picoseconds)
    for name, scale in reversed(_TIMES.items()):
        if abs(value) >= scale:
            return decimal(value / scale) + name
    return decimal(value) + "ps"


def percent(share: float) -> str:
    """A share with two decimals, rounded away from 1: only 1 is "100.00 %"."""
    if share == 1:
        hundredths = 10_000
    elif share < 1:
        hundredths = min(9_999, int(share * 10_000 + 1e-6))
    else:
        hundredths = max(10_001, ceil(share * 10_000 - 1e-6))
    return f"{hundredths // 100}.{hundredths % 100:02} %"


def format_rate(rate: Fraction) -> str:
    """The text of a rate, rounded only if no unit is exact; of exact texts the shortest: `50GiB/s`, `12.5GB/s`."""
    binary = [(f"{p}iB/s", Fraction(2 ** (10 * k))) for k, p in ((4, "T"), (3, "G"), (2, "M"), (1, "K"))]
    decimals = [(f"{p}B/s", Fraction(10**k)) for k, p in ((12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""))]
    whole = [f"{rate / scale}{name}" for name, scale in binary if rate >= scale and (rate / scale).denominator == 1]
    exact = _exact(rate, decimals)
    texts = [*whole[:1], *([] if exact is None else [exact])]
    return min(texts, key=len) if texts else decimal(rate) + "B/s"
