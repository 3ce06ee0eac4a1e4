"""Simulation of a program on its network, in which every step starts as soon as it can.

A step starts when its threadblock has done the step before, its dependencies are met, its message has arrived, its
connection has room and its first link is free. Local work (copies, reductions, flags) takes no time, as in a schedule.
A threadblock that sends is busy until the message has entered its first link.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from collc.msccl.limits import LIMITS
from collc.msccl.lowering.deadlock import MESSAGES_IN_FLIGHT
from collc.msccl.program import Point, Program, Step
from collc.simulation.engine import Deadlock, simulate
from collc.simulation.send_order import send_order
from collc.simulation.tasks import DONE, SENT, START, Edges, Routes, TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.arrays import Int64Array
from collc.ten.network import Network
from collc.ten.schedule import LinkModel


class Blocked(ValueError):
    """The threadblocks of a program wait for one another forever."""


_PlacedStep = tuple[int, Point, Step]
"""A step with its rank, its threadblock and its position there."""


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


def replay_time(program: Program, network: Network, model: LinkModel, *, as_scheduled: bool = False) -> int:
    """Picoseconds until the last step of a final program is done.

    as_scheduled: whether switches pass messages that come together on in the order of the schedule, which a file cannot
    say; else in the order in which `collc simulate` takes them.
    Raises Blocked if the program deadlocks where each message carries one chunk, ValueError if links have no bandwidth.
    """
    steps = list(_placed_steps(program))
    try:
        tasks = _step_tasks(program, network, steps)
        if as_scheduled:
            tasks = replace(tasks, hop_order=_by_arrival(program, steps))
        return simulate(network, tasks, ExactTiming(model, program.instances)).time
    except Deadlock as error:
        rank, point, _ = steps[int(error.waiting[0])]
        raise Blocked(f"threadblock {point.threadblock} of GPU {rank} blocks forever") from error


def _by_arrival(program: Program, steps: list[_PlacedStep]) -> Int64Array:
    """int64[steps]: the order in which the messages of steps arrive in the schedule."""
    sent = [step.send for _, _, step in steps]
    arrival = np.array([program.messages[send].arrival if send >= 0 else -1 for send in sent], np.int64)
    order = np.empty(len(steps), np.int64)
    order[np.lexsort((np.array(sent, np.int64), arrival))] = np.arange(len(steps))
    return order


def _placed_steps(program: Program) -> Iterator[_PlacedStep]:
    """All steps, by rank, threadblock and position."""
    for gpu in program.gpus:
        for number, tb in enumerate(gpu.threadblocks):
            for position, step in enumerate(tb.steps):
                yield gpu.rank, Point(number, position), step


def _step_tasks(program: Program, network: Network, steps: list[_PlacedStep]) -> TaskGraph:
    """One task for each step: the message that it sends, or local work that takes no time.

    What could happen at one time goes in the order in which `collc simulate` takes the steps of a file.
    """
    routes: dict[tuple[int, ...], int] = {}
    route, size = np.full(len(steps), -1, np.int32), np.zeros(len(steps), np.int64)
    for number, (_, _, step) in enumerate(steps):
        if step.send >= 0:
            message = program.messages[step.send]
            route[number] = routes.setdefault(message.path, len(routes))
            size[number] = message.count * program.chunk_bytes
    rank = np.array([rank for rank, _, _ in steps], np.int32)
    blocks = [program.gpus[rank].threadblocks[point.threadblock] for rank, point, _ in steps]
    receiver = np.array([block.send for block in blocks], np.int32)
    position = np.array([point.step for _, point, _ in steps], np.int64)
    device = network.npus[rank]
    return TaskGraph(
        size=size,
        route=route,
        duration=np.zeros(len(steps), np.int64),
        source=device,
        target=device,
        routes=Routes.of(list(routes)),
        edges=Edges.of(list(_step_edges(program, steps))),
        order=send_order(rank, receiver, len(program.gpus), position),
        hop_order=np.arange(len(steps), dtype=np.int64),
        any_lane=True,
    )


def _step_edges(program: Program, steps: list[_PlacedStep]) -> Iterator[tuple[int, int, int]]:
    """(before, after, phase): program order, dependencies, messages, and room on connections.

    A connection has room for a message when the receiver takes the one that came as many messages before it as the
    connection holds.
    """
    first = {(rank, point.threadblock): number for number, (rank, point, _) in enumerate(steps) if not point.step}
    sender = {step.send: number for number, (_, _, step) in enumerate(steps) if step.send >= 0}
    sends: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    receives: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for number, (rank, point, step) in enumerate(steps):
        tb = program.gpus[rank].threadblocks[point.threadblock]
        if point.step:
            yield number - 1, number, SENT
        for awaited in step.waits:
            yield first[rank, awaited.threadblock] + awaited.step, number, SENT
        if step.receive >= 0:
            yield sender[step.receive], number, DONE
            receives[tb.receive, rank, tb.channel].append(number)
        if step.send >= 0:
            sends[rank, tb.send, tb.channel].append(number)
    room = MESSAGES_IN_FLIGHT[program.protocol]
    for connection, sent in sends.items():
        for taken, number in zip(receives[connection], sent[room:], strict=False):
            yield taken, number, START
