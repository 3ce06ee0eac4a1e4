"""The builtin functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from collc.base.wording import plural
from collc.source.elaboration import arithmetic as exact
from collc.source.elaboration.frames import Frame, as_rows
from collc.source.elaboration.sets import flatten_lists
from collc.source.elaboration.values import Data, Interval, ListArray, Value, integer, is_column
from collc.source.parsing.expressions import Call
from collc.source.problems import fail
from collc.source.types import ANY, BOOL, FLOAT, INT, NPU, Kind, Type, fits, item_type, join


@dataclass(frozen=True, slots=True, eq=False)
class FunctionCall:
    """A call of a builtin function. values: the values of its arguments."""

    name: str
    values: list[Value]
    node: Call
    frame: Frame


def _length(call: FunctionCall) -> Value | None:
    data = call.values[0].data
    match data:
        case Interval():
            return Value(INT, _clip_count(exact.compute("-", data.high, data.low)))
        case ListArray():
            return integer(int(data.lengths[0])) if data.uniform else Value(INT, data.lengths)
        case _:
            raise fail("E0211", f"len takes a list, set, range or group, not {call.values[0].type}", call.node.span)


def _clip_count(count: Data) -> Data:
    return np.maximum(count, 0) if is_column(count) else max(count, 0)


def _items(call: FunctionCall) -> list[Value] | None:
    """The operands of min, max and sum: the items of a single collection, else the arguments themselves.

    None if the single collection differs between iterations.
    """
    values = call.values
    if len(values) > 1 or item_type(values[0].type) is None:
        return values
    only = values[0]
    if only.varies:
        return None
    if isinstance(only.data, Interval):
        return _interval(call.name, *only.data.ends)
    content = only.data.uniform_items()
    if isinstance(content, ListArray):
        raise fail("E0211", f"{call.name} takes numbers, not lists", call.node.span)
    return [Value(item_type(only.type) or ANY, x) for x in content.tolist()]


def _interval(name: str, low: int, high: int) -> list[Value]:
    """At most two numbers with the same sum, minimum and maximum as a range."""
    if high <= low:
        return []
    return [integer((high - low) * (low + high - 1) // 2)] if name == "sum" else [integer(low), integer(high - 1)]


def _common(call: FunctionCall, values: list[Value]) -> Type:
    kind: Type = ANY
    for value in values:
        joint = join(kind, value.type)
        if joint is None:
            raise fail("E0210", f"{call.name} is not defined for {kind} and {value.type}", call.node.span)
        kind = joint
    if kind.kind not in (Kind.INT, Kind.FLOAT, Kind.NUMBER, Kind.BYTES, Kind.TIME, Kind.RATE, Kind.ANY):
        raise fail("E0211", f"{call.name} takes numbers, not {kind}", call.node.span)
    return FLOAT if kind.kind is Kind.NUMBER else kind


def _extreme(call: FunctionCall) -> Value | None:
    values = _items(call)
    if values is None:
        return _reduce_lists(call)
    if not values:
        raise fail("E0224", f"{call.name} of an empty collection", call.node.span)
    kind = _common(call, values)
    lower = call.name == "min"
    result = values[0].data
    for value in values[1:]:
        result = _extremum(result, value.data, lower)
    return Value(kind, exact.to_float(result) if kind.kind is Kind.FLOAT else exact.narrow_integers(result))


def _extremum(a: Data, b: Data, lower: bool) -> Data:
    if is_column(a) or is_column(b):
        if not (_machine(a) and _machine(b)):
            a, b = exact.as_objects(a), exact.as_objects(b)
        return np.minimum(a, b) if lower else np.maximum(a, b)
    return min(a, b) if lower else max(a, b)


def _machine(data: Data) -> bool:
    return exact.is_machine(data) or (isinstance(data, int) and abs(data) < 2**63)


def _sum(call: FunctionCall) -> Value | None:
    values = _items(call)
    if values is None:
        return _reduce_lists(call)
    kind = _common(call, values)
    result: Data = 0
    for value in values:
        result = exact.compute("+", result, value.data)
    if not values:
        kind = (item_type(call.values[0].type) if call.values else None) or INT
        kind = INT if kind.kind is Kind.ANY else kind
    return Value(kind, exact.to_float(result) if kind.kind in (Kind.FLOAT, Kind.TIME, Kind.RATE) else result)


def _reduce_lists(call: FunctionCall) -> Value | None:
    """sum, min or max of a list that differs between iterations; None if its items are no int64 numbers."""
    lists = call.values[0]
    if isinstance(lists.data, Interval) or isinstance(lists.data.content, ListArray):
        return None
    rows, items = flatten_lists(as_rows(lists, call.frame).data)
    count = len(lists.data.start)
    if not exact.is_machine(items) or len(items) * exact.size_of(items) > 2**62:
        return None
    if call.name == "sum":
        result = np.zeros(count, np.int64)
        np.add.at(result, rows, items)
    else:
        if (lists.data.lengths == 0).any():
            return None
        function = np.minimum if call.name == "min" else np.maximum
        result = function.reduceat(items, np.cumsum(lists.data.lengths) - lists.data.lengths)
    return Value(item_type(lists.type) or INT, result)


def _ceil(call: FunctionCall) -> Value | None:
    value = _number(call)
    return Value(INT, exact.ceiling(value.data))


def _number(call: FunctionCall) -> Value:
    value = call.values[0]
    if value.type.kind not in (Kind.INT, Kind.FLOAT):
        raise fail("E0211", f"{call.name} takes a number, not {value.type}", call.node.arguments[0].span)
    return value


def _log2(call: FunctionCall) -> Value | None:
    value = _number(call)
    row = exact.first_row(value.data <= 0)
    if row >= 0:
        raise fail(
            "E0224", f"log2 of {exact.item(value.data, row)} is not defined", call.node.span, call.frame.note(row)
        )
    if is_column(value.data):
        known = {x: exact.log2_of(x) for x in set(value.data.tolist())}
        if all(isinstance(x, int) for x in known.values()):
            return Value(INT, np.array([known[x] for x in value.data.tolist()], np.int64))
        found = np.empty(len(value.data), object)
        found[:] = [Fraction(known[x]) for x in value.data.tolist()]
        return Value(FLOAT, found)
    result = exact.log2_of(value.data)
    return Value(INT if isinstance(result, int) else FLOAT, result)


def _is_pow2(call: FunctionCall) -> Value | None:
    value = call.values[0]
    if value.type.kind is not Kind.INT:
        raise fail("E0211", f"is_pow2 takes an int, not {value.type}", call.node.arguments[0].span)
    data = exact.as_objects(value.data)
    result = (data > 0) & ((data & (data - 1)) == 0)
    return Value(BOOL, np.asarray(result, np.bool_) if is_column(result) else bool(result))


def _index(call: FunctionCall) -> Value | None:
    group, npu = call.values
    if not fits(group.type, Type(Kind.GROUP)) or not fits(npu.type, NPU):
        message = f"index takes a group and an npu, not {group.type} and {npu.type}"
        raise fail("E0211", message, call.node.span)
    if group.varies:
        return None
    content = group.data.uniform_items().tolist()
    rank = {number: k for k, number in enumerate(content)}
    numbers = npu.data if is_column(npu.data) else np.array([npu.data])
    ranks = np.array([rank.get(x, -1) for x in numbers.tolist()], np.int64)
    row = exact.first_row(ranks < 0)
    if row >= 0:
        name = npu.home.network.shown_name(int(numbers[row])) if npu.home is not None else str(numbers[row])
        raise fail("E0404", f"{name} is not in the group", call.node.span, call.frame.note(row))
    return Value(INT, ranks if npu.varies else int(ranks[0]))


BUILTINS: Final[dict[str, Callable[[FunctionCall], Value | None]]] = {
    "len": _length,
    "min": _extreme,
    "max": _extreme,
    "sum": _sum,
    "ceil": _ceil,
    "log2": _log2,
    "is_pow2": _is_pow2,
    "index": _index,
}
"""Name -> function. It returns None if it has to be called separately for each iteration."""

ARITY: Final[dict[str, tuple[int, int]]] = {
    "len": (1, 1),
    "min": (1, 64),
    "max": (1, 64),
    "sum": (1, 1),
    "ceil": (1, 1),
    "log2": (1, 1),
    "is_pow2": (1, 1),
    "index": (2, 2),
}
"""Name -> smallest and largest number of arguments."""


def check_arguments(call: Call) -> None:
    """Raise SourceError if a call of a builtin has too few, too many or named arguments."""
    name, count = call.function.name, len(call.arguments)
    least, most = ARITY[name]
    for argument in call.arguments:
        if argument.name is not None:
            raise fail("E0212", f"the arguments of {name} have no names", argument.name.span)
    if not least <= count <= most:
        wants = plural(least, "argument") if least == most else f"{least} argument or more"
        raise fail("E0212", f"{name} takes {wants}, not {count}", call.span)
