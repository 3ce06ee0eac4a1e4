"""From a schedule to messages from GPU to GPU: hops over switches become one message, useless ones go."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import chain
from typing import NoReturn

from collc.diagnostics import CheckFailed, Diagnostic, Note, SourceError
from collc.msccl.collectives import ranks_of_sets
from collc.msccl.program import Message
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import Clock, Schedule, Transfers


@dataclass(frozen=True, slots=True)
class _Hop:
    """A chunk in a switch: the way it came."""

    source: int
    path: tuple[int, ...]
    start: int
    leave: int
    arrival: int


def messages_of(module: Module) -> list[Message]:
    """The messages of a module's schedule, in order of start, one chunk each.

    Raises SourceError M0107 where a switch sends a chunk more often than it got it, or reduces.
    """
    schedule = module.schedule
    if schedule is None:
        raise ValueError(f"module {module.name} has no schedule")
    found = _collapse(module, schedule)
    return _needed(module, _useful(module, found))


def _collapse(module: Module, schedule: Schedule) -> list[Message]:
    network = module.network
    rank_of: dict[int, int] = {npu: rank for rank, npu in enumerate(network.npus.tolist())}
    clock = Clock.of(network, module.demand, schedule.model)
    inside: dict[tuple[int, int], deque[_Hop]] = {}
    messages: list[Message] = []
    for chunk, link, start, leave, arrival, reduce in _rows(schedule, clock):
        source, target = int(network.source[link]), int(network.target[link])
        hop = _Hop(source, (link,), start, leave, arrival)
        if network.is_switch(source):
            queue = inside.get((source, chunk))
            if not queue or queue[0].arrival > start:
                _stuck(module, source, chunk)
            first = queue.popleft()
            hop = _Hop(first.source, (*first.path, link), first.start, first.leave, arrival)
        if network.is_switch(target):
            queue = inside.setdefault((target, chunk), deque())
            if queue and reduce and network.reduces[target - network.npu_count]:
                _stuck(module, target, chunk)
            queue.append(hop)
            continue
        ends = (rank_of[hop.source], rank_of[target])
        messages.append(Message(*ends, chunk, 1, hop.path, hop.start, hop.leave, hop.arrival, reduce))
    messages.sort(key=lambda m: (m.start, m.path, m.chunk))
    return messages


def _rows(schedule: Schedule, clock: Clock) -> chain[tuple[int, int, int, int, int, bool]]:
    def block(rows: Transfers) -> zip[tuple[int, int, int, int, int, bool]]:
        start = rows.start
        return zip(
            rows.chunk.tolist(),
            rows.link.tolist(),
            start.tolist(),
            (start + clock.busy_of(rows)).tolist(),
            (start + clock.total_of(rows)).tolist(),
            rows.reduce.tolist(),
            strict=True,
        )

    return chain.from_iterable(map(block, schedule.blocks()))


def _stuck(module: Module, switch: int, chunk: int) -> NoReturn:
    name, network = module.demand.chunk_name(chunk), module.network
    message = f"{network.device_name(switch)} multicasts or reduces chunk {name}, which MSCCL cannot say"
    note = Note("MSCCL moves data from GPU to GPU; a switch can only pass each message on once")
    hint = "synthesize on `unwound(t, degree: d)`, or declare the switch with `multicast: false, reduce: false`"
    raise SourceError(Diagnostic("M0107", message, notes=(note,), hint=hint))


def _useful(module: Module, messages: list[Message]) -> list[Message]:
    """Without the copies that bring a GPU what it holds already."""
    held = _initial(module)
    carried: dict[int, int] = {}
    useful = [True] * len(messages)
    for _, arrives, number in _events(messages):
        message = messages[number]
        if not arrives:
            value = held.get((message.source, message.chunk), 0)
            if not value:
                _early(module, message)
            carried[number] = value
            continue
        key = (message.target, message.chunk)
        before, value = held.get(key, 0), carried.pop(number)
        after = before | value if message.reduce else value
        useful[number] = after != before
        held[key] = after
    return [m for m, keep in zip(messages, useful, strict=True) if keep]


def _initial(module: Module) -> dict[tuple[int, int], int]:
    """What each (rank, chunk) holds at first, as bits: whose contributions; copies count as one."""
    chunks = module.demand.chunks
    members = ranks_of_sets(module.network, chunks)
    held: dict[tuple[int, int], int] = {}
    for chunk, (number, op) in enumerate(zip(chunks.pre, chunks.op, strict=True)):
        for rank in members[int(number)]:
            held[rank, chunk] = 1 if op == Op.COPY else 1 << rank
    return held


def _early(module: Module, message: Message) -> NoReturn:
    name, network = module.demand.chunk_name(message.chunk), module.network
    sender = network.device_name(int(network.npus[message.source]))
    told = f"{sender} sends chunk {name} at {message.start} ps before it holds it"
    raise CheckFailed(Diagnostic("M0108", told, hint="verify the schedule first"))


def _events(messages: list[Message]) -> list[tuple[int, bool, int]]:
    """(time, whether it arrives, message) in order; what arrives at a time can leave at that time."""
    events = [(m.start, 1, n) for n, m in enumerate(messages)] + [(m.arrival, 0, n) for n, m in enumerate(messages)]
    return [(time, phase == 0, number) for time, phase, number in sorted(events)]


def _needed(module: Module, messages: list[Message]) -> list[Message]:
    """Without the messages that nobody uses."""
    chunks = module.demand.chunks
    members = ranks_of_sets(module.network, chunks)
    wanted = {(rank, chunk) for chunk, number in enumerate(chunks.post) for rank in members[int(number)]}
    keep = [False] * len(messages)
    for _, arrives, number in reversed(_events(messages)):
        message = messages[number]
        if not arrives:
            if keep[number]:
                wanted.add((message.source, message.chunk))
        elif (message.target, message.chunk) in wanted:
            keep[number] = True
            if not message.reduce:
                wanted.discard((message.target, message.chunk))
    return [m for m, kept in zip(messages, keep, strict=True) if kept]
