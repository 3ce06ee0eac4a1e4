"""The messages of a schedule at other times: each leaves as soon as what it carries is there.

A file says in which order a threadblock sends, and never when. Messages that a schedule lets wait for one another leave
together, and reach a switch together. Steps that are in the order in which messages then come, in place of that of
the schedule, wait less for one another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from collc.msccl.program import ARRIVES, LEAVES, Message
from collc.simulation.engine import Simulation, Simulator
from collc.simulation.tasks import DONE, SENT, Edges, Routes, TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

_Holder = tuple[int, int]
"""A rank and a chunk."""


def eager_messages(
    messages: tuple[Message, ...], chunk_bytes: int, network: Network, model: LinkModel
) -> tuple[Message, ...]:
    """Messages of one chunk each, in order of start, at the times that they take if none waits for its turn.

    Of two messages that could enter a link at the same time, that of the lower rank goes first, as where a file is
    simulated. What a GPU sends stays the same: a copy that arrives later than another message of its chunk arrives or
    leaves still does; only sums add in another order. Messages that relay partials are not supported.
    """
    events = _events(messages)
    result = EagerRuns(messages, chunk_bytes, network, model).run()
    first = result.hops.offsets[: len(messages)]
    start = result.hops.begin[first]
    rows = zip(start.tolist(), (start + result.hops.busy[first]).tolist(), result.end.tolist(), strict=False)
    found = _in_order(messages, [number for _, _, number in events], list(rows))
    return tuple(sorted(found, key=lambda m: (m.start, m.path, m.chunk)))


class EagerRuns:
    """Simulations in which each message leaves as soon as what it carries is there; messages are their first tasks.

    needed: by task, what it waits for, as (task, phase).
    """

    def __init__(self, messages: tuple[Message, ...], chunk_bytes: int, network: Network, model: LinkModel) -> None:
        needs = _Needs(len(messages))
        for _, phase, number in _events(messages):
            message = messages[number]
            if phase == LEAVES:
                needs.leave(number, (message.source, message.chunk))
            else:
                needs.arrive(number, (message.target, message.chunk))
        self._joins = needs.count - len(messages)
        self._source = np.array([message.source for message in messages], np.int64)
        self._arrival = np.array([message.arrival for message in messages], np.int64)
        tasks = _tasks(messages, needs, chunk_bytes, network)
        self._simulator = Simulator(network, tasks, ExactTiming(model))
        self.needed: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for before, after, phase in needs.edges:
            self.needed[after].append((before, phase))

    def run(self, rank: Int32Array | None = None) -> Simulation:
        """Of two messages that could enter a link at the same time, that of the lower rank goes first.

        rank: int32[ranks], in place of the rank of each GPU.
        """
        return self._simulator.run(self._positions(self._source if rank is None else rank[self._source]))

    def run_as_scheduled(self) -> Simulation:
        """Of two messages that could enter a link together, that which arrives first in the schedule goes first."""
        return self._simulator.run(self._positions(self._arrival))

    def _positions(self, key: Int32Array | Int64Array) -> Int64Array:
        """int64[tasks]: the place of each task in the order of the keys of messages; joins come first."""
        order = np.empty(len(key) + self._joins, np.int64)
        order[np.argsort(np.append(key, np.full(self._joins, -1)), kind="stable")] = np.arange(len(order))
        return order


def _events(messages: tuple[Message, ...]) -> list[tuple[int, int, int]]:
    """Starts and arrivals in order, as (time, phase, message)."""
    return sorted(
        (time, phase, number)
        for number, message in enumerate(messages)
        for time, phase in ((message.start, LEAVES), (message.arrival, ARRIVES))
    )


@dataclass(slots=True)
class _Needs:
    """What each message waits for. Tasks are numbered: the messages, and then joins, which several messages wait for.

    edges: (before, after, phase). pending: by holder, the phases of tasks that the next message from there waits for.
    """

    count: int
    edges: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    pending: dict[_Holder, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict[_Holder, "list[tuple[int, int]]"](list)
    )
    sends: dict[_Holder, list[int]] = field(default_factory=lambda: defaultdict[_Holder, "list[int]"](list))

    def arrive(self, number: int, holder: _Holder) -> None:
        """A message arrives, after those that were sent from there before."""
        self.pending[holder] += [(send, SENT) for send in self.sends.pop(holder, ())]
        self.pending[holder].append((number, DONE))

    def leave(self, number: int, holder: _Holder) -> None:
        """A message leaves, after all that arrived before."""
        pending = self.pending[holder]
        if len(pending) > 1:
            self.edges += [(before, self.count, phase) for before, phase in pending]
            pending[:] = [(self.count, DONE)]
            self.count += 1
        self.edges += [(before, number, phase) for before, phase in pending]
        self.sends[holder].append(number)


def _tasks(messages: tuple[Message, ...], needs: _Needs, chunk_bytes: int, network: Network) -> TaskGraph:
    """The messages and joins as tasks."""
    joins = needs.count - len(messages)
    routes: dict[tuple[int, ...], int] = {}
    route = [routes.setdefault(message.path, len(routes)) for message in messages]
    source = np.array([message.source for message in messages], np.int64)
    target = np.array([message.target for message in messages], np.int64)
    devices = [np.append(network.npus[ranks], np.zeros(joins, np.int32)) for ranks in (source, target)]
    return TaskGraph(
        size=np.append([message.count * chunk_bytes for message in messages], np.zeros(joins, np.int64)).astype(
            np.int64
        ),
        route=np.array(route + [-1] * joins, np.int32),
        duration=np.zeros(needs.count, np.int64),
        source=devices[0],
        target=devices[1],
        routes=Routes.of(list(routes)),
        edges=Edges.of(needs.edges),
        order=needs.count + np.arange(needs.count, dtype=np.int64),
        any_lane=True,
    )


@dataclass(slots=True)
class _Accesses:
    """The latest moments of a chunk at a rank, in picoseconds: a message left, any arrived, a copy arrived."""

    left: int = -1
    arrived: int = -1
    copied: int = -1


def _in_order(messages: tuple[Message, ...], events: Iterable[int], times: list[tuple[int, int, int]]) -> list[Message]:
    """The messages at new times (start, leave, arrival), moved so that what each carries stays the same.

    events: the numbers of messages, as they leave and arrive in the schedule.
    """
    accesses: dict[_Holder, _Accesses] = defaultdict(_Accesses)
    found: dict[int, Message] = {}
    for number in events:
        message, (start, leave, arrival) = messages[number], times[number]
        if number not in found:
            here = accesses[message.source, message.chunk]
            later = max(0, here.arrived - start)
            here.left = max(here.left, start + later)
            found[number] = replace(message, start=start + later, leave=leave + later, arrival=arrival)
            continue
        here = accesses[message.target, message.chunk]
        arrival = max(arrival, found[number].leave, here.left + 1, here.copied + 1)
        if not message.reduce:
            arrival = here.copied = max(arrival, here.arrived + 1)
        here.arrived = max(here.arrived, arrival)
        found[number] = replace(found[number], arrival=arrival)
    return [found[number] for number in range(len(messages))]
