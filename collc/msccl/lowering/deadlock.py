"""Freedom from deadlock: a connection holds few messages, so an order of steps can block forever.

A step with `cnt` k is ceil(k / M) messages, where M depends on the bytes of a chunk, so on the size of the buffer
(docs/msccl-contract.md, section 5). Waits are monotone: what can run now can still run later. So one simulation with
any timing decides for all timings.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Final

from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.options import Profile, Protocol
from collc.msccl.program import Point, Program, Step, Threadblock

MESSAGES_IN_FLIGHT: Final = {Protocol.SIMPLE: 2, Protocol.LL: 8, Protocol.LL128: 8}
"""Messages that a connection holds; then its sender blocks."""

_MESSAGE_BYTES: Final = {Protocol.SIMPLE: 2 << 20, Protocol.LL: 32 << 10, Protocol.LL128: 576_000}
"""Most bytes of a message."""

_RCCL_MESSAGE_BYTES: Final = {Protocol.SIMPLE: 2 << 20, Protocol.LL: 16 << 10, Protocol.LL128: 50_176}
"""Most bytes of a message of RCCL (docs/msccl-contract.md, section 7)."""

_REDUCE_BROADCAST_BYTES: Final = 512 << 10
"""Most bytes of a message of `reduce` and `broadcast` with Simple: their chunkSteps is 1, that of others 4."""

_Connection = tuple[int, int, int]
"""Sender, receiver and channel."""

_BlockName = tuple[int, int]
"""A threadblock: rank and number."""


def message_bytes(program: Program) -> int:
    """Most bytes of one message of a program."""
    if program.protocol is Protocol.SIMPLE and program.collective.coll in {"reduce", "broadcast"}:
        return _REDUCE_BROADCAST_BYTES
    return (_RCCL_MESSAGE_BYTES if program.profile is Profile.RCCL else _MESSAGE_BYTES)[program.protocol]


def chunks_per_message(program: Program, size: int | None) -> int:
    """How many chunks of a step one message carries (M), for a buffer of `size` bytes; None: arbitrarily large."""
    if size is None:
        return 1
    chunk = max(1, size // program.chunks_per_loop)
    return min(MOST_CHUNKS, max(1, message_bytes(program) // chunk))


def largest_size(program: Program, per_message: int) -> int:
    """The largest buffer in bytes whose messages carry at least `per_message` chunks."""
    return message_bytes(program) // per_message * program.chunks_per_loop


def deadlocking_message_sizes(program: Program) -> list[int]:
    """The chunks per message, among those of the program's range of sizes, at which it deadlocks; ascending.

    If the program ends with some number of chunks per message, it ends with every larger one: each step then is fewer
    messages, and taking for them the moments of as many of the messages before, the last one included, gives a valid
    order in which no connection holds more.
    """
    low = chunks_per_message(program, program.sizes[1])
    high = chunks_per_message(program, program.sizes[0])
    if terminates(program, low):
        return []
    fails, ends = low, high + 1  # `high + 1` stands for none in the range
    while ends - fails > 1:
        middle = (fails + ends) // 2
        if terminates(program, middle):
            ends = middle
        else:
            fails = middle
    return list(range(low, ends))


def terminates(program: Program, per_message: int) -> bool:
    """Whether the program comes to its end where a message carries at most `per_message` chunks."""
    simulation = _Simulation(program, per_message)
    ready: deque[_BlockName] = deque()
    for gpu in program.gpus:
        for number, tb in enumerate(gpu.threadblocks):
            name = (gpu.rank, number)
            simulation.position[name] = 0
            simulation.left[name] = simulation.messages(tb.steps[0]) if tb.steps else 0
            ready.append(name)
    while ready:
        name = ready.popleft()
        tb = program.gpus[name[0]].threadblocks[name[1]]
        while simulation.position[name] < len(tb.steps) and _advance(simulation, name, tb, ready):
            pass
    position = simulation.position
    return all(position[g.rank, k] == len(tb.steps) for g in program.gpus for k, tb in enumerate(g.threadblocks))


@dataclass(slots=True)
class _Simulation:
    """A run of the program without times.

    position: the current step of each threadblock. left: messages of that step that have not moved yet. sent,
    received: messages so far on each connection. sleeping: threadblocks by what they wait for.
    """

    program: Program
    per_message: int
    sent: dict[_Connection, int] = field(default_factory=lambda: defaultdict[_Connection, int](int))
    received: dict[_Connection, int] = field(default_factory=lambda: defaultdict[_Connection, int](int))
    position: dict[_BlockName, int] = field(default_factory=dict[_BlockName, int])
    left: dict[_BlockName, int] = field(default_factory=dict[_BlockName, int])
    sleeping: dict[object, list[_BlockName]] = field(
        default_factory=lambda: defaultdict[object, "list[_BlockName]"](list)
    )

    def messages(self, step: Step) -> int:
        """How many messages a step consists of."""
        return -(-step.count // self.per_message) if step.send >= 0 or step.receive >= 0 else 0


def _advance(simulation: _Simulation, name: _BlockName, tb: Threadblock, ready: deque[_BlockName]) -> bool:
    """Run as much of a threadblock's current step as can run; False, and put to sleep, if that is not all of it."""
    at = simulation.position[name]
    step = tb.steps[at]
    for point in step.waits:
        if simulation.position[name[0], point.threadblock] <= point.step:
            simulation.sleeping[name[0], Point(*point)].append(name)
            return False
    if simulation.left[name] and not _transfer(simulation, name, tb, step, ready):
        return False
    simulation.position[name] = at + 1
    if at + 1 < len(tb.steps):
        simulation.left[name] = simulation.messages(tb.steps[at + 1])
    if step.awaited:
        ready.extend(simulation.sleeping.pop((name[0], Point(name[1], at)), ()))
    return True


def _transfer(simulation: _Simulation, name: _BlockName, tb: Threadblock, step: Step, ready: deque[_BlockName]) -> bool:
    """Receive and send as many messages of a step as are there and as there is room for; whether that is all."""
    ingoing, outgoing = (tb.receive, name[0], tb.channel), (name[0], tb.send, tb.channel)
    count = simulation.left[name]
    if step.receive >= 0:
        count = min(count, simulation.sent[ingoing] - simulation.received[ingoing])
    if step.send >= 0:
        in_flight = simulation.sent[outgoing] - simulation.received[outgoing]
        count = min(count, MESSAGES_IN_FLIGHT[simulation.program.protocol] - in_flight)
    if count:
        simulation.left[name] -= count
        if step.receive >= 0:
            simulation.received[ingoing] += count
            ready.extend(simulation.sleeping.pop(("room", ingoing), ()))
        if step.send >= 0:
            simulation.sent[outgoing] += count
            ready.extend(simulation.sleeping.pop(("message", outgoing), ()))
    if not simulation.left[name]:
        return True
    if step.receive >= 0 and simulation.sent[ingoing] == simulation.received[ingoing]:
        simulation.sleeping["message", ingoing].append(name)
    else:
        simulation.sleeping["room", outgoing].append(name)
    return False
