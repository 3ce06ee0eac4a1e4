"""The messages of a schedule at other times: each leaves as soon as what it carries is there.

A file says in which order a threadblock sends, and never when. Messages that a schedule lets wait for one another leave
together, and reach a switch together. If steps are in the order in which messages then come, they wait less for one
another than in the order of the schedule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from collc.msccl.program import ARRIVES, LEAVES, Message
from collc.simulation.engine import simulate
from collc.simulation.tasks import DONE, SENT, Edges, Routes, TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

_Holder = tuple[int, int]
"""A rank and a chunk."""


def eager_messages(
    messages: tuple[Message, ...], chunk_bytes: int, network: Network, model: LinkModel
) -> tuple[Message, ...]:
    """Messages of one chunk each, in order of start, at the times that they take if none waits for its turn.

    Of two messages that could enter a link at the same time, that of the lower rank goes first, as when a file is
    simulated. What a GPU sends stays the same: a copy that arrives later than another message of its chunk arrives or
    leaves still does; only sums add in another order. Messages that relay partials are not supported.
    """
    events = sorted(
        (time, phase, number)
        for number, message in enumerate(messages)
        for time, phase in ((message.start, LEAVES), (message.arrival, ARRIVES))
    )
    tasks = _message_tasks(messages, [(phase, number) for _, phase, number in events], chunk_bytes, network)
    result = simulate(network, tasks, ExactTiming(model))
    first = result.hops.offsets[: len(messages)]
    start = result.hops.begin[first]
    times = zip(start.tolist(), (start + result.hops.busy[first]).tolist(), result.end.tolist(), strict=False)
    moved = _keep_contents(messages, [number for _, _, number in events], list(times))
    return tuple(sorted(moved, key=lambda m: (m.start, m.path, m.chunk)))


def _message_tasks(
    messages: tuple[Message, ...], events: Iterable[tuple[int, int]], chunk_bytes: int, network: Network
) -> TaskGraph:
    """The messages as tasks that wait for what they carry. After them come joins, which several messages wait for.

    events: (phase, message), in order.
    """
    count = len(messages)
    edges: list[tuple[int, int, int]] = []
    pending: dict[_Holder, list[tuple[int, int]]] = defaultdict(list)
    sends: dict[_Holder, list[int]] = defaultdict(list)
    for phase, number in events:
        message = messages[number]
        if phase == ARRIVES:  # after the messages that were sent from there before
            holder = message.target, message.chunk
            pending[holder] += [*((send, SENT) for send in sends.pop(holder, ())), (number, DONE)]
            continue
        holder = message.source, message.chunk
        if len(pending[holder]) > 1:
            edges += [(before, count, phase) for before, phase in pending[holder]]
            pending[holder] = [(count, DONE)]
            count += 1
        edges += [(before, number, phase) for before, phase in pending[holder]]
        sends[holder].append(number)
    joins = count - len(messages)
    routes: dict[tuple[int, ...], int] = {}
    route = [routes.setdefault(message.path, len(routes)) for message in messages]
    sources = np.array([message.source for message in messages], np.int64)
    order = np.empty(count, np.int64)
    order[np.argsort(np.append(sources, np.full(joins, -1)), kind="stable")] = np.arange(count)
    return TaskGraph(
        size=np.array([message.count * chunk_bytes for message in messages] + [0] * joins, np.int64),
        route=np.array(route + [-1] * joins, np.int32),
        duration=np.zeros(count, np.int64),
        source=np.append(network.npus[sources], np.zeros(joins, np.int32)),
        target=np.append(network.npus[[message.target for message in messages]], np.zeros(joins, np.int32)),
        routes=Routes.of(list(routes)),
        edges=Edges.of(edges),
        order=count + np.arange(count, dtype=np.int64),
        any_lane=True,
        hop_order=order,
    )


@dataclass(slots=True)
class _LatestAccesses:
    """The latest moments of a chunk at a rank, in picoseconds: a message left, any arrived, a copy arrived."""

    left: int = -1
    arrived: int = -1
    copied: int = -1


def _keep_contents(
    messages: tuple[Message, ...], events: Iterable[int], times: list[tuple[int, int, int]]
) -> list[Message]:
    """The messages at new times (start, leave, arrival), delayed so that what each carries stays the same.

    events: the numbers of messages, as they leave and arrive in the schedule.
    """
    accesses: dict[_Holder, _LatestAccesses] = defaultdict(_LatestAccesses)
    moved: dict[int, Message] = {}
    for number in events:
        message, (start, leave, arrival) = messages[number], times[number]
        if number not in moved:
            latest = accesses[message.source, message.chunk]
            delay = max(0, latest.arrived - start)
            latest.left = max(latest.left, start + delay)
            moved[number] = replace(message, start=start + delay, leave=leave + delay, arrival=arrival)
            continue
        latest = accesses[message.target, message.chunk]
        arrival = max(arrival, moved[number].leave, latest.left + 1, latest.copied + 1)
        if not message.reduce:
            arrival = latest.copied = max(arrival, latest.arrived + 1)
        latest.arrived = max(latest.arrived, arrival)
        moved[number] = replace(moved[number], arrival=arrival)
    return [moved[number] for number in range(len(messages))]
