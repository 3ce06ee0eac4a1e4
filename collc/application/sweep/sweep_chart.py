"""The chart of a sweep: time or bandwidth against a param, with a line for each combination of everything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from collc.application.sweep.sweep_case import Cell
from collc.application.sweep.sweep_table import SweepTable, cell_text, numbers_of
from collc.base.atomic_files import write_file
from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.wording import listed
from collc.pictures.axes import Axis, Scale, bytes_label, number_label, rate_label, time_label
from collc.pictures.charts import Series, line_chart

Measure = Literal["time", "bandwidth"]

MEASURES: Final[dict[str, tuple[str, Axis]]] = {
    "time": ("time_ps", Axis("time", "log", time_label)),
    "bandwidth": ("bus_bandwidth", Axis("bus bandwidth", "linear", rate_label)),
}
"""By name, the column and the axis."""

_LABELS: Final[dict[str, Callable[[float], str]]] = {"bytes": bytes_label, "time": time_label, "rate": rate_label}
"""By unit of a column."""

_LOGARITHMIC: Final = 8
"""From this ratio of the largest to the smallest value on, the axis of a param is logarithmic."""


@dataclass(frozen=True, slots=True)
class SweepPlot:
    """What is drawn. x: a param; None for the first with several numbers. y: None for bandwidth if it is known."""

    file: Path
    x: str | None = None
    y: Measure | None = None


def check_plot(plot: SweepPlot, params: Mapping[str, Sequence[str]]) -> None:
    """Raise UsageError U0162 for a plot that no result can give. params: their values, by name of the column."""
    if plot.file.suffix != ".svg":
        raise UsageError(Diagnostic("U0162", f"a plot is an .svg file, not {plot.file}"))
    if plot.x is not None and plot.x not in params:
        hint = f"the params are {listed(params)}" if params else "give one with -D name=v1,v2"
        raise UsageError(Diagnostic("U0162", f"--plot-x {plot.x}: this param is not swept", hint=hint))
    numbers = [name for name, values in params.items() if all(_is_number(v) for v in numbers_of([*values])[1])]
    if plot.x is not None and plot.x not in numbers:
        text = ", ".join(params[plot.x])
        message = f"--plot-x {plot.x}: its values are not all numbers, sizes, times or rates: {text}"
        raise UsageError(Diagnostic("U0162", message))
    if plot.x is None and not any(len(params[name]) > 1 for name in numbers):
        message = "there is nothing to plot against: no param has several values that are numbers"
        raise UsageError(Diagnostic("U0162", message, hint="give one with -D name=v1,v2"))


def write_chart(table: SweepTable, plot: SweepPlot, title: str) -> None:
    """Draw and write the chart. Raises UsageError U0162 if no row has a number for x and a result for y."""
    x = plot.x or _first_numbers(table)
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
        name = ", ".join(_words(table, other, row[other]) for other in others) or str(row["schedule"])
        lines.setdefault(name, []).append((float(row[x] or 0), float(row[column] or 0)))
    series = [Series(name, sorted(points)) for name, points in lines.items()]
    picture = line_chart(series, title=title, x=_axis(table, x, rows), y=axis, description=f"{axis.label} against {x}")
    write_file(plot.file, picture.file())


def _first_numbers(table: SweepTable) -> str:
    """The first column of the case with several numbers. Raises UsageError U0162."""
    for name in table.asked:
        values = {row[name] for row in table.rows}
        if len(values) > 1 and all(_is_number(value) for value in values) and name not in ("seed", "schedule"):
            return name
    message = "there is nothing to plot against: no param has several numbers"
    raise UsageError(Diagnostic("U0162", message, hint="give one with -D name=v1,v2"))


def _is_number(value: Cell) -> bool:
    return isinstance(value, int | float)


def _axis(table: SweepTable, x: str, rows: Sequence[dict[str, Cell]]) -> Axis:
    values = [float(row[x] or 0) for row in rows]
    unit = table.units.get(x, "")
    label = _LABELS.get(unit, number_label)
    scale: Scale = "log2" if min(values) > 0 and max(values) >= _LOGARITHMIC * min(values) else "linear"
    return Axis(x, scale, label)


def _words(table: SweepTable, name: str, value: Cell) -> str:
    text = cell_text(name, value, table.units.get(name, ""))
    return text if name in ("schedule", "algorithm") else f"{name} {text}"
