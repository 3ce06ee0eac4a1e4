"""The report of `collc simulate`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, Literal

import numpy as np

from collc.base.units import format_time, percent, shown_bytes, shown_rate
from collc.simulation.bandwidth import algorithm_bandwidth, bus_factor
from collc.simulation.engine import Simulation

COLUMNS: Final = ("measure", "value")
LINK_COLUMNS: Final = ("busiest links", "bytes", "busy", "queued", "utilisation")
_SHOWN_LINKS: Final = 10
_SPANS: Final = 20
"""Parts of the time for which the utilisation is reported."""

CongestionModel = Literal["aware", "unaware"]


@dataclass(frozen=True, slots=True)
class Workload:
    """What is simulated: a collective of the standard library ("" for none), and its size in bytes (0: not known)."""

    collective: str = ""
    size: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class SimulationReport:
    """A simulation, with what was simulated.

    kind: "chakra", "schedule" or "msccl". model: whether messages queue at links. astra: in ASTRA-sim's nanoseconds.
    """

    file: Path
    kind: str
    model: CongestionModel
    astra: bool
    workload: Workload
    simulation: Simulation

    @property
    def time_ps(self) -> int:
        """Picoseconds until everything is done."""
        return self.simulation.time_ps

    @property
    def algorithm_bandwidth(self) -> Fraction | None:
        """Bytes per second; None where the size is not known."""
        size = self.workload.size
        return algorithm_bandwidth(size, self.time_ps) if size else None

    @property
    def bus_bandwidth(self) -> Fraction | None:
        """Bytes per second; None where the size or the collective is not known."""
        factor = bus_factor(self.workload.collective, len(self.simulation.network.npus))
        found = self.algorithm_bandwidth
        return None if factor is None or found is None else found * factor

    def as_json(self) -> dict[str, object]:
        """The object that `simulate --json` prints."""
        found = self.simulation
        return {
            "file": str(self.file),
            "kind": self.kind,
            "model": self.model,
            "astra": self.astra,
            "collective": self.workload.collective or None,
            "size": self.workload.size or None,
            "time_ps": self.time_ps,
            "ranks_ps": [time * found.unit for time in found.rank_times.tolist()],
            "algorithm_bandwidth": _number(self.algorithm_bandwidth),
            "bus_bandwidth": _number(self.bus_bandwidth),
            "utilisation": [round(share, 6) for share in found.utilisation(_SPANS).tolist()],
            "links": [self._link(link) for link in range(found.network.link_count)],
        }

    def _link(self, link: int) -> dict[str, object]:
        found = self.simulation
        return {
            "link": found.network.link_name(link),
            "bytes": int(found.sent[link]),
            "busy_ps": int(found.busy[link]) * found.unit,
            "queued_ps": int(found.queued[link]) * found.unit,
            "utilisation": round(float(found.busy[link]) / max(1, found.time), 6),
        }

    def rows(self) -> Iterator[tuple[str, str]]:
        """Rows of a table under `COLUMNS`."""
        found = self.simulation
        rule = "ASTRA-sim, congestion-" if self.astra else "exact, congestion-"
        yield "time", format_time(self.time_ps) + (f" ({found.time} cycles)" if self.astra else "")
        yield "model", f"{rule}{self.model}"
        yield "network", f"{found.network.name}: {len(found.network.npus)} NPUs, {found.network.link_count} links"
        yield "messages", str(int(np.count_nonzero(found.graph.route >= 0)))
        if self.workload.size:
            yield "collective", f"{self.workload.collective or 'custom'}, {shown_bytes(self.workload.size)}"
        for name, rate in (("algorithm", self.algorithm_bandwidth), ("bus", self.bus_bandwidth)):
            if rate is not None:
                yield f"{name} bandwidth", shown_rate(Fraction(round(rate / 10**6)) * 10**6)
        yield "sent over links", shown_bytes(int(found.sent.sum()))
        yield "queued at links", format_time(int(found.queued.sum()) * found.unit)
        used = found.utilisation(1)
        if len(used):
            yield "mean utilisation", percent(float(used[0]))

    def link_rows(self) -> list[tuple[str, str, str, str, str]]:
        """Rows of a table under `LINK_COLUMNS`: the links that are occupied longest."""
        found = self.simulation
        order = np.argsort(-found.busy, kind="stable")[:_SHOWN_LINKS].tolist()
        return [
            (
                found.network.shown_link(link),
                shown_bytes(int(found.sent[link])),
                format_time(int(found.busy[link]) * found.unit),
                format_time(int(found.queued[link]) * found.unit),
                percent(float(found.busy[link]) / max(1, found.time)),
            )
            for link in order
            if found.sent[link]
        ]

    def __repr__(self) -> str:
        return f"<SimulationReport {self.file}: {format_time(self.time_ps)}, congestion-{self.model}>"


def _number(rate: Fraction | None) -> float | None:
    return None if rate is None else float(rate)
