"""`collc compare`: a schedule against textbook algorithms and the ideal, all simulated on one network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np

from collc.application.file_kinds import kind_of
from collc.application.settings import Progress
from collc.application.simulate.module_simulation import (
    MOST_MESSAGES,
    Alternative,
    simulated_alternatives,
    simulated_module,
    standard_of,
)
from collc.application.simulate.simulating import compiled_module
from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.base.tables import Column, Table, records_of, table_of
from collc.base.units import format_time, percent, shown_bytes, shown_rate
from collc.pictures.charts import Axis, Bars, Reference, bar_chart
from collc.simulation.bandwidth import bandwidths, collectives_of_nccl_tests
from collc.simulation.engine import simulate
from collc.simulation.routing import NoRoute
from collc.simulation.timing import ExactTiming
from collc.synthesis.bounds import ideal_bound
from collc.ten.module import Module
from collc.ten.network import Network
from collc.tuning.nccl_shapes import nccl_graphs, shapes_of


@dataclass(frozen=True, slots=True)
class _Row:
    """A time of the comparison, or why there is none. own: the time of the schedule that is compared."""

    name: str
    label: str
    time_ps: int | None
    reason: str
    comparison: Comparison
    own: bool = False

    def bandwidth(self, number: int) -> float | None:
        """Algorithm (0) or bus bandwidth (1) in bytes per second."""
        whole = self.comparison
        rate = bandwidths(whole.collective, whole.size, whole.ranks, self.time_ps)[number]
        return None if rate is None else float(rate)


def _rate(rate: float) -> str:
    return shown_rate(round(Fraction(rate), -6))


_COLUMNS: Final[Sequence[Column[_Row]]] = (
    Column("algorithm", "", lambda row: row.label),
    Column("", "name", lambda row: row.name),
    Column("", "own", lambda row: row.own),
    Column("time", "time_ps", lambda row: row.time_ps, format_time),
    Column("", "algorithm_bandwidth", lambda row: row.bandwidth(0)),
    Column("bus bandwidth", "bus_bandwidth", lambda row: row.bandwidth(1), _rate),
    Column("of ideal", "of_ideal", lambda r: r.comparison.ideal_ps / r.time_ps if r.time_ps else None, percent),
    Column("against this", "against_own", lambda row: row.comparison.against_own(row.time_ps), "{:.2f} x".format),
    Column("remark", "", lambda row: row.reason),
    Column("", "reason", lambda row: row.reason or None),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A schedule and its alternatives, all simulated exactly, with queues at links, on one network.

    collective: "" if runs differ. size: bytes as in the program, 0 if runs differ. ranks: of each run.
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

    def against_own(self, time_ps: int | None) -> float | None:
        """A time by the time of the schedule that is compared."""
        return time_ps / self.own_ps if time_ps and self.own_ps else None

    def _rows(self) -> list[_Row]:
        rows = [_Row(one.name, one.name, one.time_ps, one.reason, self) for one in self.alternatives]
        own = rows[0]
        return [replace(own, label=f"{own.name} (this schedule)", own=True), *rows[1:]]

    def as_json(self) -> dict[str, object]:
        """The object that `compare --json` prints."""
        return {
            "schedule": self.schedule,
            "network": self.network,
            "collective": self.collective or None,
            "size": self.size or None,
            "ideal_ps": self.ideal_ps,
            "ideal": self.ideal,
            "algorithms": records_of(_COLUMNS, self._rows()),
        }

    def table(self) -> Table:
        """All times in order, the ideal first, and last what does not run."""
        ideal = _Row("", "ideal bound", self.ideal_ps, self.ideal, self)
        rows = sorted(self._rows(), key=lambda row: (row.time_ps is None, row.time_ps or 0))
        return table_of(_COLUMNS, [ideal, *rows])

    def title(self) -> str:
        """What was compared, for people."""
        what = f"{self.collective}, {shown_bytes(self.size)}" if self.collective else "several collectives"
        return f"{self.schedule}: {what}, on {self.network}"

    def svg(self) -> str:
        """A bar chart of the times, with the ideal as a line."""
        ran = sorted((row.time_ps, row.name + (" (this)" if row.own else "")) for row in self._rows() if row.time_ps)
        bars = Bars("time", [time / 1e6 for time, _ in ran])
        axis = Axis("simulated time (us)")
        ideal = Reference("ideal bound", self.ideal_ps / 1e6)
        return bar_chart([name for _, name in ran], [bars], title=self.title(), value=axis, references=[ideal]).file()


def compare_file(path: Path, schedule: str | None, definitions: Mapping[str, str], progress: Progress) -> Comparison:
    """Compare a schedule of a program, or the schedule of a `.ten` file.

    schedule, definitions: of a program, which schedule, and values of its params. Raises SourceError C0209 if a run is
    of no standard collective, and what compilation or reading raises.
    """
    kind = kind_of(path)
    if kind is not None and kind.name == "ten":
        from collc.ten.binary import read_module

        module = read_module(path)
        network = module.network
    else:
        progress(None, "compiling the schedule")
        module, network = compiled_module(path, schedule, definitions)
    if module.schedule is None or not module.demand.runs:
        what = "schedule" if module.schedule is None else "run"
        raise CheckFailed(Diagnostic("C0205", f"{path} has no {what}: there is nothing to compare"))
    return compare(module, network, progress)


def _nccl_alternatives(module: Module, network: Network, progress: Progress) -> Iterator[Alternative]:
    """NCCL's rings and trees as `collc tune` has them, without the costs of protocols: a run over all NPUs by rank."""
    first, *others = module.demand.runs
    standard, timing = standard_of(first), ExactTiming(module.model)
    for shape in ("ring", "tree"):
        name = f"nccl_{shape}"
        progress(None, f"simulating {name}")
        if shape not in shapes_of(standard.kind):
            yield Alternative(name, None, f"NCCL has none for {standard.kind}")
        elif others or not np.array_equal(first.group, network.npus):
            yield Alternative(name, None, "only for one run over all NPUs in their order")
        else:
            try:
                graphs = nccl_graphs(network, standard.kind, shape, max(0, standard.root), MOST_MESSAGES)
            except NoRoute as error:
                yield Alternative(name, None, str(error))
                continue
            found = [simulate(network, graph.of_size(standard.size), timing) for graph in graphs]
            best = min(found, key=lambda simulation: simulation.time_ps, default=None)
            yield Alternative(name, best, "" if best else f"left out: more than {MOST_MESSAGES} messages")


def compare(module: Module, network: Network, progress: Progress) -> Comparison:
    """Compare the schedule of a module with all alternatives that run on a network.

    network: of the module; the one of the program if the schedule has direct links in the place of switches.
    """
    standards = [standard_of(run) for run in module.demand.runs]
    own = Alternative(module.algorithm or "this schedule", simulated_module(module, ExactTiming(module.model)))
    ideal = ideal_bound(network, module.demand, module.model)
    kinds, sizes = {standard.kind for standard in standards}, {standard.size for standard in standards}
    ranks = {len(run.group) for run in module.demand.runs}
    alike = len(kinds) == len(sizes) == len(ranks) == 1
    collective = kinds.pop() if alike else ""
    return Comparison(
        module.name,
        network.name,
        collective if collective in collectives_of_nccl_tests() else "",
        sizes.pop() if alike else 0,
        ranks.pop() if alike else 0,
        (own, *simulated_alternatives(module, network, progress), *_nccl_alternatives(module, network, progress)),
        network.launch + ideal.time,
        ideal.name,
    )
