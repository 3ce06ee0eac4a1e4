"""Charts (lines, bars and heat maps) and their axes.

They know numbers and texts only; what the numbers mean, the caller says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Final, Literal

from collc.base.units import decimal, format_time
from collc.pictures.picture import (
    LEVELS,
    MOST_MARKS,
    SERIES,
    WIDTH,
    Picture,
    escape_text,
    join_lines,
    level_of,
    line,
    mark,
    marker,
    number,
    rect,
    shorten,
    stroke,
    text,
    text_width,
)

PAD: Final = 14
_ROW: Final = 18


@dataclass(frozen=True, slots=True)
class Series:
    """A named line of points (x, y) in order of x. steps: a value holds until the next point. width: of the line."""

    name: str
    points: Sequence[tuple[float, float]]
    steps: bool = False
    width: float = 2


@dataclass(frozen=True, slots=True)
class Bars:
    """A named series of bars: one value for each label of the chart, None if there is none."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Reference:
    """A value with a name to which others are compared, such as a bound; a dashed line across the chart."""

    name: str
    value: float


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x: Axis,
    y: Axis,
    references: Sequence[Reference] = (),
    height: float = 320,
    description: str = "",
    most: int = MOST_MARKS,
) -> Picture:
    """Lines over x, with a legend, markers with tooltips, `most` of them, and references as horizontal lines.

    Raises ValueError if a value is not finite, or not positive on a logarithmic axis.
    """
    several = series if len(series) > 1 else series[:0]
    names, top = legend((_line_symbol(k % SERIES), entry.name) for k, entry in enumerate(several))
    top += _ROW + 4
    bottom = height - 46
    values = [value for entry in series for _, value in entry.points] + [entry.value for entry in references]
    rows = range_of(y, values, bottom, top)
    left = PAD + max((text_width(y.text(tick), 12) for tick in rows.ticks(6)), default=0) + 8
    across = [value for entry in series for value, _ in entry.points]
    every = max(1, -(-len(across) // most))
    columns = range_of(x, across, left, WIDTH - 2 * PAD, from_zero=False)
    marks: list[str] = []
    for entry in references:
        level, label = rows.at(entry.value), f"{entry.name}: {y.text(entry.value)}"
        across_all = line(left, level, WIDTH - 2 * PAD, level, "wire", ' stroke-dasharray="2 2"')
        marks.append(mark(label, across_all + text(WIDTH - 2 * PAD, level - 5, label, "over muted small end")))
    body = [
        *names,
        text(left, top - 10, y.label, "muted"),
        *_grid(rows, columns),
        *_column_ticks(columns, bottom),
        text((left + WIDTH - 2 * PAD) / 2, height - 8, x.label, "muted mid"),
        *marks,
        *(element for k, entry in enumerate(series) for element in _line(entry, k, columns, rows, every)),
    ]
    return Picture(WIDTH, height, join_lines(body), title, description)


def legend(
    entries: Iterable[tuple[Callable[[float, float], str], str]], right: float = WIDTH - PAD
) -> tuple[list[str], float]:
    """Symbols with their labels in rows up to `right`, and where the rows end.

    entries: what draws the symbol of a series, 28 pixels wide, at (x, y), and its label.
    """
    x, y, parts = float(PAD), 16.0, list[str]()
    for draw, name in entries:
        label = shorten(name, right - PAD - 40)
        needed = 34 + text_width(label) + 16
        if x > PAD and x + needed > right:
            x, y = float(PAD), y + _ROW
        parts += [draw(x, y), text(x + 32, y, label)]
        x += needed
    return parts, y + 8 if parts else 4.0


def _line_symbol(color: int) -> Callable[[float, float], str]:
    return lambda x, y: stroke(f"M{number(x)} {number(y - 4)}h26", color) + "\n" + marker(color, x + 13, y - 4)


def box_symbol(color: int) -> Callable[[float, float], str]:
    """A box in the colour of a series, for a legend."""
    return lambda x, y: rect(x + 8, y - 10, 14, 12, f"f{color % SERIES}")


def _grid(rows: Range, columns: Range) -> Iterator[str]:
    """The horizontal lines of a chart, with the text of each."""
    for tick in rows.ticks(6):
        height = rows.at(tick)
        yield line(columns.begin, height, columns.end, height, "grid")
        yield text(columns.begin - 8, height + 4, rows.axis.text(tick), "end")
    yield line(columns.begin, rows.begin, columns.end, rows.begin, "axis")


def _column_ticks(columns: Range, bottom: float) -> Iterator[str]:
    """Ticks along x, as many as have room for their texts."""
    for most in (10, 8, 6, 5, 4, 3, 2):
        ticks = columns.ticks(most)
        ends = [(columns.at(tick), text_width(columns.axis.text(tick)) / 2) for tick in ticks]
        if all(a + wide + 8 <= b - next_wide for (a, wide), (b, next_wide) in pairwise(ends)):
            break
    else:
        ticks = columns.ticks(1)[:1]
    for tick in ticks:
        column = columns.at(tick)
        label = columns.axis.text(tick)
        half = text_width(label) / 2
        yield line(column, bottom, column, bottom + 5, "axis")
        yield text(min(max(column, half + 2), WIDTH - half - 2), bottom + 19, label, "mid")


def _line(series: Series, index: int, columns: Range, rows: Range, every: int) -> Iterator[str]:
    """The line of a series, then its markers. every: of how many points one has a tooltip."""
    color = index % SERIES
    points = [(columns.at(x), rows.at(y)) for x, y in series.points]
    if len(points) > 1:
        path = f"M{number(points[0][0])} {number(points[0][1])}"
        for x, y in points[1:]:
            path += f"H{number(x)}V{number(y)}" if series.steps else f"L{number(x)} {number(y)}"
        yield stroke(path, color, series.width)
    for (x, y), (value_x, value_y) in list(zip(points, series.points, strict=True))[::every]:
        tip = f"{series.name}: {rows.axis.text(value_y)} at {columns.axis.label} {columns.axis.text(value_x)}"
        hit = f'<circle class="hit" cx="{number(x)}" cy="{number(y)}" r="6"/>'  # a disc that the pointer can hit
        shape = marker(color, x, y) if every == 1 and not series.steps else hit
        yield mark(tip, shape)


def bar_chart(
    labels: Sequence[str],
    series: Sequence[Bars],
    *,
    title: str,
    value: Axis,
    references: Sequence[Reference] = (),
    description: str = "",
) -> Picture:
    """Horizontal bars: a group for each label with a bar for each series, and each value at the end of its bar.

    references: vertical lines. Raises ValueError if a value is negative, not finite, or not positive on a logarithmic
    axis, or if a series has not one value for each label.
    """
    if any(len(entry.values) != len(labels) for entry in series):
        raise ValueError("each series has one value for each label")
    shown = [size for entry in series for size in entry.values if size is not None]
    if any(size < 0 for size in shown):
        raise ValueError("bars show no negative values")
    several = series if len(series) > 1 else series[:0]
    names, top = legend((box_symbol(k), entry.name) for k, entry in enumerate(several))
    top += 18 * len(references) + 6
    left = PAD + min(max((text_width(label) for label in labels), default=0), 0.38 * WIDTH) + 10
    room = max((text_width(value.text(size)) for size in shown), default=0) + 12
    measured = [*shown, *(entry.value for entry in references)]
    if value.scale != "linear" and measured:
        measured.append(min(measured) / 2)  # so that the shortest bar is seen
    values = range_of(value, measured, left, WIDTH - PAD - room)
    thick, gap = (18, 10) if len(series) == 1 else (13, 12)
    bottom = top + len(labels) * (thick * len(series) + gap) + 4
    widest = max((text_width(value.text(tick)) for tick in values.ticks(6)), default=0) + 10
    body = [*names]
    for tick in values.ticks(max(1, min(6, int((values.end - values.begin) / widest)))):
        column = values.at(tick)
        body += [line(column, top, column, bottom, "grid"), text(column, bottom + 16, value.text(tick), "mid")]
    body.append(line(left, top, left, bottom, "axis"))
    for row, label in enumerate(labels):
        y = top + gap / 2 + row * (thick * len(series) + gap)
        name = shorten(label, left - PAD - 9)
        body.append(text(left - 8, y + thick * len(series) / 2 + 4, name, "end"))
        for k, entry in enumerate(series):
            body += _bar(label, entry, row, k, values, y + k * thick, thick - 2)
    for k, entry in enumerate(references):
        column, high = values.at(entry.value), top - 6 - 18 * (len(references) - 1 - k)
        label = f"{entry.name}: {value.text(entry.value)}"
        body.append(
            mark(label, line(column, high, column, bottom, "wire", ' stroke-dasharray="4 3" stroke-width="1.5"'))
        )
        half = text_width(label, 10.5) / 2
        body.append(text(min(max(column, half + 2), WIDTH - half - 2), high - 3, label, "over muted small mid"))
    height = bottom + 44
    body.append(text((left + WIDTH - PAD) / 2, height - 8, value.label, "muted mid"))
    return Picture(WIDTH, height, join_lines(body), title, description)


def _bar(label: str, bars: Bars, row: int, index: int, values: Range, y: float, thick: float) -> Iterator[str]:
    size = bars.values[row]
    if size is None:
        yield text(values.begin + 6, y + thick / 2 + 4, "-", "muted")
        return
    end = values.at(size) if size or values.axis.scale == "linear" else values.begin
    said = values.axis.text(size)
    name = f"{label}, {bars.name}" if bars.name else label
    shapes = rect(values.begin, y, max(end - values.begin, 1), thick, f"f{index % SERIES}", ' rx="2"')
    yield mark(f"{name}: {said}", shapes)
    yield text(end + 5, y + thick / 2 + 4, said, "over small")


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    title: str,
    value: Axis,
    row_title: str = "",
    column_title: str = "",
    description: str = "",
) -> Picture:
    """A cell for each row and column, coloured from 0 to the greatest value; none if the value is None.

    Up to `MOST_MARKS` cells each has a tooltip. Raises ValueError if a value is negative or not finite, or if the shape
    does not fit the labels.
    """
    if len(values) != len(rows) or any(len(row) != len(columns) for row in values):
        raise ValueError("a heat map has one value for each row and column")
    known = [size for row in values for size in row if size is not None]
    if any(size < 0 or not math.isfinite(size) for size in known):
        raise ValueError("a heat map shows no negative and no infinite values")
    most = max(known, default=0.0)
    left = PAD + min(max((text_width(name, 10.5) for name in rows), default=0), 150) + 10
    longest = min(max((text_width(name, 10.5) for name in columns), default=0), 110)
    cell = min(28.0, (WIDTH - left - PAD - 0.68 * longest) / max(1, len(columns)))
    top = 70 + longest * 0.75
    across, down = cell * len(columns), cell * len(rows)
    body = [
        *color_bar(most, value),
        text(left, 58, f"to: {column_title}" if column_title else "", "muted small"),
        *_names(rows, columns, left, top, cell),
        rect(left, top, across, down, "box"),
        '<g shape-rendering="crispEdges">',
        *_cells(rows, columns, values, (left, top, cell), most, value),
        "</g>",
        text(left, top + down + 16, f"from: {row_title}" if row_title else "", "muted small"),
    ]
    width = max(left + across + 0.68 * longest + PAD, WIDTH / 2)
    return Picture(width, top + down + 26, join_lines(body), title, description)


def color_bar(most: float, value: Axis) -> Iterator[str]:
    """What the colours of numbers mean, in the first row of a picture."""
    width = 208.0
    yield text(PAD, 24, value.label, "muted")
    x = PAD + text_width(value.label) + 14
    zero = value.text(0)
    yield text(x, 24, zero, "small")
    x += text_width(zero, 10.5) + 6
    for k in range(LEVELS):
        yield rect(x + width * k / LEVELS, 13, width / LEVELS, 13, f"h{k}")
    yield text(x + width + 6, 24, value.text(most), "small")


def _names(rows: Sequence[str], columns: Sequence[str], left: float, top: float, cell: float) -> Iterator[str]:
    """The names of rows and columns, as many as have room."""
    for k, name in list(enumerate(columns))[:: max(1, math.ceil(15 / cell)) if cell else 1]:
        yield text(left + (k + 0.5) * cell + 3, top - 6, shorten(name, 110, 10.5), "small", -48)
    for k, name in list(enumerate(rows))[:: max(1, math.ceil(12 / cell)) if cell else 1]:
        yield text(left - 6, top + (k + 0.5) * cell + 4, shorten(name, left - PAD - 6, 10.5), "small end")


def _cells(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    place: tuple[float, float, float],
    most: float,
    value: Axis,
) -> Iterator[str]:
    """The cells; of many, those of one colour as one shape. place: the left and top edge, and the size of a cell."""
    left, top, cell = place
    cells = [(i, j, size) for i, row in enumerate(values) for j, size in enumerate(row) if size is not None]
    if len(cells) <= MOST_MARKS:
        for i, j, size in cells:
            shape = rect(left + j * cell, top + i * cell, cell, cell, f"h{level_of(size, most)}")
            yield mark(f"{rows[i]} to {columns[j]}: {value.text(size)}", shape)
        return
    levels: dict[int, list[str]] = {}
    for i, j, size in cells:
        path = f"M{number(left + j * cell)} {number(top + i * cell)}h{number(cell)}v{number(cell)}h{number(-cell)}z"
        levels.setdefault(level_of(size, most), []).append(path)
    for level in sorted(levels):
        about = f"from {value.text(level * most / LEVELS)} to {value.text((level + 1) * most / LEVELS)}"
        yield f'<g><title>{escape_text(about)}</title><path class="h{level}" d="{"".join(levels[level])}"/></g>'


Scale = Literal["linear", "log", "log2"]

_SI: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_BINARY: Final = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def _shorten_number(value: float, prefixes: Sequence[tuple[int, str]], unit: str) -> str:
    scale, prefix = next((entry for entry in prefixes if abs(value) >= entry[0]), (1, ""))
    return decimal(Fraction(f"{value / scale:.4g}")) + prefix + unit if value else "0"


def number_label(value: float) -> str:
    """A number of at most four digits: `0.25`, `1200`, `35k`."""
    return _shorten_number(value, _SI if abs(value) >= 10_000 else (), "")


def time_label(value: float) -> str:
    """A time given in picoseconds: `80.13us`."""
    return format_time(Fraction(f"{value:.4g}")) if value else "0"


def bytes_label(value: float) -> str:
    """A size given in bytes, in binary units: `1.5MiB`."""
    return _shorten_number(value, _BINARY, "B")


def rate_label(value: float) -> str:
    """A rate given in bytes per second, in decimal units: `62.5GB/s`."""
    return _shorten_number(value, _SI, "B/s")


def percent_label(value: float) -> str:
    """A share: `62.5 %`."""
    return decimal(Fraction(f"{value * 100:.4g}")) + " %"


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows: its label, its scale (log2 has ticks at powers of two), and the text of a value.

    ticks: where the ticks are, instead of at round numbers.
    """

    label: str
    scale: Scale = "linear"
    text: Callable[[float], str] = number_label
    ticks: Sequence[float] = field(default=())


@dataclass(frozen=True, slots=True)
class Range:
    """The values that an axis spans, from `low` to `high`, over the pixels from `begin` to `end`."""

    axis: Axis
    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value."""
        ends = (self.low, self.high, value)
        low, high, place = ends if self.axis.scale == "linear" else (math.log(max(x, 1e-300)) for x in ends)
        return self.begin + (self.end - self.begin) * ((place - low) / (high - low) if high > low else 0.5)

    def ticks(self, most: int) -> list[float]:
        """At most about `most` ticks."""
        if self.axis.ticks:
            inside = [tick for tick in self.axis.ticks if self.low <= tick <= self.high]
            return inside[:: -(-len(inside) // max(1, most))]
        if self.axis.scale == "linear":
            step = _step(self.high - self.low, max(1, most))
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [round(k * step, max(0, -math.floor(math.log10(step)) + 1)) for k in range(first, last + 1)]
        # Powers of the base; of ten, 2 and 5 times them too if few powers are inside.
        base = 2 if self.axis.scale == "log2" else 10
        powers = range(math.floor(math.log(self.low, base) - 1e-9), math.ceil(math.log(self.high, base) + 1e-9) + 1)
        factors = (1, 2, 5) if base == 10 and len(powers) <= max(2, most // 3) + 1 else (1,)
        ticks = [factor * float(base) ** k for k in powers for factor in factors]
        inside = [tick for tick in ticks if self.low * (1 - 1e-9) <= tick <= self.high * (1 + 1e-9)]
        return inside[:: max(1, -(-len(inside) // max(1, most)))] or [self.low, self.high]


def range_of(axis: Axis, values: Sequence[float], begin: float, end: float, *, from_zero: bool = True) -> Range:
    """The range of an axis for some values: linear ones from 0 if `from_zero`, to a round number at the top.

    Raises ValueError if a value is not finite, or not positive on a logarithmic axis.
    """
    if not all(math.isfinite(value) for value in values):
        raise ValueError(f"axis '{axis.label}': values must be finite")
    low, high = min(values, default=0.0), max(values, default=1.0)
    if axis.scale == "linear":
        low = min(low, 0.0) if from_zero else low
        if high <= low:
            high = low + (abs(low) or 1.0)
        if from_zero and not axis.ticks:
            step = _step(high - low, 6)
            high = math.ceil(high / step - 1e-9) * step
        return Range(axis, low, high, begin, end)
    if low <= 0:
        raise ValueError(f"axis '{axis.label}': a logarithmic axis has positive values only")
    base = 2.0 if axis.scale == "log2" else 10.0
    if high == low:
        low, high = low / base, high * base
    return Range(axis, low, high, begin, end)


def _step(span: float, most: int) -> float:
    """The least of 1, 2, 5 times a power of ten that divides a span into at most `most` parts."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor * most >= span * (1 - 1e-9))
