"""The steps of an MSCCL file as tasks of the simulator, on a network that the file does not know.

A step starts when its threadblock has done the step before, its dependency is met, its message has arrived and its
connection has room. Local work takes no time. A threadblock that sends is busy until the message has entered its first
link (as in `lowering/replay.py`, which simulates programs before they are written).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from collc.base.diagnostics import CheckFailed
from collc.msccl.check import check_file
from collc.msccl.check.connections import connect, messages
from collc.msccl.check.findings import Findings
from collc.msccl.check.model import CAPACITY, SENDS, FileProgram, Profile
from collc.msccl.check.reader import read_file
from collc.simulation.routing import shortest_routes
from collc.simulation.send_order import send_order
from collc.simulation.tasks import DONE, SENT, START, Edges, TaskGraph
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network


def sound_program(path: Path, profile: Profile) -> FileProgram:
    """The program of a file that a runtime loads and that ends.

    Raises UsageError where the file can't be opened, CheckFailed where its contract fails or it hangs.
    """
    verdict = check_file(path, profile=profile)
    if "failed" in (verdict.checks["contract"], verdict.checks["deadlock"]):
        raise CheckFailed(*(message for message in verdict.diagnostics if not message.warning))
    return read_file(path, profile, Findings())


def file_tasks(program: FileProgram, network: Network, size: int) -> TaskGraph:
    """One task for each step: the message that it sends, or local work.

    program: as `sound_program` gives it, with as many gpus as the network has NPUs. size: bytes of the buffer that the
    runtime counts, of which a chunk is one of `nchunksperloop` parts; messages are rounded up to whole bytes.
    Raises NoRoute where no path leads to a receiver.
    """
    steps, tbs = program.steps, program.tbs
    count = len(steps)
    sends = np.flatnonzero(SENDS[steps.kind])
    device = network.npus[program.step_gpu]
    target, route = device.copy(), np.full(count, -1, np.int32)
    target[sends] = network.npus[tbs.send[steps.tb[sends]]]
    routes, route[sends] = shortest_routes(network, device[sends], target[sends])
    part = -(-steps.cnt.astype(object) * size // program.nchunksperloop)
    return TaskGraph(
        size=np.where(SENDS[steps.kind], part, 0).astype(np.int64),
        route=route,
        duration=np.zeros(count, np.int64),
        source=device,
        target=target,
        routes=routes,
        edges=Edges.joined(_edges(program)),
        order=send_order(program.step_gpu, tbs.send[steps.tb], program.ngpus, program.position),
        hop_order=np.arange(count, dtype=np.int64),
        any_lane=True,
    )


def _edges(program: FileProgram) -> list[Edges]:
    """Program order, dependencies, messages, and room on connections."""
    steps = program.steps
    number = np.arange(len(steps), dtype=np.int32)
    later = number[program.position > 0]
    waiting = np.flatnonzero(steps.depid >= 0)
    awaited = program.gpu_first[program.step_gpu[waiting]] + steps.depid[waiting]
    out, out_at, into, _ = messages(program, connect(program))
    room = CAPACITY[program.proto]
    full = np.flatnonzero(_positions(out_at) >= room)  # the message `room` places before must have been taken
    return [
        Edges.all_of(later - 1, later, SENT),
        Edges.all_of(_as_tasks(program.tbs.first[awaited] + steps.deps[waiting]), _as_tasks(waiting), SENT),
        Edges.all_of(_as_tasks(out), _as_tasks(into), DONE),
        Edges.all_of(_as_tasks(into[full - room]), _as_tasks(out[full]), START),
    ]


def _positions(sorted_keys: Int64Array) -> Int64Array:
    """The position of each item among those with the same key."""
    return np.arange(len(sorted_keys)) - np.searchsorted(sorted_keys, sorted_keys)


def _as_tasks(numbers: Int64Array) -> Int32Array:
    return numbers.astype(np.int32)
