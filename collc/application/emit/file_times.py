"""What files for runtimes take in the simulator: for many sizes with the costs of a protocol, and beside the schedule.

MSCCL files are compared with their schedule before they are written (`lowering/quality.py`); plans here, and both on
the network as the program declares it if the schedule is for one whose switches were unwound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from collc.application.compile.plan_choice import MAX_SIMULATED_MESSAGES, fastest_plan
from collc.base.units import format_time
from collc.msccl.communicators import communicators_of
from collc.msccl.lowering.quality import TOLERATED_SLOWDOWN, longer
from collc.msccl.options import MscclOptions, Profile, Protocol
from collc.msccl.slots import slot_bytes
from collc.simulation.engine import Deadlock, Simulation, simulate
from collc.simulation.routing import NoRoute
from collc.simulation.tasks import TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.tuning.nccl_shapes import sampled_positions
from collc.tuning.protocols import ProtocolCost, of_plans, with_protocol

Runtime = Literal["msccl", "mscclpp"]

LEAST_CHUNK: Final[dict[str, int]] = {"msccl": 4, "mscclpp": 16}
"""The fewest bytes of a chunk: one element of float32; a vector of 16 bytes for plans."""


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
    """Of some protocols, those that a kind of file has: plans have no LL128."""
    return [cost for cost in costs if kind == "msccl" or cost.name in ("Simple", "LL")]


def write_file(module: Module, options: MscclOptions, kind: Runtime, path: Path) -> None:
    """Write the file of a schedule; of two for both placements the first one. Raises SourceError if it has none."""
    with path.open("wb") as file:
        if kind == "mscclpp":
            from collc.emit.mscclpp import write_plan

            write_plan(fastest_plan(module, options), file)
        else:
            from collc.emit.msccl import write_xml
            from collc.msccl.lowering.files import program_files

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
    found: list[int | None] = []
    for size in sizes:
        if size < file.parts * LEAST_CHUNK[kind] or (file.most is not None and size > file.most):
            found.append(None)
            continue
        found.append(simulate(seen, file.of_size(size), ExactTiming()).time_ps)
    return found


def file_times(
    sizes: Sequence[int], network: Network, file: FileTasks, cost: ProtocolCost, kind: Runtime
) -> list[int | None]:
    """Picoseconds of a file for each size, as `times_of`, with every third size simulated and others interpolated."""
    least, most = file.parts * LEAST_CHUNK[kind], sizes[-1] if file.most is None else file.most
    fitting = [at for at, size in enumerate(sizes) if least <= size <= most]
    rows = [fitting[at] for at in sampled_positions(len(fitting))]
    try:
        known = times_of(network, file, cost, kind, [sizes[at] for at in rows])
    except (Deadlock, NoRoute):
        rows, known = [], []
    found = {at: time for at, time in zip(rows, known, strict=True) if time is not None}
    nothing: list[int | None] = [None] * len(sizes)
    return _interpolate_times(sizes, least, most, found) if found else nothing


def _interpolate_times(sizes: Sequence[int], least: int, most: int, known: dict[int, int]) -> list[int | None]:
    """The times for all sizes from `least` to `most`, on straight lines between those that are known."""
    found: list[int | None] = []
    for at, size in enumerate(sizes):
        if not least <= size <= most:
            found.append(None)
            continue
        before = max((other for other in known if other <= at), default=min(known))
        after = min((other for other in known if other >= at), default=max(known))
        low, high = known[before], known[after]
        wide = max(1, sizes[after] - sizes[before])
        found.append(low + (high - low) * (size - sizes[before]) // wide)
    return found


# The file beside its schedule


def simulated_file(path: Path, kind: Runtime, network: Network, demand: Demand, options: MscclOptions) -> Simulation:
    """The file of a demand on a network, for the buffer of the demand, as `collc simulate` does it.

    Raises Deadlock and NoRoute if it does not end, ValueError if links have no bandwidth.
    """
    file = read_tasks(path, network, kind, None, options.profile)
    return simulate(network, file.of_size(file.parts * slot_bytes(demand) // options.instances), ExactTiming())


def plan_speed_notes(path: Path, module: Module, options: MscclOptions) -> tuple[str, ...]:
    """What a plan takes in the simulator and what its schedule takes; if it is much longer, why and what to try."""
    schedule = module.schedule
    if schedule is None or not len(schedule):
        return ()
    if len(schedule) > MAX_SIMULATED_MESSAGES:
        return (f"MSCCL++: the plan was not simulated: the schedule has over {MAX_SIMULATED_MESSAGES:,} transfers",)
    found, taken = simulated_file(path, "mscclpp", module.network, module.demand, options), module.collective_time()
    notes = [f"MSCCL++: simulated {format_time(found.time_ps)} (schedule: {format_time(taken)})"]
    if found.time_ps > TOLERATED_SLOWDOWN * taken:
        cause = _cause(found, module, options)
        notes.append(f"MSCCL++: the plan takes {longer(found.time_ps, taken)} than its schedule: {cause}")
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
    if network.unwound or (module.schedule is not None and len(module.schedule) > MAX_SIMULATED_MESSAGES):
        return ()
    found = communicators_of(network, module.demand, joint=options.custom)
    parts = communicators_of(module.network, module.demand, joint=options.custom)
    each = len(paths) // len(found)
    notes: list[str] = []
    for number, path in enumerate(paths):
        real, part = found[number // each], parts[number // each].module(module)
        try:
            time = simulated_file(path, kind, real.network, real.demand, options).time_ps
        except (Deadlock, NoRoute):
            continue
        taken = part.collective_time()
        if time > TOLERATED_SLOWDOWN * taken:
            name = "MSCCL" if kind == "msccl" else "MSCCL++"
            notes.append(
                f"{name}: the schedule has direct links in place of switches; over the switches, "
                f"which forward whole messages, the file takes {format_time(time)}, {longer(time, taken)} than the "
                f"schedule ({format_time(taken)}): try 'instances: {options.instances * 2}', or 'synthesize pccl()', "
                "which plans for the switches as they are"
            )
    return tuple(dict.fromkeys(notes))
