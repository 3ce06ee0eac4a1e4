"""Simulation of a program on its network, in which every step starts as soon as it can.

A step starts when its threadblock has done the step before, its dependencies are met, its message has arrived, its
connection has room and its first link is free. Local work (copies, reductions, flags) takes no time, as in a schedule.
A threadblock that sends is busy until the message has entered its first link.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace

import numpy as np

from collc.msccl.limits import LIMITS
from collc.msccl.lowering.deadlock import MESSAGES_IN_FLIGHT
from collc.msccl.program import Program, Step
from collc.simulation.engine import Deadlock, simulate
from collc.simulation.routing import send_order
from collc.simulation.tasks import DONE, SENT, START, Edges, Routes, TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.arrays import Int32Array, Int64Array
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


@dataclass(frozen=True, eq=False)
class _PlacedSteps:
    """All steps, by rank, threadblock and position.

    rank, threadblock, position, send, receive: int64[steps], the place of each, and its messages, -1 for none. to,
    origin, channel: int64[steps], the peers and the channel of its threadblock. first: by rank, the number of the first
    step of each threadblock.
    """

    steps: list[Step]
    rank: Int64Array
    threadblock: Int64Array
    position: Int64Array
    send: Int64Array
    receive: Int64Array
    to: Int64Array
    origin: Int64Array
    channel: Int64Array
    first: dict[int, list[int]]

    @staticmethod
    def of(program: Program) -> _PlacedSteps:
        """The steps of a program."""
        blocks = [(gpu.rank, number, tb) for gpu in program.gpus for number, tb in enumerate(gpu.threadblocks)]
        steps = [step for _, _, tb in blocks for step in tb.steps]
        lengths = np.array([len(tb.steps) for _, _, tb in blocks], np.int64)
        begins = np.cumsum(lengths) - lengths
        rows = [(rank, number, tb.send, tb.receive, tb.channel) for rank, number, tb in blocks]
        rank, number, to, origin, channel = np.repeat(np.array(rows, np.int64).reshape(-1, 5), lengths, axis=0).T
        first: dict[int, list[int]] = {gpu.rank: [] for gpu in program.gpus}
        for (gpu, _, _), begin in zip(blocks, begins.tolist(), strict=True):
            first[gpu].append(begin)
        position = np.arange(len(steps)) - np.repeat(begins, lengths)
        send = np.fromiter((step.send for step in steps), np.int64, len(steps))
        receive = np.fromiter((step.receive for step in steps), np.int64, len(steps))
        return _PlacedSteps(steps, rank, number, position, send, receive, to, origin, channel, first)


def replay_time(program: Program, network: Network, model: LinkModel, *, as_scheduled: bool = False) -> int:
    """Picoseconds until the last step of a final program is done.

    as_scheduled: whether switches pass messages that come together on in the order of the schedule, which a file cannot
    say; else in the order in which `collc simulate` takes them.
    Raises Blocked if the program deadlocks where each message carries one chunk, ValueError if links have no bandwidth.
    """
    placed = _PlacedSteps.of(program)
    try:
        tasks = _step_tasks(program, network, placed)
        if as_scheduled:
            tasks = replace(tasks, hop_order=_by_arrival(program, placed))
        return simulate(network, tasks, ExactTiming(model, program.instances)).time
    except Deadlock as error:
        step = int(error.waiting[0])
        message = f"threadblock {placed.threadblock[step]} of GPU {placed.rank[step]} blocks forever"
        raise Blocked(message) from error


def _by_arrival(program: Program, placed: _PlacedSteps) -> Int64Array:
    """int64[steps]: the order in which the messages of steps arrive in the schedule."""
    arrivals = np.array([*(message.arrival for message in program.messages), -1], np.int64)
    order = np.empty(len(placed.steps), np.int64)
    order[np.lexsort((placed.send, arrivals[placed.send]))] = np.arange(len(placed.steps))
    return order


def _step_tasks(program: Program, network: Network, placed: _PlacedSteps) -> TaskGraph:
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
        edges=_step_edges(placed, MESSAGES_IN_FLIGHT[program.protocol]),
        order=send_order(placed.rank, placed.to, len(program.gpus), placed.position),
        hop_order=np.arange(len(placed.steps), dtype=np.int64),
        any_lane=True,
    )


def _step_edges(placed: _PlacedSteps, room: int) -> Edges:
    """Program order and dependencies, messages, and room on connections.

    A connection has room for a message when the receiver takes the one that came as many messages before it as the
    connection holds.
    """
    later = np.flatnonzero(placed.position)
    awaited = [
        (placed.first[int(placed.rank[number])][point.threadblock] + point.step, number)
        for number, step in enumerate(placed.steps)
        if step.waits
        for point in step.waits
    ]
    before, after = np.concatenate([np.stack([later - 1, later], axis=1), np.array(awaited, np.int64).reshape(-1, 2)]).T
    order = np.argsort(after, kind="stable")
    sends, receives = np.flatnonzero(placed.send >= 0), np.flatnonzero(placed.receive >= 0)
    sender = np.zeros(1 + int(placed.send.max(initial=-1)), np.int64)
    sender[placed.send[sends]] = sends
    return Edges.joined(
        [
            Edges.all_of(before[order].astype(np.int32), after[order].astype(np.int32), SENT),
            Edges.all_of(sender[placed.receive[receives]].astype(np.int32), receives.astype(np.int32), DONE),
            Edges.all_of(*_rooms(placed, sends, receives, room), START),
        ]
    )


def _rooms(placed: _PlacedSteps, sends: Int64Array, receives: Int64Array, room: int) -> tuple[Int32Array, Int32Array]:
    """The steps that take messages from a full connection, and the steps that send the messages then."""
    ends = np.stack([placed.rank[sends], placed.to[sends], placed.channel[sends]], axis=1)
    starts = np.stack([placed.origin[receives], placed.rank[receives], placed.channel[receives]], axis=1)
    connection = np.unique(np.concatenate([ends, starts]), axis=0, return_inverse=True)[1].ravel()
    sent, taken = _numbered(connection[: len(sends)], -room), _numbered(connection[len(sends) :], 0)
    at = np.minimum(np.searchsorted(taken[0], sent[0]), max(0, len(receives) - 1))
    full = np.flatnonzero(taken[0][at] == sent[0]) if len(receives) else np.zeros(0, np.int64)
    return receives[taken[1][at[full]]].astype(np.int32), sends[sent[1][full]].astype(np.int32)


def _numbered(connection: Int64Array, offset: int) -> tuple[Int64Array, Int64Array]:
    """(code, step), ascending by code: the connection of each message and its number there, from an offset on."""
    order = np.argsort(connection, kind="stable")
    ranked = connection[order]
    number = np.arange(len(order)) - np.searchsorted(ranked, ranked)
    return (ranked << 32) + number + offset, order
