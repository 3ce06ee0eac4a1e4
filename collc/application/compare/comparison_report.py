"""The report of `collc compare`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from collc.base.units import format_time, percent, shown_bytes, shown_rate
from collc.pictures.axes import Axis
from collc.pictures.charts import Bars, Reference, bar_chart
from collc.simulation.bandwidth import algorithm_bandwidth, bus_factor

COLUMNS: Final = ("algorithm", "time", "algorithm bandwidth", "bus bandwidth", "of ideal", "against this", "remark")


@dataclass(frozen=True, slots=True)
class Alternative:
    """One row: an algorithm and its simulated time, or None and the reason. own: the schedule that is compared."""

    name: str
    time_ps: int | None
    reason: str = ""
    own: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """A schedule and its alternatives, all simulated exactly, with queues at links, on one network.

    collective: "" where runs differ. size: bytes as in the program, 0 where runs differ. ranks: of each run.
    alternatives: the schedule itself first. ideal_ps, ideal: the bound for any number of chunks, and what sets it.
    """

    schedule: str
    network: str
    collective: str
    size: int
    ranks: int
    alternatives: tuple[Alternative, ...]
    ideal_ps: int
    ideal: str

    @property
    def own_ps(self) -> int:
        """The time of the schedule that is compared."""
        return self.alternatives[0].time_ps or 0

    def bandwidths(self, time_ps: int) -> tuple[Fraction | None, Fraction | None]:
        """Algorithm and bus bandwidth in bytes per second, as nccl-tests define them; None where not known."""
        algorithm = algorithm_bandwidth(self.size, time_ps) if self.size else None
        factor = bus_factor(self.collective, self.ranks) if self.collective else None
        return algorithm, None if algorithm is None or factor is None else algorithm * factor

    def as_json(self) -> dict[str, object]:
        """The object that `compare --json` prints."""
        return {
            "schedule": self.schedule,
            "network": self.network,
            "collective": self.collective or None,
            "size": self.size or None,
            "ideal_ps": self.ideal_ps,
            "ideal": self.ideal,
            "algorithms": [self._row(one) for one in self.alternatives],
        }

    def _row(self, one: Alternative) -> dict[str, object]:
        time = one.time_ps
        algorithm, bus = (None, None) if time is None else self.bandwidths(time)
        return {
            "name": one.name,
            "own": one.own,
            "time_ps": time,
            "algorithm_bandwidth": None if algorithm is None else float(algorithm),
            "bus_bandwidth": None if bus is None else float(bus),
            "of_ideal": self.ideal_ps / time if time else None,
            "against_own": time / self.own_ps if time and self.own_ps else None,
            "reason": one.reason or None,
        }

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Rows of a table under `COLUMNS`: by time, the ideal first, and last what does not run."""
        yield ("ideal bound", *self._cells(self.ideal_ps), self.ideal)
        for one in sorted(self.alternatives, key=lambda one: (one.time_ps is None, one.time_ps or 0)):
            name = f"{one.name} (this schedule)" if one.own else one.name
            yield (name, *(self._cells(one.time_ps) if one.time_ps is not None else "-----"), one.reason)

    def _cells(self, time: int) -> tuple[str, str, str, str, str]:
        found = self.bandwidths(time)
        algorithm, bus = ("-" if r is None else shown_rate(Fraction(round(r / 10**6)) * 10**6) for r in found)
        of_ideal = percent(self.ideal_ps / time) if time else "-"
        against = f"{time / self.own_ps:.2f} x" if self.own_ps else "-"
        return format_time(time), algorithm, bus, of_ideal, against

    def title(self) -> str:
        """What was compared, for people."""
        what = f"{self.collective}, {shown_bytes(self.size)}" if self.collective else "several collectives"
        return f"{self.schedule}: {what}, on {self.network}"

    def svg(self) -> str:
        """A bar chart of the times, with the ideal as a line."""
        names = [(one.time_ps, one.name + (" (this)" if one.own else "")) for one in self.alternatives]
        ran = sorted((time, name) for time, name in names if time)
        bars = Bars("time", [time / 1e6 for time, _ in ran])
        axis = Axis("simulated time (us)")
        ideal = Reference("ideal bound", self.ideal_ps / 1e6)
        return bar_chart([name for _, name in ran], [bars], title=self.title(), value=axis, references=[ideal]).file()
