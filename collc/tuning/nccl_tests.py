"""The tables that nccl-tests print: sizes and times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
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
