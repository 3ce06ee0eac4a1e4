"""The values of expressions for all iterations of a loop nest at once, and the frames of names that hold them.

A value is uniform (one Python object) or varies (an array with one item, called its row, for each iteration). Lists,
sets and groups are ranges `content[start:stop]` of shared contents, so that `sizes[i]` for a million i copies nothing.

A frame represents all iterations of a loop nest: programs are elaborated with arrays, not with loops. A `for` makes an
inner frame that has each iteration of the outer one as often as the loop runs in it, and a guard or an `if` one with
the iterations that it admits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import Note, Span
from collc.source import limits
from collc.source.elaboration.topology_values import Topology
from collc.source.problems import fail
from collc.source.types import ANY, DEVICES, FLOAT, GROUP, NPU, Kind, Type, item_type, join
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
        item = self.take(np.array([row], np.int64))
        if is_column(item.data):
            return replace(self, data=python_number(item.data[0]))
        if isinstance(item.data, ListArray):
            return replace(self, data=replace(item.data, uniform=True))
        ends = [python_number(e[0]) if is_column(e) else e for e in (item.data.low, item.data.high)]
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


@dataclass(eq=False)
class Frame:
    """Iterations of a loop nest; each belongs to one iteration of the parent frame.

    rows: number of iterations; None outside loops, if every value is uniform. take: int64[rows], ascending, the
    parent's iteration that contains each; None if the iterations are those of the parent. names: the values that
    are declared here. outer: looks up names that no frame declares. loop: the loop variable that is declared here, if
    any. depth: number of frames around this one.
    """

    rows: int | None = None
    parent: Frame | None = None
    take: Int64Array | None = None
    names: dict[str, Value] = field(default_factory=dict[str, Value])
    outer: Callable[[str], Value | None] = lambda _name: None
    loop: str | None = None
    depth: int = 0

    def find(self, name: str) -> Value | None:
        """The value of a name in these iterations, None if it is not declared."""
        if name in self.names:
            return self.names[name]
        if self.parent is None:
            return self.outer(name)
        value = self.parent.find(name)
        if value is not None and self.take is not None and value.varies:
            value = self.names[name] = value.take(self.take)
        return value

    def inner(self) -> Frame:
        """A frame with the same iterations, for the names of a body."""
        return Frame(self.rows, self, depth=self.depth + 1)

    def select_rows(self, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Frame:
        """A frame of the iterations in which a condition holds."""
        take = np.flatnonzero(mask)
        return Frame(len(take), self, take, depth=self.depth + 1)

    def row(self, row: int) -> Frame:
        """A frame of one iteration, in which every value is uniform."""

        def look_up(name: str) -> Value | None:
            value = self.find(name)
            return None if value is None else value.at(row)

        return Frame(outer=look_up, depth=self.depth + 1)

    def up(self, rows: Int64Array) -> Int64Array:
        """int64: the parent's iterations that contain some of these."""
        if self.take is not None:
            return self.take[rows]
        return rows if self.parent is not None and self.parent.rows is not None else np.zeros_like(rows)

    def rows_in(self, outer: Frame) -> Int64Array:
        """int64[rows]: for each of these iterations, the one of a frame around this one that contains it."""
        rows = np.arange(self.rows or 0, dtype=np.int64)
        frame = self
        while frame is not outer and frame.parent is not None:
            rows = frame.up(rows)
            frame = frame.parent
        return rows

    def note(self, row: int) -> Note | None:
        """A note with the values of the loop variables in an iteration; None outside loops."""
        shown: list[str] = []
        frame: Frame | None = self
        row_number = np.array([row], np.int64)
        while frame is not None and frame.rows is not None:
            if frame.loop is not None:
                value = frame.names[frame.loop].at(int(row_number[0])).data
                if not isinstance(value, ListArray | Interval):
                    shown.append(f"{frame.loop} = {value}")
            row_number = frame.up(row_number)
            frame = frame.parent
        return Note(f"with {', '.join(reversed(shown))}") if shown else None


def loop_frame(frame: Frame, name: str, iterable: Value, span: Span) -> Frame:
    """The frame of `for name in iterable`: each iteration of `frame` once for every item, in order.

    Raises SourceError if these are too many.
    """
    rows = 1 if frame.rows is None else frame.rows
    kind = item_type(iterable.type) or NPU
    data = iterable.data
    first, counts = (data.low, _lengths(data)) if isinstance(data, Interval) else (data.start, data.lengths)
    total = int(counts.sum()) if iterable.varies else rows * int(counts.reshape(-1)[0])
    limits.check_count("iterations", total, span)
    if isinstance(data, Interval) and total and max(size_of(data.low), size_of(data.high)) > INT64:
        raise fail("E0219", "loop variables must be less than 2^63", span)
    counts = np.broadcast_to(counts.astype(np.int64) if total else np.zeros(1, np.int64), rows)
    take = np.repeat(np.arange(rows, dtype=np.int64), counts)
    place = np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    if total:  # the ends of an empty range may not fit into 64 bits
        place = place + (first[take] if iterable.varies and is_column(first) else first)
    content = place if isinstance(data, Interval) else data.content
    if isinstance(data, ListArray):
        content = data.content.take(place) if isinstance(data.content, ListArray) else data.content[place]
    names = {name: Value(kind, content, iterable.home)}
    return Frame(total, frame, None if frame.rows is None else take, names, loop=name, depth=frame.depth + 1)


def _lengths(ranges: Interval) -> Column:
    """The length of each range; an array without dimensions for a uniform range."""
    low, high = ranges.low, ranges.high
    if not (is_column(low) or is_column(high)):
        return np.asarray(max(0, high - low), object)
    large = max(size_of(low), size_of(high)) > INT64 // 2
    low, high = (np.asarray(end, object if large else np.int64) for end in (low, high))
    return np.where(high > low, high - low, 0)


def as_rows(value: Value, frame: Frame) -> Value:
    """A value with one row for each iteration."""
    if value.varies:
        return value
    count = 1 if frame.rows is None else frame.rows
    if isinstance(value.data, ListArray):
        return Value(value.type, value.data.take(np.zeros(count, np.int64)), value.home)
    if value.type.kind in (Kind.INT, Kind.BYTES, Kind.NPU, Kind.BOOL) and abs(int(value.data)) < 2**63:
        dtype = np.bool_ if value.type.kind is Kind.BOOL else np.int64
        return Value(value.type, np.full(count, value.data, dtype), value.home)
    filled = np.empty(count, object)
    filled[:] = [value.data] * count
    return Value(value.type, filled, value.home)
