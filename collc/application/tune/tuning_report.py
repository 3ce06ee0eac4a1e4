"""The report of `collc tune`: the ranges with their files, for people, as JSON, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from collc.application.tune.tuning_case import FileOptions, SchedulePlan
from collc.base.diagnostics import Diagnostic
from collc.base.tables import Column, Table, records_of, table_of
from collc.base.units import format_bytes, format_time
from collc.pictures.axes import Axis, bytes_label, rate_label
from collc.pictures.charts import Series, line_chart
from collc.pictures.picture import Picture
from collc.simulation.bandwidth import algorithm_bandwidth, bus_factor
from collc.tuning.protocols import SOURCE, ProtocolCost
from collc.version import __version__

_NAMES: Final = {"msccl": "tuned, MSCCL", "mscclpp": "tuned, MSCCL++"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that was simulated: of which schedule, how it is written, and picoseconds for each size, None for none."""

    plan: SchedulePlan
    synthesizer: str
    options: FileOptions
    protocol: str
    times: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class TunedRange:
    """The sizes from `low` to `high`, both included, and what serves them. file: relative to the folder, once written.

    name: of the plan, which no other plan has, because the runtime keeps what it made for a plan by its name.
    times: picoseconds for the sizes of the report, simulated with the file that was written; None outside the range.
    """

    candidate: Candidate
    low: int
    high: int
    file: str = ""
    name: str = ""
    times: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class TuningReport:
    """What was tuned, the ranges in order of kind and size, and what they are compared with (by name, picoseconds).

    candidates: how many files were simulated. errors: what could not be tried. notes: remarks on all files.
    """

    schedule: str
    network: str
    collective: str
    npus: int
    sizes: tuple[int, ...]
    costs: tuple[ProtocolCost, ...]
    tolerance: Fraction
    ranges: tuple[TunedRange, ...]
    compared: dict[str, list[int | None]]
    candidates: int
    errors: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def kinds(self) -> list[str]:
        """The kinds of files that there are."""
        return list(dict.fromkeys(r.candidate.options.kind for r in self.ranges))

    def times(self, kind: str) -> list[int | None]:
        """Picoseconds for each size with the files of a kind."""
        found: list[int | None] = [None] * len(self.sizes)
        for one in self.ranges:
            for at, time in enumerate(one.times):
                if one.candidate.options.kind == kind and time is not None:
                    found[at] = time
        return found

    def nccl(self) -> list[int | None]:
        """Picoseconds for each size with the best of NCCL's shapes."""
        shapes = [times for name, times in self.compared.items() if name != "ideal"]
        return [min((t for t in column if t is not None), default=None) for column in zip(*shapes, strict=True)]

    def as_json(self) -> dict[str, object]:
        """The contents of `tuning.json`."""
        columns = {kind: self.times(kind) for kind in self.kinds()} | self.compared
        return {
            "collc": __version__,
            "schedule": self.schedule,
            "network": self.network,
            "collective": self.collective,
            "npus": self.npus,
            "sizes": [self.sizes[0], self.sizes[-1]],
            "tolerance": float(self.tolerance),
            "protocols": {cost.name: cost.as_json() for cost in self.costs},
            "protocols_source": SOURCE,
            "ranges": records_of(_RANGES, [(self, one) for one in self.ranges]),
            "times_ps": [
                {"bytes": size, **{name: times[at] for name, times in columns.items()}}
                for at, size in enumerate(self.sizes)
            ],
            "candidates": self.candidates,
            "not_tried": list(self.errors),
            "notes": list(self.notes),
        }

    def last_size(self, one: TunedRange) -> int | None:
        """The position of the largest size for which a range has a time."""
        return max((k for k, time in enumerate(one.times) if time is not None), default=None)

    def against_nccl(self, one: TunedRange) -> float | None:
        """How many times as fast as NCCL a range is at its largest size."""
        nccl, at = self.nccl(), self.last_size(one)
        time = None if at is None else one.times[at]
        other = None if at is None or not nccl else nccl[at]
        return other / time if time and other is not None else None

    def table(self) -> Table:
        """The ranges; time and comparison with NCCL are for the largest size of each."""
        return table_of(_RANGES, [(self, one) for one in self.ranges])

    def picture(self) -> Picture:
        """Bus bandwidth against size: tuned, NCCL's shapes, and the bound."""
        columns = {_NAMES[kind]: self.times(kind) for kind in self.kinds()}
        for name, times in self.compared.items():
            columns["bound" if name == "ideal" else f"NCCL's {name.removeprefix('nccl_')}"] = times
        series = [Series(name, self._rates(times)) for name, times in columns.items()]
        what = f"{self.collective} of {self.npus} NPUs on {self.network}"
        return line_chart(
            [one for one in series if one.points],
            title=f"Bus bandwidth of {what}",
            x=Axis("size of the buffer", "log2", bytes_label),
            y=Axis("bus bandwidth, simulated", "linear", rate_label),
            description=f"{what}: bus bandwidth against size, tuned files against NCCL's shapes and the bound",
        )

    def _rates(self, times: list[int | None]) -> list[tuple[float, float]]:
        factor = bus_factor(self.collective, self.npus) or Fraction(1)
        points: list[tuple[float, float]] = []
        for size, time in zip(self.sizes, times, strict=True):
            if time:
                points.append((float(size), float(algorithm_bandwidth(size, time) or 0) * float(factor)))
        return points


def size_words(size: int) -> str:
    """A size for people: the ends of a range as the size beside them, and one more or less."""
    if size % 2 == 0:
        return format_bytes(size)
    return f"{format_bytes(size - 1)} + 1" if size % 4 == 1 else f"{format_bytes(size + 1)} - 1"


_Row = tuple[TuningReport, TunedRange]


def _last_time(row: _Row) -> int | None:
    at = row[0].last_size(row[1])
    return None if at is None else row[1].times[at]


_RANGES: Final[Sequence[Column[_Row]]] = (
    Column("", "kind", lambda row: row[1].candidate.options.kind),
    Column("file", "file", lambda row: row[1].file),
    Column("sizes", "", lambda row: f"{size_words(row[1].low)} .. {size_words(row[1].high)}"),
    Column("", "min_bytes", lambda row: row[1].low),
    Column("", "max_bytes", lambda row: row[1].high),
    Column("", "algorithm", lambda row: row[1].candidate.plan.algorithm),
    Column("synthesizer", "synthesizer", lambda row: row[1].candidate.synthesizer),
    Column("chunks", "chunks_per_block", lambda row: row[1].candidate.plan.chunks),
    Column("", "planned_for_bytes", lambda row: row[1].candidate.plan.size),
    Column("", "in_network", lambda row: row[1].candidate.plan.in_network),
    Column("instances", "instances", lambda row: row[1].candidate.options.instances),
    Column("protocol", "protocol", lambda row: row[1].candidate.protocol),
    Column("", "channels", lambda row: row[1].candidate.options.channels),
    Column("", "profile", lambda row: row[1].candidate.options.profile_of_file),
    Column("time", "", _last_time, format_time),
    Column("against NCCL", "", lambda row: row[0].against_nccl(row[1]), "{:.2f} times as fast".format),
)
