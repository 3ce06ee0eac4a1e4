"""Flows: the messages of one GPU to another over one path. A connection of the runtime carries one flow."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from collc.msccl.lowering.fuse import FusablePair, compatible
from collc.msccl.program import Gpu, Moment, Program, Step


class Flow(NamedTuple):
    """Messages from source to target that leave and arrive in the same order.

    path: number of the flow among those between the two GPUs. share: number of the share of the chunks.
    """

    source: int
    target: int
    path: int
    share: int


@dataclass(frozen=True, slots=True)
class FlowJoint:
    """A flow that ends at a GPU and one that begins there, which one threadblock can serve, with the steps to fuse."""

    receive: Flow
    send: Flow
    pairs: tuple[FusablePair, ...]


@dataclass(slots=True)
class GpuFlows:
    """The steps of one GPU by flow."""

    gpu: Gpu
    receives: dict[Flow, list[Step]] = field(default_factory=dict[Flow, list[Step]])
    sends: dict[Flow, list[Step]] = field(default_factory=dict[Flow, list[Step]])


def flows_of(program: Program, shares: int) -> list[Flow]:
    """The flow of each message: messages of one flow arrive in the order in which they leave.

    shares: number of shares of the chunks.
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
        row = (message.path, arrives[number])
        fitting = (k for k, (path, moment) in enumerate(known) if path == row[0] and moment < row[1])
        flow = next(fitting, len(known))
        known[flow : flow + 1] = [row]
        found[number] = Flow(message.source, message.target, flow, share)
    return [found[number] for number in range(len(program.messages))]


@dataclass(slots=True)
class _OpenFlow:
    """A flow while messages are added to it. number: its number between its two GPUs. steps: of its sender."""

    number: int
    path: tuple[int, ...]
    steps: int = 0
    arrivals: list[Moment] = field(default_factory=list[Moment])

    def room_at(self, in_flight: int) -> int:
        """The time in picoseconds from which fewer than `in_flight` messages have not arrived."""
        return self.arrivals[-in_flight][0] if len(self.arrivals) >= in_flight else 0


def spread_flows(program: Program, in_flight: int, most: int, channels: int) -> list[Flow]:
    """The flow of each message, as few as possible such that each has one path and few messages on their way.

    in_flight: how many messages of a flow have left and not arrived, at most, at the times of the program. most: steps
    of a threadblock that sends one flow; what passes on a chunk that came takes two: it waits for that, and for its
    turn. There is more of all these only if a pair of GPUs would need more flows than `channels`.
    """
    arrives = {step.receive: step.when for gpu in program.gpus for step in gpu.steps}
    leaves = {step.send: step.when for gpu in program.gpus for step in gpu.steps}
    came: dict[tuple[int, int], int] = {}
    for message in program.messages:
        key = message.target, message.chunk
        came[key] = min(message.arrival, came.get(key, message.arrival))
    flows: dict[tuple[int, int], list[_OpenFlow]] = defaultdict(list)
    found = [Flow(0, 0, 0, 0)] * len(program.messages)
    for number in sorted(range(len(program.messages)), key=leaves.__getitem__):
        message, moment = program.messages[number], arrives[number]
        known = flows[message.source, message.target]
        steps = 1 + (came.get((message.source, message.chunk), message.start + 1) <= message.start)
        ordered = [flow for flow in known if flow.arrivals[-1] < moment]
        free = (
            flow
            for flow in ordered
            if flow.path == message.path and flow.steps + steps <= most and flow.room_at(in_flight) <= message.start
        )
        flow = next(free, None)
        if flow is None and ordered and len(known) >= channels:
            flow = min(ordered, key=lambda flow: flow.room_at(in_flight))
        if flow is None:
            flow = _OpenFlow(len(known), message.path)
            known.append(flow)
        flow.arrivals.append(moment)
        flow.steps += steps
        found[number] = Flow(message.source, message.target, flow.number, 0)
    return found


def _share_of_chunks(program: Program, order: list[int], shares: int) -> dict[int, int]:
    """The share of each chunk, the same on all its hops, such that each share has about as many messages on every pair.

    order: the messages in order of time.
    """
    pairs: dict[tuple[int, int], int] = {}
    hops: dict[int, list[int]] = {}
    for number in order:
        message = program.messages[number]
        pair = pairs.setdefault((message.source, message.target), len(pairs))
        hops.setdefault(message.chunk, []).append(pair)
    load = np.zeros((len(pairs), shares), np.int64)
    found: dict[int, int] = {}
    for chunk, numbers in hops.items():
        loads = load[numbers]  # below, a share by its largest load, then by the sum of all
        found[chunk] = share = int((loads.max(axis=0) * len(order) * len(numbers) + loads.sum(axis=0)).argmin())
        np.add.at(load[:, share], numbers, 1)
    return found


def gpu_flows_of(gpu: Gpu, flows: list[Flow]) -> GpuFlows:
    """The steps of a GPU by flow, in order of time."""
    ends = GpuFlows(gpu)
    for step in gpu.steps:
        if step.send >= 0:
            ends.sends.setdefault(flows[step.send], []).append(step)
        if step.receive >= 0:
            ends.receives.setdefault(flows[step.receive], []).append(step)
    return ends


def fusing_joints(program: Program, ends: GpuFlows, fusable: list[FusablePair], flows: list[Flow]) -> list[FlowJoint]:
    """Pairs of flows at a GPU in which steps can be fused, those with most such steps first."""
    found: dict[tuple[Flow, Flow], list[FusablePair]] = {}
    for pair in fusable:
        found.setdefault((flows[pair.receive.receive], flows[pair.send.send]), []).append(pair)
    joints: list[FlowJoint] = []
    for (receive, send), pairs in found.items():
        receives, sends = ends.receives[receive], ends.sends[send]
        kept = tuple(pair for pair in pairs if compatible(program.messages, pair, receives, sends))
        if kept:
            joints.append(FlowJoint(receive, send, kept))
    return sorted(joints, key=lambda j: (-len(j.pairs), j.receive, j.send))
