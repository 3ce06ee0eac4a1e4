"""What files for runtimes take in the simulator: for many sizes with the costs of a protocol, and beside the schedule.

MSCCL files are compared with their schedule before they are written (`lowering/quality.py`); plans here, and both on
the network as the program declares it if the schedule is for one whose switches were unwound. By these times collc
chooses plans, and the sizes of `sizes: auto`, for which the file of a schedule is the best that it knows: it is
compared, in the model of `collc tune`, with rings and trees of NCCL's shape and, on small networks, with what `auto`
finds for a small, a middle and a large buffer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Final, Literal

import numpy as np

from collc.base.diagnostics import CollcError, Diagnostic, SourceError
from collc.base.units import format_bytes, format_time
from collc.base.wording import phrase
from collc.emit.output import Announcer
from collc.msccl.communicators import communicators_of
from collc.msccl.lowering.quality import TOLERATED_SLOWDOWN, longer
from collc.msccl.options import MscclOptions, Profile, Protocol
from collc.msccl.plans.operations import Json
from collc.msccl.plans.plan import plans_of
from collc.msccl.simulating import plan_time
from collc.msccl.slots import buffer_bytes
from collc.passes.registry import Invert, PassContext, Synthesize
from collc.simulation.engine import MOST_SIMULATED, Deadlock, Simulation, simulate
from collc.simulation.routing import NoRoute
from collc.simulation.tasks import TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.demand import Demand, Standard
from collc.ten.module import Module
from collc.ten.network import Network
from collc.tuning.nccl_shapes import nccl_times, sampled_positions, shapes_of
from collc.tuning.protocols import DEFAULT_COSTS, ProtocolCost, of_plans, with_protocol
from collc.tuning.ranges import Times, first_size_of_later

Runtime = Literal["msccl", "mscclpp", "run"]

LEAST_CHUNK: Final[dict[str, int]] = {"msccl": 4, "mscclpp": 16, "run": 0}
"""The fewest bytes of a chunk: one element of float32; a vector of 16 bytes for plans; run files pad."""


@dataclass(frozen=True, slots=True)
class FileTasks:
    """The steps of a file as tasks, with sizes in parts of the buffer. parts: how many it has. most: bytes of the
    largest buffer that the file serves as it is; None: no limit.
    """

    tasks: TaskGraph
    parts: int
    most: int | None = None

    def of_size(self, size: int) -> TaskGraph:
        """The tasks for a buffer of `size` bytes; messages are rounded up to whole bytes."""
        counts: list[int] = self.tasks.size.tolist()
        scaled = np.array([-(-count * size // self.parts) for count in counts], np.int64)
        return replace(self.tasks, size=scaled)


def costs_of(kind: Runtime, costs: Iterable[ProtocolCost]) -> list[ProtocolCost]:
    """Of some protocols, those that a kind of file has: plans have no LL128, run files one with no costs of its own."""
    if kind == "run":
        return [ProtocolCost("Simple", Fraction(1), 0)]
    return [cost for cost in costs if kind == "msccl" or cost.name in ("Simple", "LL")]


def write_file(module: Module, options: MscclOptions, kind: Runtime, path: Path) -> None:
    """Write the file of a schedule; of two for both placements the first one. Raises SourceError if it has none."""
    from collc.emit.msccl import write_plan, write_xml
    from collc.emit.run import write_run
    from collc.msccl.lowering.files import program_files

    if kind == "run":
        write_run(program_files(module, options)[0].program, module, path)
        return
    with path.open("wb") as file:
        if kind == "mscclpp":
            write_plan(fastest_plan(module, options), file)
        else:
            write_xml(program_files(module, options)[0].program, file)


def read_tasks(
    path: Path, network: Network, kind: Runtime, protocol: str | None = None, profile: Profile = Profile.EXECUTOR
) -> FileTasks:
    """The steps of a file that collc wrote, which is not checked.

    protocol: of an MSCCL file, in place of its own. profile: its runtime. Raises Deadlock if a plan hangs.
    """
    from collc.msccl.check.findings import Findings

    if kind == "mscclpp":
        from collc.msccl.check_plan.reader import read_plan
        from collc.msccl.simulating import counted_chunks, plan_tasks

        plan = read_plan(path, Findings())
        chunks, apart = counted_chunks(plan), len(plan.chunks) if plan.collective == "scatter" else 1
        most = None if plan.largest is None else plan.largest // apart
        return FileTasks(plan_tasks(plan, chunks, network, chunks), chunks, most)
    from collc.msccl.check.reader import read_file
    from collc.msccl.simulating import file_tasks

    program = read_file(path, profile.value, Findings())
    program = replace(program, proto=protocol or program.proto)
    return FileTasks(file_tasks(program, network, program.nchunksperloop), program.nchunksperloop)


def times_of(
    network: Network, file: FileTasks, cost: ProtocolCost, kind: Runtime, sizes: Sequence[int]
) -> list[int | None]:
    """Picoseconds of a file for each size; None if a chunk would be too small, or the buffer too large."""
    seen = with_protocol(network, of_plans(cost) if kind == "mscclpp" else cost)
    times: list[int | None] = []
    for size in sizes:
        if size < file.parts * LEAST_CHUNK[kind] or (file.most is not None and size > file.most):
            times.append(None)
            continue
        times.append(simulate(seen, file.of_size(size), ExactTiming()).call_ps)
    return times


def file_times(
    sizes: Sequence[int], network: Network, file: FileTasks, cost: ProtocolCost, kind: Runtime
) -> list[int | None]:
    """Picoseconds of a file for each size, as `times_of`, with every third size simulated and others interpolated."""
    least, most = file.parts * LEAST_CHUNK[kind], sizes[-1] if file.most is None else file.most
    fitting = [row for row, size in enumerate(sizes) if least <= size <= most]
    rows = [fitting[row] for row in sampled_positions(len(fitting))]
    try:
        known = times_of(network, file, cost, kind, [sizes[row] for row in rows])
    except (Deadlock, NoRoute):
        rows, known = [], []
    time_of_row = {row: time for row, time in zip(rows, known, strict=True) if time is not None}
    times: list[int | None] = [None] * len(sizes)
    for row in fitting if time_of_row else ():  # on straight lines between those that are known
        before = max((other for other in time_of_row if other <= row), default=min(time_of_row))
        after = min((other for other in time_of_row if other >= row), default=max(time_of_row))
        wide = max(1, sizes[after] - sizes[before])
        times[row] = (
            time_of_row[before] + (time_of_row[after] - time_of_row[before]) * (sizes[row] - sizes[before]) // wide
        )
    return times


def simulated_file(path: Path, kind: Runtime, network: Network, demand: Demand, options: MscclOptions) -> Simulation:
    """The file of a demand on a network, for the buffer of the demand, as `collc simulate` does it.

    Raises Deadlock and NoRoute if it does not end, ValueError if links have no bandwidth.
    """
    file = read_tasks(path, network, kind, None, options.profile)
    return simulate(network, file.of_size(buffer_bytes(demand, file.parts // options.instances)), ExactTiming())


def plan_speed_notes(path: Path, module: Module, options: MscclOptions) -> tuple[str, ...]:
    """What a plan takes in the simulator and what its schedule takes; if it is much longer, why and what to try."""
    schedule = module.schedule
    if schedule is None or not len(schedule):
        return ()
    if len(schedule) > MOST_SIMULATED:
        return (f"MSCCL++: the plan was not simulated: the schedule has over {MOST_SIMULATED:,} transfers",)
    simulation, taken = (
        simulated_file(path, "mscclpp", module.network, module.demand, options),
        module.collective_time(),
    )
    notes = [f"MSCCL++: simulated {format_time(simulation.time_ps)} (schedule: {format_time(taken)})"]
    if simulation.time_ps > TOLERATED_SLOWDOWN * taken:
        cause = _cause(simulation, module, options)
        notes.append(f"MSCCL++: the plan takes {longer(simulation.time_ps, taken)} than its schedule: {cause}")
    return tuple(notes)


def _cause(found: Simulation, module: Module, options: MscclOptions) -> str:
    if options.protocol is Protocol.LL:
        return "packets have 8 bytes of flag for 8 bytes of data; leave out 'protocol' for messages of this size"
    busiest = int(found.busy.argmax())
    busy = int(found.busy[busiest]) * found.unit
    if busy > TOLERATED_SLOWDOWN * module.collective_time():
        return (
            f"what it sends over {module.network.shown_link(busiest)} takes {format_time(busy)}, more than in the "
            "schedule; compare it with 'emit msccl'"
        )
    return (
        "its threadblocks do one operation after another and wait for one another; "
        f"try 'instances: {options.instances * 2}', other 'chunks', or 'emit msccl'"
    )


def switched_notes(
    paths: Sequence[Path], kind: Runtime, module: Module, network: Network, options: MscclOptions
) -> tuple[str, ...]:
    """A remark on each file of a schedule for unwound switches that takes much longer with the switches.

    paths: of the files, by run. network: with its switches.
    """
    if network.unwound or (module.schedule is not None and len(module.schedule) > MOST_SIMULATED):
        return ()
    communicators = communicators_of(network, module.demand, joint=options.custom)
    parts = communicators_of(module.network, module.demand, joint=options.custom)
    each = len(paths) // len(communicators)
    notes: list[str] = []
    for number, path in enumerate(paths):
        real, planned = communicators[number // each], parts[number // each].module(module)
        try:
            time = simulated_file(path, kind, real.network, real.demand, options).time_ps
        except (Deadlock, NoRoute):
            continue
        taken = planned.collective_time()
        if time > TOLERATED_SLOWDOWN * taken:
            name = "MSCCL" if kind == "msccl" else "MSCCL++"
            notes.append(
                f"{name}: the schedule has direct links in place of switches; over the switches, "
                f"which forward whole messages, the file takes {format_time(time)}, {longer(time, taken)} than the "
                f"schedule ({format_time(taken)}): try 'instances: {options.instances * 2}', or 'synthesize pccl()', "
                "which plans for the switches as they are"
            )
    return tuple(dict.fromkeys(notes))


SIZES: Final = tuple(2**power for power in range(10, 33))
"""Bytes of the buffers for which files are simulated: 1 KiB to 4 GiB."""

PLANNED: Final = (2**14, 2**21, 2**28)
"""Bytes of the buffers for which `auto` plans."""

MOST_NPUS: Final = 32
"""On larger networks `auto` takes too long to ask it three times."""

TOLERANCE: Final = Fraction(1, 50)
"""A file is the best known if no other one is faster by more than this."""


def with_best_sizes(
    module: Module, options: MscclOptions, kind: Runtime, announce: Announcer
) -> tuple[MscclOptions, str]:
    """The options with the sizes for which the schedule is the best known, and a remark about them.

    module: of one run of a standard collective over all NPUs. Raises SourceError M0119 if there is no such size, and
    what writing the file raises.
    """
    standard = module.demand.runs[0].standard
    assert standard is not None
    announce("simulating the file for all sizes")
    with tempfile.TemporaryDirectory(prefix="collc-") as folder:
        path = Path(folder) / "file"
        write_file(module, replace(options, best_known=False), kind, path)
        file = read_tasks(path, module.network, kind, None, options.profile)
    own = file_times(SIZES, module.network, file, DEFAULT_COSTS[options.protocol.value], kind)
    others = _other_times(module, standard, kind, announce)
    compared = _Comparison(own, others)
    kept = compared.longest_range()
    if not kept:
        message = f"{module.name} is the best known for no size: {compared.nearest()}"
        raise SourceError(Diagnostic("M0119", message, hint="give the sizes, as in sizes: 64MiB .. 4GiB"))
    low, high = compared.ends(kept)
    last = f"{format_bytes(high + 1)} - 1" if high % 2 else format_bytes(high)
    remark = f"sizes: auto: {format_bytes(low)} .. {last}; {compared.gain(kept)}"
    return replace(options, sizes=(low, high), best_known=False), remark


def _other_times(module: Module, standard: Standard, kind: Runtime, announce: Announcer) -> dict[str, Times]:
    """The times of what the schedule is compared with, by name."""
    costs, root = tuple(DEFAULT_COSTS.values()), max(0, standard.root)
    found: dict[str, Times] = {}
    for shape in shapes_of(standard.kind):
        announce(f"simulating NCCL's {shape}")
        found[f"NCCL's {shape}"] = nccl_times(module.network, standard.kind, shape, SIZES, costs, root)
    if len(module.network.npus) > MOST_NPUS:
        return found
    run = module.demand.runs[0]
    table = run.pattern.expand()
    for size in PLANNED:
        announce(f"auto for {format_bytes(size)}")
        try:
            # As many chunks, of another size.
            sizes = np.maximum(1, -(-table.size * size // standard.size))
            of_size = replace(run, pattern=replace(table, size=sizes), standard=replace(standard, size=size))
            blank = Module(module.name, module.network, Demand((of_size,)), module.model, relays=True)
            context = PassContext()
            other = Invert().run(Synthesize("auto").run(blank, context), context)
            of_plan: dict[str, Times] = {}
            with tempfile.TemporaryDirectory(prefix="collc-") as folder:
                path = Path(folder) / "file"
                for number, cost in enumerate(costs_of(kind, costs)):
                    if kind == "mscclpp" or not number:  # a plan of packets is another program
                        write_file(other, MscclOptions(protocol=Protocol(cost.name)), kind, path)
                    file = read_tasks(path, module.network, kind, cost.name)
                    times = file_times(SIZES, module.network, file, cost, kind)
                    of_plan[f"auto for {format_bytes(size)} ({cost.name})"] = times
            found |= of_plan
        except CollcError:  # what auto found has no such file
            continue
    return found


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The times of a file for SIZES, and those of others by name."""

    own: Times
    others: Mapping[str, Times]

    def best(self) -> Times:
        """The least time of the others for each size; None if none serves it."""
        columns = zip(*self.others.values(), strict=True)
        return [min((time for time in column if time is not None), default=None) for column in columns]

    def _ratios(self) -> list[Fraction | None]:
        """The time of the others by that of the file, for each size; None if the file does not serve it."""
        pairs = zip(self.own, self.best(), strict=True)
        return [None if own is None else Fraction(own if best is None else best, max(1, own)) for own, best in pairs]

    def longest_range(self) -> list[int]:
        """The longest sequence of sizes, by their places, for which the file is the best; of equal ones the largest."""
        good = [ratio is not None and ratio * (1 + TOLERANCE) >= 1 for ratio in self._ratios()]
        runs = [[place for place, _ in group] for same, group in groupby(enumerate(good), lambda p: p[1]) if same]
        return max(runs, key=lambda places: (len(places), places)) if runs else []

    def ends(self, kept: Sequence[int]) -> tuple[int, int]:
        """The smallest and the largest of these sizes: beyond them others become faster."""
        first, last, best = kept[0], kept[-1], self.best()
        low = SIZES[0] if first == 0 else first_size_of_later(SIZES, best, self.own, first - 1)
        high = SIZES[-1] if last + 1 == len(SIZES) else first_size_of_later(SIZES, self.own, best, last) - 1
        return low, high

    def gain(self, kept: Sequence[int]) -> str:
        """How much faster than the others it is at the size at which it gains most, and what the others are."""
        ratios = self._ratios()
        ratio, place = max((ratios[k] or Fraction(0), k) for k in kept)
        names = list(self.others)
        shapes = [name for name in names if name.startswith("NCCL")]
        planned = f" and what auto finds for {phrase(map(format_bytes, PLANNED))}" if len(names) > len(shapes) else ""
        faster = f"at {format_bytes(SIZES[place])} it is {float(ratio):.2f} times as fast as the best of them"
        return f"for these, the model of 'collc tune' finds {phrase(shapes)}{planned} at most 2 % faster; {faster}"

    def nearest(self) -> str:
        """The size for which the file comes closest to the others, and how close."""
        known = [(ratio, place) for place, ratio in enumerate(self._ratios()) if ratio is not None]
        if not known:
            return "its file serves none from 1KiB to 4GiB"
        ratio, place = max(known)
        fastest = min(
            (time, name) for name, times in self.others.items() for time in [times[place]] if time is not None
        )
        times = float(1 / max(ratio, Fraction(1, 10**6)))
        return f"at {format_bytes(SIZES[place])} it takes {times:.2f} times as long as {fastest[1]}"


def fastest_plan(module: Module, options: MscclOptions) -> Json:
    """The plan that takes least time for the buffer of the module, of equally fast ones the first.

    Raises SourceError as `plan_of` does.
    """
    plans = plans_of(module, options)
    first = next(plans)
    if module.schedule is None or len(module.schedule) > MOST_SIMULATED:
        return first
    others = list(plans)
    return min([first, *others], key=lambda plan: plan_time(plan, module, options.instances)) if others else first
