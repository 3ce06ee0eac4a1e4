"""The tables that nccl-tests print, and the latency and bandwidth of a link that fit their times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span

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
            collective = found[1] if (found := re.search(r"\b(\w+)_perf\b", line)) else collective
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
    try:
        found = [float(words[at]) * 1e-6 for at in times]
        size = int(words[0])
    except (ValueError, IndexError) as error:
        message = "this is not a row of nccl-tests: a size, four columns of what was run, and times in microseconds"
        raise SourceError(Diagnostic("X0701", message, span, hint=_row_hint(columns))) from error
    if not found or not all(0 < time < 1e6 for time in found):
        raise SourceError(Diagnostic("X0701", "a time of this row is not positive", span, hint=_row_hint(columns)))
    return Measurement(size, found[0], found[-1])


def _row_hint(columns: Sequence[str]) -> str:
    return "the columns are " + " ".join(columns)


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
