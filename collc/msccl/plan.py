"""From an MSCCL program to an MSCCL++ execution plan: one-sided puts, signals and waits instead of connections.

A message lands where its receiver wants it; what is to be reduced lands in a scratch slot of its own. No
slot is landed in twice, and each receiver tells its sender once that it has begun, so that no run of the plan
writes into the one before: no further credits are needed. Threadblocks of a GPU wait for one another with
semaphores, one for each pair.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from collc.msccl.assign import Policy, assign
from collc.msccl.dependencies import depend
from collc.msccl.limits import MOST_CHUNKS, Excess
from collc.msccl.lower import selected
from collc.msccl.merge import merge
from collc.msccl.options import MscclOptions, Placement
from collc.msccl.program import Gpu, Op, Program, Slot, Step, Threadblock
from collc.msccl.repeat import repeat
from collc.ten.module import Module

_OPERATIONS: Final = 64
_SEMAPHORES: Final = 16
_COLORS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Shares of the chunks, each with threadblocks of its own: more of them need fewer operations and more semaphores."""

_COPIES: Final = frozenset({Op.RECEIVE, Op.RECEIVE_COPY_SEND})
"""Operations that keep what they receive as it is."""

_Json = dict[str, Any]


@dataclass(slots=True)
class _Writer:
    """One GPU's plan while it is written. channels, remotes: in the order of the file."""

    gpu: Gpu
    channels: list[tuple[int, int]] = field(default_factory=list["tuple[int, int]"])
    remotes: list[tuple[int, str]] = field(default_factory=list["tuple[int, str]"])
    semaphores: dict[tuple[int, int], int] = field(default_factory=dict["tuple[int, int]", int])

    def channel(self, peer: int, number: int) -> int:
        """The position of the channel to a peer that is the `number`-th between the two; all below exist too."""
        while (peer, number) not in self.channels:
            self.channels.append((peer, sum(known == peer for known, _ in self.channels)))
        return self.channels.index((peer, number))

    def remote(self, rank: int, buffer: str) -> int:
        """The position of another GPU's buffer."""
        if (rank, buffer) not in self.remotes:
            self.remotes.append((rank, buffer))
        return self.remotes.index((rank, buffer))


@dataclass(slots=True)
class _Block:
    """One threadblock's operations while they are written. channels, remotes: positions in its GPU's lists."""

    ops: list[_Json] = field(default_factory=list["_Json"])
    channels: list[int] = field(default_factory=list[int])
    remotes: list[int] = field(default_factory=list[int])
    greeted: bool = False

    def add(self, name: str, **content: Any) -> None:  # noqa: ANN401
        """Append an operation."""
        self.ops.append({"name": name, **content})

    def sync(self) -> None:
        """Order what follows after what came before."""
        if self.ops and self.ops[-1]["name"] != "nop":
            self.add("nop")

    def over(self, channel: int) -> _Json:
        """The fields that name a channel of the GPU."""
        if channel not in self.channels:
            self.channels.append(channel)
        return {"channel_type": "memory", "channel_ids": [self.channels.index(channel)]}


def plan_of(module: Module, options: MscclOptions | None = None) -> _Json:
    """The execution plan of a module's schedule, as JSON values. In place if asked for, else out of place.

    Raises SourceError M0104 .. M0107, M0109 as `lower` does, M0111 where a limit of MSCCL++ is broken.
    """
    options = options or MscclOptions()
    inside = options.placement is Placement.IN
    options = replace(options, placement=Placement.IN if inside else Placement.OUT)
    start = selected(module, options)
    closest: Excess | None = None
    for most in (MOST_CHUNKS, 1) if options.instances == 1 else (1,):
        merged = merge(start, most)
        for colors in _COLORS:
            program = depend(repeat(assign(merged, Policy(colors=colors), 1 << 20, 1 << 20)))
            plan, excess = _plan(program, options)
            if excess is None:
                return plan
            if closest is None or excess.needed * closest.limit < closest.needed * excess.limit:
                closest = excess
    raise closest.error() if closest else ValueError("no plan was tried")


def _plan(program: Program, options: MscclOptions) -> tuple[_Json, Excess | None]:
    landing, scratch = _landings(program)
    numbers = _numbers(program)
    gpus = [_gpu(gpu, landing, scratch[gpu.rank], numbers) for gpu in program.gpus]
    plan: _Json = {
        "name": program.name.replace(" ", "_"),
        "collective": program.collective.coll,
        "inplace": options.placement is Placement.IN,
        "protocol": "Simple",
        "buffer_alignment": 16,
        "min_message_size": options.sizes[0],
    }
    if options.sizes[1] is not None:
        plan["max_message_size"] = options.sizes[1]
    plan["gpus"] = gpus
    return plan, _excess(gpus)


def _excess(gpus: list[_Json]) -> Excess | None:
    longest = max((len(tb["ops"]) for gpu in gpus for tb in gpu["threadblocks"]), default=0)
    semaphores = max((len(gpu["semaphores"]) for gpu in gpus), default=0)
    hint = "use fewer chunks, or emit msccl"
    for excess in (
        Excess("operations in one threadblock", longest, _OPERATIONS, hint),
        Excess("semaphores on one GPU", semaphores, _SEMAPHORES, hint),
    ):
        if excess.needed > excess.limit:
            return excess
    return None


def _landings(program: Program) -> tuple[dict[int, Slot], list[int]]:
    """Where each message lands at its receiver, and the scratch chunks of each GPU.

    In an All-to-All in place what a message replaces may not have left yet: it lands in scratch too.
    """
    landing: dict[int, Slot] = {}
    scratch: list[int] = []
    replaced = program.collective.kind == "all_to_all" and program.placement.inside
    for gpu in program.gpus:
        used = gpu.scratch_chunks
        for step in (step for tb in gpu.threadblocks for step in tb.steps if step.receive >= 0):
            if step.op in _COPIES and step.dst is not None and not replaced:
                landing[step.receive] = step.dst
                continue
            landing[step.receive] = Slot("s", used)
            used += step.count
        scratch.append(used)
    return landing, scratch


def _numbers(program: Program) -> dict[tuple[int, int, int], int]:
    """For each connection (sender, receiver, channel), which of the channels between the two it uses."""
    counts: dict[tuple[int, int], int] = {}
    found: dict[tuple[int, int, int], int] = {}
    for gpu in program.gpus:
        for tb in gpu.threadblocks:
            if tb.send >= 0:
                pair = (min(gpu.rank, tb.send), max(gpu.rank, tb.send))
                found[gpu.rank, tb.send, tb.channel] = counts.get(pair, 0)
                counts[pair] = counts.get(pair, 0) + 1
    return found


def _gpu(gpu: Gpu, landing: dict[int, Slot], scratch: int, numbers: dict[tuple[int, int, int], int]) -> _Json:
    writer = _Writer(gpu)
    for number, tb in enumerate(gpu.threadblocks):
        for step in tb.steps:
            for point in step.waits:
                writer.semaphores.setdefault((point.threadblock, number), len(writer.semaphores))
    threadblocks = [_threadblock(writer, number, landing, numbers) for number in range(len(gpu.threadblocks))]
    return {
        "id": gpu.rank,
        "input_chunks": gpu.input_chunks,
        "output_chunks": gpu.output_chunks,
        "scratch_chunks": scratch,
        "channels": [{"channel_type": "memory", "connected_to": [peer for peer, _ in writer.channels]}],
        "remote_buffers": [
            {"rank": rank, "type": buffer, "access_channel_types": ["memory"]} for rank, buffer in writer.remotes
        ],
        "semaphores": [{"init_value": 0} for _ in writer.semaphores],
        "threadblocks": threadblocks,
    }


def _threadblock(
    writer: _Writer,
    number: int,
    landing: dict[int, Slot],
    numbers: dict[tuple[int, int, int], int],
) -> _Json:
    rank, tb = writer.gpu.rank, writer.gpu.threadblocks[number]
    block = _Block()
    source = target = -1
    if tb.receive >= 0:
        source = writer.channel(tb.receive, numbers[tb.receive, rank, tb.channel])
        block.add("signal", **block.over(source))
    if tb.send >= 0:
        target = writer.channel(tb.send, numbers[rank, tb.send, tb.channel])
    for position, step in enumerate(tb.steps):
        _await(writer, block, number, step, source, target)
        _act(writer, block, tb, step, landing, target)
        _release(writer, block, number, position)
    return {
        "id": number,
        "channels": [{"channel_type": "memory", "channel_ids": block.channels}] if block.channels else [],
        "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": block.remotes}]
        if block.remotes
        else [],
        "ops": block.ops,
    }


def _await(writer: _Writer, block: _Block, number: int, step: Step, source: int, target: int) -> None:
    """Wait for all that a step needs, and once for the receiver to have begun."""
    acquired = [writer.semaphores[point.threadblock, number] for point in step.waits]
    if acquired:
        block.add("sem_acquire", semaphore_ids=acquired)
    if step.receive >= 0:
        block.add("wait", **block.over(source))
    greet = step.send >= 0 and not block.greeted
    if greet:
        block.add("wait", **block.over(target))
        block.greeted = True
    if acquired or step.receive >= 0 or greet:
        block.add("nop")


def _act(writer: _Writer, block: _Block, tb: Threadblock, step: Step, landing: dict[int, Slot], target: int) -> None:
    """Move the data of a step, and tell the receiver if there is one."""
    far: list[_Json] = []
    if step.send >= 0:
        far = [_remote(writer, block, tb.send, landing[step.send], step.count)]
    if step.op in _COPIES and landing[step.receive] != step.dst:
        here = [_local(landing[step.receive], step.count)]
        block.add("copy", src_buff=here, dst_buff=[_local(step.dst, step.count)])
        block.sync()
    near = step.dst if step.dst is not None else landing.get(step.receive)
    if step.op in (Op.SEND, Op.RECEIVE_COPY_SEND):
        held = step.src if step.op is Op.SEND else step.dst
        block.add("put", src_buff=[_local(held, step.count)], dst_buff=far, **block.over(target))
    elif step.op is Op.COPY:
        block.add("copy", src_buff=[_local(step.src, step.count)], dst_buff=[_local(step.dst, step.count)])
    elif step.op not in (Op.RECEIVE, Op.NOP):
        sources = [_local(step.src, step.count), _local(landing[step.receive], step.count)]
        channel = block.over(target) if far else {}
        name = "res" if far else "re"
        block.add(name, src_buff=sources, dst_buff=[_local(near, step.count), *far], **channel)
    block.sync()
    if step.send >= 0:
        block.add("signal", **block.over(target))


def _release(writer: _Writer, block: _Block, number: int, position: int) -> None:
    """Let the threadblocks go on that wait for a step."""
    waiting = [
        writer.semaphores[number, other]
        for other, tb in enumerate(writer.gpu.threadblocks)
        for step in tb.steps
        if (number, position) in step.waits
    ]
    if waiting:
        block.add("sem_release", semaphore_ids=waiting)


def _local(slot: Slot | None, count: int) -> _Json:
    if slot is None:
        raise ValueError("a step without a slot that its operation needs")
    return {"type": slot.buffer, "index": slot.offset, "size": count}


def _remote(writer: _Writer, block: _Block, rank: int, slot: Slot, count: int) -> _Json:
    number = writer.remote(rank, slot.buffer)
    if number not in block.remotes:
        block.remotes.append(number)
    return {"buffer_id": block.remotes.index(number), "index": slot.offset, "size": count}
