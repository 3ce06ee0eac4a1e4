"""The values of expressions, for all iterations of a loop nest at once.

A value is uniform (one Python object) or varies (an array with one item, called its row, for each iteration). Lists,
sets and groups are ranges `content[start:stop]` of shared contents, so that `sizes[i]` for a million i copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from collc.source.elaboration.topology_values import Topology
from collc.source.types import ANY, DEVICES, FLOAT, GROUP, Kind, Type, join
from collc.ten.arrays import Int64Array

Column = NDArray[Any]
"""An array with one item an iteration: int64, bool, or object for larger numbers, fractions and strings."""

INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class ListArray:
    """Lists of different lengths (compare ListArray of Awkward Array): row r is content[start[r]:stop[r]].

    uniform: there is one row, which is the same in all iterations.
    """

    start: Int64Array
    stop: Int64Array
    content: Column | ListArray
    uniform: bool

    @property
    def lengths(self) -> Int64Array:
        """int64[rows]: the length of each list."""
        return self.stop - self.start

    def take(self, rows: Int64Array) -> ListArray:
        """The lists of some rows."""
        return ListArray(self.start[rows], self.stop[rows], self.content, uniform=False)

    def uniform_items(self) -> Column | ListArray:
        """The items of a uniform list."""
        low, high = int(self.start[0]), int(self.stop[0])
        if isinstance(self.content, ListArray):
            return self.content.take(np.arange(low, high))
        return self.content[low:high]


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """A range low..high, without high; where an end is an array, one range for each iteration."""

    low: int | Column
    high: int | Column

    @property
    def ends(self) -> tuple[int, int]:
        """Both ends of a uniform range."""
        return int(self.low), int(self.high)


Data = Any
"""int, Fraction, bool, str, Column, ListArray, Interval, Topology, TopologyPart; None: a rate or time left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value with its type. home: the topology to which NPUs and groups belong."""

    type: Type
    data: Data
    home: Topology | None = None

    @property
    def varies(self) -> bool:
        """Whether it has an item for each iteration; else it is uniform."""
        if isinstance(self.data, ListArray):
            return not self.data.uniform
        if isinstance(self.data, Interval):
            return is_column(self.data.low) or is_column(self.data.high)
        return is_column(self.data)

    def take(self, rows: Int64Array) -> Value:
        """The value in some of the iterations."""
        if is_column(self.data):
            return replace(self, data=self.data[rows])
        match self.data:
            case ListArray():
                return self if self.data.uniform else replace(self, data=self.data.take(rows))
            case Interval():
                ends = [end[rows] if is_column(end) else end for end in (self.data.low, self.data.high)]
                return replace(self, data=Interval(*ends))
            case _:
                return self

    def at(self, row: int) -> Value:
        """The uniform value of one iteration."""
        if not self.varies:
            return self
        one = self.take(np.array([row], np.int64))
        if is_column(one.data):
            return replace(self, data=python_number(one.data[0]))
        if isinstance(one.data, ListArray):
            return replace(self, data=replace(one.data, uniform=True))
        ends = [python_number(e[0]) if is_column(e) else e for e in (one.data.low, one.data.high)]
        return replace(self, data=Interval(*ends))


def is_column(data: Data) -> TypeGuard[Column]:
    """Whether data are an array with one item an iteration."""
    return isinstance(data, np.ndarray)


def python_number(item: Data) -> Data:
    """An item of an array as a Python object."""
    return item if isinstance(item, int | Fraction | str) else item.item()


def column(items: Sequence[Any], kind: Kind) -> Column:
    """An array of items: int64 for integers that fit, bool for bools, else object."""
    if kind is Kind.BOOL:
        return np.array(items, np.bool_)
    if kind in (Kind.INT, Kind.BYTES, Kind.NPU) and all(-INT64 <= i <= INT64 for i in items):
        return np.array(items, np.int64)
    result = np.empty(len(items), object)
    result[:] = items
    return result


def npus(numbers: Iterable[int] | Column, home: Topology) -> Value:
    """A uniform group."""
    content = np.asarray(numbers if is_column(numbers) else list(numbers), np.int64)
    return Value(GROUP, single_list(content), home)


def single_list(content: Column | ListArray) -> ListArray:
    """A uniform list with some items."""
    count = len(content.start) if isinstance(content, ListArray) else len(content)
    return ListArray(np.zeros(1, np.int64), np.array([count], np.int64), content, uniform=True)


def npu_numbers(value: Value) -> Int64Array:
    """The NPU numbers of a uniform group or npu."""
    if isinstance(value.data, ListArray):
        return np.asarray(value.data.uniform_items(), np.int64)
    return np.array([value.data], np.int64)


def item_count(data: Column | ListArray) -> int:
    """The items that a list stores, those of lists in it counted too."""
    if not isinstance(data, ListArray):
        return len(data)
    return len(data.start) + item_count(data.content)


def concatenated_contents(parts: Sequence[Column | ListArray]) -> Column | ListArray:
    """The items of several contents, concatenated."""
    rows = [part for part in parts if isinstance(part, ListArray)]
    if not rows:
        columns = [part for part in parts if is_column(part)] or [np.empty(0, np.int64)]
        alike = len({column.dtype for column in columns}) == 1
        return np.concatenate(columns if alike else [column.astype(object) for column in columns])
    sizes = [len(r.content.start) if isinstance(r.content, ListArray) else len(r.content) for r in rows]
    offsets = [0, *np.cumsum(sizes).tolist()]
    start, stop = (
        np.concatenate([end + offset for end, offset in zip(ends, offsets, strict=False)])
        for ends in ([r.start for r in rows], [r.stop for r in rows])
    )
    return ListArray(start, stop, concatenated_contents([r.content for r in rows]), uniform=False)


def stacked_rows(values: Sequence[Value]) -> Value | None:
    """One varying value of uniform values, one for each iteration; None if their types have no common type."""
    kind = ANY
    for value in values:
        joint = join(kind, value.type)
        if joint is None:
            return None
        kind = joint
    home = next((v.home for v in values if v.home is not None), None)
    if kind == DEVICES or kind.kind in (Kind.TOPOLOGY, Kind.FAMILY):
        return None
    if not values or isinstance(values[0].data, ListArray):
        parts = [v.data.take(np.zeros(1, np.int64)) for v in values]
        return Value(kind, concatenated_contents(parts), home)
    if isinstance(values[0].data, Interval):
        lows = column([v.data.low for v in values], Kind.INT)
        return Value(kind, Interval(lows, column([v.data.high for v in values], Kind.INT)))
    items = [Fraction(v.data) if kind == FLOAT else v.data for v in values]
    return Value(kind, column(items, kind.kind), home)


def size_of(data: Data) -> int:
    """The largest absolute value of integers."""
    if is_column(data):
        return max(abs(int(data.min())), abs(int(data.max()))) if data.size else 0
    return abs(int(data))
