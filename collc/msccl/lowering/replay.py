"""Simulation of a program on its network, in which every step starts as soon as it can.

The steps wait as `interpreter.times` says. Local work (copies, reductions, flags) takes no time, as in a schedule.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from collc.msccl.interpreter.times import step_edges
from collc.msccl.limits import LIMITS
from collc.msccl.lowering.deadlock import MESSAGES_IN_FLIGHT
from collc.msccl.lowering.final_steps import FinalSteps, list_steps
from collc.msccl.program import Program
from collc.simulation.engine import Deadlock, simulate
from collc.simulation.routing import send_order
from collc.simulation.tasks import Routes, TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.network import Network
from collc.ten.schedule import LinkModel


class Blocked(ValueError):
    """The threadblocks of a program wait for one another forever."""


def _hop_times(program: Program, network: Network, model: LinkModel, link: int, count: int) -> tuple[int, int]:
    """How long a message of `count` chunks occupies a link, and how long it takes to the other end, in picoseconds."""
    timing = ExactTiming(model, program.instances)
    return timing.hop(count * program.chunk_bytes, network.kinds[int(network.kind[link])])


def busiest_link(program: Program, network: Network, model: LinkModel) -> int:
    """Picoseconds for which the most loaded link is occupied, a lower bound on the program's time.

    Raises ValueError if links have no bandwidth.
    """
    taken: dict[int, int] = defaultdict(int)
    for (link, count), number in Counter((link, m.count) for m in program.messages for link in m.path).items():
        taken[link] += number * _hop_times(program, network, model, link, count)[0]
    return max(taken.values(), default=0)


def fullest_pair(program: Program, network: Network, model: LinkModel) -> int:
    """A lower bound in picoseconds: the messages of one GPU to another, as many in flight as all channels hold.

    Raises ValueError if links have no bandwidth.
    """
    taken: dict[tuple[int, int], int] = defaultdict(int)
    classes = Counter((m.source, m.target, m.path, m.count) for m in program.messages)
    for (source, target, path, count), number in classes.items():
        times = (_hop_times(program, network, model, link, count)[1] for link in path)
        taken[source, target] += number * sum(times)
    room = (
        LIMITS[program.profile].channels // program.instances * program.instances * MESSAGES_IN_FLIGHT[program.protocol]
    )
    return max(taken.values(), default=0) // room


def replay_time(program: Program, network: Network, model: LinkModel) -> int:
    """Picoseconds until the last step of a final program is done.

    Raises Blocked if the program deadlocks with one chunk in each message, ValueError if links have no bandwidth.
    """
    placed = list_steps(program)
    try:
        return simulate(network, _step_tasks(program, network, placed), ExactTiming(model, program.instances)).time
    except Deadlock as error:
        step = int(error.waiting[0])
        message = f"threadblock {placed.threadblock[step]} of GPU {placed.rank[step]} blocks forever"
        raise Blocked(message) from error


def _step_tasks(program: Program, network: Network, placed: FinalSteps) -> TaskGraph:
    """One task for each step: the message that it sends, or local work that takes no time.

    What could happen at one time goes in the order in which `collc simulate` takes the steps of a file.
    """
    routes: dict[tuple[int, ...], int] = {}
    route_of = np.array([*(routes.setdefault(m.path, len(routes)) for m in program.messages), -1], np.int32)
    size_of = np.array([*(m.count * program.chunk_bytes for m in program.messages), 0], np.int64)
    device = network.npus[placed.rank]
    return TaskGraph(
        size=size_of[placed.send],
        route=route_of[placed.send],
        duration=np.zeros(len(placed.steps), np.int64),
        source=device,
        target=device,
        routes=Routes.of(list(routes)),
        edges=step_edges(placed.waits, MESSAGES_IN_FLIGHT[program.protocol]),
        order=send_order(placed.rank, placed.to, len(program.gpus), placed.position),
        hop_order=np.arange(len(placed.steps), dtype=np.int64),
        any_lane=True,
    )
