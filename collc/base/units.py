"""Exact bytes, times and rates: parsing, arithmetic and printing.

A size is an integer number of bytes, a time an integer number of picoseconds (in the IR) or an
exact fraction of one (in the source language), a rate an exact fraction of bytes per second.
Nothing here is ever a float.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import Final

PICOSECONDS: Final = 10**12
"""Picoseconds in a second."""


class Dimension(StrEnum):
    """What a quantity measures."""

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
    units = {name: (Dimension.TIME, Fraction(scale)) for name, scale in _TIMES.items()}
    for prefix, scale in _PREFIXES.items():
        units[f"{prefix}B"] = (Dimension.BYTES, Fraction(scale))
        units[f"{prefix}B/s"] = (Dimension.RATE, Fraction(scale))
        units[f"{prefix}b/s"] = (Dimension.RATE, Fraction(scale, 8))
    return units


UNITS: Final[dict[str, tuple[Dimension, Fraction]]] = _units()
"""Unit name -> what it measures, and how many bytes, picoseconds or bytes per second it is."""


def serialization_time(size: int, bandwidth: Fraction) -> int:
    """Time in picoseconds that `size` bytes occupy a link of `bandwidth` bytes per second.

    Rounded up to the next picosecond where the rate does not divide.
    """
    return -((-size * PICOSECONDS * bandwidth.denominator) // bandwidth.numerator)


def decimal(value: Fraction, digits: int = 6) -> str:
    """`value` in decimal with at most `digits` places and no trailing zeros."""
    scale = 10**digits
    scaled = round(value * scale)
    whole, part = divmod(abs(scaled), scale)
    sign = "-" if scaled < 0 else ""
    fraction = f"{part:0{digits}d}".rstrip("0")
    return f"{sign}{whole:,}".replace(",", "") + (f".{fraction}" if fraction else "")


def _exact(value: Fraction, units: list[tuple[str, Fraction]]) -> str | None:
    """`value` in the largest unit that says it with at most three decimal places."""
    for name, scale in units:
        scaled = value / scale
        if abs(scaled) >= 1 and (scaled * 1000).denominator == 1:
            return decimal(scaled, 3) + name
    return None


def format_bytes(size: int) -> str:
    """An exact text of a size that reads back to the same number: `1MiB`, `1500B`."""
    units = [(f"{p}iB", Fraction(2 ** (10 * k))) for k, p in ((4, "T"), (3, "G"), (2, "M"), (1, "K"))]
    for name, scale in units:
        if size and size % scale == 0:
            return f"{size // scale}{name}"
    decimals = [(f"{p}B", 10**k) for k, p in ((12, "T"), (9, "G"), (6, "M"), (3, "k"))]
    for name, whole in decimals:
        if size and size % whole == 0:
            return f"{size // whole}{name}"
    return f"{size}B"


def format_time(picoseconds: int | Fraction) -> str:
    """A time for people: `80.125us`."""
    value = Fraction(picoseconds)
    for name, scale in reversed(_TIMES.items()):
        if abs(value) >= scale:
            return decimal(value / scale) + name
    return decimal(value) + "ps"


def format_rate(rate: Fraction) -> str:
    """A rate for people, exact where it can be: `50GiB/s`, `12.5GB/s`."""
    binary = [(f"{p}iB/s", Fraction(2 ** (10 * k))) for k, p in ((4, "T"), (3, "G"), (2, "M"), (1, "K"))]
    decimals = [(f"{p}B/s", Fraction(10**k)) for k, p in ((12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""))]
    text = None
    for name, scale in binary:
        if rate >= scale and (rate / scale).denominator == 1:
            text = f"{rate / scale}{name}"
            break
    return text or _exact(rate, decimals) or decimal(rate) + "B/s"
