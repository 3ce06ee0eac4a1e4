"""Operations on lists, sets and groups, most of them for collections that are the same in all iterations."""

from __future__ import annotations

import numpy as np

from collc.base.diagnostics import Span
from collc.source import limits
from collc.source.elaboration import operators
from collc.source.elaboration.arithmetic import concatenate_columns
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.sets import sorted_unique
from collc.source.elaboration.topology_values import Topology
from collc.source.elaboration.values import (
    INT64,
    Data,
    Interval,
    ListArray,
    Value,
    column,
    concatenated_contents,
    item_count,
    single_list,
)
from collc.source.parsing.expressions import QuantityLiteral
from collc.source.problems import fail
from collc.source.types import ANY, GROUP, NAMED, Kind, Type, fits, holds, item_type, join
from collc.ten.arrays import Int64Array


def quantity(node: QuantityLiteral) -> Value:
    """The value of `9MiB` or `0.5us`. Raises SourceError for a fraction of a byte."""
    kind = NAMED[str(node.dimension)]
    if kind.kind is Kind.BYTES:
        if node.value.denominator != 1:
            raise fail("E0218", f"{float(node.value):,.15g} bytes are not a whole number of bytes", node.span)
        return Value(kind, int(node.value))
    return Value(kind, node.value)


def items_at(lists: Value, at: Int64Array) -> Value:
    """Items at places of the shared content."""
    kind = item_type(lists.type) or ANY
    content = lists.data.content
    data = content.take(at) if isinstance(content, ListArray) else content[at]
    return Value(kind, data, lists.home)


def list_items(value: Value) -> list[Value]:
    """The items of a uniform list, set or group."""
    low, high = int(value.data.start[0]), int(value.data.stop[0])
    rows = items_at(value, np.arange(low, high))
    return [rows.at(k) for k in range(high - low)]


def slice_numbers(value: Value, span: Span) -> Int64Array:
    """int64: the integers of a uniform list, set or range that is used as an index. Raises SourceError."""
    data = value.data
    if isinstance(data, Interval):
        low, high = data.ends
        limits.check_count("iterations", high - low, span)
        if max(abs(low), abs(high)) > INT64:
            raise fail("E0219", "an index is less than 2^63", span)
        return np.arange(low, max(low, high), dtype=np.int64)
    items = data.uniform_items()
    if isinstance(items, ListArray) or (len(items) and items.dtype != np.int64):
        raise fail("E0211", f"an index must be of type int, not {value.type.item}", span)
    return items.astype(np.int64)


def checked_index(index: int, count: int, span: Span) -> int:
    """The index itself. Raises SourceError if it is out of range."""
    if not 0 <= index < count:
        raise fail("E0219", f"index {index} is outside 0 .. {count - 1}", span)
    return index


def selected_items(base: Value, chosen: list[int]) -> Value:
    """A list or group of some items of a uniform one."""
    positions = base.data.start[0] + np.array(chosen, np.int64)
    content = base.data.content
    data = single_list(content.take(positions) if isinstance(content, ListArray) else content[positions])
    return Value(base.type, data, base.home)


def common_home(values: list[Value], span: Span) -> Topology | None:
    """The topology to which the NPUs among some values belong. Raises SourceError if there are several."""
    homes = list({id(v.home): v.home for v in values if v.home is not None}.values())
    if len(homes) > 1:
        first, second = homes[0], homes[1]
        raise fail("E0403", f"NPUs of two topologies, '{first.name}' and '{second.name}', in one collection", span)
    return homes[0] if homes else None


def collection_of(values: list[Value], kind: Kind, span: Span | None = None) -> Value:
    """A uniform list or set of uniform values."""
    item: Type = ANY
    for value in values:
        joint = join(item, value.type)
        if joint is None or not holds(kind, value.type):
            message = (
                f"{item} and {value.type} in one {kind}" if joint is None else f"a {kind} does not hold {value.type}"
            )
            raise fail("E0216", message, span)
        item = joint
    home = common_home(values, span) if span is not None else next((v.home for v in values if v.home), None)
    if values and isinstance(values[0].data, ListArray):
        if span is not None:
            limits.check_count(
                "items of a list", sum(item_count(v.data) for v in values if isinstance(v.data, ListArray)), span
            )
        content: Data = concatenated_contents([v.data.take(np.zeros(1, np.int64)) for v in values])
    else:
        content = column([operators.promote(v, item).data for v in values], item.kind)
    lists = single_list(content)
    return Value(Type(kind, item), sorted_unique(lists) if kind is Kind.SET else lists, home)


def concatenated_lists(left: Value, right: Value, kind: Type, span: Span) -> Value:
    """`[1, 2] + [3]` for uniform lists. Raises SourceError if the result is too long."""
    lengths = [int(v.data.lengths[0]) for v in (left, right)]
    limits.check_count("items of a list", sum(lengths), span)
    if not all(lengths):
        return Value(kind, (left if lengths[0] else right).data, left.home or right.home)
    if isinstance(left.data.content, ListArray) or isinstance(right.data.content, ListArray):
        return collection_of([*list_items(left), *list_items(right)], Kind.LIST, span)
    home = common_home([left, right], span)
    item = item_type(kind) or ANY
    parts = [
        operators.promote(Value(item_type(v.type) or ANY, v.data.uniform_items()), item).data for v in (left, right)
    ]
    return Value(kind, single_list(concatenate_columns(*parts)), home)


def coerce(value: Value, wanted: Type, span: Span, what: str, frame: Frame | None = None) -> Value:
    """A value, converted to a type. what: its role in messages. Raises SourceError if it does not fit."""
    if not fits(value.type, wanted) and not (value.type.kind is Kind.FLOAT and wanted.kind is Kind.INT):
        raise fail("E0211", f"{what} must be of type {wanted}, not {value.type}", span)
    if wanted.kind is Kind.INT and value.type.kind is not Kind.INT:
        return operators.as_whole(value, span, what, frame)
    if wanted.kind is Kind.FLOAT and value.type.kind is Kind.INT:
        return operators.promote(value, wanted)
    if wanted.kind is Kind.GROUP and value.type.kind in (Kind.LIST, Kind.SET):
        return Value(GROUP, value.data, value.home)
    return value
