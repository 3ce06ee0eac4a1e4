"""The report of `collc simulate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, Literal

import numpy as np

from collc.base.tables import Column, Table, records_of, table_of
from collc.base.units import format_time, percent, shown_bytes, shown_rate
from collc.simulation.bandwidth import bandwidths
from collc.simulation.engine import Simulation

_SHOWN_LINKS: Final = 10
_SPANS: Final = 20
"""Parts of the time for which the utilisation is reported."""

_Link = tuple[Simulation, int]

_LINKS: Final[Sequence[Column[_Link]]] = (
    Column("busiest links", "", lambda at: at[0].network.shown_link(at[1])),
    Column("", "link", lambda at: at[0].network.link_name(at[1])),
    Column("bytes", "bytes", lambda at: int(at[0].sent_bytes[at[1]]), shown_bytes),
    Column("busy", "busy_ps", lambda at: int(at[0].busy[at[1]]) * at[0].unit, format_time),
    Column("queued", "queued_ps", lambda at: int(at[0].queued[at[1]]) * at[0].unit, format_time),
    Column("utilisation", "utilisation", lambda at: round(float(at[0].busy[at[1]]) / max(1, at[0].time), 6), percent),
)

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

    def bandwidths(self) -> tuple[Fraction | None, Fraction | None]:
        """Algorithm and bus bandwidth in bytes per second; None if size or collective are not known."""
        work = self.workload
        return bandwidths(work.collective, work.size, len(self.simulation.network.npus), self.time_ps)

    def as_json(self) -> dict[str, object]:
        """The object that `simulate --json` prints."""
        found = self.simulation
        algorithm, bus = (None if rate is None else float(rate) for rate in self.bandwidths())
        return {
            "file": str(self.file),
            "kind": self.kind,
            "model": self.model,
            "astra": self.astra,
            "collective": self.workload.collective or None,
            "size": self.workload.size or None,
            "time_ps": self.time_ps,
            "ranks_ps": [time * found.unit for time in found.rank_times.tolist()],
            "algorithm_bandwidth": algorithm,
            "bus_bandwidth": bus,
            "utilisation": [round(share, 6) for share in found.utilisation(_SPANS).tolist()],
            "links": records_of(_LINKS, [(found, link) for link in range(found.network.link_count)]),
        }

    def tables(self) -> list[Table]:
        """What was measured, and the links that are occupied longest."""
        found = self.simulation
        busiest = np.argsort(-found.busy, kind="stable")[:_SHOWN_LINKS].tolist()
        links = [(found, link) for link in busiest if found.sent_bytes[link]]
        return [Table(("measure", "value"), list(self._rows())), table_of(_LINKS, links)]

    def _rows(self) -> Iterator[tuple[str, str]]:
        found = self.simulation
        rule = "ASTRA-sim, congestion-" if self.astra else "exact, congestion-"
        yield "time", format_time(self.time_ps) + (f" ({found.time} cycles)" if self.astra else "")
        yield "model", f"{rule}{self.model}"
        yield "network", f"{found.network.name}: {len(found.network.npus)} NPUs, {found.network.link_count} links"
        yield "messages", str(int(np.count_nonzero(found.graph.route >= 0)))
        if self.workload.size:
            yield "collective", f"{self.workload.collective or 'custom'}, {shown_bytes(self.workload.size)}"
        for name, rate in zip(("algorithm", "bus"), self.bandwidths(), strict=True):
            if rate is not None:
                yield f"{name} bandwidth", shown_rate(round(rate, -6))
        yield "sent over links", shown_bytes(int(found.sent_bytes.sum()))
        yield "queued at links", format_time(int(found.queued.sum()) * found.unit)
        used = found.utilisation(1)
        if len(used):
            yield "mean utilisation", percent(float(used[0]))

    def __repr__(self) -> str:
        return f"<SimulationReport {self.file}: {format_time(self.time_ps)}, congestion-{self.model}>"
