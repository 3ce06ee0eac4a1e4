"""Third stage of lowering: threadblocks and channels for the flows between GPUs.

A threadblock serves at most one flow that ends at its GPU and one that begins there, on one channel. So the flows
that threadblocks join have the same channel. Two flows between the same two GPUs need different channels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.disjoint_sets import DisjointSets
from collc.base.wording import plural
from collc.msccl.limits import LIMITS
from collc.msccl.lowering.flows import (
    Flow,
    FlowJoint,
    GpuFlows,
    fusing_joints,
    gpu_flows_of,
)
from collc.msccl.lowering.fuse import FusablePair, fuse_steps
from collc.msccl.options import Profile
from collc.msccl.program import LOCAL, Gpu, Program, Step, Threadblock


@dataclass(slots=True)
class _ChannelGroups:
    """Flows that have the same channel.

    groups: these flows. ends: of each root, the (source, target) pairs of its flows. joints: by GPU, the pairs of
    flows with one threadblock. taken: flows that already have a partner where they end, and where they begin.
    """

    ends: dict[Flow, set[tuple[int, int]]]
    groups: DisjointSets[Flow] = field(default_factory=DisjointSets[Flow])
    joints: dict[int, list[FlowJoint]] = field(default_factory=lambda: defaultdict[int, list[FlowJoint]](list))
    taken: tuple[set[Flow], set[Flow]] = field(default_factory=lambda: (set[Flow](), set[Flow]()))

    def join(self, gpu: int, joint: FlowJoint) -> bool:
        """Put two flows into one threadblock; False if one has a partner already or they cannot have one channel."""
        if joint.receive in self.taken[0] or joint.send in self.taken[1]:
            return False
        a, b = self.groups.root(joint.receive), self.groups.root(joint.send)
        if a != b:
            if len(self.ends[a]) < len(self.ends[b]):
                a, b = b, a
            if not self.ends[a].isdisjoint(self.ends[b]):
                return False
            self.groups.join(a, b)
            self.ends[a] |= self.ends.pop(b)
        self.taken[0].add(joint.receive)
        self.taken[1].add(joint.send)
        self.joints[gpu].append(joint)
        return True


def assign(
    program: Program,
    flows: list[Flow],
    channels: int,
    per_channel: int,
    fusable: Sequence[list[FusablePair]] | None,
) -> Program:
    """The program with threadblocks instead of loose steps.

    flows: of each message. channels: most channels. per_channel: most threadblocks of a GPU that send (receive) on one
    channel. fusable: by rank, the pairs of steps to fuse (`fusable_pairs`) if a threadblock may serve a flow that ends
    and one that begins at its GPU; None if it may not. Raises SourceError M0110 if more channels are needed.
    """
    ends = [gpu_flows_of(gpu, flows) for gpu in program.gpus]
    every = sorted(set(flows))
    groups = _ChannelGroups({flow: {(flow.source, flow.target)} for flow in every})
    if fusable is not None:
        if program.profile is not Profile.RCCL:
            _join_fusing(program, ends, fusable, flows, groups)
        _join_unrelated(ends, groups)
    channel = _channels(every, groups, channels, per_channel)
    most = LIMITS[program.profile].steps
    gpus = tuple(_gpu(end, groups.joints[end.gpu.rank], channel, most) for end in ends)
    return replace(program, gpus=gpus, channels=1 + max(channel.values(), default=0))


def _join_fusing(
    program: Program,
    ends: list[GpuFlows],
    fusable: Sequence[list[FusablePair]],
    flows: list[Flow],
    joined: _ChannelGroups,
) -> None:
    joints = [
        (end.gpu.rank, joint)
        for end, pairs in zip(ends, fusable, strict=True)
        for joint in fusing_joints(program, end, pairs, flows)
    ]
    joints.sort(key=lambda item: (-len(item[1].pairs), item[0], item[1].receive, item[1].send))
    for gpu, joint in joints:
        joined.join(gpu, joint)


def _join_unrelated(ends: list[GpuFlows], joined: _ChannelGroups) -> None:
    """Join flows that have no partner with one to the same peer, or else with any other flow."""
    for end in ends:
        by_peer = {(flow.target, flow.path, flow.share): flow for flow in end.sends if flow not in joined.taken[1]}
        for flow in end.receives:
            back = by_peer.get((flow.source, flow.path, flow.share))
            if back is not None:
                joined.join(end.gpu.rank, FlowJoint(flow, back, ()))
    for end in ends:
        for flow in (flow for flow in end.receives if flow not in joined.taken[0]):
            for other in end.sends:
                if joined.join(end.gpu.rank, FlowJoint(flow, other, ())):
                    break


def _channels(every: list[Flow], joined: _ChannelGroups, channels: int, per_channel: int) -> dict[Flow, int]:
    """For each set of joined flows, the lowest channel on which no flow has the same two ends."""
    groups: dict[Flow, list[Flow]] = {}
    for flow in every:
        groups.setdefault(joined.groups.root(flow), []).append(flow)
    count = 1 + max((max(flow.source, flow.target) for flow in every), default=0)
    used: list[set[tuple[int, int]]] = []
    load: list[tuple[Counter[int], Counter[int]]] = []
    found: dict[Flow, int] = {}
    for group in sorted(groups.values(), key=lambda g: (g[0].share, g[0].path, _span(g[0], count), g[0])):
        pairs = {(flow.source, flow.target) for flow in group}
        ends = Counter(source for source, _ in pairs), Counter(target for _, target in pairs)
        number = next(
            (
                k
                for k, taken in enumerate(used)
                if taken.isdisjoint(pairs)
                and all(
                    held[rank] + more <= per_channel
                    for held, new in zip(load[k], ends, strict=True)
                    for rank, more in new.items()
                )
            ),
            len(used),
        )
        if number == len(used):
            used.append(set())
            load.append((Counter(), Counter()))
        used[number] |= pairs
        for held, new in zip(load[number], ends, strict=True):
            held.update(new)
        found.update(dict.fromkeys(group, number))
    if len(used) > channels:
        raise _too_many(len(used), channels)
    return found


def _span(flow: Flow, count: int) -> int:
    """Distance of the ranks, modulo their number: flows of one span load all GPUs equally."""
    ahead = (flow.target - flow.source) % count
    return min(ahead, count - ahead)


def _too_many(needed: int, channels: int) -> SourceError:
    message = f"the program needs {plural(needed, 'channel')}, and may use {channels}"
    hint = "use fewer chunks or instances, allow more 'channels' (a runtime has 32), or use fewer parallel links"
    return SourceError(Diagnostic("M0110", message, hint=hint))


def _gpu(ends: GpuFlows, joints: list[FlowJoint], channel: dict[Flow, int], most: int) -> Gpu:
    pairs: dict[Flow, list[FusablePair]] = {joint.receive: list(joint.pairs) for joint in joints}
    partner = {joint.receive: joint.send for joint in joints}
    served = set(partner.values())
    blocks: list[tuple[Flow | None, Flow | None]] = [(flow, partner.get(flow)) for flow in ends.receives]
    blocks += [(None, flow) for flow in ends.sends if flow not in served]
    threadblocks: list[tuple[int, int, int, list[Step]]] = []
    for receive, send in blocks:
        steps = [*(ends.receives[receive] if receive else []), *(ends.sends[send] if send else [])]
        steps.sort(key=lambda step: step.when)
        if receive is not None and pairs.get(receive):
            steps = fuse_steps(steps, pairs[receive])
        flow = receive or send
        number = channel[flow] if flow else 0
        threadblocks.append((number, send.target if send else -1, receive.source if receive else -1, steps))
    threadblocks.sort(key=lambda tb: tb[:3])
    _insert_copies(threadblocks, [step for step in ends.gpu.steps if step.op in LOCAL], most)
    made = tuple(Threadblock(send, receive, number, tuple(steps)) for number, send, receive, steps in threadblocks)
    return replace(ends.gpu, steps=(), threadblocks=made)


def _insert_copies(threadblocks: list[tuple[int, int, int, list[Step]]], copies: list[Step], most: int) -> None:
    """Insert each local copy after the latest step before it, among the threadblocks with fewer than `most` steps."""
    for step in copies:
        rooms = [tb[3] for tb in threadblocks if len(tb[3]) < most]
        if not rooms:
            rooms.append([])
            threadblocks.append((0, -1, -1, rooms[0]))
        steps = max(rooms, key=lambda steps: max((s.when for s in steps if s.when < step.when), default=(-1, 0, 0, 0)))
        steps.append(step)
        steps.sort(key=lambda s: s.when)
