"""Fusion of a receive with the send of what it received: `rcs`, `rrs` and `rrcs`.

A pair is fused only if that costs no time. A dependency on a fused step is met when the whole step is done, so no other
step may need the chunk before the send is done.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

from collc.msccl.program import Gpu, Message, Moment, Op, Program, Slot, Step

_FUSED = {
    (Op.RECEIVE, True): Op.RECEIVE_COPY_SEND,
    (Op.RECEIVE, False): Op.RECEIVE_COPY_SEND,
    (Op.RECEIVE_REDUCE_COPY, True): Op.RECEIVE_REDUCE_COPY_SEND,
    (Op.RECEIVE_REDUCE_COPY, False): Op.RECEIVE_REDUCE_SEND,
}
"""(operation of the receive, whether its result is used again) -> operation of the pair."""


@dataclass(frozen=True, slots=True)
class FusablePair:
    """A receive and a send that can become one step. kept: whether the chunk is used again on this GPU."""

    receive: Step
    send: Step
    kept: bool


@dataclass(slots=True)
class _Value:
    """The content of a slot from one write to the next."""

    write: Step | None
    reads: list[Step]
    overwritten: bool = False


def fusable_pairs(program: Program) -> list[list[FusablePair]]:
    """By rank, pairs of steps whose fusion is correct and costs no time, whichever threadblocks they are in."""
    return [_pairs_of(program, gpu) for gpu in program.gpus]


def _pairs_of(program: Program, gpu: Gpu) -> list[FusablePair]:
    values = _values(gpu)
    pairs: list[FusablePair] = []
    for step in gpu.steps:
        if step.receive < 0 or step.dst is None:
            continue
        held = [value for value in values[id(step)] if value.write is step]
        pair = _pair(program, step, held)
        if pair is not None:
            pairs.append(pair)
    return pairs


def _values(gpu: Gpu) -> dict[int, list[_Value]]:
    """By id of the writing step, the values that it writes."""
    current: dict[Slot, _Value] = {}
    written: dict[int, list[_Value]] = {}
    for step in gpu.steps:
        for slot in step.reads():
            current.setdefault(slot, _Value(None, [])).reads.append(step)
        for slot in step.writes():
            if slot in current:
                current[slot].overwritten = True
            current[slot] = _Value(step, [])
            written.setdefault(id(step), []).append(current[slot])
    return written


def _pair(program: Program, receive: Step, values: list[_Value]) -> FusablePair | None:
    readers = {id(step): step for value in values for step in value.reads}
    sends = [s for s in readers.values() if s.op is Op.SEND and s.src == receive.dst and s.count == receive.count]
    if not sends:
        return None
    send = min(sends, key=lambda s: s.when)
    leave = program.messages[send.send].leave
    others = [s for s in readers.values() if s is not send]
    if any(s.when[0] < leave for s in others):
        return None
    final = receive.dst is not None and receive.dst.buffer == "o" and not all(v.overwritten for v in values)
    return FusablePair(receive, send, bool(others) or final)


def compatible(messages: tuple[Message, ...], pair: FusablePair, receives: list[Step], sends: list[Step]) -> bool:
    """Whether a pair can be one step of a threadblock with these receives and sends, each in order.

    receives, sends: in order of time. The send moves to the receive, or behind the send before it, and must be done
    before the next arrival.
    """
    later = bisect_left(receives, pair.receive.when, key=_moment_of) + 1
    before = bisect_left(sends, pair.send.when, key=_moment_of) - 1
    if later >= len(receives):
        return True
    message = messages[pair.send.send]
    begin = messages[pair.receive.receive].arrival
    if before >= 0:
        if sends[before].when > receives[later].when:
            return False
        begin = max(begin, messages[sends[before].send].leave)
    return begin + message.leave - message.start <= messages[receives[later].receive].arrival


def _moment_of(step: Step) -> Moment:
    return step.when


def fuse_steps(steps: list[Step], pairs: list[FusablePair]) -> list[Step]:
    """The steps of one threadblock, in order of time, with its pairs fused."""
    sends = [step.when for step in steps if step.send >= 0]
    fused: list[Step] = []
    gone: set[int] = set()
    for pair in pairs:
        before = bisect_left(sends, pair.send.when) - 1
        moment = max(pair.receive.when, sends[before]) if before >= 0 else pair.receive.when
        op = _FUSED[pair.receive.op, pair.kept]
        dst = None if op is Op.RECEIVE_REDUCE_SEND else pair.receive.dst
        when = (moment[0], moment[1], moment[2], moment[3] + 1)
        fused.append(replace(pair.receive, op=op, when=when, dst=dst, send=pair.send.send))
        gone |= {id(pair.receive), id(pair.send)}
    rest = [step for step in steps if id(step) not in gone]
    return sorted([*rest, *fused], key=lambda step: step.when)


def unfused_relays(program: Program) -> int:
    """Number of sends of received chunks that are not fused with the receive."""
    steps = (step for gpu in program.gpus for tb in gpu.threadblocks for step in tb.steps)
    return sum(step.op is Op.SEND and step.src is not None and step.src.buffer != "i" for step in steps)
