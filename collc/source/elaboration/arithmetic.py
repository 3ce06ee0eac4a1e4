"""Exact arithmetic on numbers and on arrays of numbers, with one item for each iteration of a loop nest.

Data are Python numbers, int64 arrays, or object arrays of Python numbers. Integers that may need more than 64 bits are
computed as Python integers, and divisions yield Fractions: nothing overflows, and nothing is rounded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from collc.source.elaboration.frames import size_of
from collc.source.elaboration.values import INT64, Column, Data, is_column


def is_machine(data: Data) -> bool:
    """Whether data is an int64 array."""
    return is_column(data) and data.dtype == np.int64


def as_objects(data: Data) -> Data:
    """int64 arrays as arrays of Python integers; other data unchanged."""
    return data.astype(object) if is_machine(data) else data


def narrow_integers(data: Data) -> Data:
    """Arrays of Python integers as int64 arrays if all items fit; other data unchanged."""
    if is_column(data) and data.dtype == object and data.size and isinstance(data.flat[0], int):
        return data.astype(np.int64) if size_of(data) <= INT64 else data
    return data


_LARGEST: Final[dict[str, Callable[[int, int], int]]] = {
    "+": operator.add,
    "-": operator.add,
    "*": operator.mul,
    "&": max,
    "|": lambda a, b: 2 * max(a, b) + 1,
    "^": lambda a, b: 2 * max(a, b) + 1,
    "//": max,
    "%": max,
}
_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "//": lambda a, b: a // b,
    "%": operator.mod,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "**": lambda a, b: a**b,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_fraction = np.frompyfunc(Fraction, 2, 1)


def compute(name: str, left: Data, right: Data) -> Data:
    """The result of `left name right` for numbers.

    The caller has excluded zero divisors, and powers and shifts that are too large.
    """
    function = _OPERATORS[name]
    machine = is_machine(left) or is_machine(right)
    if not machine:
        result = function(left, right)
        return narrow_integers(result)
    if name in _LARGEST and not (_fractional(left) or _fractional(right)):
        sizes = size_of(left), size_of(right)
        if max(*sizes, _LARGEST[name](*sizes)) <= INT64:  # of 0 * 2**63 the product fits, but not the factor
            return function(left, right)
    elif name in ("==", "!=", "<", "<=", ">", ">=") and not (_large(left) or _large(right)):
        return function(left, right)
    return narrow_integers(function(as_objects(left), as_objects(right)))


def _fractional(data: Data) -> bool:
    if is_column(data):
        return data.dtype == object and any(isinstance(x, Fraction) for x in data)
    return isinstance(data, Fraction)


def _large(data: Data) -> bool:
    return isinstance(data, Fraction) or (not is_column(data) and abs(data) > INT64)


def ratio(left: Data, right: Data) -> Data:
    """The exact quotient: Fractions."""
    if is_column(left) or is_column(right):
        return _fraction(as_objects(left), as_objects(right))
    return Fraction(left) / Fraction(right)


def first_row(mask: Data) -> int:
    """The first row in which a mask is true, -1 for none; a single bool counts as row 0."""
    if is_column(mask):
        return int(np.argmax(mask)) if mask.any() else -1
    return 0 if mask else -1


def item(data: Data, row: int) -> Data:
    """The item of a row; data that are not an array are the same in all rows."""
    return data[row] if is_column(data) else data


def to_float(data: Data) -> Data:
    """Integers as floats of the language, which are Fractions."""
    if is_column(data):
        return np.frompyfunc(Fraction, 1, 1)(as_objects(data))
    return Fraction(data)


def whole_numbers(data: Data) -> Data | None:
    """Floats as integers, None if one is not a whole number."""
    if is_column(data):
        if data.dtype != object:
            return data
        if any(Fraction(x).denominator != 1 for x in data):
            return None
        return narrow_integers(np.frompyfunc(int, 1, 1)(data))
    return int(data) if Fraction(data).denominator == 1 else None


def ceiling(data: Data) -> Data:
    """The numbers, rounded up to integers."""
    if is_column(data):
        return data if data.dtype != object else narrow_integers(np.frompyfunc(lambda x: -((-x) // 1), 1, 1)(data))
    return -((-data) // 1)


LOG_BITS: Final = 52
"""Binary digits of a logarithm after the point."""


def log2_of(value: int | Fraction) -> int | Fraction:
    """The logarithm to base 2: exact for powers of two, else rounded down to a multiple of 2^-52.

    It is never rounded to a whole number, so that `ceil(log2(n))` is exact for every n.
    """
    x = Fraction(value)
    whole_part = x.numerator.bit_length() - x.denominator.bit_length()
    if x < Fraction(2) ** whole_part:
        whole_part -= 1
    rest = x / Fraction(2) ** whole_part
    if rest == 1:
        return whole_part
    scale = 192
    mantissa = (rest.numerator << scale) // rest.denominator
    bits = 0
    for _ in range(LOG_BITS):
        mantissa = (mantissa * mantissa) >> scale
        bits <<= 1
        if mantissa >> (scale + 1):
            bits |= 1
            mantissa >>= 1
    return whole_part + Fraction(max(bits, 1), 2**LOG_BITS)


def concatenate_columns(left: Column, right: Column) -> Column:
    """Two columns, concatenated."""
    if left.dtype != right.dtype:
        return np.concatenate([as_objects(left), as_objects(right)])
    return np.concatenate([left, right])
