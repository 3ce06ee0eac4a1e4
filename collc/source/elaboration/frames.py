"""Frames: the iterations of a loop nest, with the names that are visible in them.

Programs are elaborated with arrays, not with loops: a frame represents all iterations of a loop nest, and the value of
a name is one object for all of them or an array with one item for each. A `for` makes an inner frame that has each
iteration of the outer one as often as the loop runs in it, and a guard or an `if` one with the iterations that it
admits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from collc.base.diagnostics import Note, Span
from collc.source import limits
from collc.source.elaboration.values import INT64, Column, Interval, ListArray, Value, is_column, size_of
from collc.source.problems import fail
from collc.source.types import NPU, Kind, item_type
from collc.ten.arrays import Int64Array


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
        found: list[str] = []
        frame: Frame | None = self
        at = np.array([row], np.int64)
        while frame is not None and frame.rows is not None:
            if frame.loop is not None:
                value = frame.names[frame.loop].at(int(at[0])).data
                if not isinstance(value, ListArray | Interval):
                    found.append(f"{frame.loop} = {value}")
            at = frame.up(at)
            frame = frame.parent
        return Note(f"with {', '.join(reversed(found))}") if found else None


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
