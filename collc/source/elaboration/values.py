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
from collc.source.types import ANY, BOOL, DEVICES, FLOAT, GROUP, INT, NPU, STRING, TOPOLOGY, Kind, Type, join
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


def integer(value: int) -> Value:
    """An int."""
    return Value(INT, value)


def string(value: str) -> Value:
    """A string."""
    return Value(STRING, value)


def truth(value: bool | Column) -> Value:
    """A bool."""
    return Value(BOOL, value)


def number(value: Fraction) -> Value:
    """A float, kept exactly."""
    return Value(FLOAT, value)


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


def _rank(lists: ListArray, offset: int) -> tuple[Int64Array, Int64Array]:
    return lists.start + offset, lists.stop + offset


def item_count(data: Column | ListArray) -> int:
    """The items that a list stores, those of lists in it counted too."""
    if not isinstance(data, ListArray):
        return len(data)
    return len(data.start) + item_count(data.content)


def concatenated_contents(parts: Sequence[Column | ListArray]) -> Column | ListArray:
    """The items of several contents, concatenated."""
    rows: list[ListArray] = []
    plain_parts: list[Column] = []
    for part in parts:
        if isinstance(part, ListArray):
            rows.append(part)
        else:
            plain_parts.append(part)
    if not rows:
        if not plain_parts:
            return np.empty(0, np.int64)
        kinds = {p.dtype for p in plain_parts}
        return np.concatenate(plain_parts if len(kinds) == 1 else [p.astype(object) for p in plain_parts])
    sizes = [len(r.content.start) if isinstance(r.content, ListArray) else len(r.content) for r in rows]
    bases = [0, *np.cumsum(sizes).tolist()]
    shifted = [_rank(r, base) for r, base in zip(rows, bases, strict=False)]
    return ListArray(
        np.concatenate([s for s, _ in shifted]),
        np.concatenate([s for _, s in shifted]),
        concatenated_contents([r.content for r in rows]),
        uniform=False,
    )


def stacked_rows(values: Sequence[Value]) -> Value | None:
    """One varying value of uniform values, one for each iteration; None if their types have no common type."""
    kind = ANY
    for value in values:
        joint = join(kind, value.type)
        if joint is None:
            return None
        kind = joint
    home = next((v.home for v in values if v.home is not None), None)
    if kind in (DEVICES, NPU) or kind.kind in (Kind.TOPOLOGY, Kind.FAMILY):
        kind = NPU if kind == NPU else kind
        if kind != NPU:
            return None
    if not values or isinstance(values[0].data, ListArray):
        parts = [v.data.take(np.zeros(1, np.int64)) for v in values]
        return Value(kind, concatenated_contents(parts), home)
    if isinstance(values[0].data, Interval):
        lows = column([v.data.low for v in values], Kind.INT)
        return Value(kind, Interval(lows, column([v.data.high for v in values], Kind.INT)))
    if kind.kind is Kind.NUMBER:
        kind = FLOAT
    items = [Fraction(v.data) if kind is FLOAT else v.data for v in values]
    return Value(kind, column(items, kind.kind), home)


def topology_value(topology: Topology) -> Value:
    """A topology."""
    return Value(TOPOLOGY, topology)
