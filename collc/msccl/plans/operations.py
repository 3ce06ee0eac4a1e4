"""Operations of a plan: the steps of a threadblock in rounds, each of them waits, moves of data, signals.

A round holds steps of one time, so that what is waited for together comes together. Only its first step may
wait for other threadblocks, only its last may be waited for. Then every wait of a round is for something
of an earlier time, or of a round that begins earlier at the same time: no round waits for itself, and
plans end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from collc.msccl.program import Gpu, Op, Program, Slot, Step

_TOGETHER: Final = 8
"""Channels, and buffers on either side, of one operation."""

_ACQUIRED: Final = 16
"""Semaphores of one operation."""

_COPIES: Final = frozenset({Op.RECEIVE, Op.RECEIVE_COPY_SEND})
"""Operations that keep what they receive as it is."""

Json = dict[str, Any]


class Connection(NamedTuple):
    """The number-th channel between two GPUs, for both directions."""

    low: int
    high: int
    number: int

    def other(self, rank: int) -> int:
        """The GPU at the other end."""
        return self.high if rank == self.low else self.low


@dataclass(frozen=True, slots=True)
class Routes:
    """Where messages go: the channel and the landing place of each.

    scratch: by GPU, the scratch slots that are used, and their numbers in the file.
    """

    over: dict[int, Connection]
    landing: dict[int, Slot]
    target: dict[int, int]
    scratch: tuple[dict[int, int], ...]

    def index(self, rank: int, slot: Slot) -> int:
        """The number of a slot in its buffer."""
        return self.scratch[rank][slot.offset] if slot.buffer == "s" else slot.offset


def routes_of(program: Program) -> Routes:
    """Channels and landing places for all messages of a program with threadblocks.

    A message lands where its receiver wants it; what is to be combined lands in the slot for the sum if nothing is
    there yet, else in a scratch slot of its own.
    """
    landing: dict[int, Slot] = {}
    target: dict[int, int] = {}
    scratch: list[dict[int, int]] = []
    for gpu in program.gpus:
        steps = [step for tb in gpu.threadblocks for step in tb.steps]
        used = {slot.offset for step in steps for slot in (*step.reads(), *step.writes()) if slot.buffer == "s"}
        last = gpu.scratch_chunks
        for step in (step for step in steps if step.receive >= 0):
            target[step.receive] = gpu.rank
            if step.dst is not None and (step.op in _COPIES or _is_fresh(program, step)):
                landing[step.receive] = step.dst
                continue
            landing[step.receive] = Slot("s", last)
            used.update(range(last, last + step.count))
            last += step.count
        scratch.append({offset: k for k, offset in enumerate(sorted(used))})
    return Routes(_connections(program), landing, target, tuple(scratch))


def _is_fresh(program: Program, step: Step) -> bool:
    """Whether the slot for a sum holds nothing before."""
    if step.src is None or step.dst is None or step.src == step.dst:
        return False
    return step.dst.buffer == "s" or (step.src.buffer == "i" and not program.placement.in_place)


def _connections(program: Program) -> dict[int, Connection]:
    """A channel for each two threadblocks, more where messages overtake one another."""
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
                flow = next((k for k, before in enumerate(known) if before < position), len(known))
                known[flow : flow + 1] = [position]
                near, far = (gpu.rank, number), (rank, block)
                ends[step.send] = (*min(near, far), *max(near, far), flow)
    numbers: dict[tuple[int, ...], Connection] = {}
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for key in sorted(set(ends.values())):
        pair = key[0], key[2]
        numbers[key] = Connection(*pair, counts[pair])
        counts[pair] += 1
    return {message: numbers[key] for message, key in ends.items()}


@dataclass(slots=True)
class GpuPlan:
    """One GPU's plan while it is written. channels, remotes: in the order of the file.

    shifts: where input and output begin in the memory that they share in place; None out of place.
    """

    gpu: Gpu
    routes: Routes
    channels: list[Connection]
    shifts: dict[str, int] | None
    remotes: dict[tuple[int, str], int] = field(default_factory=dict["tuple[int, str]", int])
    semaphores: dict[tuple[int, int], int] = field(default_factory=dict["tuple[int, int]", int])

    def as_json(self, input_chunks: int, output_chunks: int) -> Json:
        """The GPU's part of the file."""
        threadblocks = [_threadblock(self, number) for number in range(len(self.gpu.threadblocks))]
        rank = self.gpu.rank
        return {
            "id": rank,
            "input_chunks": input_chunks,
            "output_chunks": output_chunks,
            "scratch_chunks": len(self.routes.scratch[rank]),
            "channels": [{"channel_type": "memory", "connected_to": [over.other(rank) for over in self.channels]}],
            "remote_buffers": [
                {"rank": peer, "type": buffer, "access_channel_types": ["memory"]} for peer, buffer in self.remotes
            ],
            "semaphores": [{"init_value": 0} for _ in self.semaphores],
            "threadblocks": threadblocks,
        }


def gpu_plans(program: Program) -> list[GpuPlan]:
    """The plans of all GPUs, not written yet. The program's threadblocks are final (`depend`)."""
    routes = routes_of(program)
    used: dict[int, set[Connection]] = defaultdict(set)
    for connection in routes.over.values():
        used[connection.low].add(connection)
        used[connection.high].add(connection)
    plans: list[GpuPlan] = []
    for gpu in program.gpus:
        channels = sorted(used[gpu.rank], key=lambda over, rank=gpu.rank: (over.other(rank), over.number))
        plans.append(GpuPlan(gpu, routes, channels, _shifts(program, gpu)))
        for number, tb in enumerate(gpu.threadblocks):
            for point in (point for step in tb.steps for point in step.waits):
                plans[-1].semaphores.setdefault((point.threadblock, number), len(plans[-1].semaphores))
    return plans


def _shifts(program: Program, gpu: Gpu) -> dict[str, int] | None:
    bases = [base * program.instances for base in program.collective.bases(gpu.rank)]
    return {"i": bases[0], "o": bases[1]} if program.placement.in_place else None


@dataclass(slots=True)
class _BlockWriter:
    """One threadblock's operations while they are written.

    channels, remotes: positions in its GPU's lists. quiet: channels whose other end has not been heard yet and will
    first say that it has begun. read, written: places touched since the last nop.
    """

    plan: GpuPlan
    position: dict[Connection, int]
    ops: list[Json] = field(default_factory=list["Json"])
    channels: dict[int, int] = field(default_factory=dict[int, int])
    remotes: dict[int, int] = field(default_factory=dict[int, int])
    quiet: set[Connection] = field(default_factory=set[Connection])
    read: set[Slot] = field(default_factory=set[Slot])
    written: set[Slot] = field(default_factory=set[Slot])

    def add(self, name: str, **content: Any) -> None:  # noqa: ANN401
        """Append an operation."""
        self.ops.append({"name": name, **content})

    def last(self, name: str) -> Json | None:
        """The last operation if it is called so and has room for more buffers."""
        fits = self.ops and self.ops[-1]["name"] == name and len(self.ops[-1]["src_buff"]) < _TOGETHER
        return self.ops[-1] if fits else None

    def sync(self) -> None:
        """Order what follows after what came before."""
        if self.ops and self.ops[-1]["name"] != "nop":
            self.add("nop")
        self.read, self.written = set(), set()

    def channel(self, over: Connection) -> int:
        """The threadblock's number of a channel."""
        return self.channels.setdefault(self.position[over], len(self.channels))

    def talk(self, name: str, over: list[Connection]) -> None:
        """Signal or wait on channels, as often as they are named; a nop keeps two on one channel apart."""
        said: set[Connection] = set()
        while over:
            now = list(dict.fromkeys(over))[:_TOGETHER]
            if said & set(now):
                self.add("nop")
                said = set()
            said |= set(now)
            self.add(name, channel_type="memory", channel_ids=[self.channel(one) for one in now])
            for one in now:
                over.remove(one)

    def local(self, slot: Slot, count: int) -> Json:
        """Slots of this GPU, as the file names them."""
        index = self.plan.routes.index(self.plan.gpu.rank, slot)
        return {"type": slot.buffer, "index": index, "size": count}

    def remote(self, message: int, count: int) -> Json:
        """Where a message lands, as the file names it."""
        routes, remotes = self.plan.routes, self.plan.remotes
        slot, rank = routes.landing[message], routes.target[message]
        number = remotes.setdefault((rank, slot.buffer), len(remotes))
        buffer = self.remotes.setdefault(number, len(self.remotes))
        return {"buffer_id": buffer, "index": routes.index(rank, slot), "size": count}

    def span(self, slots: list[Slot], count: int) -> Iterator[Slot]:
        """Slots from some on, by the one name that they have in place."""
        shifts = self.plan.shifts
        for slot in slots:
            first = slot
            if shifts is not None and slot.buffer in shifts:
                first = Slot("o", slot.offset + shifts[slot.buffer])
            yield from (Slot(first.buffer, first.offset + k) for k in range(count))

    def touch(self, reads: list[Slot], writes: list[Slot], count: int) -> None:
        """Take note of what an operation touches; a nop comes first where that was touched before."""
        read, written = set(self.span(reads, count)), set(self.span(writes, count))
        if (read | written) & self.written or written & self.read:
            self.sync()
        self.read |= read
        self.written |= written


def _threadblock(plan: GpuPlan, number: int) -> Json:
    tb, routes = plan.gpu.threadblocks[number], plan.routes
    block = _BlockWriter(plan, {over: k for k, over in enumerate(plan.channels)})
    heard = dict.fromkeys(routes.over[step.receive] for step in tb.steps if step.receive >= 0)
    block.quiet = {routes.over[step.send] for step in tb.steps if step.send >= 0}
    block.talk("signal", list(heard))
    for one in _rounds(tb.steps):
        _begin(block, number, one)
        for step in one:
            _move(block, step)
        _end(block, number, tb.steps, one)
    return {
        "id": number,
        "channels": [{"channel_type": "memory", "channel_ids": list(block.channels)}] if block.channels else [],
        "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": list(block.remotes)}]
        if block.remotes
        else [],
        "ops": block.ops,
    }


def _rounds(steps: tuple[Step, ...]) -> Iterator[list[Step]]:
    one: list[Step] = []
    for step in steps:
        waiting_only = all(before.op is Op.NOP for before in one)
        if one and (
            step.when[0] != one[0].when[0]
            or one[-1].awaited
            or (bool(step.waits) and not waiting_only)
            or (step.op is Op.NOP and not waiting_only)
        ):
            yield one
            one = []
        one.append(step)
    if one:
        yield one


def _begin(block: _BlockWriter, number: int, steps: list[Step]) -> None:
    """Wait for all that a round needs; on a channel, first for the other end to have begun."""
    semaphores, over = block.plan.semaphores, block.plan.routes.over
    acquired = [semaphores[point.threadblock, number] for step in steps for point in step.waits]
    for k in range(0, len(acquired), _ACQUIRED):
        block.add("sem_acquire", semaphore_ids=acquired[k : k + _ACQUIRED])
    waits: list[Connection] = []
    for step in steps:
        for connection in [over[message] for message in (step.receive, step.send) if message >= 0]:
            if connection in block.quiet:
                block.quiet.discard(connection)
                waits.append(connection)
        if step.receive >= 0:
            waits.append(over[step.receive])
    block.talk("wait", waits)
    if acquired or waits or (block.ops and block.ops[-1]["name"] not in ("nop", "signal")):
        block.sync()


def _end(block: _BlockWriter, number: int, every: tuple[Step, ...], steps: list[Step]) -> None:
    """Tell the receivers of a round, and the threadblocks that wait for its last step."""
    told = [block.plan.routes.over[step.send] for step in steps if step.send >= 0]
    waiting = _waiting(block.plan, number, every, steps[-1]) if steps[-1].awaited else []
    if told or waiting:
        block.sync()
    block.talk("signal", told)
    for k in range(0, len(waiting), _ACQUIRED):
        block.add("sem_release", semaphore_ids=waiting[k : k + _ACQUIRED])


def _waiting(plan: GpuPlan, number: int, every: tuple[Step, ...], step: Step) -> list[int]:
    """Semaphores of the threadblocks that wait for a step, as often as they do."""
    position = next(k for k, other in enumerate(every) if other is step)
    return [
        plan.semaphores[number, other]
        for other, tb in enumerate(plan.gpu.threadblocks)
        for waiter in tb.steps
        if (number, position) in waiter.waits
    ]


def _move(block: _BlockWriter, step: Step) -> None:
    """Move the data of a step."""
    if step.op is Op.COPY and step.src is not None and step.dst is not None:
        _copy(block, step.src, step.dst, step.count)
    held = step.src if step.op is Op.SEND else step.dst if step.op is Op.RECEIVE_COPY_SEND else None
    if held is not None:
        _put(block, step, held)
    if step.receive >= 0 and step.op not in _COPIES and step.src is not None:
        _reduce(block, step, step.src)


def _copy(block: _BlockWriter, source: Slot, target: Slot, count: int) -> None:
    block.touch([source], [target], count)
    block.add("copy", src_buff=[block.local(source, count)], dst_buff=[block.local(target, count)])


def _put(block: _BlockWriter, step: Step, held: Slot) -> None:
    """A put of its own, or a part of the one before if that reads the same buffer and as much."""
    block.touch([held], [], step.count)
    here, far = block.local(held, step.count), block.remote(step.send, step.count)
    channel = block.channel(block.plan.routes.over[step.send])
    last = block.last("put")
    if last is not None and all(last["src_buff"][0][key] == here[key] for key in ("type", "size")):
        last["src_buff"].append(here)
        last["dst_buff"].append(far)
        if channel not in last["channel_ids"]:
            last["channel_ids"].append(channel)
        return
    block.add("put", src_buff=[here], dst_buff=[far], channel_type="memory", channel_ids=[channel])


def _reduce(block: _BlockWriter, step: Step, operand: Slot) -> None:
    """A sum of its own, or one more operand of the sum before if that is what it adds to."""
    landed = block.plan.routes.landing[step.receive]
    here, one, more = block.local(operand, step.count), block.local(landed, step.count), dict[str, Any]()
    near = block.local(step.dst if step.dst is not None else landed, step.count)
    far: list[Json] = []
    if step.send >= 0:
        far = [block.remote(step.send, step.count)]
        channel = block.channel(block.plan.routes.over[step.send])
        more = {"channel_type": "memory", "channel_ids": [channel]}
    last = block.last("re")
    if last is not None and last["dst_buff"] == [here] == [near]:
        last["src_buff"].append(one)
        last["dst_buff"] += far
        last.update(more, name="res" if far else "re")
        block.read |= set(block.span([landed], step.count))
        return
    block.touch([operand, landed], [step.dst or landed], step.count)
    block.add("res" if far else "re", src_buff=[here, one], dst_buff=[near, *far], **more)
