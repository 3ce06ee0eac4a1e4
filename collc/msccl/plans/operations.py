"""Operations of a plan: the steps of a threadblock in rounds, each of them waits, moves of data and signals.

A round has the steps of one time, so that messages that are awaited together arrive together. Only its first step waits
for other threadblocks, and others wait only for its last step. So every wait of a round is for an earlier time, or for
a round that begins earlier at the same time: there are no cycles of waits, and a plan cannot deadlock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from collc.msccl.limits import OPERATION_CHANNELS, PLAN_SEMAPHORES
from collc.msccl.plans.routes import RECEIVED_UNCHANGED, Connection, Routes, held_slot
from collc.msccl.program import Buffer, Gpu, Op, Point, Program, Slot, Step, SwitchAccess

SwitchChannel = tuple[Buffer, tuple[int, ...]]
"""A buffer of some GPUs, by rank, that a switch adds and stores to."""

_PUTS: Final = frozenset({Op.SEND, Op.RECEIVE_COPY_SEND})
"""Operations of steps that only put what is in a slot."""

KINDS: Final = ("memory", "port")
"""Kinds of channels between two GPUs, in the order in which the runtime pairs them."""

Json = dict[str, Any]


@dataclass(slots=True)
class GpuPlan:
    """The plan of one GPU while it is made.

    channels, remotes: in the order of the file; remotes are (rank, buffer, kind of channel). switches: its switch
    channels, in the order of the file. semaphores: by (threadblock awaited, threadblock waiting). waiting: by step that
    is awaited, the threadblocks that wait for it, once for each wait. position: of each channel among those of its
    kind.
    """

    program: Program
    gpu: Gpu
    routes: Routes
    channels: list[Connection]
    switches: list[SwitchChannel]
    remotes: dict[tuple[int, str, str], int] = field(default_factory=dict["tuple[int, str, str]", int])
    semaphores: dict[tuple[int, int], int] = field(default_factory=dict["tuple[int, int]", int])
    waiting: dict[Point, list[int]] = field(default_factory=dict[Point, "list[int]"])
    position: dict[Connection, int] = field(init=False)

    def __post_init__(self) -> None:
        self.position = {over: k for kind in KINDS for k, over in enumerate(self.of_kind(kind))}

    def semaphores_of(self, awaited: Point) -> list[int]:
        """Semaphores of the threadblocks that wait for a step, one for each wait."""
        return [self.semaphores[awaited.threadblock, number] for number in self.waiting.get(awaited, ())]

    def as_json(
        self, input_chunks: int, output_chunks: int, write: Callable[[GpuPlan, int], BlockWriter] | None = None
    ) -> Json:
        """The element of the GPU in the file. write: makes the operations of a threadblock, by its number."""
        blocks = [(write or _threadblock)(self, number) for number in range(len(self.gpu.threadblocks))]
        threadblocks = [block.as_json(number) for number, block in enumerate(blocks)]
        rank = self.gpu.rank
        return {
            "id": rank,
            "input_chunks": input_chunks,
            "output_chunks": output_chunks,
            "scratch_chunks": self.routes.room(rank),
            "channels": [
                {"channel_type": kind, "connected_to": [over.peer_of(rank) for over in self.of_kind(kind)]}
                for kind in KINDS
                if kind == "memory" or self.of_kind(kind)
            ]
            + [
                {
                    "channel_type": "switch",
                    "buffer_type": buffer,
                    "rank_groups": [{"size": len(ranks), "ranks": list(ranks)}],
                }
                for buffer, ranks in self.switches
            ],
            "remote_buffers": [
                {"rank": peer, "type": buffer, "access_channel_types": [kind]} for peer, buffer, kind in self.remotes
            ],
            "semaphores": [{"init_value": 0} for _ in self.semaphores],
            "threadblocks": threadblocks,
        }

    def of_kind(self, kind: str) -> list[Connection]:
        """The channels of a kind, in the order of the file."""
        return [over for over in self.channels if over.kind == kind]


def gpu_plans(program: Program, routes: Routes) -> list[GpuPlan]:
    """The plans of all GPUs of a final program, without operations yet."""
    used: dict[int, set[Connection]] = defaultdict(set)
    for connection in routes.over.values():
        used[connection.low].add(connection)
        used[connection.high].add(connection)
    plans: list[GpuPlan] = []
    switches = _switch_channels(program)
    for gpu in program.gpus:
        channels = sorted(used[gpu.rank], key=lambda over, rank=gpu.rank: (over.peer_of(rank), over.number))
        mine = [channel for channel in switches if gpu.rank in channel[1]]
        plans.append(GpuPlan(program, gpu, routes, channels, mine))
        for number, tb in enumerate(gpu.threadblocks):
            for point in (point for step in tb.steps for point in step.waits):
                plans[-1].semaphores.setdefault((point.threadblock, number), len(plans[-1].semaphores))
                plans[-1].waiting.setdefault(point, []).append(number)
    return plans


def _switch_channels(program: Program) -> list[SwitchChannel]:
    """All switch channels, in one order for all GPUs."""
    channels: set[SwitchChannel] = set()
    for step in (step for gpu in program.gpus for tb in gpu.threadblocks for step in tb.steps):
        access = program.switch_of(step)
        if access is None or step.src is None or step.dst is None:
            continue
        channels.add((step.dst.buffer, access.targets))
        if access.adds:
            channels.add((_summed_slot(program.placement.in_place, step.src).buffer, access.ranks))
    return sorted(channels)


def _summed_slot(in_place: bool, slot: Slot) -> Slot:
    """The slot whose sum over all GPUs a switch loads; in place, the output that is the input too."""
    return Slot("o", slot.offset) if in_place and slot.buffer == "i" else slot


@dataclass(slots=True)
class BlockWriter:
    """The operations of one threadblock while they are made.

    channels, remotes: by kind, from positions in the lists of the GPU to those in the lists of the threadblock. quiet:
    channels over which the other end has not signalled yet that it has begun. leaving: puts over ports that a round
    still has to make, as (source, target, channel). over_switches: switch channels, in the order of the file. stored:
    what switches have stored, as (slot, time). read, written: slots accessed since the last `nop`.
    """

    plan: GpuPlan
    ops: list[Json] = field(default_factory=list["Json"])
    channels: dict[str, dict[int, int]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    remotes: dict[str, dict[int, int]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    quiet: set[Connection] = field(default_factory=set[Connection])
    leaving: list[tuple[Json, Json, Connection]] = field(default_factory=list["tuple[Json, Json, Connection]"])
    over_switches: dict[int, int] = field(default_factory=dict[int, int])
    stored: set[tuple[Slot, int]] = field(default_factory=set["tuple[Slot, int]"])
    read: set[Slot] = field(default_factory=set[Slot])
    written: set[Slot] = field(default_factory=set[Slot])

    def add(self, name: str, **content: Any) -> None:  # noqa: ANN401
        """Append an operation."""
        self.ops.append({"name": name, **content})

    def last(self, name: str) -> Json | None:
        """The last operation if it has this name and room for more buffers, else None."""
        fits = self.ops and self.ops[-1]["name"] == name and len(self.ops[-1]["src_buff"]) < OPERATION_CHANNELS
        return self.ops[-1] if fits else None

    def sync(self) -> None:
        """Append a `nop`, which orders the operations before it before those after it."""
        if self.ops and self.ops[-1]["name"] != "nop":
            self.add("nop")
        self.read, self.written = set(), set()

    def channel(self, over: Connection) -> int:
        """The number of a channel in the list of the threadblock."""
        mine = self.channels[over.kind]
        return mine.setdefault(self.plan.position[over], len(mine))

    def signal_or_wait(self, name: str, over: list[Connection]) -> None:
        """Append signals or waits on channels, as often as they are in `over`; a `nop` separates two on one channel."""
        for kind in KINDS:
            rest = [channel for channel in over if channel.kind == kind]
            used: set[Connection] = set()
            while rest:
                now = list(dict.fromkeys(rest))[:OPERATION_CHANNELS]
                if used & set(now):
                    self.add("nop")
                    used = set()
                used |= set(now)
                self.add(name, channel_type=kind, channel_ids=[self.channel(channel) for channel in now])
                for channel in now:
                    rest.remove(channel)

    def use_semaphores(self, name: str, ids: list[int]) -> None:
        """Append operations that acquire or release semaphores."""
        for k in range(0, len(ids), PLAN_SEMAPHORES):
            self.add(name, semaphore_ids=ids[k : k + PLAN_SEMAPHORES])

    def flush(self, ports: list[int]) -> None:
        """Append operations that wait until ports have sent all; the entries of dst_buff say how many there are."""
        for k in range(0, len(ports), OPERATION_CHANNELS):
            ids = ports[k : k + OPERATION_CHANNELS]
            entries = [{"index": 0, "size": 0} for _ in ids]
            self.add("flush", dst_buff=entries, channel_ids=ids, channel_type="port")

    def local(self, slot: Slot, count: int) -> Json:
        """Slots of this GPU in the form of the file."""
        index = self.plan.routes.index(self.plan.gpu.rank, slot)
        return {"type": slot.buffer, "index": index, "size": count}

    def remote(self, message: int, count: int) -> Json:
        """The target slots of a message in the form of the file."""
        routes, remotes = self.plan.routes, self.plan.remotes
        slot, rank, kind = routes.landing[message], routes.target[message], routes.over[message].kind
        number = remotes.setdefault((rank, slot.buffer, kind), len(remotes))
        mine = self.remotes[kind]
        buffer = mine.setdefault(number, len(mine))
        return {"buffer_id": buffer, "index": routes.index(rank, slot), "size": count}

    def switch_slots(self, slot: Slot, ranks: tuple[int, ...], count: int) -> Json:
        """Slots of some GPUs of a switch in the form of the file."""
        position = self.plan.switches.index((slot.buffer, ranks))
        channel = self.over_switches.setdefault(position, len(self.over_switches))
        return {"switch_channel_id": channel, "index": self.local(slot, count)["index"], "size": count}

    def as_json(self, number: int) -> Json:
        """The threadblock in the form of the file."""
        return {
            "id": number,
            "channels": [
                {"channel_type": kind, "channel_ids": list(mine)}
                for kind, mine in {**self.channels, "switch": self.over_switches}.items()
                if mine
            ],
            "remote_buffer_refs": [
                {"access_channel_type": kind, "remote_buffer_ids": list(mine)}
                for kind, mine in self.remotes.items()
                if mine
            ],
            "ops": self.ops,
        }

    def span(self, slots: list[Slot], count: int) -> Iterator[Slot]:
        """The `count` slots from each given one on; in place, by the one name of the memory that buffers share."""
        program, rank = self.plan.program, self.plan.gpu.rank
        for first in (program.memory_slot(rank, slot, program.instances) for slot in slots):
            yield from (Slot(first.buffer, first.offset + k) for k in range(count))

    def touch(self, reads: list[Slot], writes: list[Slot], count: int) -> None:
        """Record the slots that an operation accesses, after a `nop` if it conflicts with those since the last one."""
        read, written = set(self.span(reads, count)), set(self.span(writes, count))
        if (read | written) & self.written or written & self.read:
            self.sync()
        self.read |= read
        self.written |= written


def _threadblock(plan: GpuPlan, number: int) -> BlockWriter:
    tb, routes = plan.gpu.threadblocks[number], plan.routes
    block = BlockWriter(plan)
    heard = dict.fromkeys(routes.over[step.receive] for step in tb.steps if step.receive >= 0)
    block.quiet = {routes.over[step.send] for step in tb.steps if step.send >= 0}
    block.signal_or_wait("signal", list(heard))
    done = 0
    for steps in rounds_of(tb.steps):
        done += len(steps)
        _begin(block, number, steps)
        puts = _puts_beside_ports(block, steps)
        for position, step in enumerate(steps):
            if position not in puts:
                _move(block, step)
        if puts:
            block.sync()
            _leave(block)
        for position in puts:
            _move(block, steps[position])
        _end(block, steps, Point(number, done - 1))
    _flush(block)
    return block


def _puts_beside_ports(block: BlockWriter, steps: list[Step]) -> list[int]:
    """Positions of the puts of a round over memory that wait until its puts over ports are queued.

    A proxy does the latter while the threadblock goes on, but the threadblock itself does the former. Empty if there
    are none of the latter, or if a later step of the round overwrites what a put reads.
    """
    routes, program = block.plan.routes, block.plan.program
    if not any(step.send >= 0 and step.send in routes.over and routes.over[step.send].kind == "port" for step in steps):
        return []
    puts = [
        position
        for position, step in enumerate(steps)
        if step.op in _PUTS and program.switch_of(step) is None and routes.over[step.send].kind == "memory"
    ]
    for position in puts:
        held, count = held_slot(steps[position]), steps[position].count
        read = set(block.span([held], count)) if held is not None else set[Slot]()
        after = [step for other, step in enumerate(steps) if other > position and other not in puts]
        if any(not read.isdisjoint(block.span(list(step.writes()), 1)) for step in after):
            return []
    return puts


def _flush(block: BlockWriter) -> None:
    """Wait at the end until all has left each port: the next run overwrites what the proxy still reads.

    Not by `pwsf`, which flushes nothing before June 2026 (docs/msccl-contract.md, section 6.2).
    """
    used = dict.fromkeys(channel for op in block.ops if op["name"] == "pws" for channel in op["channel_ids"])
    channels = list(used)
    last = block.ops[-1]
    if channels and (last["name"] != "pws" or last["channel_ids"] != channels):  # else who queued a put waits for it
        block.sync()
    block.flush(channels)


def rounds_of(steps: tuple[Step, ...]) -> Iterator[list[Step]]:
    """The steps in rounds (see above)."""
    batch: list[Step] = []
    for step in steps:
        waiting_only = all(before.op is Op.NOP for before in batch)
        if batch and (
            step.when[0] != batch[0].when[0]
            or batch[-1].awaited
            or (bool(step.waits) and not waiting_only)
            or (step.op is Op.NOP and not waiting_only)
        ):
            yield batch
            batch = []
        batch.append(step)
    if batch:
        yield batch


def _begin(block: BlockWriter, number: int, steps: list[Step]) -> None:
    """Append the waits of a round; on a channel, the first one is for the other end to have begun."""
    semaphores, over = block.plan.semaphores, block.plan.routes.over
    acquired = [semaphores[point.threadblock, number] for step in steps for point in step.waits]
    block.use_semaphores("sem_acquire", acquired)
    waits: list[Connection] = []
    for step in steps:
        if step.switch is not None:
            begun = [other for other in block.quiet if other.peer_of(block.plan.gpu.rank) in step.switch.ranks]
            block.quiet.difference_update(begun)
            waits += sorted(begun)
        for connection in [over[message] for message in (step.receive, step.send) if message >= 0]:
            if connection in block.quiet:
                block.quiet.discard(connection)
                waits.append(connection)
        if step.receive >= 0:
            waits.append(over[step.receive])
    block.signal_or_wait("wait", waits)
    if acquired or waits or (block.ops and block.ops[-1]["name"] not in ("nop", "signal")):
        block.sync()


def _end(block: BlockWriter, steps: list[Step], last: Point) -> None:
    """Append the signals to the receivers of a round and to the threadblocks that wait for its last step."""
    over = block.plan.routes.over
    receivers = [over[step.send] for step in steps if step.send >= 0 and over[step.send].kind == "memory"]
    waiting = block.plan.semaphores_of(last)
    if receivers or waiting or block.leaving:
        block.sync()
    block.signal_or_wait("signal", receivers)
    _leave(block)
    block.use_semaphores("sem_release", waiting)


def _leave(block: BlockWriter) -> None:
    """Append the puts of a round over ports. Each signals its receiver; a `nop` separates two on one channel."""
    while block.leaving:
        now: dict[Connection, tuple[Json, Json]] = {}
        rest: list[tuple[Json, Json, Connection]] = []
        for here, remote, over in block.leaving:
            if over in now or len(now) == OPERATION_CHANNELS:
                rest.append((here, remote, over))
            else:
                now[over] = here, remote
        block.add(
            "pws",
            src_buff=[here for here, _ in now.values()],
            dst_buff=[remote for _, remote in now.values()],
            channel_type="port",
            channel_ids=[block.channel(over) for over in now],
        )
        block.leaving = rest
        if rest:
            block.add("nop")


def _move(block: BlockWriter, step: Step) -> None:
    """Append the operations that move the data of a step."""
    access = block.plan.program.switch_of(step)
    if access is not None and step.src is not None and step.dst is not None:
        _store_to_all(block, step, step.src, step.dst, access)
        return
    if step.op is Op.COPY and step.src is not None and step.dst is not None:
        copy(block, step.src, step.dst, step.count)
    if step.op is Op.REDUCE and step.src is not None and step.dst is not None:
        add(block, step.src, step.dst, step.count)
    routes, held = block.plan.routes, held_slot(step)
    adds = step.receive >= 0 and step.op not in RECEIVED_UNCHANGED
    port = step.send >= 0 and routes.over[step.send].kind == "port"
    if step.receive >= 0 and not adds and step.dst is not None and routes.landing[step.receive] != step.dst:
        copy(block, routes.landing[step.receive], step.dst, step.count)
    if adds and step.src is not None:
        _reduce(block, step, step.src, fused=step.send >= 0 and not port)
    if port:
        _hand_to_port(block, step, held or routes.landing[step.receive])
    elif step.send >= 0 and not adds and held is not None:
        _put(block, step, held)


def _store_to_all(block: BlockWriter, step: Step, source: Slot, target: Slot, access: SwitchAccess) -> None:
    """Append the operation that stores chunks, or their sums over all GPUs of a switch, to all of these."""
    if (source, step.when[0]) in block.stored:
        return
    block.stored.add((source, step.when[0]))
    block.touch([source], [target], step.count)
    to = block.switch_slots(target, access.targets, step.count)
    if access.adds:
        summed = _summed_slot(block.plan.program.placement.in_place, source)
        loaded = block.switch_slots(summed, access.ranks, step.count)
        block.add("glres", src_buff=[loaded], dst_buff=[to], channel_type="switch", reduce_op="sum")
    else:
        block.add("gstore", src_buff=[block.local(source, step.count)], dst_buff=[to], channel_type="switch")


def _hand_to_port(block: BlockWriter, step: Step, held: Slot) -> None:
    """Let chunks leave over a port at the end of the round, from scratch."""
    routes = block.plan.routes
    staged = routes.staged.get(step.send, held)
    if step.send in routes.copied:
        copy(block, held, staged, step.count)
    block.read |= set(block.span([staged], step.count))
    over = routes.over[step.send]
    block.leaving.append((block.local(staged, step.count), block.remote(step.send, step.count), over))


def copy(block: BlockWriter, source: Slot, target: Slot, count: int) -> None:
    """Append a copy, or extend the one before if both continue it."""
    block.touch([source], [target], count)
    here, there = block.local(source, count), block.local(target, count)
    last = block.last("copy")
    if last is not None and all(
        before["type"] == other["type"] and before["index"] + before["size"] == other["index"]
        for before, other in ((last["src_buff"][0], here), (last["dst_buff"][0], there))
    ):
        last["src_buff"][0]["size"] += count
        last["dst_buff"][0]["size"] += count
        return
    block.add("copy", src_buff=[here], dst_buff=[there])


def add(block: BlockWriter, source: Slot, target: Slot, count: int) -> None:
    """Append the addition of chunks to others."""
    block.touch([source, target], [target], count)
    here = block.local(target, count)
    block.add("re", src_buff=[here, block.local(source, count)], dst_buff=[here])


def _put(block: BlockWriter, step: Step, held: Slot) -> None:
    """Append a put, or extend the one before if that reads the same buffer and the same number of chunks."""
    block.touch([held], [], step.count)
    here, remote = block.local(held, step.count), block.remote(step.send, step.count)
    channel = block.channel(block.plan.routes.over[step.send])
    last = block.last("put")
    if last is not None and all(last["src_buff"][0][key] == here[key] for key in ("type", "size")):
        last["src_buff"].append(here)
        last["dst_buff"].append(remote)
        if channel not in last["channel_ids"]:
            last["channel_ids"].append(channel)
        return
    block.add("put", src_buff=[here], dst_buff=[remote], channel_type="memory", channel_ids=[channel])


def _reduce(block: BlockWriter, step: Step, operand: Slot, *, fused: bool) -> None:
    """Append a sum, or another operand to the sum before if both have the same target. fused: and put it."""
    landed = block.plan.routes.landing[step.receive]
    here, added, more = block.local(operand, step.count), block.local(landed, step.count), dict[str, Any]()
    local = block.local(step.dst if step.dst is not None else landed, step.count)
    remote: list[Json] = []
    if fused:
        remote = [block.remote(step.send, step.count)]
        channel = block.channel(block.plan.routes.over[step.send])
        more = {"channel_type": "memory", "channel_ids": [channel]}
    last = block.last("re")
    if last is not None and last["dst_buff"] == [here] == [local]:
        last["src_buff"].append(added)
        last["dst_buff"] += remote
        last.update(more, name="res" if remote else "re")
        block.read |= set(block.span([landed], step.count))
        return
    block.touch([operand, landed], [step.dst or landed], step.count)
    block.add("res" if remote else "re", src_buff=[here, added], dst_buff=[local, *remote], **more)
