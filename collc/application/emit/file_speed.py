"""What a file for a runtime takes in the simulator beside its schedule, and a remark if that is much longer.

MSCCL files are measured before they are written (`lowering/quality.py`); plans here, and both on the network as the
program declares it if the schedule is for one whose switches were unwound.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collc.application.compile.plan_choice import MAX_SIMULATED_MESSAGES
from collc.application.emit.file_times import FileKind, read_tasks
from collc.base.units import format_time
from collc.msccl.communicators import communicators_of
from collc.msccl.lowering.quality import TOLERATED_SLOWDOWN, longer
from collc.msccl.options import MscclOptions, Protocol
from collc.msccl.slots import slot_bytes
from collc.simulation.engine import Deadlock, Simulation, simulate
from collc.simulation.routing import NoRoute
from collc.simulation.timing import ExactTiming
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network


def simulated_file(path: Path, kind: FileKind, network: Network, demand: Demand, options: MscclOptions) -> Simulation:
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
    paths: Sequence[Path], kind: FileKind, module: Module, network: Network, options: MscclOptions
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
