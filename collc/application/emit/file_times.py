"""The times of files for runtimes for many sizes, by simulation with the costs of a protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from collc.msccl.options import MscclOptions, Profile
from collc.simulation.engine import Deadlock, simulate
from collc.simulation.routing import NoRoute
from collc.simulation.tasks import TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.module import Module
from collc.ten.network import Network
from collc.tuning.nccl_shapes import sampled_positions
from collc.tuning.protocols import ProtocolCost, of_plans, with_protocol

FileKind = Literal["msccl", "mscclpp"]

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


def costs_of(kind: FileKind, costs: Iterable[ProtocolCost]) -> list[ProtocolCost]:
    """Of some protocols, those that a kind of file has: plans have no LL128."""
    return [cost for cost in costs if kind == "msccl" or cost.name in ("Simple", "LL")]


def write_file(module: Module, options: MscclOptions, kind: FileKind, path: Path) -> None:
    """Write the file of a schedule; of two for both placements the first one. Raises SourceError if it has none."""
    with path.open("wb") as file:
        if kind == "mscclpp":
            from collc.application.compile.plan_choice import fastest_plan
            from collc.emit.mscclpp import write_plan

            write_plan(fastest_plan(module, options), file)
        else:
            from collc.emit.msccl import write_xml
            from collc.msccl.lowering.files import program_files

            write_xml(program_files(module, options)[0].program, file)


def read_tasks(
    path: Path, network: Network, kind: FileKind, protocol: str | None = None, profile: Profile = Profile.EXECUTOR
) -> FileTasks:
    """The steps of a file that collc wrote, which is not checked.

    protocol: of an MSCCL file, in place of its own. profile: its runtime. Raises Deadlock if a plan hangs.
    """
    from collc.msccl.check.findings import Findings

    if kind == "mscclpp":
        from collc.msccl.check_plan.reader import read_plan
        from collc.msccl.simulating.plan_tasks import counted_chunks, plan_tasks

        plan = read_plan(path, Findings())
        chunks, apart = counted_chunks(plan), len(plan.chunks) if plan.collective == "scatter" else 1
        most = None if plan.largest is None else plan.largest // apart
        return FileTasks(plan_tasks(plan, chunks, network, chunks), chunks, most)
    from collc.msccl.check.reader import read_file
    from collc.msccl.simulating.file_tasks import file_tasks

    program = read_file(path, profile.value, Findings())
    program = replace(program, proto=protocol or program.proto)
    return FileTasks(file_tasks(program, network, program.nchunksperloop), program.nchunksperloop)


def times_of(
    network: Network, file: FileTasks, cost: ProtocolCost, kind: FileKind, sizes: Sequence[int]
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
    sizes: Sequence[int], network: Network, file: FileTasks, cost: ProtocolCost, kind: FileKind
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
