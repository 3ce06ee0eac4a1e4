"""Lanes: what one GPU sends another over one path; a connection of the runtime carries one lane."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from collc.msccl.lowering.fuse import Pair, clashes, compatible, fusable
from collc.msccl.program import Gpu, Moment, Op, Program, Step


class Lane(NamedTuple):
    """Messages from source to target, in one order at both ends.

    path: which of the ways between the two. color: which share of the chunks.
    """

    source: int
    target: int
    path: int
    color: int


@dataclass(frozen=True, slots=True)
class Joint:
    """A lane that ends and one that begins at a GPU and that one threadblock could serve."""

    receive: Lane
    send: Lane
    pairs: tuple[Pair, ...]


@dataclass(slots=True)
class Ends:
    """The steps of one GPU by lane."""

    gpu: Gpu
    receives: dict[Lane, list[Step]] = field(default_factory=dict[Lane, list[Step]])
    sends: dict[Lane, list[Step]] = field(default_factory=dict[Lane, list[Step]])
    wanted: dict[int, dict[Lane | None, int]] = field(default_factory=dict[int, "dict[Lane | None, int]"])


def lanes_of(program: Program, colors: int, paths: bool) -> list[Lane]:
    """The lane of each message, such that messages of a lane arrive in the order in which they leave.

    colors: shares; paths: whether each path between two GPUs has lanes of its own.
    """
    leaves: dict[int, Moment] = {}
    arrives: dict[int, Moment] = {}
    for step in (step for gpu in program.gpus for step in gpu.steps):
        leaves[step.send] = arrives[step.receive] = step.when
    last: dict[tuple[int, int, int], list[tuple[tuple[int, ...], Moment]]] = defaultdict(list)
    found: dict[int, Lane] = {}
    order = sorted(range(len(program.messages)), key=leaves.__getitem__)
    shares = _shares(program, order, colors)
    for number in order:
        message = program.messages[number]
        color = shares[message.chunk]
        known = last[message.source, message.target, color]
        row = (message.path if paths else (), arrives[number])
        fitting = (k for k, (path, moment) in enumerate(known) if path == row[0] and moment < row[1])
        lane = next(fitting, len(known))
        known[lane : lane + 1] = [row]
        found[number] = Lane(message.source, message.target, lane, color)
    return [found[number] for number in range(len(program.messages))]


def _shares(program: Program, order: list[int], colors: int) -> dict[int, int]:
    """The share of each chunk, one for its whole way; the messages between two GPUs spread over all shares."""
    ways: dict[int, list[tuple[int, int]]] = {}
    for number in order:
        message = program.messages[number]
        ways.setdefault(message.chunk, []).append((message.source, message.target))
    if colors == 1:
        return dict.fromkeys(ways, 0)
    load: dict[tuple[int, int], list[int]] = {}
    found: dict[int, int] = {}
    for chunk, pairs in ways.items():
        loads = [load.setdefault(pair, [0] * colors) for pair in pairs]
        found[chunk] = min(range(colors), key=lambda k: (max(one[k] for one in loads), sum(one[k] for one in loads), k))
        for one in loads:
            one[found[chunk]] += 1
    return found


def ends_of(gpu: Gpu, lanes: list[Lane]) -> Ends:
    """The steps of a GPU by lane, in order, and when other lanes need what its receives bring."""
    ends = Ends(gpu)
    writer: dict[object, Step] = {}
    for step in gpu.steps:
        if step.send >= 0:
            ends.sends.setdefault(lanes[step.send], []).append(step)
        if step.receive >= 0:
            ends.receives.setdefault(lanes[step.receive], []).append(step)
        for slot in step.reads():
            source = writer.get(slot)
            if source is not None:
                lane = lanes[step.send] if step.op is Op.SEND else None
                ends.wanted.setdefault(id(source), {}).setdefault(lane, step.when[0])
        for slot in step.writes():
            writer[slot] = step
    return ends


def fusing_joints(program: Program, ends: Ends, lanes: list[Lane]) -> list[Joint]:
    """Joints of a GPU that fuse something, those that fuse most first."""
    found: dict[tuple[Lane, Lane], list[Pair]] = {}
    for pair in fusable(program, ends.gpu):
        found.setdefault((lanes[pair.receive.receive], lanes[pair.send.send]), []).append(pair)
    joints: list[Joint] = []
    for (receive, send), pairs in found.items():
        receives, sends = ends.receives[receive], ends.sends[send]
        kept = tuple(pair for pair in pairs if compatible(program.messages, pair, receives, sends))
        if kept and not joint_clashes(program, ends, receive, send):
            joints.append(Joint(receive, send, kept))
    return sorted(joints, key=lambda j: (-len(j.pairs), j.receive, j.send))


def joint_clashes(program: Program, ends: Ends, receive: Lane, send: Lane) -> bool:
    """Whether serving both lanes in one threadblock would delay what a third one needs."""
    wanted = {
        key: min(t for lane, t in times.items() if lane != send)
        for step in ends.receives[receive]
        if (times := ends.wanted.get(key := id(step), {})) and any(lane != send for lane in times)
    }
    return clashes(program.messages, ends.receives[receive], ends.sends[send], wanted)
