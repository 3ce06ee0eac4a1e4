"""Threadblocks and channels: which lanes a threadblock serves, and on which channel.

A threadblock serves at most one lane that ends at its GPU and one that begins there, on one channel;
so lanes that threadblocks join share a channel. Two lanes between the same GPUs need different ones.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from collc.base.diagnostics import Diagnostic, SourceError
from collc.msccl.limits import LIMITS
from collc.msccl.lowering.fuse import Pair, fuse_steps
from collc.msccl.lowering.lanes import Ends, Joint, Lane, ends_of, fusing_joints, joint_clashes, lanes_of
from collc.msccl.program import Gpu, Op, Program, Step, Threadblock


@dataclass(frozen=True, slots=True)
class Policy:
    """How threadblocks are formed.

    colors: shares of the chunks, each with lanes of its own. paths: whether each path between two GPUs
    has lanes of its own. fuse: receives with sends. share: one threadblock for a lane that ends and
    one that begins at a GPU even where they have nothing in common.
    """

    colors: int = 1
    paths: bool = True
    fuse: bool = True
    share: bool = True


@dataclass(slots=True)
class _Joined:
    """Lanes that share a channel, as disjoint sets."""

    parent: dict[Lane, Lane]
    ends: dict[Lane, set[tuple[int, int]]]
    joints: dict[int, list[Joint]] = field(default_factory=lambda: defaultdict[int, list[Joint]](list))
    taken: tuple[set[Lane], set[Lane]] = field(default_factory=lambda: (set[Lane](), set[Lane]()))

    def root(self, lane: Lane) -> Lane:
        """The lane that stands for all that share its channel."""
        while self.parent[lane] != lane:
            self.parent[lane] = self.parent[self.parent[lane]]
            lane = self.parent[lane]
        return lane

    def join(self, gpu: int, joint: Joint) -> bool:
        """Put two lanes into one threadblock, unless they are taken or cannot share a channel."""
        if joint.receive in self.taken[0] or joint.send in self.taken[1]:
            return False
        a, b = self.root(joint.receive), self.root(joint.send)
        if a != b:
            if len(self.ends[a]) < len(self.ends[b]):
                a, b = b, a
            if not self.ends[a].isdisjoint(self.ends[b]):
                return False
            self.parent[b] = a
            self.ends[a] |= self.ends.pop(b)
        self.taken[0].add(joint.receive)
        self.taken[1].add(joint.send)
        self.joints[gpu].append(joint)
        return True


def assign(program: Program, policy: Policy, channels: int, per_channel: int) -> Program:
    """The program with threadblocks instead of loose steps.

    channels: at most so many. per_channel: threadblocks of a GPU that may send (receive) on one.
    Raises SourceError M0110 where they do not suffice.
    """
    lanes = lanes_of(program, policy.colors, policy.paths)
    ends = [ends_of(gpu, lanes) for gpu in program.gpus]
    every = sorted(set(lanes))
    joined = _Joined({lane: lane for lane in every}, {lane: {(lane.source, lane.target)} for lane in every})
    if policy.fuse:
        _join_fusing(program, ends, lanes, joined)
    if policy.share:
        _join_rest(program, ends, joined)
    channel = _channels(every, joined, channels, per_channel)
    most = LIMITS[program.profile].steps
    gpus = tuple(_gpu(end, joined.joints[end.gpu.rank], channel, most) for end in ends)
    return replace(program, gpus=gpus, channels=1 + max(channel.values(), default=0))


def _join_fusing(program: Program, ends: list[Ends], lanes: list[Lane], joined: _Joined) -> None:
    joints = [(end.gpu.rank, joint) for end in ends for joint in fusing_joints(program, end, lanes)]
    joints.sort(key=lambda item: (-len(item[1].pairs), item[0], item[1].receive, item[1].send))
    for gpu, joint in joints:
        joined.join(gpu, joint)


def _join_rest(program: Program, ends: list[Ends], joined: _Joined) -> None:
    """Let lanes that are alone share a threadblock with one of the same peer, or else with any other."""
    for end in ends:
        free = [lane for lane in end.receives if lane not in joined.taken[0]]
        by_peer = {(lane.target, lane.path, lane.color): lane for lane in end.sends if lane not in joined.taken[1]}
        for lane in free:
            back = by_peer.get((lane.source, lane.path, lane.color))
            if back is not None and not joint_clashes(program, end, lane, back):
                joined.join(end.gpu.rank, Joint(lane, back, ()))
    for end in ends:
        senders = [lane for lane in end.sends if lane not in joined.taken[1]]
        for lane in [lane for lane in end.receives if lane not in joined.taken[0]]:
            for other in senders:
                fits = other not in joined.taken[1] and not joint_clashes(program, end, lane, other)
                if fits and joined.join(end.gpu.rank, Joint(lane, other, ())):
                    break


def _channels(every: list[Lane], joined: _Joined, channels: int, per_channel: int) -> dict[Lane, int]:
    """The lowest channel for each set of joined lanes where no two have both ends in common."""
    groups: dict[Lane, list[Lane]] = {}
    for lane in every:
        groups.setdefault(joined.root(lane), []).append(lane)
    count = 1 + max((max(lane.source, lane.target) for lane in every), default=0)
    used: list[set[tuple[int, int]]] = []
    load: list[tuple[dict[int, int], dict[int, int]]] = []
    found: dict[Lane, int] = {}
    for group in sorted(groups.values(), key=lambda g: (g[0].color, g[0].path, _span(g[0], count), g[0])):
        pairs = {(lane.source, lane.target) for lane in group}
        sends, receives = _tally([p[0] for p in pairs]), _tally([p[1] for p in pairs])
        number = next(
            (
                k
                for k, taken in enumerate(used)
                if taken.isdisjoint(pairs)
                and _fits(load[k][0], sends, per_channel)
                and _fits(load[k][1], receives, per_channel)
            ),
            len(used),
        )
        if number == len(used):
            used.append(set())
            load.append(({}, {}))
        used[number] |= pairs
        _add(load[number][0], sends)
        _add(load[number][1], receives)
        found.update(dict.fromkeys(group, number))
    if len(used) > channels:
        raise _too_many(len(used), channels)
    return found


def _span(lane: Lane, count: int) -> int:
    """Distance round the ranks: groups of equal span load all GPUs alike."""
    ahead = (lane.target - lane.source) % count
    return min(ahead, count - ahead)


def _tally(ranks: list[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for rank in ranks:
        counts[rank] = counts.get(rank, 0) + 1
    return counts


def _fits(load: dict[int, int], more: dict[int, int], limit: int) -> bool:
    return all(load.get(rank, 0) + extra <= limit for rank, extra in more.items())


def _add(load: dict[int, int], more: dict[int, int]) -> None:
    for rank, extra in more.items():
        load[rank] = load.get(rank, 0) + extra


def _too_many(needed: int, channels: int) -> SourceError:
    message = f"the program needs {needed} channels, and may use {channels}"
    hint = "use fewer chunks or instances, allow more 'channels' (a runtime has 32), or use fewer parallel links"
    return SourceError(Diagnostic("M0110", message, hint=hint))


def _gpu(ends: Ends, joints: list[Joint], channel: dict[Lane, int], most: int) -> Gpu:
    pairs: dict[Lane, list[Pair]] = {joint.receive: list(joint.pairs) for joint in joints}
    partner = {joint.receive: joint.send for joint in joints}
    served = set(partner.values())
    blocks: list[tuple[Lane | None, Lane | None]] = [(lane, partner.get(lane)) for lane in ends.receives]
    blocks += [(None, lane) for lane in ends.sends if lane not in served]
    threadblocks: list[tuple[int, int, int, list[Step]]] = []
    for receive, send in blocks:
        steps = [*(ends.receives[receive] if receive else []), *(ends.sends[send] if send else [])]
        steps.sort(key=lambda step: step.when)
        if receive is not None and pairs.get(receive):
            steps = fuse_steps(steps, pairs[receive])
        lane = receive or send
        number = channel[lane] if lane else 0
        threadblocks.append((number, send.target if send else -1, receive.source if receive else -1, steps))
    threadblocks.sort(key=lambda tb: tb[:3])
    _place_copies(threadblocks, [step for step in ends.gpu.steps if step.op is Op.COPY], most)
    made = tuple(Threadblock(send, receive, number, tuple(steps)) for number, send, receive, steps in threadblocks)
    return replace(ends.gpu, steps=(), threadblocks=made)


def _place_copies(threadblocks: list[tuple[int, int, int, list[Step]]], copies: list[Step], most: int) -> None:
    """Put local copies behind the step that they follow most closely, in a threadblock with room: of `most` steps."""
    for step in copies:
        rooms = [tb[3] for tb in threadblocks if len(tb[3]) < most]
        if not rooms:
            rooms.append([])
            threadblocks.append((0, -1, -1, rooms[0]))
        steps = max(rooms, key=lambda steps: max((s.when for s in steps if s.when < step.when), default=(-1, 0, 0, 0)))
        steps.append(step)
        steps.sort(key=lambda s: s.when)
