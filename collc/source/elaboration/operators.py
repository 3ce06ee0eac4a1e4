"""The operators on numbers and on quantities with units."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np

from collc.base.diagnostics import Span
from collc.base.units import PICOSECONDS, decimal, format_bytes, format_rate, format_time
from collc.source.elaboration import arithmetic as exact
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.values import Data, Value, is_column
from collc.source.limits import MAX_BITS
from collc.source.parsing.expressions import Binary
from collc.source.problems import fail
from collc.source.types import INT, NUMBERS, Kind, Type

ALIGNMENT: Final = 16
"""Bytes that a GPU thread loads at once; copies are fastest where chunks begin at multiples of it."""


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
    operator = node.operator
    if left.data is None or right.data is None:
        return Value(kind, None)
    if operator in ("/", "//", "%"):
        _check_divisor(node, left, right, frame)
        return _divide(node, left, right, kind, frame)
    if operator == "**":
        return _power(node, left, right, kind)
    if operator in ("<<", ">>"):
        if exact.first_row(np.asarray(right.data) < 0) >= 0 or exact.size_of(right.data) > MAX_BITS:
            raise fail("E0224", f"a shift must be by 0 to {MAX_BITS} bits", node.right.span)
        return Value(INT, exact.narrow_integers(_objects(operator, left.data, right.data)))
    data = exact.compute(operator, left.data, right.data)
    if {left.type.kind, right.type.kind} == {Kind.RATE, Kind.TIME}:
        return _whole_bytes(node, data / PICOSECONDS, left, right, frame)
    if kind.kind is Kind.BYTES and operator == "*":
        return _whole_bytes(node, data, left, right, frame)
    _check_bits(data, node.span)
    return Value(kind, data)


def _objects(operator: str, left: Data, right: Data) -> Data:
    return exact.compute(operator, exact.as_objects(left), exact.as_objects(right))


def _check_bits(data: Data, span: Span) -> None:
    if isinstance(data, int) and data.bit_length() > MAX_BITS:
        raise fail("E0807", f"this number has more than {MAX_BITS} bits", span)
    if isinstance(data, Fraction) and max(data.numerator.bit_length(), data.denominator.bit_length()) > MAX_BITS:
        raise fail("E0807", f"this number has more than {MAX_BITS} bits", span)


def _check_divisor(node: Binary, left: Value, right: Value, frame: Frame) -> None:
    row = exact.first_row(right.data == 0)
    if row >= 0:
        above = text_of(exact.item(left.data, row), left.type)
        raise fail("E0217", f"division of {above} by zero", node.span, frame.note(row))


def _divide(node: Binary, left: Value, right: Value, kind: Type, frame: Frame) -> Value:
    operator = node.operator
    if operator != "/":
        data = exact.compute(operator, left.data, right.data)
        if kind.kind is Kind.BYTES:
            return _whole_bytes(node, data, left, right, frame)
        return Value(kind, data)
    if kind.kind is Kind.BYTES:
        if exact.is_machine(left.data) or exact.is_machine(right.data):
            rest = None if right.type.kind is not Kind.INT else exact.compute("%", left.data, right.data)
            if rest is not None and exact.first_row(rest != 0) < 0:
                return Value(kind, exact.compute("//", left.data, right.data))
        return _whole_bytes(node, exact.ratio(left.data, right.data), left, right, frame)
    if left.type.kind is Kind.BYTES and right.type.kind in (Kind.RATE, Kind.TIME):
        return Value(kind, exact.ratio(exact.as_objects(left.data) * PICOSECONDS, right.data))
    data = exact.ratio(left.data, right.data)
    _check_bits(data, node.span)
    return Value(kind, data)


def _whole_bytes(node: Binary, data: Data, left: Value, right: Value, frame: Frame) -> Value:
    """A value in bytes. Raises SourceError if it is not a whole number of bytes."""
    result = exact.whole_numbers(data)
    kind = left.type if left.type.kind is Kind.BYTES else right.type
    if kind.kind is not Kind.BYTES:
        kind = Type(Kind.BYTES)
    if result is not None:
        return Value(kind, result)
    parts = data if is_column(data) else np.array([data], object)
    row = next(k for k, x in enumerate(parts) if Fraction(x).denominator != 1)
    a, b = exact.item(left.data, row), exact.item(right.data, row)
    message = f"{_operand(a, left.type)} {node.operator} {_operand(b, right.type)} is not a whole number of bytes"
    hint = ""
    if node.operator == "/" and left.type.kind is Kind.BYTES and right.type.kind is Kind.INT:
        hint = _sizes_that_divide(int(a), int(b))
    raise fail("E0218", message, node.span, frame.note(row), hint=hint)


def _sizes_that_divide(size: int, parts: int) -> str:
    """The sizes next to one that does not divide, below and above, whose parts are multiples of ALIGNMENT bytes."""
    if size <= 0 or parts <= 0:
        return ""
    below = size // (ALIGNMENT * parts) * ALIGNMENT
    near = [part for part in (below, below + ALIGNMENT) if part]
    sizes = " or ".join(f"{part * parts:,} bytes ({parts:,} x {part:,})" for part in near)
    return f"the nearest sizes whose parts are multiples of {ALIGNMENT} bytes: {sizes}"


def _operand(value: Data, kind: Type) -> str:
    """The text of an operand: bytes in digits, fractions as decimals if these are exact."""
    number = Fraction(value)
    text = decimal(number) if Fraction(decimal(number)) == number else f"({value})"
    if kind.kind is Kind.BYTES:
        return f"{int(value):,} bytes" if number.denominator == 1 else f"{text} bytes"
    return text_of(value, kind) if kind.kind not in {Kind.INT, Kind.FLOAT} else text


def _power(node: Binary, left: Value, right: Value, kind: Type) -> Value:
    base, exponent = left.data, right.data
    negative = exact.first_row(np.asarray(exponent) < 0) >= 0
    if negative and kind.kind is Kind.INT:
        raise fail("E0224", "a negative power of an int is not an int", node.span, hint="write 1 / (a ** b)")
    if negative and exact.first_row(base == 0) >= 0:
        raise fail("E0217", "division by zero", node.span)
    bits = max((_bits_of(x) for x in np.atleast_1d(np.asarray(base, object)).flat), default=0)
    if bits * exact.size_of(exponent) > MAX_BITS:
        raise fail("E0807", f"this number has more than {MAX_BITS} bits", node.span)
    return Value(kind, exact.narrow_integers(_objects("**", base, exponent)))


def _bits_of(value: Data) -> int:
    x = Fraction(value)
    return 0 if abs(x) <= 1 and x.denominator == 1 else max(x.numerator.bit_length(), x.denominator.bit_length())


def sign(operator: str, value: Value) -> Value:
    """`-a`, `+a`, `~a`, `not a`."""
    data = value.data
    match operator:
        case "not":
            return Value(value.type, ~data if is_column(data) else not data)
        case "-":
            return Value(value.type, exact.compute("-", 0, data))
        case "~":
            return Value(value.type, exact.compute("-", -1, data))
        case _:
            return value


def compare_values(operator: str, left: Value, right: Value) -> Data:
    """A comparison of numbers, quantities, bools, strings or NPUs."""
    a, b = left.data, right.data
    if isinstance(a, str | bool) or isinstance(b, str | bool):
        if is_column(a) or is_column(b):
            return np.asarray(exact.compute(operator, _box_string(a), _box_string(b)), np.bool_)
        return bool(exact.compute(operator, a, b))
    result = exact.compute(operator, a, b)
    return np.asarray(result, np.bool_) if is_column(result) else bool(result)


def _box_string(data: Data) -> Data:
    if isinstance(data, str):
        box = np.empty(1, object)
        box[0] = data
        return box
    return data


def promote(value: Value, wanted: Type) -> Value:
    """An int as a float if a float is required; other values unchanged."""
    floats = wanted.kind in (Kind.FLOAT, Kind.NUMBER) and value.type.kind in NUMBERS
    if floats and value.type.kind is Kind.INT and wanted.kind is Kind.FLOAT:
        return Value(wanted, exact.to_float(value.data))
    return value


def as_whole(value: Value, span: Span, what: str, frame: Frame | None) -> Value:
    """A float as an int. Raises SourceError if it is not a whole number."""
    data = exact.whole_numbers(value.data)
    if data is None:
        parts = value.data if is_column(value.data) else [value.data]
        row = next(k for k, x in enumerate(parts) if Fraction(x).denominator != 1)
        note = frame.note(row) if frame is not None and frame.rows is not None else None
        near_by = float(parts[row])
        hint = "write ceil(...), or divide with //"
        raise fail("E0220", f"{what} must be a whole number, not {near_by:g}", span, note, hint=hint)
    return Value(INT, data)
