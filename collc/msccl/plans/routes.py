"""Where the messages of a plan go: over which channel, from which slot and into which one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from collc.msccl.program import Gpu, Op, Program, Slot, Step

RECEIVED_UNCHANGED: Final = frozenset({Op.RECEIVE, Op.RECEIVE_COPY_SEND})
"""Operations of steps that store what they receive without a sum."""


class Connection(NamedTuple):
    """Channel `number` between two GPUs, for both directions. low, high: ranks. kind: "memory" or "port"."""

    low: int
    high: int
    number: int
    kind: str = "memory"

    def peer_of(self, rank: int) -> int:
        """The GPU at the other end."""
        return self.high if rank == self.low else self.low


@dataclass(slots=True)
class Routes:
    """The channel and the target slot of each message.

    over: channel by message. landing: slot in which it lands. target: rank of its receiver. staged: scratch slot from
    which it leaves over a port, if it lies elsewhere before; copied: the messages before which it is copied there.
    scratch: by rank, the scratch slots that are used, and their offsets in the file.
    """

    over: dict[int, Connection]
    landing: dict[int, Slot] = field(default_factory=dict[int, Slot])
    target: dict[int, int] = field(default_factory=dict[int, int])
    staged: dict[int, Slot] = field(default_factory=dict[int, Slot])
    copied: set[int] = field(default_factory=set[int])
    scratch: list[dict[int, int]] = field(default_factory=list["dict[int, int]"])

    def room(self, rank: int) -> int:
        """The scratch chunks of a GPU in the file."""
        return max(self.scratch[rank].values(), default=-1) + 1

    def index(self, rank: int, slot: Slot) -> int:
        """The offset of a slot in its buffer in the file."""
        return self.scratch[rank][slot.offset] if slot.buffer == "s" else slot.offset


def routes_of(program: Program, node: Sequence[int], same_offsets: bool = True) -> Routes:
    """Channels and target slots for all messages of a program with threadblocks.

    A message lands in the slot of its receiver for it. An operand of a sum lands in the slot of the sum if that is
    empty, else in a scratch slot of its own; scratch, too, if the buffers of sender and receiver do not begin at one
    offset in their allocations (docs/msccl-contract.md, section 6.1). Ports join GPUs of two nodes. They are safe from
    scratch only, since the runtime leaves out where an input or output begins in its allocation (section 6.2). node: by
    rank. same_offsets: whether inputs and outputs begin at one offset in their allocations on all GPUs; else all
    messages land in scratch.
    """
    routes = Routes(connections_of(program, node))
    every = (step for gpu in program.gpus for tb in gpu.threadblocks for step in tb.steps)
    switched = any(step.switch is not None for step in every)
    for gpu in program.gpus:
        steps = [step for tb in gpu.threadblocks for step in tb.steps]
        moves = [step for step in steps if step.op is not Op.NOP]
        used = {slot.offset for step in moves for slot in (*step.reads(), *step.writes()) if slot.buffer == "s"}
        if switched:  # at one index on all GPUs of the switch
            used.update(range(gpu.scratch_chunks))
        last = gpu.scratch_chunks
        for step in (step for step in steps if step.receive >= 0):
            routes.target[step.receive] = gpu.rank
            ends = gpu.rank, program.messages[step.receive].source
            lands = step.op in RECEIVED_UNCHANGED or _is_fresh(program, step)
            lands = lands and not _begins_apart(program, step.dst, ends)
            if step.dst is not None and lands and (same_offsets or step.dst.buffer == "s"):
                routes.landing[step.receive] = step.dst
                continue
            routes.landing[step.receive] = Slot("s", last)
            used.update(range(last, last + step.count))
            last += step.count
        used.update(range(last, _stage(program, gpu, routes, last)))
        routes.scratch.append({offset: k for k, offset in enumerate(sorted(used))})
    return routes


def _stage(program: Program, gpu: Gpu, routes: Routes, last: int) -> int:
    """Choose scratch slots, from `last` on, for what leaves a GPU over ports from input or output.

    One copy serves the sends that follow in its threadblock until the slot changes. Returns the slot after them.
    """
    fixed = not program.placement.in_place
    for tb in gpu.threadblocks:
        inputs: dict[tuple[Slot, int], Slot] = {}
        changing: dict[tuple[Slot, int], Slot] = {}
        for step in tb.steps:
            if step.waits or any(slot.buffer != "s" for slot in step.writes()):
                changing.clear()
            held = held_slot(step)
            if step.send < 0 or held is None or held.buffer == "s" or routes.over[step.send].kind != "port":
                continue
            key, known = (held, step.count), inputs if fixed and held.buffer == "i" else changing
            if key not in known:
                known[key] = Slot("s", last)
                routes.copied.add(step.send)
                last += step.count
            routes.staged[step.send] = known[key]
    return last


def held_slot(step: Step) -> Slot | None:
    """Where that lies which a step sends; None if it is only added up in the slot in which it landed."""
    return step.src if step.op is Op.SEND else step.dst


_APART: Final = {"all_gather": "i", "gather": "i", "reduce_scatter": "o", "scatter": "o"}
"""The buffer that, in place, is a part of the other one: of each rank, or of the root."""


def _begins_apart(program: Program, slot: Slot | None, ends: tuple[int, int]) -> bool:
    """Whether, in place, the buffers of two GPUs that a slot is in begin at different offsets."""
    root = program.collective.root
    inside = program.placement.in_place and slot is not None and slot.buffer == _APART.get(program.collective.kind)
    return inside and (root < 0 or root in ends)


def _is_fresh(program: Program, step: Step) -> bool:
    """Whether the slot for a sum is empty before."""
    if step.src is None or step.dst is None or step.src == step.dst:
        return False
    return step.dst.buffer == "s" or (step.src.buffer == "i" and not program.placement.in_place)


def connections_of(program: Program, node: Sequence[int]) -> dict[int, Connection]:
    """The channel of each message: one for each two threadblocks, more if messages overtake one another."""
    received: dict[int, tuple[int, int, int]] = {}
    for gpu in program.gpus:
        for number, tb in enumerate(gpu.threadblocks):
            received.update({s.receive: (gpu.rank, number, k) for k, s in enumerate(tb.steps) if s.receive >= 0})
    last: dict[tuple[int, int, int, int], list[int]] = defaultdict(list)
    ends: dict[int, tuple[int, ...]] = {}
    for gpu in program.gpus:
        for number, tb in enumerate(gpu.threadblocks):
            for step in (step for step in tb.steps if step.send >= 0):
                rank, block, position = received[step.send]
                known = last[gpu.rank, number, rank, block]
                order = next((k for k, before in enumerate(known) if before < position), len(known))
                known[order : order + 1] = [position]
                local, remote = (gpu.rank, number), (rank, block)
                ends[step.send] = (*min(local, remote), *max(local, remote), order)
    numbers: dict[tuple[int, ...], Connection] = {}
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for key in sorted(set(ends.values())):
        pair = key[0], key[2]
        numbers[key] = Connection(*pair, counts[pair], "memory" if node[pair[0]] == node[pair[1]] else "port")
        counts[pair] += 1
    return {message: numbers[key] for message, key in ends.items()}
