"""Whether a program always terminates: connections hold few messages, so an order of steps can block for ever.

Waits are monotone (what can replay later can replay now), so one replay of the program decides for all timings.
How many messages a step with cnt k is depends on the size of a chunk: ceil(k / M).
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Final

from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.options import Protocol
from collc.msccl.program import Op, Point, Program, Step, Threadblock

MESSAGES_IN_FLIGHT: Final = {Protocol.SIMPLE: 2, Protocol.LL: 8, Protocol.LL128: 8}
"""Messages that a connection holds before its sender waits."""

_MESSAGE_BYTES: Final = {Protocol.SIMPLE: 2 << 20, Protocol.LL: 32 << 10, Protocol.LL128: 576_000}
"""Bytes of a message at most."""

_Connection = tuple[int, int, int]


@dataclass(slots=True)
class _ProgressReplay:
    """A replay of the program. left: messages still to come of each threadblock's current step."""

    program: Program
    per_message: int
    sent: dict[_Connection, int] = field(default_factory=lambda: defaultdict[_Connection, int](int))
    received: dict[_Connection, int] = field(default_factory=lambda: defaultdict[_Connection, int](int))
    position: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    left: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    sleeping: dict[object, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict[object, "list[tuple[int, int]]"](list)
    )

    def messages(self, step: Step) -> int:
        """Messages that a step is."""
        return -(-step.count // self.per_message) if step.send >= 0 or step.receive >= 0 else 0


def chunks_per_message(program: Program, size: int | None) -> int:
    """M for a buffer of `size` bytes (None: as large as can be)."""
    if size is None:
        return 1
    chunk = max(1, size // program.chunks_per_loop)
    return min(MOST_CHUNKS, max(1, _MESSAGE_BYTES[program.protocol] // chunk))


def largest_size(program: Program, per_message: int) -> int:
    """The largest buffer in bytes whose messages carry at least `per_message` chunks."""
    return _MESSAGE_BYTES[program.protocol] // per_message * program.chunks_per_loop


def deadlocking_message_sizes(program: Program) -> list[int]:
    """The numbers of chunks per message, within the program's sizes, with which it blocks for ever; ascending."""
    counts = sorted({s.count for g in program.gpus for tb in g.threadblocks for s in tb.steps if s.op is not Op.COPY})
    low = chunks_per_message(program, program.sizes[1])
    high = chunks_per_message(program, program.sizes[0])
    known: dict[tuple[int, ...], bool] = {}
    found: list[int] = []
    for per_message in range(low, high + 1):
        shape = tuple(-(-count // per_message) for count in counts)
        if shape not in known:
            known[shape] = terminates(program, per_message)
        if not known[shape]:
            found.append(per_message)
    return found


def terminates(program: Program, per_message: int) -> bool:
    """Whether the program terminates where a message carries at most `per_message` chunks."""
    replay = _ProgressReplay(program, per_message)
    ready: deque[tuple[int, int]] = deque()
    for gpu in program.gpus:
        for number, tb in enumerate(gpu.threadblocks):
            name = (gpu.rank, number)
            replay.position[name] = 0
            replay.left[name] = replay.messages(tb.steps[0]) if tb.steps else 0
            ready.append(name)
    while ready:
        name = ready.popleft()
        tb = program.gpus[name[0]].threadblocks[name[1]]
        while replay.position[name] < len(tb.steps) and _advance(replay, name, tb, ready):
            pass
    return all(replay.position[g.rank, k] == len(tb.steps) for g in program.gpus for k, tb in enumerate(g.threadblocks))


def _advance(replay: _ProgressReplay, name: tuple[int, int], tb: Threadblock, ready: deque[tuple[int, int]]) -> bool:
    """Run as much of a threadblock's step as can replay; False, and asleep, where that is not all."""
    at = replay.position[name]
    step = tb.steps[at]
    for point in step.waits:
        if replay.position[name[0], point.threadblock] <= point.step:
            replay.sleeping[name[0], Point(*point)].append(name)
            return False
    if replay.left[name] and not _move(replay, name, tb, step, ready):
        return False
    replay.position[name] = at + 1
    if at + 1 < len(tb.steps):
        replay.left[name] = replay.messages(tb.steps[at + 1])
    if step.awaited:
        ready.extend(replay.sleeping.pop((name[0], Point(name[1], at)), ()))
    return True


def _move(
    replay: _ProgressReplay, name: tuple[int, int], tb: Threadblock, step: Step, ready: deque[tuple[int, int]]
) -> bool:
    """Pass on the messages of a step that can move; whether all have."""
    ingoing, outgoing = (tb.receive, name[0], tb.channel), (name[0], tb.send, tb.channel)
    count = replay.left[name]
    if step.receive >= 0:
        count = min(count, replay.sent[ingoing] - replay.received[ingoing])
    if step.send >= 0:
        count = min(
            count, MESSAGES_IN_FLIGHT[replay.program.protocol] - replay.sent[outgoing] + replay.received[outgoing]
        )
    if count:
        replay.left[name] -= count
        if step.receive >= 0:
            replay.received[ingoing] += count
            ready.extend(replay.sleeping.pop(("space", ingoing), ()))
        if step.send >= 0:
            replay.sent[outgoing] += count
            ready.extend(replay.sleeping.pop(("data", outgoing), ()))
    if not replay.left[name]:
        return True
    if step.receive >= 0 and replay.sent[ingoing] == replay.received[ingoing]:
        replay.sleeping["data", ingoing].append(name)
    else:
        replay.sleeping["space", outgoing].append(name)
    return False
