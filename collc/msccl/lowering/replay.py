"""Simulation of a program on its network, in which every step starts as soon as it can.

A step starts when its threadblock has done the step before, its dependencies are met, its message has arrived, its
connection has room and its first link is free. Local work (copies, reductions, flags) takes no time, as in a schedule.
A threadblock that sends is busy until the message has entered its first link.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush

from collc.base.units import serialization_time
from collc.msccl.limits import LIMITS
from collc.msccl.lowering.deadlock import MESSAGES_IN_FLIGHT
from collc.msccl.program import Moment, Point, Program, Step, Threadblock
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

_BlockName = tuple[int, int]
"""A threadblock: rank and number."""

_Connection = tuple[int, int, int]
"""Sender, receiver and channel."""


@dataclass(slots=True)
class _TimedReplay:
    """The state of a simulation; times in picoseconds.

    events: heap of (time, moment, rank, threadblock, message, hop): a threadblock tries its next step (message -1), or
    a message enters link number `hop` of its path. free: by link, when it is free. position: by threadblock, its next
    step. done: by step that others wait for, when it is done. arrived: messages. room: by connection, messages that it
    can take. sleeping: threadblocks by what they lack. times: durations by class of link and number of chunks.
    """

    program: Program
    network: Network
    model: LinkModel
    events: list[tuple[int, Moment, int, int, int, int]] = field(
        default_factory=list["tuple[int, Moment, int, int, int, int]"]
    )
    free: dict[int, int] = field(default_factory=lambda: defaultdict[int, int](int))
    position: dict[_BlockName, int] = field(default_factory=dict[_BlockName, int])
    done: dict[tuple[int, Point], int] = field(default_factory=dict["tuple[int, Point]", int])
    arrived: set[int] = field(default_factory=set[int])
    room: dict[_Connection, int] = field(default_factory=dict[_Connection, int])
    sleeping: dict[object, list[_BlockName]] = field(
        default_factory=lambda: defaultdict[object, "list[_BlockName]"](list)
    )
    end: int = 0

    times: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict["tuple[int, int]", "tuple[int, int]"])

    def times_of(self, message: int, link: int) -> tuple[int, int]:
        """How long a message occupies a link, and how long it takes to the other end, in picoseconds."""
        key = (int(self.network.kind[link]), self.program.messages[message].count)
        if key not in self.times:
            self.times[key] = _times(self.program, self.network, self.model, *key)
        return self.times[key]


def _times(program: Program, network: Network, model: LinkModel, kind: int, count: int) -> tuple[int, int]:
    bandwidth, latency = network.kinds[kind].bandwidth, network.kinds[kind].latency
    if bandwidth is None or latency is None:
        raise ValueError(f"links of {network.name} have no bandwidth or latency")
    busy = serialization_time(count * program.chunk_bytes, bandwidth * program.instances)
    total = busy + latency
    return (total if model is LinkModel.STORE else busy, total)


def busiest_link(program: Program, network: Network, model: LinkModel) -> int:
    """Picoseconds for which the most loaded link is occupied, a lower bound on the program's time.

    Raises ValueError if links have no bandwidth.
    """
    taken: dict[int, int] = defaultdict(int)
    for (link, count), number in Counter((link, m.count) for m in program.messages for link in m.path).items():
        taken[link] += number * _times(program, network, model, int(network.kind[link]), count)[0]
    return max(taken.values(), default=0)


def fullest_pair(program: Program, network: Network, model: LinkModel) -> int:
    """A lower bound in picoseconds: the messages of one GPU to another, as many in flight as all channels hold.

    Raises ValueError if links have no bandwidth.
    """
    taken: dict[tuple[int, int], int] = defaultdict(int)
    classes = Counter((m.source, m.target, m.path, m.count) for m in program.messages)
    for (source, target, path, count), number in classes.items():
        times = (_times(program, network, model, int(network.kind[link]), count)[1] for link in path)
        taken[source, target] += number * sum(times)
    room = (
        LIMITS[program.profile].channels // program.instances * program.instances * MESSAGES_IN_FLIGHT[program.protocol]
    )
    return max(taken.values(), default=0) // room


def replay_time(program: Program, network: Network, model: LinkModel) -> int:
    """Picoseconds until the last step of a final program is done.

    Raises ValueError if the program deadlocks or links have no bandwidth.
    """
    replay = _TimedReplay(program, network, model)
    for gpu in program.gpus:
        for number, tb in enumerate(gpu.threadblocks):
            replay.position[gpu.rank, number] = 0
            _try_at(replay, 0, (gpu.rank, number))
            if tb.send >= 0:
                replay.room[gpu.rank, tb.send, tb.channel] = MESSAGES_IN_FLIGHT[program.protocol]
    while replay.events:
        time, _, rank, number, message, hop = heappop(replay.events)
        if message >= 0:
            _travel(replay, time, message, hop)
        else:
            _step(replay, time, (rank, number))
    for gpu in program.gpus:
        for number, tb in enumerate(gpu.threadblocks):
            if replay.position[gpu.rank, number] < len(tb.steps):
                raise ValueError(f"threadblock {number} of GPU {gpu.rank} blocks for ever")
    return replay.end


def _try_at(replay: _TimedReplay, time: int, name: _BlockName) -> None:
    steps = replay.program.gpus[name[0]].threadblocks[name[1]].steps
    at = replay.position[name]
    if at < len(steps):
        heappush(replay.events, (time, steps[at].when, *name, -1, 0))


def _step(replay: _TimedReplay, time: int, name: _BlockName) -> None:
    """Run the next step of a threadblock, or put it to sleep until what it lacks is there."""
    tb = replay.program.gpus[name[0]].threadblocks[name[1]]
    step = tb.steps[replay.position[name]]
    ready = max((replay.done.get((name[0], point), 0) for point in step.waits), default=0)
    if ready > time:
        _try_at(replay, ready, name)
        return
    lack = _lack(replay, name, tb, step)
    if lack is not None:
        replay.sleeping[lack].append(name)
        return
    finished = time
    if step.receive >= 0:
        connection = (tb.receive, name[0], tb.channel)
        replay.room[connection] += 1
        _wake(replay, time, ("room", connection))
    if step.send >= 0:
        replay.room[name[0], tb.send, tb.channel] -= 1
        finished = _travel(replay, time, step.send, 0)
    point = Point(name[1], replay.position[name])
    replay.position[name] += 1
    replay.end = max(replay.end, finished)
    if step.awaited:
        replay.done[name[0], point] = finished
        _wake(replay, finished, (name[0], point))
    _try_at(replay, finished, name)


def _lack(replay: _TimedReplay, name: _BlockName, tb: Threadblock, step: Step) -> object | None:
    """What a step lacks: a step, a message or room on a connection; None if it can run."""
    for point in step.waits:
        if (name[0], point) not in replay.done:
            return (name[0], point)
    if step.receive >= 0 and step.receive not in replay.arrived:
        return step.receive
    connection = (name[0], tb.send, tb.channel)
    return ("room", connection) if step.send >= 0 and not replay.room[connection] else None


def _wake(replay: _TimedReplay, time: int, lack: object) -> None:
    for name in replay.sleeping.pop(lack, ()):
        _try_at(replay, time, name)


def _travel(replay: _TimedReplay, time: int, message: int, hop: int) -> int:
    """Put a message on the next link of its path; returns when it has entered that link."""
    path = replay.program.messages[message].path
    if hop == len(path):
        replay.arrived.add(message)
        _wake(replay, time, message)
        replay.end = max(replay.end, time)
        return time
    link = path[hop]
    busy, total = replay.times_of(message, link)
    begin = max(time, replay.free[link])
    replay.free[link] = begin + busy
    heappush(replay.events, (begin + total, (0, 0, message, 0), -1, -1, message, hop + 1))
    return begin + busy
