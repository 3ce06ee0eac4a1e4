"""Operations of a plan of packets (protocol LL): what arrives carries its own flag, so that nobody waits for signals.

Every message lands as packets in the scratch of its receiver, which are unpacked, added to a chunk, or passed on. Two
scratch buffers are used in turn: a GPU that writes packets of one run has ended the run before, for which it needed
data of each GPU to which it writes, so that these have read the packets of the run before that. If the data of a
collective does not say so, the receiver acknowledges that it has begun.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from collc.msccl.plans.operations import (
    BlockWriter,
    GpuPlan,
    Json,
    add,
    copy,
    rounds_of,
)
from collc.msccl.plans.routes import RECEIVED_UNCHANGED, Routes, connections_of, held_slot
from collc.msccl.program import Gpu, Op, Point, Program, Slot, Step

_PACKET: Final = 1 << 40
"""Scratch offsets from here on are packets."""


@dataclass(slots=True)
class PacketRoutes(Routes):
    """Routes of packets. `landing` and `staged` are packets; `scratch` has the packets first, then plain chunks.

    packed: by rank and slot, the packets that are never unpacked. kept: by message, the plain slot of a sum that only
    passes on. acknowledged: messages over whose channels the receiver says that it has begun. drains: whether ports
    must have sent all when a run ends.
    """

    packed: dict[tuple[int, Slot], Slot] = field(default_factory=dict["tuple[int, Slot]", Slot])
    kept: dict[int, Slot] = field(default_factory=dict[int, Slot])
    acknowledged: frozenset[int] = frozenset()
    drains: bool = False

    def add_gpu(self, gpu: Gpu) -> None:
        """Choose packets and plain scratch for one GPU, the next one by rank."""
        steps = [step for tb in gpu.threadblocks for step in tb.steps]
        packets, plain = 0, gpu.scratch_chunks
        for step in (step for step in steps if step.receive >= 0):
            self.target[step.receive] = gpu.rank
            self.landing[step.receive] = Slot("s", _PACKET + packets)
            packets += step.count
        passed_on = _passed_on(steps)
        for step in steps:
            if step.op in RECEIVED_UNCHANGED and step.dst is not None and step.dst in passed_on:
                landed = self.landing[step.receive]
                for k in range(step.count):
                    here = Slot("s", step.dst.offset + k)
                    self.packed[gpu.rank, here] = Slot("s", landed.offset + k)
        for step in (step for step in steps if step.send >= 0):
            held = held_slot(step)
            if step.receive >= 0 and step.op not in RECEIVED_UNCHANGED and held is None:
                self.kept[step.send] = Slot("s", plain)
                plain += step.count
            if self.over[step.send].kind != "port" or step.op is Op.RECEIVE_COPY_SEND:
                continue
            if held is None or (gpu.rank, held) not in self.packed:
                self.staged[step.send] = Slot("s", _PACKET + packets)
                packets += step.count
        used = {s.offset for step in steps for s in (*step.reads(), *step.writes()) if s.buffer == "s"}
        used = {offset for offset in used if (gpu.rank, Slot("s", offset)) not in self.packed}
        used.update(range(gpu.scratch_chunks, plain))
        self.scratch.append({_PACKET + k: k for k in range(packets)})
        self.scratch[-1].update({offset: 2 * packets + k for k, offset in enumerate(sorted(used))})


def packet_routes_of(program: Program, node: Sequence[int]) -> PacketRoutes:
    """Channels and packets of all messages of a program with threadblocks. node: by rank."""
    routes = PacketRoutes(connections_of(program, node))
    for gpu in program.gpus:
        routes.add_gpu(gpu)
    acknowledged, known = _unknown_to_senders(program, routes.target)
    routes.acknowledged, routes.drains = frozenset(acknowledged), not known
    return routes


def _passed_on(steps: list[Step]) -> set[Slot]:
    """Scratch slots that one message fills and that are only sent, copied or added to other chunks."""
    writers: dict[Slot, list[Step]] = defaultdict(list)
    plain: set[Slot] = set()
    for step in steps:
        for slot in step.writes():
            writers[slot].append(step)
        if (step.receive >= 0 and step.op not in RECEIVED_UNCHANGED) or step.count > 1:
            plain.update(step.reads())
            plain.update(step.writes())
        if step.op is Op.REDUCE:
            plain.update(step.writes())
    return {
        slot
        for slot, writing in writers.items()
        if slot.buffer == "s" and slot not in plain and len(writing) == 1 and writing[0].op in RECEIVED_UNCHANGED
    }


def _unknown_to_senders(program: Program, target: dict[int, int]) -> tuple[list[int], bool]:
    """A message for each two GPUs of which the sender gets no data of the receiver; and whether all get data of all."""
    steps = sorted(
        (step.when, gpu.rank, k, n, step)
        for gpu in program.gpus
        for k, tb in enumerate(gpu.threadblocks)
        for n, step in enumerate(tb.steps)
        if step.op is not Op.NOP
    )
    held: dict[tuple[int, Slot], int] = defaultdict(int)
    carried: dict[int, int] = {}
    known = [1 << gpu.rank for gpu in program.gpus]
    for _, rank, _, _, step in steps:
        value = 1 << rank
        for slot in step.reads():
            value |= held[rank, slot]
        if step.receive >= 0:
            value |= carried[step.receive]
            known[rank] |= value
        for slot in step.writes():
            held[rank, slot] = value
        if step.send >= 0:
            carried[step.send] = value
    sender = {step.send: rank for _, rank, _, _, step in steps if step.send >= 0}
    asked: dict[tuple[int, int], int] = {}
    for message, rank in sorted(sender.items()):
        if not known[rank] >> target[message] & 1:
            asked.setdefault((rank, target[message]), message)
    return sorted(asked.values()), all(value == (1 << len(known)) - 1 for value in known)


def packet_threadblock(routes: PacketRoutes, plan: GpuPlan, number: int) -> BlockWriter:
    """The operations of a threadblock."""
    block = BlockWriter(plan)
    tb = plan.gpu.threadblocks[number]
    heard = [routes.over[step.receive] for step in tb.steps if step.receive in routes.acknowledged]
    block.signal_or_wait("signal", list(dict.fromkeys(heard)))
    done = 0
    for steps in rounds_of(tb.steps):
        done += len(steps)
        acquired = [plan.semaphores[point.threadblock, number] for step in steps for point in step.waits]
        block.use_semaphores("sem_acquire", acquired)
        if acquired:
            block.sync()
        for step in steps:
            _Packing(block, routes, step).write()
        waiting = plan.semaphores_of(Point(number, done - 1))
        if waiting:
            block.sync()
        block.use_semaphores("sem_release", waiting)
    asked = [routes.over[step.send] for step in tb.steps if step.send in routes.acknowledged]
    block.signal_or_wait("wait", list(dict.fromkeys(asked)))
    if routes.drains:
        ports = sorted({k for op in block.ops if op["name"] == "rppkt" for k in _ports(op)})
        if ports:
            block.sync()
        block.flush(ports)
    return block


def _ports(op: Json) -> list[int]:
    return op["channel_ids"] if op["channel_type"] == "port" else []


@dataclass(slots=True)
class _Packing:
    """The operations of one step."""

    block: BlockWriter
    routes: PacketRoutes
    step: Step

    def write(self) -> None:
        """Append them."""
        step, rank = self.step, self.block.plan.gpu.rank
        landed = self.routes.landing.get(step.receive)
        if step.op in (Op.COPY, Op.REDUCE) and step.src is not None and step.dst is not None:
            self._local(step.src, step.dst)
        elif step.op is Op.SEND and step.src is not None:
            self._send(step.src)
        elif landed is not None and step.op in RECEIVED_UNCHANGED:
            if step.dst is not None and (rank, step.dst) not in self.routes.packed:
                self._unpack(landed, step.dst)
            if step.send >= 0:
                self._pass_on(landed)
        elif landed is not None and step.src is not None:
            self._reduce(step.src, landed)

    def _local(self, source: Slot, target: Slot) -> None:
        """Copy or add chunks of this GPU; those in scratch may be packets."""
        rank, count = self.block.plan.gpu.rank, self.step.count
        if (rank, source) not in self.routes.packed:
            (copy if self.step.op is Op.COPY else add)(self.block, source, target, count)
            return
        for k in range(count):
            packet, to = self.routes.packed[rank, Slot("s", source.offset + k)], Slot(target.buffer, target.offset + k)
            if self.step.op is Op.COPY:
                self._unpack(packet, to)
            else:
                self._add_packets(to, packet, to)

    def _unpack(self, packets: Slot, target: Slot) -> None:
        block, count = self.block, 1 if self.step.op in (Op.COPY, Op.REDUCE) else self.step.count
        block.touch([], [target], count)
        block.add("upkt", src_buff=[block.local(packets, count)], dst_buff=[block.local(target, count)])

    def _send(self, held: Slot) -> None:
        block, step, rank = self.block, self.step, self.block.plan.gpu.rank
        if (rank, held) in self.routes.packed:
            self._pass_on(self.routes.packed[rank, held])
            return
        block.touch([held], [], step.count)
        here, over = block.local(held, step.count), self.routes.over[step.send]
        if over.kind == "port":
            packets = self.routes.staged[step.send]
            block.add("cpkt", src_buff=[here], dst_buff=[block.local(packets, step.count)])
            self._pass_on(packets)
            return
        remote, channel, last = block.remote(step.send, step.count), block.channel(over), block.last("ppkt")
        if last is not None and all(last["src_buff"][0][key] == here[key] for key in ("type", "size")):
            last["src_buff"].append(here)
            last["dst_buff"].append(remote)
            last["channel_ids"] += [channel] if channel not in last["channel_ids"] else []
            return
        block.add("ppkt", src_buff=[here], dst_buff=[remote], channel_type="memory", channel_ids=[channel])

    def _pass_on(self, packets: Slot) -> None:
        """Send packets as they are."""
        block, step = self.block, self.step
        over = self.routes.over[step.send]
        here, remote = block.local(packets, step.count), block.remote(step.send, step.count)
        channel, last = block.channel(over), block.last("rppkt")
        alike = last is not None and last["src_buff"] == [here] and last["channel_type"] == over.kind
        if last is not None and alike and channel not in last["channel_ids"]:
            last["dst_buff"].append(remote)
            last["channel_ids"].append(channel)
            return
        if over.kind == "port" and any(channel in _ports(op) for op in _since_nop(block) if op["name"] == "rppkt"):
            block.sync()  # another thread may still use the channel
        block.add("rppkt", src_buff=[here], dst_buff=[remote], channel_type=over.kind, channel_ids=[channel])

    def _reduce(self, operand: Slot, landed: Slot) -> None:
        block, step = self.block, self.step
        target = step.dst if step.dst is not None else self.routes.kept[step.send]
        if step.send < 0:
            self._add_packets(operand, landed, target)
            return
        block.touch([operand], [target], step.count)
        sources = [block.local(operand, step.count), block.local(landed, step.count)]
        targets = [block.local(target, step.count)]
        over = self.routes.over[step.send]
        if over.kind == "port":
            packets = self.routes.staged[step.send]
            self._add_op("recpkt", sources, [*targets, block.local(packets, step.count)])
            self._pass_on(packets)
            return
        remote = block.remote(step.send, step.count)
        self._add_op("respkt", sources, [*targets, remote], channel_ids=[block.channel(over)])

    def _add_packets(self, operand: Slot, packets: Slot, target: Slot) -> None:
        """Append the addition of packets to a chunk, or more of them to the one before if both have one target."""
        block, count = self.block, 1 if self.step.op is Op.REDUCE else self.step.count
        here, to, more = block.local(operand, count), block.local(target, count), block.local(packets, count)
        last = block.last("repkt")
        if last is not None and last["dst_buff"] == [here] == [to]:
            last["src_buff"].append(more)
            return
        block.touch([operand], [target], count)
        self._add_op("repkt", [here, more], [to])

    def _add_op(self, name: str, sources: list[Json], targets: list[Json], **more: Any) -> None:  # noqa: ANN401
        self.block.add(name, src_buff=sources, dst_buff=targets, channel_type="memory", reduce_op="sum", **more)


def _since_nop(block: BlockWriter) -> Iterator[Json]:
    for op in reversed(block.ops):
        if op["name"] == "nop":
            return
        yield op
