"""The report of `collc tune` as a table, JSON and a picture, and the folder that it writes.

The folder has files for runtimes, a script that registers plans, `tuning.json` and a picture.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

import numpy as np

from collc.application.emit.file_times import costs_of, read_tasks, times_of
from collc.application.emit.runtime_files import write_msccl, write_mscclpp
from collc.application.tune.tuning_case import (
    FileOptions,
    SchedulePlan,
    TunedProgram,
    as_written,
    file_options,
    planned_module,
)
from collc.base.atomic_files import open_draft
from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.base.tables import Column, Table, records_of, table_of
from collc.base.units import format_bytes, format_time
from collc.emit.output import Destination, Emission, RunRanks, write_ranks
from collc.graph.digraph import nodes_of
from collc.msccl.communicators import rank_names
from collc.pictures.charts import Axis, Series, bytes_label, line_chart, rate_label
from collc.pictures.picture import Picture
from collc.simulation.bandwidth import algorithm_bandwidth, bus_factor
from collc.tuning.protocols import SOURCE, ProtocolCost
from collc.version import __version__

if TYPE_CHECKING:
    from collc.application.settings import Progress
    from collc.application.tune.tuning_case import SchedulePlan
    from collc.source.program import ScheduleRequest
    from collc.ten.module import Module
    from collc.ten.network import Network


_SERIES_NAMES: Final = {"msccl": "tuned, MSCCL", "mscclpp": "tuned, MSCCL++", "run": "tuned, run files"}


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
        least: list[int | None] = [None] * len(self.sizes)
        for served in self.ranges:
            for position, time in enumerate(served.times):
                if served.candidate.options.kind == kind and time is not None:
                    least[position] = time
        return least

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
            "ranges": records_of(_RANGES, [(self, served) for served in self.ranges]),
            "times_ps": [
                {"bytes": size, **{name: times[at] for name, times in columns.items()}}
                for at, size in enumerate(self.sizes)
            ],
            "candidates": self.candidates,
            "not_tried": list(self.errors),
            "notes": list(self.notes),
        }

    def last_times(self, served: TunedRange) -> tuple[int, int, int | None] | None:
        """(size, picoseconds of the file, and of NCCL unless it is a run file) for the largest size in a range."""
        place = max((k for k, time in enumerate(served.times) if time is not None), default=None)
        time = None if place is None else served.times[place]
        if place is None or time is None:
            return None
        return self.sizes[place], time, None if served.candidate.options.kind == "run" else self._nccl[place]

    @property
    def _nccl(self) -> list[int | None]:
        return best_of_nccl(self.compared, len(self.sizes))

    def slower_sizes(self) -> list[str]:
        """A note for each file that is not faster than NCCL at a size between those by which it was chosen."""
        notes: list[str] = []
        for served in self.ranges:
            if served.candidate.options.kind == "run":  # what is beneath the runtime is not simulated
                continue
            rows = zip(self.sizes, served.times, self._nccl, strict=True)
            slower = [(size, time, of) for size, time, of in rows if time is not None and of is not None and of <= time]
            if slower:
                size, time, of = slower[-1]
                taken = f"{format_time(time)}, and NCCL's own algorithms {format_time(of)}"
                notes.append(f"{served.file} is not faster than NCCL at {format_bytes(size)}: it takes {taken}")
        return notes

    def table(self) -> Table:
        """The ranges; time and comparison with NCCL are for the largest size of each."""
        return table_of(_RANGES, [(self, served) for served in self.ranges])

    def picture(self) -> Picture:
        """Bus bandwidth against size: tuned, NCCL's shapes, and the bound."""
        columns = {_SERIES_NAMES[kind]: self.times(kind) for kind in self.kinds()}
        for name, times in self.compared.items():
            columns["bound" if name == "ideal" else f"NCCL's {name.removeprefix('nccl_')}"] = times
        factor = float(bus_factor(self.collective, self.npus) or 1)
        rates = {
            name: [
                (float(size), float(algorithm_bandwidth(size, time) or 0) * factor)
                for size, time in zip(self.sizes, times, strict=True)
                if time
            ]
            for name, times in columns.items()
        }
        what = f"{self.collective} of {self.npus} NPUs on {self.network}"
        return line_chart(
            [Series(name, points) for name, points in rates.items() if points],
            title=f"Bus bandwidth of {what}",
            x=Axis("size of the buffer", "log2", bytes_label),
            y=Axis("bus bandwidth, simulated", "linear", rate_label),
            description=f"{what}: bus bandwidth against size, tuned files against NCCL's shapes and the bound",
        )


def size_words(size: int) -> str:
    """A size for people: the ends of a range as the size beside them, and one more or less."""
    if size % 2 == 0:
        return format_bytes(size)
    return f"{format_bytes(size - 1)} + 1" if size % 4 == 1 else f"{format_bytes(size + 1)} - 1"


_Row = tuple[TuningReport, TunedRange]


def best_of_nccl(compared: dict[str, list[int | None]], count: int) -> list[int | None]:
    """Picoseconds for each of `count` sizes with the best of NCCL's shapes; None without any."""
    shapes = [times for name, times in compared.items() if name != "ideal"] or [[None] * count]
    return [min((time for time in row if time is not None), default=None) for row in zip(*shapes, strict=True)]


def _against_nccl(row: _Row) -> float | None:
    """How many times as fast as NCCL a range is at its largest size."""
    last = row[0].last_times(row[1])
    return last[2] / last[1] if last and last[1] and last[2] is not None else None


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
    Column("", "profile", lambda row: r.profile.value if (r := row[1].candidate.options).kind == "msccl" else None),
    Column("time", "", lambda row: row[0].last_times(row[1]), lambda t: f"{format_time(t[1])} at {format_bytes(t[0])}"),
    Column("against NCCL there", "", _against_nccl, "{:.2f} times as fast".format),
)


SUFFIXES: Final = {"msccl": ".xml", "mscclpp": ".json", "run": ".run"}

SCRIPT: Final = "register_plans.py"


def write_tuning(report: TuningReport, tuned: TunedProgram, folder: Path, progress: Progress) -> TuningReport:
    """Write everything under temporary names, then rename it. Returns the report with files and their times.

    `msccl/` has nothing but MSCCL files, since the runtime reads every file of MSCCL_ALGO_DIR; files of an earlier run
    that are not written again are removed, also if a kind of files is not written. Raises CheckFailed if a file
    fails its checks.
    """
    with open_draft("choose another output folder") as draft:
        ranges: list[TunedRange] = []
        networks: list[Network] = []
        planned: dict[SchedulePlan, tuple[ScheduleRequest, Module]] = {}
        for kind in report.kinds():
            suffix = SUFFIXES[kind]
            temporary = draft.new_folder(folder / kind, rf".*{suffix}|register_plans\.py")
            own = [served for served in report.ranges if served.candidate.options.kind == kind]
            for number, served in enumerate(own):
                progress(None, f"writing {kind} file {number + 1} of {len(own)}")
                basis = repr((tuned.program.digest(), tuned.definitions, served))
                name = f"{report.schedule}.{number}.{hashlib.sha256(basis.encode()).hexdigest()[:8]}"
                file = f"{report.schedule}.{number}{suffix}"
                plan = served.candidate.plan
                if plan not in planned:  # ranges share plans, and differ in protocol, instances and channels
                    planned[plan] = planned_module(tuned, plan)
                network, times = _write_range(report, planned[plan], replace(served, name=name), temporary / file)
                own[number] = replace(served, file=f"{kind}/{file}", name=name, times=times)
                networks.append(network)
            ranges += own
            if kind == "mscclpp":
                per_node = len(nodes_of(networks[-1])[0])
                (temporary / SCRIPT).write_text(plan_script(report, own, per_node), encoding="utf-8")
        for kind, suffix in SUFFIXES.items():
            if kind not in report.kinds() and (folder / kind).is_dir():  # what an earlier run wrote serves other sizes
                draft.new_folder(folder / kind, rf"{re.escape(report.schedule)}\.\d+{suffix}|register_plans\.py")
        report = replace(report, ranges=tuple(ranges))
        report = replace(report, notes=(*report.notes, *report.slower_sizes()))
        group = as_written(tuned)
        run = group.demand.runs[0]
        in_order = np.array_equal(run.group, group.network.npus)
        ranks = folder / f"{report.schedule}.ranks.json"
        if not in_order:
            names = tuple(rank_names(group.network, run.group))
            write_ranks([RunRanks(0, run.collective, names)], draft.new(ranks))
        draft.new(folder / "tuning.json").write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
        draft.new(folder / "tuning.svg").write_text(report.picture().file(), encoding="utf-8")
        draft.publish()
    scripts = [f"mscclpp/{SCRIPT}"] if "mscclpp" in report.kinds() else []
    rest = ["tuning.json", "tuning.svg"] if in_order else [ranks.name, "tuning.json", "tuning.svg"]
    files = [served.file for served in report.ranges] + scripts + rest
    return replace(report, files=tuple(str(folder / name) for name in files))


def _write_range(
    report: TuningReport, planned: tuple[ScheduleRequest, Module], one: TunedRange, path: Path
) -> tuple[Network, tuple[int | None, ...]]:
    """Write and check the file of a range; returns the network, and its times for the sizes in the range.

    planned: the request and the schedule of its plan.
    """
    candidate, kind = one.candidate, one.candidate.options.kind
    request, module = planned
    module = replace(module, name=one.name)
    options = file_options(candidate.options, candidate.protocol, (one.low, one.high))
    with open_draft() as draft:
        write = write_mscclpp if kind == "mscclpp" else write_msccl
        written = write(Emission(kind, module, Destination(path, draft)), options)
        if "failed" in written.checks.values():
            first = written.diagnostics[0] if written.diagnostics else Diagnostic("S0401", "a check failed")
            raise CheckFailed(first)
        draft.publish()
    network = request.network
    cost = next(cost for cost in costs_of(kind, report.costs) if cost.name == candidate.protocol)
    tasks = read_tasks(path, network, kind, None, candidate.options.profile)
    inside = [size for size in report.sizes if one.low <= size <= one.high]
    times = dict(zip(inside, times_of(network, tasks, cost, kind, inside), strict=True))
    return network, tuple(times.get(size) for size in report.sizes)


_SELECTOR_NAMES: Final = {"all_reduce": "allreduce", "all_gather": "allgather", "reduce_scatter": "reducescatter"}
"""Collectives as the selector of MSCCL++ names them, if that is not the name without underscores."""

_TEMPLATE: Final = '''"""Registers the MSCCL++ plans beside this file, written by 'collc tune'.

Call it before the communicator is made:

    import register_plans
    register_plans.register(rank)

The runtime takes the plan in whose range a message is; outside of all ranges, or if the number of ranks or the
collective differs, it takes its own algorithms.
"""

import pathlib

COLLECTIVE = {collective}
RANKS = {ranks}
RANKS_PER_NODE = {per_node}

PLANS = {plans}
"""(first byte, last byte, file, name): the sizes that each plan serves, both ends included."""


def plan_for(size):
    """The name of the plan for a message of 'size' bytes; None if there is none."""
    return next((name for low, high, _, name in PLANS if low <= size <= high), None)


def register(rank):
    """Register all plans, and a selector that takes them by size. rank: of this process."""
    import mscclpp
    from mscclpp.ext import AlgorithmCollectionBuilder

    folder = pathlib.Path(__file__).parent
    builder = AlgorithmCollectionBuilder()
    for _, _, file, name in PLANS:
        plan = mscclpp.ExecutionPlan(str(folder / file), rank)
        constraint = mscclpp.Algorithm.Constraint(RANKS, RANKS_PER_NODE)
        algorithm = mscclpp.Algorithm(id=name, execution_plan=plan, constraint=constraint, tags={{"collc": 1}})
        builder.add_algorithm_builder(algorithm)
    builder.set_algorithm_selector(select)


def select(algorithms, request):
    """The selector: of the algorithms by collective and name, the plan for a request; None for the runtime's own."""
    if request.collective != COLLECTIVE or getattr(request, "world_size", RANKS) != RANKS:
        return None
    return algorithms.get(COLLECTIVE, {{}}).get(plan_for(request.message_size))
'''


def plan_script(report: TuningReport, ranges: Sequence[TunedRange], per_node: int) -> str:
    """The text of the script for some ranges, whose files are written. per_node: ranks of a node."""
    least = report.sizes[0]  # a file may say less
    rows = [(max(served.low, least), served.high, PurePath(served.file).name, served.name) for served in ranges]
    plans = "[\n" + "".join(f"    {row!r},\n" for row in rows) + "]"
    collective = json.dumps(_SELECTOR_NAMES.get(report.collective, report.collective.replace("_", "")))
    return _TEMPLATE.format(collective=collective, ranks=report.npus, per_node=per_node, plans=plans)
