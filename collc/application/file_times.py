"""The times of files for runtimes for many sizes, by simulation with the costs of a protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from collc.tuning.nccl_shapes import sampled
from collc.tuning.protocols import ProtocolCost, with_protocol

FileKind = Literal["msccl", "mscclpp"]

LEAST_CHUNK: Final[dict[str, int]] = {"msccl": 4, "mscclpp": 16}
"""The fewest bytes of a chunk: one element of float32; a vector of 16 bytes for plans."""

PLAN_LIMIT: Final = 2**32 - 1
"""The most bytes of a buffer of a plan, whose offsets have 32 bits."""


def write_file(module: Module, options: MscclOptions, kind: FileKind, path: Path) -> None:
    """Write the file of a schedule; of two for both placements the first one. Raises SourceError where it has none."""
    with path.open("wb") as file:
        if kind == "mscclpp":
            from collc.emit.mscclpp import write_plan

            write_plan(module, options, file)
        else:
            from collc.emit.msccl import write_xml
            from collc.msccl.lowering.files import program_files

            write_xml(program_files(module, options)[0].program, file)


def read_tasks(
    path: Path, network: Network, kind: FileKind, protocol: str | None = None, profile: Profile = Profile.EXECUTOR
) -> tuple[TaskGraph, int]:
    """(tasks, parts): the steps of a file that collc wrote, with sizes in parts of the buffer, and how many there are.

    protocol: of an MSCCL file, in place of its own. profile: its runtime.
    """
    if kind == "mscclpp":
        from collc.msccl.simulating.plan_tasks import plan_tasks, sound_plan

        plan, chunks = sound_plan(path)
        return plan_tasks(plan, chunks, network, chunks), chunks
    from collc.msccl.check.findings import Findings
    from collc.msccl.check.reader import read_file
    from collc.msccl.simulating.file_tasks import file_tasks

    program = read_file(path, profile.value, Findings())
    program = replace(program, proto=protocol or program.proto)
    return file_tasks(program, network, program.nchunksperloop), program.nchunksperloop


def times_of(
    network: Network, tasks: TaskGraph, parts: int, cost: ProtocolCost, kind: FileKind, sizes: Sequence[int]
) -> list[int | None]:
    """Picoseconds of a file for each size; None where a chunk would be too small, or the buffer too large."""
    seen = with_protocol(network, cost)
    found: list[int | None] = []
    counts: list[int] = tasks.size.tolist()
    for size in sizes:
        if size < parts * LEAST_CHUNK[kind] or (kind == "mscclpp" and size > PLAN_LIMIT):
            found.append(None)
            continue
        scaled = np.array([-(-count * size // parts) for count in counts], np.int64)
        found.append(simulate(seen, replace(tasks, size=scaled), ExactTiming()).time_ps)
    return found


def file_times(
    sizes: Sequence[int], network: Network, tasks: TaskGraph, parts: int, cost: ProtocolCost, kind: FileKind
) -> list[int | None]:
    """The same where only every third size is simulated, and times between are interpolated; None if it deadlocks."""
    least, most = parts * LEAST_CHUNK[kind], PLAN_LIMIT if kind == "mscclpp" else sizes[-1]
    fitting = [at for at, size in enumerate(sizes) if least <= size <= most]
    rows = [fitting[at] for at in sampled(len(fitting))]
    try:
        known = times_of(network, tasks, parts, cost, kind, [sizes[at] for at in rows])
    except (Deadlock, NoRoute):
        rows, known = [], []
    found = {at: time for at, time in zip(rows, known, strict=True) if time is not None}
    nothing: list[int | None] = [None] * len(sizes)
    return _interpolated(sizes, least, most, found) if found else nothing


def _interpolated(sizes: Sequence[int], least: int, most: int, known: dict[int, int]) -> list[int | None]:
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
