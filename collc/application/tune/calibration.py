"""`collc calibrate`: the latency and bandwidth of a class of links, from measurements of nccl-tests."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError, UsageError, printable
from collc.base.reading import read_text
from collc.base.tables import Table
from collc.base.units import decimal, format_bytes, format_time
from collc.base.wording import phrase
from collc.tuning.measurements import (
    LEAST_SIZES,
    LEAST_SPAN,
    LineFit,
    MeasuredTable,
    fit_line,
    fit_slope,
    read_measurements,
)

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
        file = printable(self.file.name).replace("\n", "\ufffd")  # a line break would end the comment
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
    collective, ranks = _test(path, table, settings)
    low, high = settings.sizes
    rows = [row for row in table.rows if row.size > 0 and low <= row.size <= high]
    sizes = [row.size for row in rows]
    times = [row.in_place if settings.in_place else row.out_of_place for row in rows]
    if len(rows) < LEAST_SIZES or sizes[-1] < LEAST_SPAN * sizes[0]:
        message = f"{path} has {len(rows)} sizes to fit; a fit needs {LEAST_SIZES} that span a factor of {LEAST_SPAN}"
        raise SourceError(Diagnostic("X0703", message, hint="measure with: sendrecv_perf -b 8 -e 1G -f 2 -n 100 -w 20"))
    fit = fit_line(sizes, times)
    warnings: list[Diagnostic] = []
    steps, share = _ring_steps(collective, ranks)
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


def _ring_steps(collective: str, ranks: int) -> tuple[int, Fraction]:
    """(messages one after another, bytes over one link by the size that the test prints)."""
    once = Fraction(ranks - 1, ranks)
    if collective == "all_reduce":
        return 2 * (ranks - 1), 2 * once
    if collective in ("all_gather", "reduce_scatter"):
        return ranks - 1, once
    return 1, once if collective == "alltoall" else Fraction(1)


def _test(path: Path, table: MeasuredTable, settings: CalibrationSettings) -> tuple[str, int]:
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
