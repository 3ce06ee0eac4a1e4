"""Files for MSCCL runtimes as tasks of the simulator, on a network that they do not know. Local work takes no time.

The steps of an MSCCL file wait as `step_times` says. An operation of an MSCCL++ plan starts when its threadblock
has done the one before and what it waits for has happened. What it moves from or to another GPU is a message; the
threadblock goes on when its data has entered the first link, or has come if it reads from another GPU. Port channels
move data beside the threadblock, which does not wait. A signal is a message without bytes, and counts when the data
before it has come too. Over a switch channel, data goes to a switch that adds and multicasts, once all of it has come
it goes on to all GPUs; if the network has no such switch, from GPU to GPU. Packets have twice the bytes of their
payload, and who reads them waits for them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from collc.base.diagnostics import CheckFailed
from collc.msccl.check import check_file
from collc.msccl.check.collectives import canonical
from collc.msccl.check.deadlock import check_matches
from collc.msccl.check.findings import Findings, errors_of
from collc.msccl.check.model import CAPACITY, FileProgram, Profile
from collc.msccl.check.reader import read_file
from collc.msccl.check_plan import check_plan
from collc.msccl.check_plan.interpreter import Mailboxes, PlanInterpreter, semaphores_of
from collc.msccl.check_plan.memory import total_chunks
from collc.msccl.check_plan.model import PACKETS, Operation, Packet, Plan
from collc.msccl.check_plan.reader import plan_of_values, read_plan
from collc.msccl.slots import buffer_bytes
from collc.msccl.step_times import step_edges
from collc.runtime.operations import SENDS
from collc.simulation.engine import Deadlock, simulate
from collc.simulation.routing import send_order, shortest_routes
from collc.simulation.tasks import DONE, SENT, Edges, TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.arrays import Int32Array
from collc.ten.module import Module
from collc.ten.network import Network


def sound_program(path: Path, profile: Profile) -> FileProgram:
    """The program of a file that a runtime loads and that ends, with a receive for each send.

    Raises UsageError if the file can't be opened, CheckFailed if its contract fails, it hangs or messages are left.
    """
    check_file(path, profile=profile).raise_if_unsound()
    findings = Findings()
    program = read_file(path, profile, findings)
    if not check_matches(program, findings):
        raise CheckFailed(*errors_of(findings, path))
    return program


def file_tasks(program: FileProgram, network: Network, size: int) -> TaskGraph:
    """One task for each step: the message that it sends, or local work.

    program: as `sound_program` gives it, with as many gpus as the network has NPUs. size: bytes of the buffer that the
    runtime counts, of which a chunk is one of `nchunksperloop` parts; messages are rounded up to whole bytes.
    Raises NoRoute if no path leads to a receiver.
    """
    steps, tbs = program.steps, program.tbs
    count = len(steps)
    sends = np.flatnonzero(SENDS[steps.kind])
    device = network.npus[program.step_gpu]
    target, route = device.copy(), np.full(count, -1, np.int32)
    target[sends] = network.npus[tbs.send[steps.tb[sends]]]
    routes, route[sends] = shortest_routes(network, device[sends], target[sends])
    piece = -(-steps.cnt.astype(object) * size // program.nchunksperloop)
    return TaskGraph(
        size=np.where(SENDS[steps.kind], piece, 0).astype(np.int64),
        route=route,
        duration=np.zeros(count, np.int64),
        source=device,
        target=target,
        routes=routes,
        edges=step_edges(program.waits, CAPACITY[program.proto]),
        order=send_order(program.step_gpu, tbs.send[steps.tb], program.ngpus, program.position),
        hop_order=np.arange(count, dtype=np.int64),
        any_lane=True,
    )


def sound_plan(path: Path) -> tuple[Plan, int]:
    """A plan that the runtime loads and that ends, and the chunks of the buffer that the runtime counts.

    Raises UsageError if the file can't be opened, CheckFailed if its contract fails or it hangs.
    """
    check_plan(path).raise_if_unsound()
    plan = read_plan(path, Findings())
    return plan, counted_chunks(plan)


def counted_chunks(plan: Plan) -> int:
    """The chunks of the buffer that the runtime counts."""
    return max(1, total_chunks(plan, canonical(plan.collective)))


def plan_tasks(plan: Plan, chunks: int, network: Network, size: int) -> TaskGraph:
    """Tasks of all operations. size: bytes of the buffer that the runtime counts, which has `chunks` chunks.

    Raises NoRoute if no path leads to a receiver, Deadlock if operations wait for one another.
    """
    builder = _TaskInterpreter(plan, chunks, size, _Switches(network))
    if builder.run():
        raise Deadlock(np.zeros(0, np.int64))
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

    def switch_between(self, ranks: tuple[int, ...]) -> int | None:
        """The end of tasks at a switch that joins some GPUs, in turn if there are several; None without one."""
        npus = self.network.npus[list(ranks)].tolist()
        joining = [
            number
            for number, switch in enumerate(self.able.tolist())
            if all((npu, switch) in self.links and (switch, npu) in self.links for npu in npus)
        ]
        if not joining:
            return None
        turn = self.turns[ranks] = self.turns.get(ranks, -1) + 1
        return len(self.network.npus) + joining[turn % len(joining)]


class _TaskInterpreter(PlanInterpreter[int]):
    """Makes tasks (source, target, bytes) of operations, and edges (before, after, phase). Tokens are tasks.

    last: the task after which each threadblock goes on. moved: the messages of each threadblock. unsignalled: by
    threadblock and receiver, the messages that no signal follows yet, and the last signal. packets: by packet, the
    task with which it comes.
    """

    def __init__(self, plan: Plan, chunks: int, size: int, switches: _Switches) -> None:
        super().__init__(plan, Mailboxes[int](plan))
        self.chunks: int = chunks
        self.size: int = size
        self.switches: _Switches = switches
        self.tasks: list[tuple[int, int, int]] = []
        self.edges: list[tuple[int, int, int]] = []
        self.moved: list[list[int]] = [[] for _ in plan.threadblocks]
        self.unsignalled: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.packets: dict[Packet, int] = {}
        self.last: list[int] = [self.task(gpu, gpu) for gpu in plan.gpu_of]

    def task(self, source: int, target: int, chunks: int = 0) -> int:
        """A new task; returns its number."""
        self.tasks.append((source, target, -(-chunks * self.size // self.chunks)))
        return len(self.tasks) - 1

    def can_begin(self, op: Operation) -> bool:
        """See PlanInterpreter."""
        return all(packet in self.packets for packet in op.packets_read)

    def execute(self, op: Operation, received: list[int]) -> None:
        """See PlanInterpreter."""
        gpu, tb = op.location.gpu, op.tb
        before = [*received, *(self.packets[packet] for packet in op.packets_read)]
        start = self.task(gpu, gpu)
        self.edges += [(self.last[tb], start, DONE), *((other, start, DONE) for other in before)]
        if op.name == "flush":
            self.edges += [(message, start, DONE) for message in self.moved[tb]]
        end = self._moves(tb, op, start)
        for channel in op.signals:
            self.transport.signals[channel].append(self._signal(tb, gpu, channel[2], end))
        if op.name == "sem_release":
            for key in semaphores_of(op):
                self.transport.releases[key].append(end)
        if op.name == "pwsf":
            sent = self.task(gpu, gpu)
            self.edges += [(message, sent, DONE) for message in (*self.moved[tb], end)]
            end = sent
        self.last[tb] = end

    def meet(self, threadblocks: list[int]) -> None:
        """See PlanInterpreter."""
        gpu = self.plan.gpu_of[threadblocks[0]]
        meeting = self.task(gpu, gpu)
        for tb in threadblocks:
            self.edges.append((self.last[tb], meeting, DONE))
            self.last[tb] = meeting

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
        for packet in op.packets_written:
            self.packets.setdefault(packet, end)
        return end

    def _over_switch(self, tb: int, op: Operation, start: int) -> int:
        """The messages of an operation over a switch channel, as `_moves`."""
        move, gpu = op.moves[0], op.location.gpu
        gpus, chunks = [slots.gpu for slots in move.targets], move.targets[0].size
        joined = sorted({slots.gpu for slots in (*move.sources, *move.targets)})
        switch = self.switches.switch_between(tuple(joined))
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


def plan_time(values: dict[str, Any], module: Module, instances: int = 1) -> int:
    """Picoseconds of a plan, as the values of its JSON, for the demand of a module.

    instances: of the plan, each for a part of every chunk. Raises PlanError if it cannot be understood, NoRoute and
    Deadlock as `plan_tasks` does.
    """
    plan = plan_of_values(values, Findings())
    chunks = counted_chunks(plan)
    size = max(1, buffer_bytes(module.demand, chunks // instances))
    return simulate(module.network, plan_tasks(plan, chunks, module.network, size), ExactTiming()).time_ps
