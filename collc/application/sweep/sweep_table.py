"""The table of a sweep, written as CSV, JSON or Parquet, and its chart: a line for each combination of values."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal

from collc.application.sweep.sweep_case import Cell, Rows
from collc.base.atomic_files import open_draft, write_file
from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.tables import Table
from collc.base.units import Dimension, format_time, number, percent, quantity, shown_bytes, shown_rate
from collc.base.wording import phrase
from collc.pictures.charts import Axis, Scale, Series, bytes_label, line_chart, number_label, rate_label, time_label

FORMATS: Final = (".csv", ".json", ".parquet")

_SHOWN: Final = ("network", "synthesizer", "time_ps", "of_ideal", "bus_bandwidth", "error")
"""The columns of results that the table on the terminal has."""

_TITLES: Final = {"time_ps": "time", "of_ideal": "of ideal", "bus_bandwidth": "bus bandwidth"}


@dataclass(frozen=True, slots=True)
class SweepTable:
    """The rows, all with the same keys in the same order.

    asked: the columns that say which case a row is of. units: of those that have a dimension: "bytes", "time", "rate".
    """

    rows: Rows
    asked: tuple[str, ...]
    units: dict[str, str]

    @staticmethod
    def of(rows: Rows, params: Sequence[str]) -> SweepTable:
        """The table with the values of params as numbers if all of one are (`numbers_of`)."""
        units: dict[str, str] = {}
        for name in params:
            unit, values = numbers_of([str(row[name]) for row in rows])
            if unit:
                units[name] = unit
            for row, value in zip(rows, values, strict=True):
                row[name] = value
        columns = list(rows[0]) if rows else []
        asked = columns[: columns.index("network")] if columns else []
        return SweepTable([{name: row[name] for name in columns} for row in rows], tuple(asked), units)

    def write(self, path: Path) -> None:
        """Write the table in the format that the suffix names. Raises UsageError if the file cannot be written."""
        with open_draft("choose another output") as draft:
            temporary = draft.new(path)
            if path.suffix == ".parquet":
                _write_parquet(self.rows, temporary)
            elif path.suffix == ".json":
                temporary.write_text(json.dumps(self.rows, indent=1) + "\n", encoding="utf-8")
            else:
                with temporary.open("w", encoding="utf-8", newline="") as file:
                    writer = csv.DictWriter(file, list(self.rows[0]) if self.rows else [], lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(self.rows)
            draft.publish()

    def table(self) -> Table:
        """The table for people: the case of each row, and the main results."""
        names = [*self.asked, *(name for name in _SHOWN if any(row[name] is not None for row in self.rows))]
        rows = [tuple(cell_text(name, row[name], self.units.get(name, "")) for name in names) for row in self.rows]
        return Table([_TITLES.get(name, name) for name in names], rows)


def check_format(path: Path) -> None:
    """Raise UsageError U0147 for a file of no known format, U0141 if the package for Parquet is not installed."""
    if path.suffix not in FORMATS:
        hint = "name a file that ends in .csv, .json or .parquet"
        raise UsageError(
            Diagnostic("U0147", f"a table cannot be written to {path}: its format is not known", hint=hint)
        )
    if path.suffix == ".parquet":
        _pyarrow()


def _pyarrow(module: str = "pyarrow") -> Any:  # noqa: ANN401 (the package has no types)
    """A module of pyarrow. Raises UsageError U0141 if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        hint = "install it with: python -m pip install 'collc[sweep]', or write .csv or .json"
        raise UsageError(Diagnostic("U0141", "a .parquet file needs the package 'pyarrow'", hint=hint)) from error


def _write_parquet(rows: Rows, path: Path) -> None:
    pyarrow, parquet = _pyarrow(), _pyarrow("pyarrow.parquet")
    kinds: dict[type, Any] = {int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
    columns: dict[str, Any] = {}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        types = {type(value) for value in values if value is not None}
        if types == {int, float}:
            types = {float}
        if len(types) > 1:
            values, types = [None if value is None else str(value) for value in values], {str}
        columns[name] = pyarrow.array(values, kinds[types.pop()] if types else kinds[str])
    parquet.write_table(pyarrow.table(columns), str(path))


def numbers_of(texts: list[str]) -> tuple[str, Sequence[Cell]]:
    """(unit, values): as numbers, bytes, picoseconds or bytes per second where all are; else the texts, no unit."""
    numbers = [_number(text) for text in texts]
    units = {None if number is None else number[0] for number in numbers}
    if len(units) != 1 or None in units:
        return "", texts
    return str(units.pop()), [number[1] for number in numbers if number is not None]


def _number(text: str) -> tuple[str, int | float] | None:
    """(dimension, value) of a number, a size, a time or a rate in the syntax of `.coll`."""
    plain = text.removeprefix("-")
    try:
        dimension, value = quantity(plain) if plain[-1:].isalpha() else ("", number(plain))
    except (ValueError, KeyError, OverflowError):
        return None
    value = value if plain == text else -value
    return str(dimension), int(value) if value.denominator == 1 else float(value)


def cell_text(name: str, value: Cell, unit: str) -> str:
    """A cell for people. Sizes, times and rates get units, as in a program."""
    if value is None:
        return "-"
    if name == "time_ps" or unit == Dimension.TIME:
        return format_time(int(value))
    if name == "of_ideal":
        return percent(float(value))
    if name == "bus_bandwidth":
        return f"{float(value) / 1e9:.3f}GB/s"
    if unit == Dimension.RATE:
        return shown_rate(Fraction(value))
    return shown_bytes(int(value)) if unit == Dimension.BYTES else str(value)


Measure = Literal["time", "bandwidth"]

MEASURES: Final[dict[str, tuple[str, Axis]]] = {
    "time": ("time_ps", Axis("time", "log", time_label)),
    "bandwidth": ("bus_bandwidth", Axis("bus bandwidth", "linear", rate_label)),
}
"""By name, the column and the axis."""

_LABELS: Final[dict[str, Callable[[float], str]]] = {"bytes": bytes_label, "time": time_label, "rate": rate_label}
"""By unit of a column."""


@dataclass(frozen=True, slots=True)
class SweepPlot:
    """What is drawn. x: a param; None for the first with several numbers. y: None for bandwidth if it is known."""

    file: Path
    x: str | None = None
    y: Measure | None = None


def checked_plot(plot: SweepPlot, params: Mapping[str, Sequence[str]]) -> SweepPlot:
    """The plot with its param. Raises UsageError U0162 if no result can give it. params: values by column."""
    if plot.file.suffix != ".svg":
        raise UsageError(Diagnostic("U0162", f"a plot is an .svg file, not {plot.file}"))
    if plot.x is not None and plot.x not in params:
        hint = f"the params are {phrase(params)}" if params else "give one with -D name=v1,v2"
        raise UsageError(Diagnostic("U0162", f"--plot-x {plot.x}: this param is not swept", hint=hint))
    numbers = [name for name, values in params.items() if all(_is_number(v) for v in numbers_of([*values])[1])]
    if plot.x is not None and plot.x not in numbers:
        text = ", ".join(params[plot.x])
        message = f"--plot-x {plot.x}: its values are not all numbers, sizes, times or rates: {text}"
        raise UsageError(Diagnostic("U0162", message))
    x = plot.x or next((name for name in numbers if len(params[name]) > 1), None)
    if x is None:
        message = "there is nothing to plot against: no param has several values that are numbers"
        raise UsageError(Diagnostic("U0162", message, hint="give one with -D name=v1,v2"))
    return replace(plot, x=x)


def write_chart(table: SweepTable, plot: SweepPlot, title: str) -> None:
    """Draw and write the chart. Raises UsageError U0162 if no row has a number for x and a result for y."""
    x = plot.x or ""
    known = [row for row in table.rows if row["bus_bandwidth"] is not None]
    y = plot.y or ("bandwidth" if known else "time")
    column, axis = MEASURES[y]
    rows = [row for row in table.rows if _is_number(row.get(x)) and _is_number(row[column])]
    rows = [row for row in rows if float(row[column] or 0) > 0]
    if not rows:
        message = f"nothing can be plotted: no row has a number for '{x}' and a {y}"
        raise UsageError(Diagnostic("U0162", message, hint="the table has the error of each row that failed"))
    others = [name for name in table.asked if name != x and len({row[name] for row in table.rows}) > 1]
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        cells = [(name, cell_text(name, row[name], table.units.get(name, ""))) for name in others]
        words = [text if name in ("schedule", "algorithm") else f"{name} {text}" for name, text in cells]
        points = lines.setdefault(", ".join(words) or str(row["schedule"]), [])
        points.append((float(row[x] or 0), float(row[column] or 0)))
    series = [Series(name, sorted(points)) for name, points in lines.items()]
    values = [float(row[x] or 0) for row in rows]
    scale: Scale = "log2" if 0 < 8 * min(values) <= max(values) else "linear"
    across = Axis(x, scale, _LABELS.get(table.units.get(x, ""), number_label))
    picture = line_chart(series, title=title, x=across, y=axis, description=f"{axis.label} against {x}")
    write_file(plot.file, picture.file())


def _is_number(value: Cell) -> bool:
    return isinstance(value, int | float)
