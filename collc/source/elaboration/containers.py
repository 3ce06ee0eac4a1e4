"""Operations on lists, sets and groups, for all iterations at once or for collections that are the same in all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from collc.base.diagnostics import Span
from collc.source import limits
from collc.source.elaboration.arithmetic import as_whole, concatenate_columns, promote
from collc.source.elaboration.topology_values import Topology
from collc.source.elaboration.values import (
    INT64,
    Column,
    Data,
    Frame,
    Interval,
    ListArray,
    Value,
    as_rows,
    column,
    concatenated_contents,
    is_column,
    item_count,
    single_list,
)
from collc.source.problems import fail
from collc.source.types import ANY, GROUP, Kind, Type, fits, item_type
from collc.ten.arrays import Int64Array, distinct, ranges


def coerce(value: Value, wanted: Type, span: Span, what: str, frame: Frame | None = None) -> Value:
    """A value, converted to a type. what: its role in messages. Raises SourceError if it does not fit."""
    if not fits(value.type, wanted) and not (value.type.kind is Kind.FLOAT and wanted.kind is Kind.INT):
        raise fail("E0211", f"{what} must be of type {wanted}, not {value.type}", span)
    if wanted.kind is Kind.INT and value.type.kind is not Kind.INT:
        return as_whole(value, span, what, frame)
    if wanted.kind is Kind.GROUP and value.type.kind in (Kind.LIST, Kind.SET):
        return Value(GROUP, value.data, value.home)
    return promote(value, wanted)


# Items of lists


def items_at(lists: Value, positions: Int64Array) -> Value:
    """Items at places of the shared content."""
    content = lists.data.content
    data = content.take(positions) if isinstance(content, ListArray) else content[positions]
    return Value(item_type(lists.type) or ANY, data, lists.home)


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


def selected_items(base: Value, index: Value, span: Span) -> Value:
    """The items of a uniform list or group with some indices. Raises SourceError if one is out of range."""
    chosen = slice_numbers(index, span)
    count = int(base.data.lengths[0])
    outside = chosen[(chosen < 0) | (chosen >= count)]
    if len(outside):
        raise fail("E0219", f"index {outside[0]} is outside 0 .. {count - 1}", span)
    return Value(base.type, single_list(items_at(base, base.data.start[0] + chosen).data), base.home)


# Collections of items


def common_home(values: list[Value], span: Span, kind: str = "collection") -> Topology | None:
    """The topology to which the NPUs among some values belong. Raises SourceError if there are several."""
    homes = list({id(v.home): v.home for v in values if v.home is not None}.values())
    if len(homes) > 1:
        first, second = homes[0], homes[1]
        raise fail("E0403", f"NPUs of two topologies, '{first.name}' and '{second.name}', in one {kind}", span)
    return homes[0] if homes else None


def collection_of(values: list[Value], kind: Type, span: Span) -> Value:
    """A uniform list or set of uniform values. kind: its type. Raises SourceError."""
    item = kind.item or ANY
    home = common_home(values, span)
    if values and isinstance(values[0].data, ListArray):
        limits.check_count("items of a list", sum(item_count(v.data) for v in values), span)
        content: Data = concatenated_contents([v.data.take(np.zeros(1, np.int64)) for v in values])
    else:
        content = column([promote(v, item).data for v in values], item.kind)
    lists = single_list(content)
    return Value(kind, sorted_unique(lists) if kind.kind is Kind.SET else lists, home)


def concatenated_lists(left: Value, right: Value, kind: Type, span: Span) -> Value:
    """`[1, 2] + [3]` for uniform lists. Raises SourceError if the result is too long."""
    lengths = [int(v.data.lengths[0]) for v in (left, right)]
    limits.check_count("items of a list", sum(lengths), span)
    home = common_home([left, right], span)
    if not all(lengths):
        return Value(kind, (left if lengths[0] else right).data, home)
    contents = [v.data.uniform_items() for v in (left, right)]
    if isinstance(contents[0], ListArray):
        limits.check_count("items of a list", sum(map(item_count, contents)), span)
        return Value(kind, single_list(concatenated_contents(contents)), home)
    item = item_type(kind) or ANY
    parts = [
        promote(Value(item_type(v.type) or ANY, content), item).data
        for v, content in zip((left, right), contents, strict=True)
    ]
    return Value(kind, single_list(concatenate_columns(*parts)), home)


# Sets


def flatten_lists(lists: ListArray) -> tuple[Int64Array, Column]:
    """All items of all rows: the row of each (int64) and the items, row by row."""
    counts = lists.lengths
    rows = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    content = lists.content
    if isinstance(content, ListArray):
        raise TypeError("a set of lists")
    return rows, content[ranges(lists.start, lists.start + counts)]


def from_sorted_pairs(rows: Int64Array, items: Column, count: int, uniform: bool) -> ListArray:
    """Lists from pairs (row, item) that are sorted by row. count: number of rows."""
    counts = np.bincount(rows, minlength=count).astype(np.int64)
    stop = np.cumsum(counts)
    return ListArray(stop - counts, stop, items, uniform)


def _encode_items(items: Column) -> tuple[Column, Int64Array]:
    """The distinct items in ascending order, and the position of each item among them."""
    known, codes = np.unique(items, return_inverse=True)
    return known, codes.astype(np.int64).reshape(-1)


def sorted_unique(lists: ListArray) -> ListArray:
    """Lists as sets: each row in ascending order, without duplicates."""
    if len(lists.start) == 1 and is_column(lists.content) and lists.content.dtype != object:
        low, high = int(lists.start[0]), int(lists.stop[0])
        return replace(single_list(distinct(lists.content[low:high])), uniform=lists.uniform)
    rows, items = flatten_lists(lists)
    known, codes = _encode_items(items)
    width = max(1, len(known))
    keys = distinct(rows * width + codes)
    return from_sorted_pairs(keys // width, known[keys % width], len(lists.start), lists.uniform)


def combine_sets(operator: str, left: Value, right: Value, kind: Type, frame: Frame, span: Span) -> Value:
    """The union, intersection or difference of sets. Raises SourceError for NPUs of two topologies."""
    home = common_home([left, right], span, "set")
    uniform = not (left.varies or right.varies)
    a, b = (left, right) if uniform else (as_rows(left, frame), as_rows(right, frame))
    rows_a, items_a = flatten_lists(a.data)
    rows_b, items_b = flatten_lists(b.data)
    known, codes = _encode_items(concatenate_columns(items_a, items_b))
    width = max(1, len(known))
    keys_a = rows_a * width + codes[: len(rows_a)]
    keys_b = rows_b * width + codes[len(rows_a) :]
    combine = {"|": np.union1d, "&": np.intersect1d}.get(operator, np.setdiff1d)
    keys = combine(keys_a, keys_b).astype(np.int64)
    return Value(kind, from_sorted_pairs(keys // width, known[keys % width], len(a.data.start), uniform), home)


# Comparisons


def membership(item: Value, container: Value, frame: Frame, span: Span) -> Data:
    """Whether items are in a range, list, set or group: a bool, or one an iteration."""
    data = container.data
    if isinstance(data, Interval):
        contained = (item.data >= data.low) & (item.data < data.high)
        return np.asarray(contained, np.bool_) if is_column(contained) else bool(contained)
    if isinstance(item.data, ListArray):
        raise fail("E0210", "'in' does not search for lists in a list", span)
    if not container.varies:
        content = data.uniform_items()
        if isinstance(content, ListArray):
            return np.zeros(len(item.data), np.bool_) if is_column(item.data) else False
        if not is_column(item.data):
            return item.data in content.tolist()
        _, codes = _encode_items(concatenate_columns(item.data, content))
        return np.isin(codes[: len(item.data)], codes[len(item.data) :])
    rows, items = flatten_lists(as_rows(container, frame).data)
    single = as_rows(item, frame).data
    result = np.zeros(len(single), np.bool_)
    result[rows[np.asarray(items == single[rows], np.bool_)]] = True
    return result


def equal_values(left: Value, right: Value) -> bool:
    """Whether two uniform values are equal."""
    if left.home is not None and right.home is not None and left.home is not right.home:
        return False
    return bool(_as_python(left) == _as_python(right))


def _as_python(value: Value) -> Data:
    """A uniform value as a Python object that can be compared."""
    match value.data:
        case ListArray():
            return _tuples(value.data)[0]
        case Interval():
            return ("range", value.data.low, value.data.high)
        case _:
            return value.data


def _tuples(lists: ListArray) -> list[Any]:
    content: list[Any] = _tuples(lists.content) if isinstance(lists.content, ListArray) else lists.content.tolist()
    return [tuple(content[a:b]) for a, b in zip(lists.start.tolist(), lists.stop.tolist(), strict=True)]
