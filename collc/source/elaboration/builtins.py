"""The builtin functions: their types, for the static check and the evaluator alike, and their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.base.wording import plural
from collc.source import types as ty
from collc.source.elaboration import arithmetic as exact
from collc.source.elaboration.values import Data, Frame, Interval, Value, is_column
from collc.source.parsing.expressions import Call
from collc.source.problems import fail


@dataclass(frozen=True, slots=True)
class Builtin:
    """A builtin function.

    value: of a call with some values; None if it must be called separately for each iteration. wanted: what the
    arguments must be, in words. accepts: whether it takes a type as the argument with a number. result: the type of its
    value, None for the common type of the numbers that it is given. least, most: number of arguments.
    """

    value: Callable[[Call, list[Value], ty.Type, Frame], Value | None]
    wanted: str
    accepts: Callable[[int, ty.Type], bool]
    result: ty.Type | None = None
    least: int = 1
    most: int = 1


def call_type(call: Call, types: Sequence[ty.Type]) -> ty.Type:
    """The type of a call of a builtin function whose arguments have some types. Raises SourceError."""
    name, count = call.function.name, len(call.arguments)
    function = BUILTINS[name]
    for argument in call.arguments:
        if argument.name is not None:
            raise fail("E0212", f"the arguments of {name} have no names", argument.name.span)
    if not function.least <= count <= function.most:
        wants = plural(function.least, "argument") if function.least == function.most else "1 argument or more"
        raise fail("E0212", f"{name} takes {wants}, not {count}", call.span)
    for place, (argument, given) in enumerate(zip(call.arguments, types, strict=True)):
        alone = count == 1 or function.result is not None
        if alone and given.kind is not ty.Kind.ANY and not function.accepts(place, given):
            raise fail("E0211", f"{name} takes {function.wanted}, not {given}", argument.span)
    if function.result is not None:
        return function.result
    kind = ty.ANY
    for given in types if count > 1 else [ty.item_type(types[0]) or types[0]]:
        joint = ty.join(kind, given)
        if joint is None:
            raise fail("E0210", f"{name} is not defined for {kind} and {given}", call.span)
        kind = joint
    if kind.kind not in ty.NUMBERS | ty.QUANTITIES | {ty.Kind.ANY}:
        raise fail("E0211", f"{name} takes numbers, not {kind}", call.span)
    return kind


def _length(_call: Call, values: list[Value], kind: ty.Type, _frame: Frame) -> Value:
    data = values[0].data
    if isinstance(data, Interval):
        count = exact.compute("-", data.high, data.low)
        return Value(kind, np.maximum(count, 0) if is_column(count) else max(count, 0))
    return Value(kind, int(data.lengths[0]) if data.uniform else data.lengths)


def _operands(name: str, values: list[Value]) -> list[Data] | None:
    """The operands of min, max and sum: the items of a single collection, else the arguments themselves.

    None if the single collection differs between iterations.
    """
    only = values[0]
    if len(values) > 1 or ty.item_type(only.type) is None:
        return [value.data for value in values]
    if only.varies:
        return None
    if isinstance(only.data, Interval):
        low, high = only.data.ends
        if high <= low:
            return []
        return [(high - low) * (low + high - 1) // 2] if name == "sum" else [low, high - 1]
    return only.data.uniform_items().tolist()


def _extreme(call: Call, values: list[Value], kind: ty.Type, _frame: Frame) -> Value | None:
    name = call.function.name
    operands = _operands(name, values)
    if operands is None:
        return None
    if not operands:
        raise fail("E0224", f"{name} of an empty collection", call.span)
    result, *others = operands
    for data in others:
        if is_column(result) or is_column(data):
            pair = [result, data]
            if not all(exact.is_machine(x) or (isinstance(x, int) and abs(x) < 2**63) for x in pair):
                pair = [exact.as_objects(x) for x in pair]
            result = np.minimum(*pair) if name == "min" else np.maximum(*pair)
        else:
            result = min(result, data) if name == "min" else max(result, data)
    is_float = kind.kind in (ty.Kind.FLOAT, ty.Kind.NUMBER)
    return Value(ty.FLOAT if is_float else kind, exact.to_float(result) if is_float else exact.narrow_integers(result))


def _sum(call: Call, values: list[Value], kind: ty.Type, _frame: Frame) -> Value | None:
    operands = _operands(call.function.name, values)
    if operands is None:
        return None
    result: Data = 0
    for data in operands:
        result = exact.compute("+", result, data)
    kind = ty.INT if kind.kind is ty.Kind.ANY else kind
    return Value(kind, exact.to_float(result) if kind.kind in (ty.Kind.FLOAT, ty.Kind.TIME, ty.Kind.RATE) else result)


def _log2(call: Call, values: list[Value], _kind: ty.Type, frame: Frame) -> Value:
    data = values[0].data
    row = exact.first_row(data <= 0)
    if row >= 0:
        raise fail("E0224", f"log2 of {exact.item(data, row)} is not defined", call.span, frame.note(row))
    if not is_column(data):
        result = exact.log2_of(data)
        return Value(ty.INT if isinstance(result, int) else ty.FLOAT, result)
    known = {x: exact.log2_of(x) for x in set(data.tolist())}
    numbers = np.array([known[x] for x in data.tolist()], object)
    whole = all(isinstance(x, int) for x in known.values())
    return Value(ty.INT, numbers.astype(np.int64)) if whole else Value(ty.FLOAT, exact.to_float(numbers))


def _is_pow2(_call: Call, values: list[Value], kind: ty.Type, _frame: Frame) -> Value:
    data = exact.as_objects(values[0].data)
    result = (data > 0) & ((data & (data - 1)) == 0)
    return Value(kind, np.asarray(result, np.bool_) if is_column(result) else bool(result))


def _index(call: Call, values: list[Value], kind: ty.Type, frame: Frame) -> Value | None:
    group, npu = values
    if group.varies:
        return None
    rank = {number: k for k, number in enumerate(group.data.uniform_items().tolist())}
    numbers = np.atleast_1d(npu.data)
    ranks = np.array([rank.get(x, -1) for x in numbers.tolist()], np.int64)
    row = exact.first_row(ranks < 0)
    if row >= 0:
        name = npu.home.network.shown_name(int(numbers[row])) if npu.home is not None else str(numbers[row])
        raise fail("E0404", f"{name} is not in the group", call.span, frame.note(row))
    return Value(kind, ranks if npu.varies else int(ranks[0]))


def _is_collection(_place: int, given: ty.Type) -> bool:
    return ty.item_type(given) is not None


def _is_number(_place: int, given: ty.Type) -> bool:
    return given.kind in ty.NUMBERS


_EXTREME: Final = Builtin(
    _extreme, "numbers", lambda _, t: ty.item_type(t) is not None or t.kind in ty.NUMBERS | ty.QUANTITIES, most=64
)

BUILTINS: Final[dict[str, Builtin]] = {
    "len": Builtin(_length, "a list, set, range or group", _is_collection, ty.INT),
    "min": _EXTREME,
    "max": _EXTREME,
    "sum": Builtin(_sum, "a list or set of numbers", _is_collection),
    "ceil": Builtin(lambda _c, v, kind, _f: Value(kind, exact.ceiling(v[0].data)), "a number", _is_number, ty.INT),
    "log2": Builtin(_log2, "a number", _is_number, ty.NUMBER),
    "is_pow2": Builtin(_is_pow2, "an int", lambda _, given: ty.fits(given, ty.INT), ty.BOOL),
    "index": Builtin(
        _index, "a group and an npu", lambda n, given: ty.fits(given, ty.NPU if n else ty.GROUP), ty.INT, 2, 2
    ),
}
