"""`collc calibrate` with several files: launch, latency, overhead and bandwidth at once, by bounded least squares.

The time of a collective of `size` bytes is launch + steps * hops * latency + messages * overhead + bytes / bandwidth:
its steps follow one another, an NPU sends its messages one after another, and all its bytes pass its links. Relative
errors count, so that small sizes count as much as large ones, and no value is below zero.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any, Final, Literal, cast

import numpy as np
from numpy.typing import NDArray

from collc.application.tune.calibration import LARGE_ERROR, CalibrationSettings, measured_link, read_measurements
from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, printable
from collc.base.reading import read_text
from collc.base.tables import Table
from collc.base.units import decimal, format_bytes, format_time
from collc.base.wording import phrase, plural

Algorithm = Literal["ring", "two_shot", "one_shot"]

UNKNOWNS: Final = ("seconds_per_byte", "launch", "latency", "overhead", "slowdown")
"""What is fitted, in the order in which they are kept if some cannot be told apart.

slowdown: of schedules of `collc lab`, the time of their transfers over the time that the plan says.
"""


@dataclass(frozen=True, slots=True)
class Observation:
    """A measured time. size: bytes, 0 of a schedule. factors: of each of UNKNOWNS. seconds: of the call."""

    file: Path
    size: int
    factors: tuple[float, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class JointReport:
    """values: of those of UNKNOWNS that were fitted, in seconds, and of the launch if it was given. errors: of each
    time, fitted / measured - 1.
    """

    name: str
    observations: tuple[Observation, ...]
    values: Mapping[str, float]
    errors: tuple[float, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    def lets(self) -> dict[str, str]:
        """The value of each let, as text."""
        texts: dict[str, str] = {}
        for name, value in self.values.items():
            if name == "seconds_per_byte":
                if value > 0:
                    texts["bandwidth"] = decimal(Fraction(round(1e-6 / value)) / 1000, 3) + "GB/s"
            elif name == "slowdown":
                texts["share"] = decimal(Fraction(1 / value).limit_denominator(10_000), 4) if value else "1"
            else:
                texts[name] = format_time(round(value * 1e12))
        return texts

    @property
    def worst(self) -> float:
        """The largest error, without its sign."""
        return max(map(abs, self.errors))

    def program(self) -> str:
        """The lets, as text of a `.coll` file that programs import."""
        files = phrase(dict.fromkeys(printable(each.file.name) for each in self.observations))
        head = f"# Fitted by collc calibrate to {files}: {plural(len(self.observations), 'time')}.\n"
        head += f"# Largest error of a time: {100 * self.worst:.1f} %.\n"
        return head + "".join(f"let {self.name}_{name} = {value}\n" for name, value in self.lets().items())

    def table(self) -> Table:
        """The fitted values, for people."""
        return Table(("measure", "value"), [*self.lets().items(), ("largest error", f"{100 * self.worst:.1f} %")])

    def as_json(self) -> dict[str, object]:
        """The object that `calibrate --json` prints."""
        rows = zip(self.observations, self.errors, strict=True)
        return {
            "name": self.name,
            "values": dict(self.values),
            "largest_error": self.worst,
            "errors": [{"file": str(time.file), "bytes": time.size, "error": error} for time, error in rows],
        }


def calibrate_jointly(files: Sequence[Path], settings: CalibrationSettings, algorithm: Algorithm) -> JointReport:
    """Fit all files at once.

    Raises SourceError X0703 if there are fewer times than values, and what reading a file raises; UsageError U0161 if a
    file does not say how many ranks or which test.
    """
    measured = [time for path in files for time in _observations(path, settings, algorithm)]
    if not measured:
        raise SourceError(Diagnostic("X0703", "the files have no times to fit", hint="allow more sizes with --sizes"))
    seconds = np.array([time.seconds for time in measured])
    matrix = np.array([time.factors for time in measured]).reshape(len(measured), len(UNKNOWNS)) / seconds[:, None]
    kept = _independent_columns(matrix)
    if len(measured) <= len(kept):
        message = f"{plural(len(measured), 'time')} to fit {len(kept)} values; a fit needs more times than values"
        raise SourceError(Diagnostic("X0703", message, hint="measure more sizes, or more collectives"))
    scaled = matrix[:, kept] / np.abs(matrix[:, kept]).max(axis=0)
    known = settings.launch * 1e-12 / seconds
    values = _least_squares(scaled, 1 - known) / np.abs(matrix[:, kept]).max(axis=0)
    errors: list[float] = (matrix[:, kept] @ values + known - 1).tolist()
    merged = [UNKNOWNS[k] for k in np.flatnonzero((matrix > 0).any(axis=0)).tolist() if k not in kept]
    notes: list[Diagnostic] = []
    if merged:
        message = f"{phrase(merged)} cannot be told apart from the other values"
        hint = "add files of other collectives or numbers of ranks, which have other numbers of steps and messages"
        notes.append(Diagnostic("X0707", message, hint=hint, warning=True))
    worst = max(range(len(errors)), key=lambda at: abs(errors[at]))
    if abs(errors[worst]) > LARGE_ERROR:
        where = f"{format_bytes(measured[worst].size)} of " if measured[worst].size else ""
        message = f"the times do not fit: {100 * abs(errors[worst]):.0f} % off at {where}{measured[worst].file}"
        hint = "check --algorithm and --launch, or fit --sizes LOW..HIGH with one protocol"
        notes.append(Diagnostic("X0706", message, hint=hint, warning=True))
    named = {"launch": settings.launch * 1e-12} if settings.launch else {}
    named |= zip([UNKNOWNS[k] for k in kept], values.tolist(), strict=True)
    return JointReport(settings.name, tuple(measured), named, tuple(errors), tuple(notes))


def _independent_columns(matrix: NDArray[np.float64]) -> list[int]:
    """The columns that are no sums of multiples of those before."""
    kept: list[int] = []
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-300)
    for column in range(matrix.shape[1]):
        if np.linalg.matrix_rank((matrix / scale)[:, [*kept, column]], tol=1e-6) > len(kept):
            kept.append(column)
    return kept


def _least_squares(matrix: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values of 0 or more for which the sum of squares of matrix @ values - wanted is the least."""
    from scipy.optimize import lsq_linear  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    answer = cast("Any", lsq_linear)(matrix, wanted, bounds=(0, np.inf), method="bvls")
    return np.asarray(answer.x, np.float64)


def _observations(path: Path, settings: CalibrationSettings, algorithm: Algorithm) -> list[Observation]:
    """The times of a file: a table of nccl-tests or mscclpp-test, or what `collc lab --json` printed."""
    source = read_text(path)
    if source.text.lstrip().startswith("{"):
        return _of_lab(path, source, settings)
    table = read_measurements(source)
    collective, ranks = measured_link(path, table, settings)
    steps, messages, share = _work(collective, ranks, algorithm)
    others = float(not settings.launch), float(steps * settings.hops), float(messages), 0.0
    low, high = settings.sizes
    return [
        Observation(path, row.size, (share * row.size, *others), time)
        for row in table.rows
        if row.size > 0 and low <= row.size <= high
        for time in [row.in_place if settings.in_place else row.out_of_place]
    ]


def _of_lab(path: Path, source: SourceFile, settings: CalibrationSettings) -> list[Observation]:
    """What `collc lab --json` measured, of all algorithms with a plan. Raises SourceError X0702 if there is nothing."""
    try:
        given: Any = json.loads(source.text)
        rows = [(float(row["predicted_s"]), float(row["measured_s"])) for row in given["algorithms"] if row["ratio"]]
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(Diagnostic("X0702", f"{path} is not what 'collc lab --json' prints")) from error
    launch = float(not settings.launch)
    times = [(planned, measured) for planned, measured in rows if 0 <= planned < inf and 0 < measured < inf]
    return [Observation(path, 0, (0.0, launch, 0.0, 0.0, planned), measured) for planned, measured in times]


def _work(collective: str, ranks: int, algorithm: Algorithm) -> tuple[int, int, float]:
    """(steps, messages that an NPU sends, bytes that it sends over the size that the test prints)."""
    others, phases = ranks - 1, 2 if collective == "all_reduce" else 1
    if collective == "sendrecv":
        return 1, 1, 1.0
    if collective == "alltoall":
        return 1, others, others / ranks
    if algorithm == "ring":
        return phases * others, phases * others, phases * others / ranks
    if algorithm == "one_shot" and collective == "all_reduce":
        return 1, others, float(others)
    return phases, phases * others, phases * others / ranks
