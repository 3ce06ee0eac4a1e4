"""Execution of an MSCCL++ plan on real data: NumPy buffers, channels that count signals, threadblocks of any speed.

Every gpu launches its program twice (with packets four times), with other data each time, so that what a launch
leaves in flight meets the next ones. The moves of a threadblock between two nops are executed in any order, each in
two parts, as threads would. Puts and signals over a port wait in its queue for any time, until the operation that
flushes it or beyond the end of a launch. The outputs of a launch are compared when it is over. Outputs and scratch
begin as in `run_file`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic, UsageError
from collc.msccl.check.collectives import KNOWN, canonical
from collc.msccl.check.findings import Findings, check_root, errors_of
from collc.msccl.check.results import CollectiveCall
from collc.msccl.check_plan import check_plan
from collc.msccl.check_plan.events import run_plan
from collc.msccl.check_plan.interpreter import Mailboxes, PlanInterpreter, semaphores_of
from collc.msccl.check_plan.json_text import locate
from collc.msccl.check_plan.memory import address, check_addresses, check_counts, memory_of, total_chunks
from collc.msccl.check_plan.model import FLUSHES, PACKETS, PUTS, SIGNALS, Channel, DataMove, Operation, Plan, SlotRange
from collc.msccl.check_plan.reader import read_plan
from collc.msccl.running.data import (
    OPS,
    Array,
    RunData,
    RunReport,
    TransportName,
    check_choices,
    check_transport,
    chunk_elements,
    unknown_result,
)
from collc.runtime.collectives import INPUT, OUTPUT, REDUCING, ROOTED, MemoryLayout, buffer_sizes

LAUNCHES: Final = {"Simple": 2, "LL": 4}
"""Launches by protocol: packets of one launch overwrite what the launch before the last one put there."""


def run_plan_file(
    path: Path,
    *,
    dtype: str = "float32",
    count: int | None = None,
    seed: int = 0,
    runs: int = 1,
    op: str | None = None,
    collective: str | None = None,
    root: int | None = None,
    transport: TransportName = "memory",
) -> list[RunReport]:
    """Execute a plan `runs` times, two launches each; run k uses seed + k for data and order.

    count: elements as NCCL counts them; default: two a chunk. op: "sum", which is all that plans do. transport: not
    "threads"; over TCP there is one launch, in one order. Raises UsageError for an unknown dtype or op, another
    transport, a count that the plan can't be used for and collectives whose result is not known; CheckFailed if the
    plan's structure is broken or a rank fails.
    """
    check_choices(dtype, op)
    plan, coll = _load(path, collective)
    check_transport(transport, len(plan.threadblocks), len(plan.chunks))
    if transport == "threads":
        text = "plans run in one thread, in a random order, or over TCP"
        raise UsageError(Diagnostic("X0207", text, hint="leave the transport out, or take --transport tcp"))
    adds = any(len(move.sources) > 1 for operation in plan.operations for move in operation.moves)
    if op not in (None, "sum") and (coll in REDUCING or adds):
        text = f"MSCCL++ always adds, whatever the operation of a call: {path} has no run with {op}"
        raise UsageError(Diagnostic("X0207", text, hint="leave the op out; MSCCL files take it from the call"))
    if coll not in ROOTED:
        root = -1
    elif root is None:
        summary = check_plan(path, collective=coll).summary
        root = 0 if summary is None else max(0, summary.root)
    check_root(max(root, 0), len(plan.chunks), path)
    total = total_chunks(plan, coll)
    elements = chunk_elements(count, coll, len(plan.chunks), max(1, total), 2)
    call = CollectiveCall(coll, len(plan.chunks), total, root, plan.inplace)
    layout = memory_of(plan, coll, root)
    if not check_addresses(plan, layout, findings := Findings()):
        locate(findings, path)
        raise CheckFailed(*errors_of(findings, path))
    least = (buffer_sizes(coll, call.ranks, total) or (0, 0))[INPUT]
    inputs, launches = [max(least, chunks[INPUT]) for chunks in plan.chunks], LAUNCHES[plan.protocol]
    values = np.dtype(dtype), elements, op or "sum"
    if transport == "tcp":
        return _run_over_tcp(plan, call, layout, inputs, values, range(seed, seed + runs))
    return [
        _DataInterpreter(plan, RunData(call, layout, inputs, *values, seed + k, launches)).report() for k in range(runs)
    ]


def _run_over_tcp(
    plan: Plan,
    call: CollectiveCall,
    layout: MemoryLayout,
    inputs: list[int],
    values: tuple[np.dtype[Any], int, str],
    seeds: Iterable[int],
) -> list[RunReport]:
    """Execute the first launch of a plan over TCP, unless threadblocks would wait forever."""
    from collc.msccl.running.over_tcp import run_over_tcp
    from collc.msccl.running.plan_over_tcp import program_of_plan

    history = run_plan(plan)
    program = program_of_plan(plan, call, layout, [op for op, _ in history.done])
    hung = [(place.gpu, place.tb, place.step) for place in (op.location for op in history.halted)]
    largest = int(program.steps[:, 6].max(initial=1))
    runs = (RunData(call, program.layout(inplace=plan.inplace)[1], inputs, *values, seed) for seed in seeds)
    return [data.report(0, hung) if hung else run_over_tcp(program, data, largest, 1) for data in runs]


def _load(path: Path, collective: str | None) -> tuple[Plan, str]:
    findings = Findings()
    plan = read_plan(path, findings)
    locate(findings, path)
    if findings.failed:
        raise CheckFailed(*errors_of(findings, path))
    coll = canonical(collective or plan.collective)
    if coll not in KNOWN:
        raise unknown_result(collective or plan.collective)
    if not check_counts(plan, coll, findings):
        locate(findings, path)
        raise CheckFailed(*errors_of(findings, path))
    return plan, coll


class _PartialMove(NamedTuple):
    """A move for some of the elements of its chunks. launch: of its gpu, from 1."""

    move: DataMove
    elements: slice
    launch: int


class _PortTransport(Mailboxes[None]):
    """Signals and semaphores, with the queues of ports, in which puts and signals (None) wait for a proxy.

    messages: signals that have been sent.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.queues: dict[Channel, deque[_PartialMove | None]] = {}
        self.messages: int = 0

    def send(self, channel: Channel) -> None:
        """Send a signal."""
        self.signals[channel].append(None)
        self.messages += 1

    def enqueue(self, channel: Channel, items: Iterable[_PartialMove | None]) -> None:
        """Leave puts and signals to the proxy of a channel."""
        self.queues.setdefault(channel, deque()).extend(items)

    def dequeue(self, channel: Channel) -> _PartialMove | None:
        """The next put of a channel; a signal is sent."""
        item = self.queues[channel].popleft()
        if not self.queues[channel]:
            del self.queues[channel]
        if item is None:
            self.send(channel)
        return item


class _DataInterpreter(PlanInterpreter[None]):
    """Executes a plan on the memory of all gpus.

    pending: by threadblock, the parts of moves since the last nop that are still to be done. drains: by threadblock,
    the channels whose queues must be empty before it goes on.
    """

    def __init__(self, plan: Plan, data: RunData) -> None:
        self.ports: _PortTransport = _PortTransport(plan)
        super().__init__(plan, self.ports)
        self.data: RunData = data
        self.random: random.Random = random.Random(data.seed)
        elements = data.memory.shape[1]
        self.parts: list[slice] = [slice(0, elements // 2), slice(elements // 2, elements)][elements < 2 :]
        self.pending: list[list[_PartialMove]] = [[] for _ in plan.threadblocks]
        self.drains: list[list[Channel]] = [[] for _ in plan.threadblocks]
        self.launched: list[int] = [0] * len(plan.chunks)
        self.finished: list[int] = [0] * len(plan.chunks)
        self.packets: dict[tuple[int, int, int], tuple[int, Array]] = {}

    def report(self) -> RunReport:
        """Execute all launches, with random order of events."""
        for rank in range(len(self.launched)):
            self._launch(rank)
            self._settle(rank)
        queues = self.ports.queues
        active = self._unfinished_threadblocks()
        progress = False
        while active or queues:
            if queues and (not active or self.random.getrandbits(1)):
                channel = self.random.choice(list(queues))
                half = self.ports.dequeue(channel)
                if half is not None:
                    self._do_part(half)
                self._settle(channel[1])
                active = active or self._unfinished_threadblocks()
                progress = True
                continue
            pick = self.random.randrange(len(active))
            tb = active[pick]
            if self._advance(tb):
                progress = True
                self._settle(self.plan.gpu_of[tb])
                continue
            active[pick] = active[-1]
            active.pop()
            if not active and progress:
                active, progress = self._unfinished_threadblocks(), False
        stuck = [self.plan.threadblocks[tb] for tb in self._unfinished_threadblocks()]
        places = [ops[min(self.position[ops[0].tb], len(ops) - 1)].location for ops in stuck]
        return self.data.report(self.ports.messages, [(place.gpu, place.tb, place.step) for place in places])

    def _unfinished_threadblocks(self) -> list[int]:
        return [tb for tb in range(len(self.position)) if not self._has_ended(tb)]

    def _has_ended(self, tb: int) -> bool:
        return self.next_operation(tb) is None and not self.pending[tb] and not self._is_draining(tb)

    def _is_draining(self, tb: int) -> bool:
        return any(channel in self.ports.queues for channel in self.drains[tb])

    def _launch(self, rank: int) -> None:
        """Overwrite the output, fill the input, and start the program, as a caller does."""
        call, begin = self.data.call, int(self.data.layout.base[rank, OUTPUT])
        sizes = buffer_sizes(call.coll, call.ranks, call.total) or (0, 0)
        self.data.clear(begin, begin + max(self.plan.chunks[rank][OUTPUT], sizes[OUTPUT]))
        self.data.fill_input(self.launched[rank], rank)
        self.launched[rank] += 1
        for tb in self.blocks[rank]:
            self.position[tb] = 0

    def _settle(self, rank: int) -> None:
        """If the program of a rank is over, compare its output and launch it again."""
        launches = len(self.data.inputs)
        while self.finished[rank] < launches and all(map(self._has_ended, self.blocks[rank])):
            self.finished[rank] += 1
            self.data.compare_output(self.launched[rank] - 1, rank)
            if self.launched[rank] < launches:
                self._launch(rank)

    def _advance(self, tb: int) -> bool:
        """Do one part of a move, or execute one operation, if it can run now. Returns whether one did."""
        if self._is_draining(tb):
            return False
        self.drains[tb] = []
        op, pending = self.next_operation(tb), self.pending[tb]
        settles = op is None or op.name == "nop" or op.barrier is not None
        if pending and (settles or self.random.random() < 0.5) and self._do_pending(tb):
            return True
        if not (settles and pending) and self.step(tb):
            return True
        return self._do_pending(tb)

    def _do_pending(self, tb: int) -> bool:
        """Do a part of a move whose packets have come. Returns whether there was one."""
        ready = [number for number, half in enumerate(self.pending[tb]) if self._is_ready(half)]
        if ready:
            self._do_part(self.pending[tb].pop(self.random.choice(ready)))
        return bool(ready)

    def can_begin(self, op: Operation) -> bool:
        """See PlanInterpreter."""
        return op.name != "rppkt" or op.via != "port" or all(map(self._is_ready, self._moves(op)))

    def can_meet(self, tb: int) -> bool:
        """See PlanInterpreter."""
        return not self.pending[tb]

    def meet(self, threadblocks: list[int]) -> None:
        """See PlanInterpreter."""

    def execute(self, op: Operation, received: list[None]) -> None:  # noqa: ARG002
        """See PlanInterpreter."""
        if op.name == "sem_release":
            for key in semaphores_of(op):
                self.transport.releases[key].append(None)
        if op.name in FLUSHES:
            self.drains[op.tb] = op.over
        if op.via == "port" and op.name in (*PUTS, "rppkt", *SIGNALS):
            self._queue(op)
            return
        for channel in op.signals:
            self.ports.send(channel)
        self.pending[op.tb] += self._moves(op)

    def _moves(self, op: Operation) -> list[_PartialMove]:
        return [half for move in op.moves for half in self._halves(op, move)]

    def _halves(self, op: Operation, move: DataMove) -> list[_PartialMove]:
        launch = self.launched[op.location.gpu]
        return [_PartialMove(move, elements, launch) for elements in self.parts]

    def _is_ready(self, part: _PartialMove) -> bool:
        """Whether the packets that a move reads have come in this launch."""
        keys = (key for slots in part.move.sources for key in self._keys(slots, part))
        return all(self.packets.get(key, (0,))[0] == part.launch for key in keys)

    def _keys(self, slots: SlotRange, part: _PartialMove) -> list[tuple[int, int, int]]:
        """The packets of some slots: position, which of the scratch buffers, and first element; none of plain ones."""
        if slots.buffer != PACKETS:
            return []
        begin, half = address(self.data.layout, slots), part.launch % 2 if self.plan.doubled else 0
        return [(begin + k, half, part.elements.start) for k in range(slots.size)]

    def _queue(self, op: Operation) -> None:
        """Leave the puts and signals of an operation to the proxy, one after the other on each channel."""
        for number, channel in enumerate(op.over):
            if op.name in PUTS:
                self.ports.enqueue(channel, self._halves(op, op.moves[number]))
            elif op.name == "rppkt":
                move = DataMove(op.moves[0].sources, op.moves[0].targets[number : number + 1])
                self.ports.enqueue(channel, self._halves(op, move))
            if op.name in SIGNALS:
                self.ports.enqueue(channel, [None])

    def _do_part(self, part: _PartialMove) -> None:
        data = reduce(OPS[self.data.op], (self._read(slots, part) for slots in part.move.sources))
        for target in part.move.targets:
            keys = self._keys(target, part)
            for key, row in zip(keys, data, strict=False):
                self.packets[key] = part.launch, row.copy()
            if not keys:
                self.data.memory[self._rows(target), part.elements] = data

    def _read(self, slots: SlotRange, part: _PartialMove) -> Array:
        keys = self._keys(slots, part)
        if keys:
            return np.stack([self.packets[key][1] for key in keys])
        return self.data.memory[self._rows(slots), part.elements].copy()

    def _rows(self, slots: SlotRange) -> slice:
        begin = address(self.data.layout, slots)
        return slice(begin, begin + slots.size)
