"""The values of numbers, quantities and strings."""

from __future__ import annotations

import re
from difflib import get_close_matches
from fractions import Fraction

from collc.base import units
from collc.base.units import MAX_DIGITS, UNITS, Dimension
from collc.source.limits import MAX_CHARACTERS

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

_LONG_UNITS = {
    "byte": "B",
    "bytes": "B",
    "sec": "s",
    "second": "s",
    "seconds": "s",
    "msec": "ms",
    "usec": "us",
    "nsec": "ns",
    "Bps": "B/s",
}


_KNOWN_UNITS = (
    "sizes are in 'B', 'kB', 'MiB', ..., times in 'ns', 'us', 'ms', ..., rates in 'GB/s', 'Gb/s', 'GiB/s', ..."
)


class LiteralError(ValueError):
    """Raised for a number or a string without a value, with the code, the text and the hint of the message about it."""


def whole_number(text: str) -> int:
    """The value of `42`. Raises LiteralError for more than MAX_DIGITS digits."""
    if len(text) > MAX_DIGITS:
        raise _too_long()
    return int(text)


def number(text: str) -> Fraction:
    """The exact value of `42`, `0.5` or `1e9`. Raises LiteralError for more than MAX_DIGITS digits."""
    try:
        return units.number(text)
    except OverflowError:
        raise _too_long() from None


def _too_long() -> LiteralError:
    message = f"a number of more than {MAX_DIGITS} digits"
    return LiteralError("E0110", message, "bytes, picoseconds and counts are all far smaller than this")


def unit_hint(unit: str) -> str:
    """The hint for an unknown unit."""
    bits = re.fullmatch(r"([kKMGTP]i?)b", unit)
    if bits:
        return f"'{bits[1]}B' is bytes; bits are only used in rates, as '{bits[1]}b/s'"
    rate = re.fullmatch(r"([kKMGTP]?i?)([bB])ps", unit)
    if rate:
        return f"did you mean '{rate[1]}{rate[2]}/s'?"
    folded = {name.lower(): name for name in UNITS}
    close = _LONG_UNITS.get(unit) or folded.get(unit.lower())
    close = close or next(iter(get_close_matches(unit, UNITS, n=1, cutoff=0.6)), None)
    return f"did you mean '{close}'?" if close else _KNOWN_UNITS


def quantity(text: str) -> tuple[Dimension, Fraction]:
    """The dimension of `9MiB`, `0.5us` or `400Gb/s`, and its value in bytes, picoseconds or bytes per second.

    Raises LiteralError for an unknown unit.
    """
    try:
        return units.quantity(text)
    except OverflowError:
        raise _too_long() from None
    except KeyError as error:
        unit = str(error.args[0])
        raise LiteralError("E0108", f"'{unit}' is not a unit", unit_hint(unit)) from None
    except ValueError:
        raise LiteralError("E0110", f"'{text}' is not a number with a unit", unit_hint("")) from None


def string_value(text: str) -> str:
    r"""The value of a string literal, given with its quotes. The only escapes are `\"` and `\\`.

    Raises LiteralError for any other escape.
    """

    def unescape(match: re.Match[str]) -> str:
        escape = match[1]
        if escape not in '\\"':
            message = f"'\\{escape}' is not an escape"
            raise LiteralError("E0111", message, "write '\\\\' for a backslash, '\\\"' for a quote")
        return escape

    inside = text[1:-1]
    if len(inside) > MAX_CHARACTERS:
        message = f"{len(inside):,} characters of a string exceed the limit of {MAX_CHARACTERS:,}"
        raise LiteralError("E0809", message, "write a shorter one")
    return _ESCAPE.sub(unescape, inside) if "\\" in inside else inside
