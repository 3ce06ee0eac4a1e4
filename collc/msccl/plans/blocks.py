"""Threadblocks of a plan by chunk: few of them access the same memory, so that they need few semaphores.

A threadblock of an MSCCL file serves one flow in each direction, and waits for others wherever a chunk goes from one
flow to another. A threadblock of a plan can have many channels: here it does all that its GPU does with some of the
chunks. Only if a chunk has more peers than a threadblock has channels, several threadblocks share it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Final

from collc.base.disjoint_sets import DisjointSets
from collc.msccl.limits import PLAN_CHANNELS, PLAN_OPERATIONS
from collc.msccl.lowering.fuse import FusablePair, fusable_pairs
from collc.msccl.options import Placement
from collc.msccl.program import COPIES, LOCAL, Gpu, Op, Program, Slot, Step, Threadblock

_LONG: Final = PLAN_OPERATIONS // 5
"""Most steps that a threadblock can hold whatever they are: each takes at most five operations."""

_FUSED: Final = {True: Op.RECEIVE_REDUCE_COPY_SEND, False: Op.RECEIVE_REDUCE_SEND}
"""Operation of a fused sum and send, by whether the sum is used again on its GPU."""


@dataclass(slots=True)
class _PartLoad:
    """Load of one part on the GPUs. steps: number, by rank. sends: (rank, time in picoseconds) of each send."""

    steps: dict[int, int] = field(default_factory=lambda: defaultdict[int, int](int))
    sends: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])


class ThreadblocksByChunk:
    """Forms threadblocks that each do all steps of their GPU with some of the chunks.

    most: largest number of shares that makes a difference.
    """

    def __init__(self, program: Program) -> None:
        """Find the steps of a program (after `merge`) that access the same memory."""
        self._program: Program = program
        self._items: list[list[int]] = _items(program)
        self._parts: DisjointSets[int] = _parts(program, self._items)
        self._loads: dict[int, _PartLoad] = _loads_of(program, self._items, self._parts)
        self._switched: set[int] = {n for n, message in enumerate(program.messages) if message.switch is not None}
        self._fusable: list[dict[int, FusablePair]] = [
            {id(p.receive): p for p in pairs if p.receive.op is Op.RECEIVE_REDUCE_COPY}
            for pairs in fusable_pairs(program)
        ]
        self.most: int = len(self._loads)

    def divide(self, shares: int, pieces: int = 1) -> Program:
        """The program with threadblocks for a number of shares of the chunks.

        pieces: number of threadblocks into which a long one is divided.
        """
        share, root = _shares(self._loads, min(shares, self.most)), self._parts.root
        gpus = tuple(
            self._gpu(gpu, [share[root(item)] for item in items], pieces)
            for gpu, items in zip(self._program.gpus, self._items, strict=True)
        )
        return replace(self._program, gpus=gpus)

    def _gpu(self, gpu: Gpu, share: list[int], pieces: int) -> Gpu:
        """The GPU with its steps in threadblocks, by share and, if there are many peers, by peer."""
        program = self._program
        steps: dict[int, list[Step]] = defaultdict(list)
        for step, number in zip(gpu.steps, share, strict=True):
            steps[number].append(step)
        blocks: list[list[Step]] = []
        for number in sorted(steps):
            group = _groups(program, steps[number])
            made: dict[int, list[Step]] = defaultdict(list)
            for step in steps[number]:
                made[group.get(_peer(program, step), 0)].append(step)
            for block in (_fuse_sums(made[k], self._fusable[gpu.rank], self._switched) for k in sorted(made)):
                size = -(-len(block) // (pieces if len(block) > _LONG else 1))
                blocks += [block[k : k + size] for k in range(0, len(block), size)]
        threadblocks = tuple(Threadblock(-1, -1, 0, tuple(block)) for block in blocks or [[]])
        return replace(gpu, steps=(), threadblocks=threadblocks)


def most_peers(program: Program) -> int:
    """The most GPUs to which one GPU sends."""
    peers: dict[int, set[int]] = defaultdict(set)
    for message in program.messages:
        peers[message.source].add(message.target)
    return max((len(partners) for partners in peers.values()), default=1)


def in_place(program: Program) -> Program:
    """An All-to-All in place, made of one out of place whose steps belong to no threadblock yet.

    A block for the output waits in scratch until the last send of the block that it replaces.
    """
    return replace(program, placement=Placement.IN, gpus=tuple(map(_in_place, program.gpus)))


def _in_place(gpu: Gpu) -> Gpu:
    waiting: dict[Slot, Slot] = {}
    ready: dict[Slot, int] = {}
    steps: list[Step] = []
    for step in gpu.steps:
        if step.op is Op.COPY:
            continue
        src, dst = step.src, step.dst
        if src is not None:
            if src.buffer == "i":
                replaced = Slot("o", src.offset)
                ready[replaced] = max(ready.get(replaced, 0), step.when[0])
            src = waiting.get(src, src)
        if dst is not None and dst.buffer == "o":
            waiting[dst] = Slot("s", gpu.scratch_chunks + len(waiting))
            ready[dst] = max(ready.get(dst, 0), step.when[0])
            dst = waiting[dst]
        steps.append(replace(step, src=src, dst=dst))
    steps += [
        Step(Op.COPY, (ready[target], COPIES, target.offset, 0), 1, src=held, dst=target)
        for target, held in waiting.items()
    ]
    steps.sort(key=lambda step: step.when)
    return replace(gpu, scratch_chunks=gpu.scratch_chunks + len(waiting), steps=tuple(steps))


def _items(program: Program) -> list[list[int]]:
    """For each step of each GPU its message, or a number of its own for a copy."""
    copies = len(program.messages)
    items: list[list[int]] = []
    for gpu in program.gpus:
        items.append([])
        for step in gpu.steps:
            if step.op in LOCAL:
                items[-1].append(copies)
                copies += 1
            else:
                items[-1].append(max(step.receive, step.send))
    return items


def _parts(program: Program, items: list[list[int]]) -> DisjointSets[int]:
    """Messages and copies, joined if they access a slot that is written; the lowest one represents its set.

    Copies are numbered after the messages.
    """
    parts = DisjointSets[int]()
    for gpu in program.gpus:
        touching: dict[Slot, list[int]] = defaultdict(list)
        written: set[Slot] = set()
        for step, item in zip(gpu.steps, items[gpu.rank], strict=True):
            writes = {program.memory_slot(gpu.rank, slot) for slot in step.writes()}
            written |= writes
            for slot in writes | {program.memory_slot(gpu.rank, slot) for slot in step.reads()}:
                touching[slot].append(item)
        for slot in sorted(written):
            lowest = min(map(parts.root, touching[slot]))
            for item in touching[slot]:
                parts.join(lowest, item)
    return parts


def _loads_of(program: Program, items: list[list[int]], parts: DisjointSets[int]) -> dict[int, _PartLoad]:
    loads: dict[int, _PartLoad] = defaultdict(_PartLoad)
    for gpu in program.gpus:
        for step, item in zip(gpu.steps, items[gpu.rank], strict=True):
            mine = loads[parts.root(item)]
            mine.steps[gpu.rank] += 1
            if step.send >= 0:
                mine.sends.add((gpu.rank, step.when[0]))
    return loads


def _shares(loads: dict[int, _PartLoad], shares: int) -> dict[int, int]:
    """A share for each part, largest parts first: with fewest steps on its GPUs and fewest sends at the same times."""
    load = [dict[int, int]() for _ in range(shares)]
    busy = [set[tuple[int, int]]() for _ in range(shares)]
    share_of: dict[int, int] = {}
    begun = 0
    for root in sorted(loads, key=lambda part: (-max(loads[part].steps.values()), part)):
        mine = loads[root]
        fullest = max(mine.steps, key=lambda gpu: mine.steps[gpu])
        costs = (
            (max(load[k].get(gpu, 0) + n for gpu, n in mine.steps.items()), len(mine.sends & busy[k]), k)
            for k in range(min(begun + 1, shares))
            if begun == shares or fullest not in load[k]  # if one is empty, it costs less than these
        )
        chosen = min(costs)[2]
        begun = max(begun, chosen + 1)
        share_of[root] = chosen
        busy[chosen] |= mine.sends
        for gpu, n in mine.steps.items():
            load[chosen][gpu] = load[chosen].get(gpu, 0) + n
    return share_of


def _peer(program: Program, step: Step) -> int:
    """The GPU that a step receives from or sends to, or -1."""
    if step.receive >= 0:
        return program.messages[step.receive].source
    return program.messages[step.send].target if step.send >= 0 else -1


def _groups(program: Program, steps: list[Step]) -> dict[int, int]:
    """For each peer of these steps, the number of the threadblock that serves it."""
    peers = sorted({peer for step in steps if (peer := _peer(program, step)) >= 0})
    sends = defaultdict[int, int](int)
    for step in steps:
        if step.send >= 0 and program.messages[step.send].switch is None:
            sends[_peer(program, step)] += 1
    size = PLAN_CHANNELS if max(sends.values(), default=0) < 2 else PLAN_CHANNELS // 2  # writes two buffers of each
    count = -(-len(peers) // size)
    return {peer: k * count // len(peers) for k, peer in enumerate(peers)}


def _fuse_sums(block: list[Step], pairs: dict[int, FusablePair], switched: set[int]) -> list[Step]:
    """The steps with sums fused with the sends that follow them directly.

    pairs: by id of the receive. switched: messages that a switch stores.
    """
    made: list[Step] = []
    fused_before = False
    for step, after in zip(block, [*block[1:], None], strict=True):
        pair = pairs.get(id(step))
        if fused_before:
            fused_before = False
        elif pair is not None and after is pair.send and pair.send.send not in switched:
            dst = step.dst if pair.kept else None
            made.append(replace(step, op=_FUSED[pair.kept], dst=dst, send=pair.send.send))
            fused_before = True
        else:
            made.append(step)
    return made
