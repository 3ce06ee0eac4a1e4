"""The steps of an MSCCL file as tasks of the simulator, on a network that the file does not know.

The steps wait as `interpreter.times` says; local work takes no time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from collc.base.diagnostics import CheckFailed
from collc.msccl.check import check_file
from collc.msccl.check.deadlock import check_matches
from collc.msccl.check.findings import Findings, errors_of
from collc.msccl.check.model import CAPACITY, FileProgram, Profile
from collc.msccl.check.reader import read_file
from collc.msccl.interpreter.operations import SENDS
from collc.msccl.interpreter.times import step_edges
from collc.simulation.routing import send_order, shortest_routes
from collc.simulation.tasks import TaskGraph
from collc.ten.network import Network


def sound_program(path: Path, profile: Profile) -> FileProgram:
    """The program of a file that a runtime loads and that ends, with a receive for each send.

    Raises UsageError if the file can't be opened, CheckFailed if its contract fails, it hangs or messages are left.
    """
    check_file(path, profile=profile).raise_if_unsound()
    findings = Findings()
    program = read_file(path, profile, findings)
    if not check_matches(program, findings):
        raise CheckFailed(*errors_of(findings, path))
    return program


def file_tasks(program: FileProgram, network: Network, size: int) -> TaskGraph:
    """One task for each step: the message that it sends, or local work.

    program: as `sound_program` gives it, with as many gpus as the network has NPUs. size: bytes of the buffer that the
    runtime counts, of which a chunk is one of `nchunksperloop` parts; messages are rounded up to whole bytes.
    Raises NoRoute if no path leads to a receiver.
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
        edges=step_edges(program.waits, CAPACITY[program.proto]),
        order=send_order(program.step_gpu, tbs.send[steps.tb], program.ngpus, program.position),
        hop_order=np.arange(count, dtype=np.int64),
        any_lane=True,
    )
