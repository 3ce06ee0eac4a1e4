"""Set operations and membership, for all iterations at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from collc.base.diagnostics import Span
from collc.source.elaboration.arithmetic import concatenate_columns
from collc.source.elaboration.frames import Frame, as_rows
from collc.source.elaboration.values import Column, Data, Interval, ListArray, Value, is_column, single_list
from collc.source.problems import fail
from collc.source.types import Type
from collc.ten.arrays import Int64Array


def flatten_lists(lists: ListArray) -> tuple[Int64Array, Column]:
    """All items of all rows: the row of each (int64) and the items, row by row."""
    counts = lists.lengths
    rows = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    within = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    content = lists.content
    if isinstance(content, ListArray):
        raise TypeError("a set of lists")
    return rows, content[within + np.repeat(lists.start, counts)]


def from_sorted_pairs(rows: Int64Array, items: Column, count: int, uniform: bool) -> ListArray:
    """Lists from pairs (row, item) that are sorted by row. count: number of rows."""
    counts = np.bincount(rows, minlength=count).astype(np.int64)
    stop = np.cumsum(counts)
    return ListArray(stop - counts, stop, items, uniform)


def _encode_items(items: Column) -> tuple[Column, Int64Array]:
    """The distinct items in ascending order, and the position of each item among them."""
    if items.dtype != object:
        known, codes = np.unique(items, return_inverse=True)
        return known, codes.astype(np.int64).reshape(-1)
    ordered = sorted(set(items.tolist()))
    place = {item: k for k, item in enumerate(ordered)}
    known = np.empty(len(ordered), object)
    known[:] = ordered
    return known, np.array([place[i] for i in items.tolist()], np.int64)


def distinct(items: Column) -> Column:
    """The distinct items in ascending order. Sorts, since NumPy's `unique` takes six times as long for millions."""
    ordered = np.sort(items)
    kept = np.ones(len(ordered), np.bool_)
    kept[1:] = ordered[1:] != ordered[:-1]
    return ordered[kept]


def sorted_unique(lists: ListArray) -> ListArray:
    """Lists as sets: each row in ascending order, without duplicates."""
    if len(lists.start) == 1 and is_column(lists.content) and lists.content.dtype != object:
        low, high = int(lists.start[0]), int(lists.stop[0])
        return replace(single_list(distinct(lists.content[low:high])), uniform=lists.uniform)
    rows, items = flatten_lists(lists)
    known, codes = _encode_items(items)
    keys = distinct(rows * max(1, len(known)) + codes)
    return from_sorted_pairs(
        keys // max(1, len(known)), known[keys % max(1, len(known))], len(lists.start), lists.uniform
    )


def combine_sets(operator: str, left: Value, right: Value, kind: Type, frame: Frame, span: Span) -> Value:
    """The union, intersection or difference of sets. Raises SourceError for NPUs of two topologies."""
    if left.home is not None and right.home is not None and left.home is not right.home:
        raise fail("E0403", f"NPUs of two topologies, '{left.home.name}' and '{right.home.name}', in one set", span)
    uniform = not (left.varies or right.varies)
    a, b = (left, right) if uniform else (as_rows(left, frame), as_rows(right, frame))
    rows_a, items_a = flatten_lists(a.data)
    rows_b, items_b = flatten_lists(b.data)
    known, codes = _encode_items(concatenate_columns(items_a, items_b))
    width = max(1, len(known))
    keys_a = rows_a * width + codes[: len(rows_a)]
    keys_b = rows_b * width + codes[len(rows_a) :]
    match operator:
        case "|":
            keys = np.union1d(keys_a, keys_b)
        case "&":
            keys = np.intersect1d(keys_a, keys_b)
        case _:
            keys = np.setdiff1d(keys_a, keys_b)
    keys = keys.astype(np.int64)
    lists = from_sorted_pairs(keys // width, known[keys % width], len(a.data.start), uniform)
    return Value(kind, lists, left.home or right.home)


def membership(item: Value, container: Value, frame: Frame) -> Data:
    """Whether items are in a range, list, set or group: a bool, or one an iteration."""
    data = container.data
    if isinstance(data, Interval):
        contained = (item.data >= data.low) & (item.data < data.high)
        return np.asarray(contained, np.bool_) if is_column(contained) else bool(contained)
    uniform = not (item.varies or container.varies)
    if isinstance(item.data, ListArray):
        raise fail("E0210", "'in' does not search for lists in a list", None)
    if not container.varies and is_column(item.data):
        content = data.uniform_items()
        if isinstance(content, ListArray):
            return np.zeros(len(item.data), np.bool_)
        _, codes = _encode_items(concatenate_columns(item.data, content))
        return np.isin(codes[: len(item.data)], codes[len(item.data) :])
    if uniform:
        content = data.uniform_items()
        return not isinstance(content, ListArray) and item.data in content.tolist()
    rows, items = flatten_lists(as_rows(container, frame).data)
    single = as_rows(item, frame).data
    hit = items == single[rows]
    result = np.zeros(len(single), np.bool_)
    result[rows[np.asarray(hit, np.bool_)]] = True
    return result


def as_python(value: Value) -> Data:
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


def equal_values(left: Value, right: Value) -> bool:
    """Whether two uniform values are equal."""
    if left.home is not None and right.home is not None and left.home is not right.home:
        return False
    return bool(as_python(left) == as_python(right))
