"""Flows: what one GPU sends another over one path; a connection of the runtime carries one flow."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from collc.msccl.lowering.fuse import FusablePair, clashes, compatible, fusable
from collc.msccl.program import Gpu, Moment, Op, Program, Step


class Flow(NamedTuple):
    """Messages from source to target, in one order at both ends.

    path: which of the ways between the two. share: which share of the chunks.
    """

    source: int
    target: int
    path: int
    share: int


@dataclass(frozen=True, slots=True)
class FlowJoint:
    """A flow that ends and one that begins at a GPU and that one threadblock could serve."""

    receive: Flow
    send: Flow
    pairs: tuple[FusablePair, ...]


@dataclass(slots=True)
class GpuFlows:
    """The steps of one GPU by flow."""

    gpu: Gpu
    receives: dict[Flow, list[Step]] = field(default_factory=dict[Flow, list[Step]])
    sends: dict[Flow, list[Step]] = field(default_factory=dict[Flow, list[Step]])
    wanted: dict[int, dict[Flow | None, int]] = field(default_factory=dict[int, "dict[Flow | None, int]"])


def flows_of(program: Program, shares: int, paths: bool) -> list[Flow]:
    """The flow of each message, such that messages of a flow arrive in the order in which they leave.

    shares: shares; paths: whether each path between two GPUs has flows of its own.
    """
    leaves: dict[int, Moment] = {}
    arrives: dict[int, Moment] = {}
    for step in (step for gpu in program.gpus for step in gpu.steps):
        leaves[step.send] = arrives[step.receive] = step.when
    last: dict[tuple[int, int, int], list[tuple[tuple[int, ...], Moment]]] = defaultdict(list)
    found: dict[int, Flow] = {}
    order = sorted(range(len(program.messages)), key=leaves.__getitem__)
    share_of = _share_of_chunks(program, order, shares)
    for number in order:
        message = program.messages[number]
        share = share_of[message.chunk]
        known = last[message.source, message.target, share]
        row = (message.path if paths else (), arrives[number])
        fitting = (k for k, (path, moment) in enumerate(known) if path == row[0] and moment < row[1])
        flow = next(fitting, len(known))
        known[flow : flow + 1] = [row]
        found[number] = Flow(message.source, message.target, flow, share)
    return [found[number] for number in range(len(program.messages))]


def _share_of_chunks(program: Program, order: list[int], shares: int) -> dict[int, int]:
    """The share of each chunk, one for its whole way; the messages between two GPUs spread over all shares."""
    ways: dict[int, list[tuple[int, int]]] = {}
    for number in order:
        message = program.messages[number]
        ways.setdefault(message.chunk, []).append((message.source, message.target))
    if shares == 1:
        return dict.fromkeys(ways, 0)
    load: dict[tuple[int, int], list[int]] = {}
    found: dict[int, int] = {}
    for chunk, pairs in ways.items():
        loads = [load.setdefault(pair, [0] * shares) for pair in pairs]
        found[chunk] = min(range(shares), key=lambda k: (max(one[k] for one in loads), sum(one[k] for one in loads), k))
        for one in loads:
            one[found[chunk]] += 1
    return found


def gpu_flows_of(gpu: Gpu, flows: list[Flow]) -> GpuFlows:
    """The steps of a GPU by flow, in order, and when other flows need what its receives bring."""
    ends = GpuFlows(gpu)
    writer: dict[object, Step] = {}
    for step in gpu.steps:
        if step.send >= 0:
            ends.sends.setdefault(flows[step.send], []).append(step)
        if step.receive >= 0:
            ends.receives.setdefault(flows[step.receive], []).append(step)
        for slot in step.reads():
            source = writer.get(slot)
            if source is not None:
                flow = flows[step.send] if step.op is Op.SEND else None
                ends.wanted.setdefault(id(source), {}).setdefault(flow, step.when[0])
        for slot in step.writes():
            writer[slot] = step
    return ends


def fusing_joints(program: Program, ends: GpuFlows, flows: list[Flow]) -> list[FlowJoint]:
    """Joints of a GPU that fuse something, those that fuse most first."""
    found: dict[tuple[Flow, Flow], list[FusablePair]] = {}
    for pair in fusable(program, ends.gpu):
        found.setdefault((flows[pair.receive.receive], flows[pair.send.send]), []).append(pair)
    joints: list[FlowJoint] = []
    for (receive, send), pairs in found.items():
        receives, sends = ends.receives[receive], ends.sends[send]
        kept = tuple(pair for pair in pairs if compatible(program.messages, pair, receives, sends))
        if kept and not joint_clashes(program, ends, receive, send):
            joints.append(FlowJoint(receive, send, kept))
    return sorted(joints, key=lambda j: (-len(j.pairs), j.receive, j.send))


def joint_clashes(program: Program, ends: GpuFlows, receive: Flow, send: Flow) -> bool:
    """Whether serving both flows in one threadblock would delay what a third one needs."""
    wanted = {
        key: min(t for flow, t in times.items() if flow != send)
        for step in ends.receives[receive]
        if (times := ends.wanted.get(key := id(step), {})) and any(flow != send for flow in times)
    }
    return clashes(program.messages, ends.receives[receive], ends.sends[send], wanted)
