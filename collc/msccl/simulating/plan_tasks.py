"""The operations of an MSCCL++ plan as tasks of the simulator, on a network that the plan does not know.

An operation starts when its threadblock has done the one before and what it waits for has happened. What it moves
from or to another GPU is a message; the threadblock goes on when its data has entered the first link, or has come where
it reads from another GPU. Port channels move data beside the threadblock, which does not wait. A signal is a message
without bytes, and counts when the data before it has come too. Local work takes no time. Over a switch channel, data
goes to a switch that adds and multicasts, once all of it has come it goes on to all GPUs; where the network has no such
switch, from GPU to GPU. Packets have twice the bytes of their payload, and who reads them waits for them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from collc.base.diagnostics import CheckFailed
from collc.msccl.check.collectives import canonical
from collc.msccl.check.findings import Findings
from collc.msccl.check_plan import check_plan
from collc.msccl.check_plan.memory import total_chunks
from collc.msccl.check_plan.model import PACKETS, Channel, Operation, Plan
from collc.msccl.check_plan.packets import Packet, packets_read, packets_written
from collc.msccl.check_plan.reader import read_plan
from collc.simulation.engine import Deadlock
from collc.simulation.routing import shortest_routes
from collc.simulation.send_order import send_order
from collc.simulation.tasks import DONE, SENT, Edges, TaskGraph
from collc.ten.arrays import Int32Array
from collc.ten.network import Network


def sound_plan(path: Path) -> tuple[Plan, int]:
    """A plan that the runtime loads and that ends, and the chunks of the buffer that the runtime counts.

    Raises UsageError where the file can't be opened, CheckFailed where its contract fails or it hangs.
    """
    verdict = check_plan(path)
    if "failed" in (verdict.checks["contract"], verdict.checks["deadlock"]):
        raise CheckFailed(*(message for message in verdict.diagnostics if not message.warning))
    plan = read_plan(path, Findings())
    if plan is None:
        raise CheckFailed(*verdict.diagnostics)
    return plan, counted_chunks(plan)


def counted_chunks(plan: Plan) -> int:
    """The chunks of the buffer that the runtime counts."""
    return max(1, total_chunks(plan, canonical(plan.collective)))


def plan_tasks(plan: Plan, chunks: int, network: Network, size: int) -> TaskGraph:
    """Tasks of all operations. size: bytes of the buffer that the runtime counts, which has `chunks` chunks.

    Raises NoRoute where no path leads to a receiver, Deadlock where operations wait for one another.
    """
    builder = _PlanTasks(plan, chunks, size, _Switches(network))
    builder.build()
    source, target, sizes = (np.array(column, np.int64) for column in zip(*builder.tasks, strict=True))
    route = np.full(len(source), -1, np.int32)
    devices: Int32Array = np.concatenate([network.npus, builder.switches.able])
    ends = devices[source], devices[target]
    messages = np.flatnonzero(source != target)
    routes, route[messages] = shortest_routes(network, ends[0][messages], ends[1][messages])
    count = len(source)
    return TaskGraph(
        size=sizes,
        route=route,
        duration=np.zeros(count, np.int64),
        source=ends[0],
        target=ends[1],
        routes=routes,
        edges=Edges.of(builder.edges),
        order=send_order(source, target, len(plan.chunks)),
        hop_order=np.arange(count, dtype=np.int64),
        any_lane=True,
    )


@dataclass
class _Switches:
    """Switches that add and multicast. able: their device numbers. A task names switch k by the number after all ranks
    plus k. turns: how often some GPUs have used one of theirs.
    """

    network: Network
    turns: dict[tuple[int, ...], int] = field(default_factory=dict["tuple[int, ...]", int])

    def __post_init__(self) -> None:
        network = self.network
        able = np.flatnonzero(network.reduces & network.multicast) + network.npu_count
        self.able: Int32Array = able.astype(np.int32)
        self.links: set[tuple[int, int]] = set(zip(network.source.tolist(), network.target.tolist(), strict=True))

    def joining(self, ranks: tuple[int, ...]) -> int | None:
        """The end of tasks at a switch that joins some GPUs, in turn where there are several; None without one."""
        npus = self.network.npus[list(ranks)].tolist()
        found = [
            number
            for number, switch in enumerate(self.able.tolist())
            if all((npu, switch) in self.links and (switch, npu) in self.links for npu in npus)
        ]
        if not found:
            return None
        turn = self.turns[ranks] = self.turns.get(ranks, -1) + 1
        return len(self.network.npus) + found[turn % len(found)]


@dataclass
class _PlanTasks:
    """Tasks as (source, target, bytes), and edges as (before, after, phase).

    at: the next operation of each threadblock. last: the task after which it goes on. sent: the signals of each
    channel, taken: how many of them were waited for. moved: the messages of each threadblock. unsignalled: by
    threadblock and receiver, the messages that no signal follows yet, and the last signal. packets: by packet, the
    task with which it comes. released: releases of
    each semaphore, acquired: how many were taken.
    """

    plan: Plan
    chunks: int
    size: int
    switches: _Switches
    tasks: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    edges: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    sent: dict[Channel, list[int]] = field(default_factory=lambda: defaultdict(list))
    taken: dict[Channel, int] = field(default_factory=lambda: defaultdict(int))
    moved: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    unsignalled: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    released: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    packets: dict[Packet, int] = field(default_factory=dict[Packet, int])
    acquired: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        self.at: list[int] = [0] * len(self.plan.threadblocks)
        self.last: list[int] = [self.task(gpu, gpu) for gpu in self.plan.gpu_of]

    def task(self, source: int, target: int, chunks: int = 0) -> int:
        """A new task; returns its number."""
        self.tasks.append((source, target, -(-chunks * self.size // self.chunks)))
        return len(self.tasks) - 1

    def build(self) -> None:
        """Take operations in an order in which they can run."""
        moved = True
        while moved:
            moved = False
            for tb, operations in enumerate(self.plan.threadblocks):
                while self.at[tb] < len(operations) and self._step(tb, operations[self.at[tb]]):
                    moved = True
        if any(at < len(operations) for at, operations in zip(self.at, self.plan.threadblocks, strict=True)):
            raise Deadlock(np.zeros(0, np.int64))

    def _step(self, tb: int, op: Operation) -> bool:
        """Add the tasks of an operation, if all that it waits for has tasks. Returns whether it did."""
        if op.barrier is not None:
            return self._barrier(op)
        gpu = op.location.gpu
        before = self._awaited(gpu, op)
        if before is None:
            return False
        start = self.task(gpu, gpu)
        self.edges += [(self.last[tb], start, DONE), *((other, start, DONE) for other in before)]
        if op.name == "flush":
            self.edges += [(message, start, DONE) for message in self.moved[tb]]
        end = self._moves(tb, op, start)
        for channel in op.signals:
            self.sent[channel].append(self._signal(tb, gpu, channel[2], end))
        if op.name == "sem_release":
            for number in op.semaphores:
                self.released[gpu, number].append(end)
        self.last[tb] = end
        self.at[tb] += 1
        return True

    def _awaited(self, gpu: int, op: Operation) -> list[int] | None:
        """The signals and releases that an operation waits for; None where they have no tasks yet."""
        if any(self.taken[key] >= len(self.sent[key]) for key in op.waits):
            return None
        read = packets_read(op)
        if any(packet not in self.packets for packet in read):
            return None
        semaphores = [(gpu, number) for number in op.semaphores] if op.name == "sem_acquire" else []
        needed = [self.acquired[key] - self.plan.semaphores[gpu][key[1]] for key in semaphores]
        if any(count >= len(self.released[key]) for key, count in zip(semaphores, needed, strict=True)):
            return None
        before = [self.released[key][count] for key, count in zip(semaphores, needed, strict=True) if count >= 0]
        before += [self.packets[packet] for packet in read]
        for key in semaphores:
            self.acquired[key] += 1
        for key in op.waits:
            before.append(self.sent[key][self.taken[key]])
            self.taken[key] += 1
        return before

    def _moves(self, tb: int, op: Operation, start: int) -> int:
        """The messages of an operation. Returns the task after which its threadblock goes on."""
        if op.via == "switch":
            return self._over_switch(tb, op, start)
        gpu = op.location.gpu
        ready = self.task(gpu, gpu)
        self.edges.append((start, ready, DONE))
        for slots in (slots for move in op.moves for slots in move.sources if slots.gpu != gpu):
            message = self.task(slots.gpu, gpu, slots.size)
            self.edges += [(start, message, DONE), (message, ready, DONE)]
        end = self.task(gpu, gpu)
        self.edges.append((ready, end, DONE))
        for slots in (slots for move in op.moves for slots in move.targets if slots.gpu != gpu):
            message = self.task(gpu, slots.gpu, slots.size * (2 if slots.buffer == PACKETS else 1))
            self.edges.append((ready, message, DONE))
            if slots.buffer == PACKETS:
                self.packets.update({(slots.gpu, slots.index + k): message for k in range(slots.size)})
            if op.via != "port":
                self.edges.append((message, end, SENT))
            self.moved[tb].append(message)
            self.unsignalled[tb, slots.gpu].append(message)
        for packet in packets_written(op):
            self.packets.setdefault(packet, end)
        return end

    def _over_switch(self, tb: int, op: Operation, start: int) -> int:
        """The messages of an operation over a switch channel, as `_moves`."""
        move, gpu = op.moves[0], op.location.gpu
        gpus, chunks = [slots.gpu for slots in move.targets], move.targets[0].size
        joined = sorted({slots.gpu for slots in (*move.sources, *move.targets)})
        switch = self.switches.joining(tuple(joined))
        hub = gpu if switch is None else switch
        come = [self.task(slots.gpu, hub, chunks) for slots in move.sources]
        self.edges += [(start, message, DONE) for message in come]
        end = self.task(gpu, gpu)
        self.edges += [(message, end, SENT if op.name == "gstore" else DONE) for message in come]
        for other in (other for other in gpus if other != gpu or (op.name == "glres" and hub != gpu)):
            message = self.task(hub, other, chunks)
            self.edges += [(before, message, DONE) for before in come]
            if other == gpu:
                self.edges.append((message, end, DONE))
            self.moved[tb].append(message)
            self.unsignalled[tb, other].append(message)
        return end

    def _signal(self, tb: int, gpu: int, target: int, end: int) -> int:
        """A signal after task `end`. Returns the task with which it, and all data before it, has come."""
        signal, come = self.task(gpu, target), self.task(target, target)
        self.edges += [(end, signal, DONE), (signal, come, DONE)]
        self.edges += [(message, come, DONE) for message in self.unsignalled[tb, target]]
        self.unsignalled[tb, target] = [come]
        return come

    def _barrier(self, op: Operation) -> bool:
        """Let the threadblocks of a GPU pass a barrier once all have come."""
        gpu = op.location.gpu
        here = [
            tb
            for tb, operations in enumerate(self.plan.threadblocks)
            if self.plan.gpu_of[tb] == gpu and self.at[tb] < len(operations)
            if operations[self.at[tb]].barrier == op.barrier
        ]
        if op.barrier is None or len(here) < op.barrier[1]:
            return False
        meeting = self.task(gpu, gpu)
        for tb in here:
            self.edges.append((self.last[tb], meeting, DONE))
            self.last[tb] = meeting
            self.at[tb] += 1
        return True
