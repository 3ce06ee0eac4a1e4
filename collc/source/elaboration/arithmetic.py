"""Exact arithmetic on numbers and on quantities with units, for all iterations of a loop nest at once.

Data are Python numbers, int64 arrays, or object arrays of Python numbers. Integers that may need more than 64 bits are
computed as Python integers, and divisions yield Fractions: nothing overflows, and nothing is rounded.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from collc.base.diagnostics import Span
from collc.base.units import PICOSECONDS, decimal, format_bytes, format_rate, format_time
from collc.source.elaboration.values import INT64, Column, Data, Frame, Value, is_column, size_of
from collc.source.limits import MAX_BITS
from collc.source.parsing.expressions import Binary
from collc.source.problems import fail
from collc.source.types import BYTES, FLOAT, INT, Kind, Type

ALIGNMENT: Final = 16
"""Bytes that a GPU thread loads at once; copies are fastest where chunks begin at multiples of it."""

LOG_BITS: Final = sys.float_info.mant_dig - 1
"""Binary digits of a logarithm after the point."""

_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})
_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
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
}
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
"""The largest absolute value of a result, of the largest absolute values of both operands."""

_fractions = np.frompyfunc(Fraction, 2, 1)


# Numbers without units


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


def compute(name: str, left: Data, right: Data) -> Data:
    """The result of `left name right` for numbers.

    The caller has excluded zero divisors, and powers and shifts that are too large.
    """
    if name in _LARGEST:
        sizes = size_of(left), size_of(right)
        in_64_bits = max(*sizes, _LARGEST[name](*sizes)) <= INT64  # of 0 * 2**63 the product fits, but not the factor
    else:
        in_64_bits = name in _COMPARISONS and not (_is_large(left) or _is_large(right))
    if not in_64_bits:
        left, right = as_objects(left), as_objects(right)
    return narrow_integers(_OPERATORS[name](left, right))


def _is_large(data: Data) -> bool:
    return isinstance(data, Fraction) or (isinstance(data, int) and abs(data) > INT64)


def ratio(left: Data, right: Data) -> Data:
    """The exact quotient: Fractions."""
    if is_column(left) or is_column(right):
        return _fractions(as_objects(left), as_objects(right))
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
    return np.frompyfunc(Fraction, 1, 1)(as_objects(data)) if is_column(data) else Fraction(data)


def ceiling(data: Data) -> Data:
    """The numbers, rounded up to integers."""
    if is_column(data):
        return data if data.dtype != object else narrow_integers(np.frompyfunc(lambda x: -((-x) // 1), 1, 1)(data))
    return -((-data) // 1)


def first_fraction(data: Data) -> int:
    """The first row whose number is not whole, -1 for none."""
    if is_column(data) and data.dtype != object:
        return -1
    numbers: Any = data if is_column(data) else [data]
    return next((row for row, x in enumerate(numbers) if Fraction(x).denominator != 1), -1)


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


# Operators


def text_of(value: Data, kind: Type) -> str:
    """A number or quantity, formatted for messages."""
    match kind.kind:
        case Kind.BYTES:
            return format_bytes(int(value)) if Fraction(value).denominator == 1 else _operand(value, kind)
        case Kind.TIME:
            return format_time(value)
        case Kind.RATE:
            return format_rate(value)
        case Kind.BOOL:
            return "true" if value else "false"
        case _:
            return str(value)


def arithmetic(node: Binary, left: Value, right: Value, kind: Type, frame: Frame) -> Value:
    """`left operator right` for numbers and quantities. kind: the type of the result (see types.binary_type).

    Data None is a bandwidth or latency that was left out; results that depend on it are None too. Raises SourceError.
    """
    name, a, b = node.operator, left.data, right.data
    if a is None or b is None:
        return Value(kind, None)
    if name in ("/", "//", "%"):
        row = first_row(b == 0)
        if row >= 0:
            message = f"division of {text_of(item(a, row), left.type)} by zero"
            raise fail("E0217", message, node.span, frame.note(row))
    if name == "/":
        return _quotient(node, left, right, kind, frame)
    if name == "**":
        return _power(node, left, right, kind)
    if name in ("<<", ">>"):
        if first_row(np.asarray(b) < 0) >= 0 or size_of(b) > MAX_BITS:
            raise fail("E0224", f"a shift must be by 0 to {MAX_BITS} bits", node.right.span)
        return Value(INT, compute(name, as_objects(a), as_objects(b)))
    data = compute(name, a, b)
    if {left.type.kind, right.type.kind} == {Kind.RATE, Kind.TIME}:
        return _whole_bytes(node, data / PICOSECONDS, left, right, frame)
    if kind.kind is Kind.BYTES and name not in ("+", "-"):
        return _whole_bytes(node, data, left, right, frame)
    _check_bits(data, node.span)
    return Value(kind, data)


def _check_bits(data: Data, span: Span) -> None:
    if isinstance(data, int | Fraction) and max(x.bit_length() for x in data.as_integer_ratio()) > MAX_BITS:
        raise fail("E0807", f"this number has more than {MAX_BITS} bits", span)


def _quotient(node: Binary, left: Value, right: Value, kind: Type, frame: Frame) -> Value:
    a, b = left.data, right.data
    if kind.kind is Kind.BYTES:
        if right.type.kind is Kind.INT and (is_machine(a) or is_machine(b)):
            rest = compute("%", a, b)
            if first_row(rest != 0) < 0:
                return Value(kind, compute("//", a, b))
        return _whole_bytes(node, ratio(a, b), left, right, frame)
    if left.type.kind is Kind.BYTES and right.type.kind in (Kind.RATE, Kind.TIME):
        return Value(kind, ratio(as_objects(a) * PICOSECONDS, b))
    data = ratio(a, b)
    _check_bits(data, node.span)
    return Value(kind, data)


def _whole_bytes(node: Binary, data: Data, left: Value, right: Value, frame: Frame) -> Value:
    """A value in bytes. Raises SourceError if it is not a whole number of bytes."""
    row = first_fraction(data)
    if row < 0:
        return Value(BYTES, _without_fractions(data))
    a, b = item(left.data, row), item(right.data, row)
    message = f"{_operand(a, left.type)} {node.operator} {_operand(b, right.type)} is not a whole number of bytes"
    hint = ""
    if node.operator == "/" and left.type.kind is Kind.BYTES and right.type.kind is Kind.INT and a > 0 and b > 0:
        below = a // (ALIGNMENT * b) * ALIGNMENT
        near = [multiple for multiple in (below, below + ALIGNMENT) if multiple]
        sizes = " or ".join(f"{multiple * b:,} bytes ({b:,} x {multiple:,})" for multiple in near)
        hint = f"the nearest sizes whose parts are multiples of {ALIGNMENT} bytes: {sizes}"
    raise fail("E0218", message, node.span, frame.note(row), hint=hint)


def _without_fractions(data: Data) -> Data:
    """Whole numbers as integers."""
    if is_column(data):
        return data if data.dtype != object else narrow_integers(np.frompyfunc(int, 1, 1)(data))
    return int(data)


def _operand(value: Data, kind: Type) -> str:
    """The text of an operand: bytes in digits, fractions as decimals if these are exact."""
    number = Fraction(value)
    text = decimal(number) if Fraction(decimal(number)) == number else f"({value})"
    if kind.kind is Kind.BYTES:
        return f"{int(value):,} bytes" if number.denominator == 1 else f"{text} bytes"
    return text_of(value, kind) if kind.kind not in {Kind.INT, Kind.FLOAT} else text


def _power(node: Binary, left: Value, right: Value, kind: Type) -> Value:
    base, exponent = left.data, right.data
    negative = first_row(np.asarray(exponent) < 0) >= 0
    if negative and kind.kind is Kind.INT:
        raise fail("E0224", "a negative power of an int is not an int", node.span, hint="write 1 / (a ** b)")
    if negative and first_row(base == 0) >= 0:
        raise fail("E0217", "division by zero", node.span)
    parts = [Fraction(x).as_integer_ratio() for x in np.atleast_1d(np.asarray(base, object)).flat]
    bits = max((0 if abs(n) <= 1 and d == 1 else max(n.bit_length(), d.bit_length()) for n, d in parts), default=0)
    if bits * size_of(exponent) > MAX_BITS:
        raise fail("E0807", f"this number has more than {MAX_BITS} bits", node.span)
    return Value(kind, compute("**", as_objects(base), as_objects(exponent)))


def sign(name: str, value: Value) -> Value:
    """`-a`, `+a`, `~a`, `not a`."""
    data = value.data
    match name:
        case "not":
            return Value(value.type, ~data if is_column(data) else not data)
        case "-" | "~" if data is not None:
            return Value(value.type, compute("-", 0 if name == "-" else -1, data))
        case _:
            return value


def compare_values(name: str, left: Value, right: Value) -> Data:
    """A comparison of numbers, quantities, bools, strings or NPUs."""
    result = compute(name, left.data, right.data)
    return np.asarray(result, np.bool_) if is_column(result) else bool(result)


def promote(value: Value, wanted: Type) -> Value:
    """An int as a float if a float is required; other values unchanged."""
    if wanted.kind is Kind.FLOAT and value.type.kind is Kind.INT:
        return Value(FLOAT, to_float(value.data))
    return value


def as_whole(value: Value, span: Span, what: str, frame: Frame | None) -> Value:
    """A float as an int. Raises SourceError if it is not a whole number."""
    row = first_fraction(value.data)
    if row < 0:
        return Value(INT, _without_fractions(value.data))
    note = frame.note(row) if frame is not None and frame.rows is not None else None
    message = f"{what} must be a whole number, not {float(item(value.data, row)):g}"
    raise fail("E0220", message, span, note, hint="write ceil(...), or divide with //")
