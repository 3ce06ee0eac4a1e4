"""`collc calibrate`: the latency and bandwidth of a class of links, from the tables that nccl-tests print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum
from pathlib import Path
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span, UsageError, printable
from collc.base.reading import read_text
from collc.base.tables import Table
from collc.base.units import decimal, format_bytes, format_time
from collc.base.wording import phrase

LARGE_ERROR: Final = 0.15
"""From this relative error of one size on, a warning says that the times follow no line."""

COLLECTIVES: Final = ("sendrecv", "all_reduce", "all_gather", "reduce_scatter", "alltoall")
"""The tests that give a link."""


@dataclass(frozen=True, slots=True)
class CalibrationSettings:
    """How measurements are read.

    name: of the link class, the start of the names of the lets. collective: the test, None for what the file says, else
    sendrecv. ranks: None for those that the file lists. launch: picoseconds of each call that are no latency of links.
    hops: links one after another between two ranks, which share the latency equally.
    sizes: the smallest and the largest that count. in_place: whether the second half of the columns counts.
    """

    name: str = "link"
    collective: str | None = None
    ranks: int | None = None
    launch: int = 0
    hops: int = 1
    sizes: tuple[int, int] = (0, 2**62)
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """latency: picoseconds. bandwidth: bytes per second. fit: of the times as measured."""

    file: Path
    name: str
    collective: str
    ranks: int
    sizes: tuple[int, ...]
    latency: int
    bandwidth: Fraction
    fit: LineFit
    diagnostics: tuple[Diagnostic, ...] = ()

    def program(self) -> str:
        """The lets, as text of a `.coll` file that programs import."""
        file = printable(self.file.name)  # a line break would end the comment
        low, high = format_bytes(self.sizes[0]), format_bytes(self.sizes[-1])
        return (
            f"# Fitted by collc calibrate to {file}: {self.collective}, {self.ranks} ranks, "
            f"{len(self.sizes)} sizes from {low} to {high}.\n"
            f"# Largest error of a time: {100 * self.fit.worst:.1f} %.\n"
            f"let {self.name}_latency = {format_time(self.latency)}\n"
            f"let {self.name}_bandwidth = {_rate(self.bandwidth)}\n"
        )

    def table(self) -> Table:
        """The fitted values, for people."""
        rows = [
            ("latency", format_time(self.latency)),
            ("bandwidth", _rate(self.bandwidth)),
            ("measured", f"{self.collective}, {self.ranks} ranks, {len(self.sizes)} sizes"),
            ("largest error", f"{100 * self.fit.worst:.1f} %"),
        ]
        return Table(("measure", "value"), rows)

    def as_json(self) -> dict[str, object]:
        """The object that `calibrate --json` prints."""
        return {
            "name": self.name,
            "collective": self.collective,
            "ranks": self.ranks,
            "latency_ps": self.latency,
            "bandwidth": float(self.bandwidth),
            "largest_error": self.fit.worst,
            "errors": [
                {"bytes": size, "error": error} for size, error in zip(self.sizes, self.fit.errors, strict=True)
            ],
        }


def _rate(rate: Fraction) -> str:
    return decimal(rate / 10**9, 3) + "GB/s"


def calibrate(path: Path, settings: CalibrationSettings) -> CalibrationReport:
    """Fit latency and bandwidth to a table of nccl-tests.

    Raises SourceError if the file is none (X0701, X0702) or its times give no link (X0703, X0704), UsageError U0161
    if it does not say how many ranks or which test.
    """
    table = read_measurements(read_text(path))
    collective, ranks = measured_link(path, table, settings)
    low, high = settings.sizes
    rows = [row for row in table.rows if row.size > 0 and low <= row.size <= high]
    sizes = [row.size for row in rows]
    times = [row.in_place if settings.in_place else row.out_of_place for row in rows]
    if len(rows) < LEAST_SIZES or sizes[-1] < LEAST_SPAN * sizes[0]:
        message = f"{path} has {len(rows)} sizes to fit; a fit needs {LEAST_SIZES} that span a factor of {LEAST_SPAN}"
        raise SourceError(Diagnostic("X0703", message, hint="measure with: sendrecv_perf -b 8 -e 1G -f 2 -n 100 -w 20"))
    fit = fit_line(sizes, times)
    warnings: list[Diagnostic] = []
    # messages one after another, and bytes over one link by the size that the test prints
    rounds = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}.get(collective, 0)
    steps = rounds * (ranks - 1) or 1
    share = Fraction(1) if collective == "sendrecv" else (rounds or 1) * Fraction(ranks - 1, ranks)
    latency = fit.alpha / steps - settings.launch * 1e-12
    if latency < 0:
        message = "the fitted latency is below zero" + (" without the time of the launch" if settings.launch else "")
        warnings.append(Diagnostic("X0705", f"{message}: it is set to 0", warning=True))
        fit, latency = (fit_slope(sizes, times), 0.0) if fit.alpha < 0 else (fit, 0.0)
    if fit.beta <= 0:
        message = f"the times of {path} do not grow with the size, so that there is no bandwidth"
        raise SourceError(Diagnostic("X0704", message, hint="measure larger sizes, up to 1GiB"))
    if fit.worst > LARGE_ERROR:
        worst = sizes[max(range(len(sizes)), key=lambda at: abs(fit.errors[at]))]
        line = "latency + size / bandwidth"
        message = f"the times do not fit {line}: {100 * fit.worst:.0f} % off at {format_bytes(worst)}"
        hint = "NCCL changes its protocol between sizes: fix it with NCCL_PROTO=Simple, or fit --sizes LOW..HIGH"
        warnings.append(Diagnostic("X0706", message, hint=hint, warning=True))
    bandwidth = share / Fraction(fit.beta)
    rounded = Fraction(round(bandwidth / 10**6)) * 10**6
    picoseconds = round(latency * 1e12 / settings.hops)
    return CalibrationReport(
        path, settings.name, collective, ranks, tuple(sizes), picoseconds, rounded, fit, tuple(warnings)
    )


def measured_link(path: Path, table: MeasuredTable, settings: CalibrationSettings) -> tuple[str, int]:
    """The test and the number of ranks. Raises UsageError U0161."""
    collective = settings.collective or table.collective or "sendrecv"
    if collective not in COLLECTIVES:
        hint = f"measure {phrase(COLLECTIVES, 'or')}; for one link best sendrecv_perf with two ranks"
        raise UsageError(
            Diagnostic("U0161", f"{path} is of {collective}_perf, from which no link can be fitted", hint=hint)
        )
    ranks = settings.ranks or table.ranks or (2 if collective == "sendrecv" else 0)
    if ranks < 2:
        message = f"{path} does not say how many ranks ran {collective}_perf"
        raise UsageError(Diagnostic("U0161", message, hint="give it with --ranks N"))
    return collective, ranks


_COLUMNS: Final = (
    "size",
    "count",
    "type",
    "redop",
    "root",
    "time",
    "algbw",
    "busbw",
    "#wrong",
    "time",
    "algbw",
    "busbw",
    "#wrong",
)
"""The columns if the file has no line that names them."""

_TIME: Final = ("time", "cputime")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row: bytes as nccl-tests count them, and seconds out of place and in place."""

    size: int
    out_of_place: float
    in_place: float


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """The rows of a table, by ascending size.

    collective: the name of the test that printed it, "" if it does not say. ranks: how many; 0 if not known.
    """

    rows: tuple[Measurement, ...]
    collective: str
    ranks: int


def read_measurements(source: SourceFile) -> MeasuredTable:
    """Read what a test of nccl-tests printed. Raises SourceError X0701 if a row is wrong, X0702 without rows."""
    columns: Sequence[str] = _COLUMNS
    rows: dict[int, Measurement] = {}
    collective, ranks, start = "", 0, 0
    for line in source.text.split("\n"):
        words = line.split()
        span = Span(source, start, start + len(line))
        start += len(line) + 1
        if not words:
            continue
        if words[0].startswith("#"):
            named = line.strip().removeprefix("#").split()
            if named[:2] == ["size", "count"]:
                columns = named
            collective = test[1] if (test := re.search(r"\b(\w+)_perf\b", line)) else collective
            ranks += re.match(r"#\s+Rank\s+\d+", line) is not None
        elif words[0].isdigit():
            row = _row(words, columns, span)
            rows[row.size] = row
    if not rows:
        hint = "give the output of sendrecv_perf or another test of nccl-tests, as it was printed"
        raise SourceError(Diagnostic("X0702", f"{source.name} has no rows of nccl-tests", hint=hint))
    return MeasuredTable(tuple(rows[size] for size in sorted(rows)), collective, ranks)


def _row(words: Sequence[str], columns: Sequence[str], span: Span) -> Measurement:
    """The sizes and times of a line. Raises SourceError X0701."""
    times = [at for at, name in enumerate(columns) if name in _TIME][:2]
    times = [at for at in times if at < len(words) or at == times[0]]  # mscclpp-test fills one half only
    hint = "the columns are " + " ".join(columns)
    try:
        seconds = [float(words[at]) * 1e-6 for at in times]
        size = int(words[0])
    except (ValueError, IndexError) as error:
        message = "this is not a row of nccl-tests: a size, four columns of what was run, and times in microseconds"
        raise SourceError(Diagnostic("X0701", message, span, hint=hint)) from error
    if not seconds or not all(0 < time < 1e6 for time in seconds):
        raise SourceError(Diagnostic("X0701", "a time of this row is not positive", span, hint=hint))
    return Measurement(size, seconds[0], seconds[-1])


LEAST_SIZES: Final = 6
LEAST_SPAN: Final = 1000
"""The largest size over the smallest one, at least."""


@dataclass(frozen=True, slots=True)
class LineFit:
    """alpha: seconds. beta: seconds per byte. errors: of each time, (fitted - measured) / measured."""

    alpha: float
    beta: float
    errors: tuple[float, ...]

    @property
    def worst(self) -> float:
        """The largest error, without its sign."""
        return max(abs(error) for error in self.errors)


def fit_line(sizes: Sequence[int], times: Sequence[float]) -> LineFit:
    """The line with the least sum of squares of relative errors, so that small sizes count as much as large ones.

    Raises ZeroDivisionError if all sizes are equal.
    """
    weights = [1 / time**2 for time in times]
    total = fsum(weights)
    mean_size = fsum(w * s for w, s in zip(weights, sizes, strict=True)) / total
    mean_time = fsum(w * t for w, t in zip(weights, times, strict=True)) / total
    spread = fsum(w * (s - mean_size) ** 2 for w, s in zip(weights, sizes, strict=True))
    product = fsum(w * (s - mean_size) * (t - mean_time) for w, s, t in zip(weights, sizes, times, strict=True))
    beta = product / spread
    alpha = mean_time - beta * mean_size
    return LineFit(alpha, beta, _errors(alpha, beta, sizes, times))


def fit_slope(sizes: Sequence[int], times: Sequence[float]) -> LineFit:
    """The line through 0 (alpha is 0, no latency) with the least sum of squares of relative errors."""
    ratios = [size / time for size, time in zip(sizes, times, strict=True)]
    beta = fsum(ratios) / fsum(ratio**2 for ratio in ratios)
    return LineFit(0.0, beta, _errors(0.0, beta, sizes, times))


def _errors(alpha: float, beta: float, sizes: Sequence[int], times: Sequence[float]) -> tuple[float, ...]:
    return tuple((alpha + beta * size) / time - 1 for size, time in zip(sizes, times, strict=True))
