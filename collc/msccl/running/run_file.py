"""Execution of an MSCCL file on real data: NumPy buffers, bounded FIFOs, one actor for each threadblock.

Messages are those of the runtime at the given size (docs/msccl-contract.md, section 5): a step with cnt k moves ceil(k
/ M) of them, and a sender blocks when its connection is full. The order of events is random, from a seed; or that of
the operating system, with one thread for each threadblock. Results are compared with what NumPy computes from the same
inputs. Outputs and scratch begin as NaN, or as random numbers for integers.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic, UsageError
from collc.msccl.check.collectives import KNOWN, REDUCING, ROOTED, TOTAL, canonical
from collc.msccl.check.connections import connect, waits_of
from collc.msccl.check.contract import check_contract
from collc.msccl.check.deadlock import chunks_per_message
from collc.msccl.check.findings import Findings, check_root, errors_of
from collc.msccl.check.model import CAPACITY, INPUT, OUTPUT, FileProgram, Profile
from collc.msccl.check.reader import read_file
from collc.msccl.check.results import CollectiveCall
from collc.msccl.check.symbolic import call_of, layout_of, operands_of, placements_of, root_of
from collc.msccl.interpreter.data import Memory, Queues, StepData
from collc.msccl.interpreter.replay import UNLIMITED, Blocked, Interpreter, StepWaits, replay
from collc.msccl.running.data import (
    OPS,
    SHOWN,
    Array,
    RunReport,
    WrongChunk,
    check_choices,
    check_size,
    chunk_elements,
    compare_outputs,
    expected_data,
    op_of,
    random_data,
    undefined_data,
    unknown_result,
)

THREADS_LIMIT: Final = 512


def run_file(
    path: Path,
    *,
    dtype: str = "float32",
    count: int | None = None,
    seed: int = 0,
    runs: int = 1,
    op: str | None = None,
    collective: str | None = None,
    root: int | None = None,
    profile: Profile = "executor",
    threads: bool = False,
) -> list[RunReport]:
    """Execute a file `runs` times in each placement that it claims; run k uses seed + k for data and order.

    count: elements as NCCL counts them (All-Gather: of one input; Reduce-Scatter: of one output; ...);
    default: one element a chunk. op: of reductions; default: the redop of the file, else "sum". threads: real threads,
    one for each threadblock, instead of a random order.
    Raises UsageError for an unknown dtype or op or a count that the file can't be used for, CheckFailed
    if the file's structure is broken, and for collectives whose result is not known.
    """
    check_choices(dtype, op)
    program, waits, coll = _load(path, collective, profile)
    op = op or (op_of(program.redop, path) if coll in REDUCING else "sum")
    if threads and len(program.tbs) > THREADS_LIMIT:
        text = f"{len(program.tbs)} threadblocks are too many for real threads (at most {THREADS_LIMIT})"
        raise UsageError(Diagnostic("X0201", text, hint="leave the threads out: the order of events is random then"))
    elements = chunk_elements(count, coll, program.ngpus, program.nchunksperloop, 1)
    check_root(root, program.ngpus, path)
    used_root = _root(program, waits, coll, root)
    reports: list[RunReport] = []
    for number in range(runs):
        for inplace in placements_of(program):
            call = call_of(program, coll, used_root, inplace=inplace)
            machine = _FileRun(program, waits, call, np.dtype(dtype), elements, op, seed + number)
            hung = machine.run_threads() if threads else machine.run_in_random_order()
            reports.append(machine.report(hung))
    return reports


def _load(path: Path, collective: str | None, profile: Profile) -> tuple[FileProgram, StepWaits, str]:
    findings = Findings()
    program = read_file(path, profile, findings)
    coll = canonical(collective or program.coll)
    connections = connect(program)
    check_contract(program, connections, findings, coll)
    if findings.broken:
        raise CheckFailed(*errors_of(findings, path))
    if coll not in KNOWN:
        raise unknown_result(collective or program.coll)
    return program, waits_of(program, connections), coll


def _root(program: FileProgram, waits: StepWaits, coll: str, root: int | None) -> int:
    if coll not in ROOTED:
        return -1
    if root is not None:
        return root
    order, halted = replay(waits, [1] * len(program.steps), UNLIMITED)
    return 0 if halted else root_of(program, waits, order, coll)


class _FileRun:
    """One run in one placement: the inputs, the memory of all gpus, and the interpreter that moves messages."""

    def __init__(
        self,
        program: FileProgram,
        waits: StepWaits,
        call: CollectiveCall,
        dtype: np.dtype[Any],
        elements: int,
        op: str,
        seed: int,
    ) -> None:
        self.program: FileProgram = program
        self.waits: StepWaits = waits
        self.call: CollectiveCall = call
        self.op: str = op
        self.seed: int = seed
        self.random: random.Random = random.Random(seed)
        chunks, self.layout = layout_of(program, call)
        self.unit: int = program.nchunksperloop // (program.ngpus if call.coll in TOTAL else 1)
        slots = self.layout.size + int(chunks[:, INPUT].sum())
        check_size(slots, elements, dtype.itemsize, self.unit)
        generator = np.random.default_rng(seed)
        self.inputs: list[Array] = [random_data(generator, (int(n), elements), dtype) for n in chunks[:, INPUT]]
        self.memory: Array = undefined_data(generator, (self.layout.size, elements), dtype)
        for rank, data in enumerate(self.inputs):
            start = int(self.layout.base[rank, INPUT])
            self.memory[start : start + len(data)] = data
        operands = operands_of(program, waits, self.layout)
        memory, queues = Memory[Array](self.memory, OPS[op]), Queues[Array](len(waits.sender))
        data = StepData[Array](operands, memory, queues)
        merge = chunks_per_message(program.message_bytes, elements * dtype.itemsize)
        messages = (-(-np.maximum(1, program.steps.cnt) // merge)).tolist()

        def move(step: int, first: int, count: int) -> None:
            data.move(step, first * merge, min((first + count) * merge, operands.count[step]))

        self.interpreter: Interpreter = Interpreter(waits, messages, CAPACITY[program.proto], move)

    def run_in_random_order(self) -> list[Blocked]:
        """Move one message at a time, of a random threadblock that can proceed. Returns the threadblocks that hang."""
        return self.interpreter.run(self.random)

    def run_threads(self) -> list[Blocked]:
        """Run one thread for each threadblock, with short random pauses. Returns the threadblocks that hang."""
        interpreter, changed = self.interpreter, threading.Condition()
        running = {tb for tb in range(len(self.program.tbs)) if not interpreter.is_done(tb)}
        pauses = {tb: random.Random(self.random.random()) for tb in running}
        asleep = set[int]()

        def act(tb: int) -> None:
            while not interpreter.is_done(tb):
                with changed:
                    asleep.add(tb)
                    while interpreter.wait_of(tb) is not None:
                        if asleep == running and all(interpreter.wait_of(other) for other in running):
                            changed.notify_all()
                            return
                        changed.wait()
                    asleep.discard(tb)
                count = interpreter.move_messages(tb)
                if pauses[tb].random() < 0.2:
                    time.sleep(pauses[tb].random() * 2e-4)
                with changed:
                    interpreter.complete(tb, count)
                    if interpreter.is_done(tb):
                        running.discard(tb)
                    changed.notify_all()

        actors = [threading.Thread(target=act, args=(tb,), daemon=True) for tb in running]
        for thread in actors:
            thread.start()
        for thread in actors:
            thread.join()
        return [wait for tb in sorted(running) if (wait := interpreter.wait_of(tb)) is not None]

    def report(self, hung: list[Blocked]) -> RunReport:
        """Compare the outputs of all ranks with NumPy's."""
        tbs, first = self.program.tbs, self.waits.first
        places = tuple((int(tbs.gpu[wait.tb]), int(tbs.id[wait.tb]), wait.step - first[wait.tb]) for wait in hung)
        wrong: list[WrongChunk] = []
        error = 0.0
        if not hung:
            outputs = expected_data(self.call.coll, self.call.root, self.op, self.inputs, self.call.total)
            for rank, expected in enumerate(outputs):
                if expected is None:
                    continue
                start = int(self.layout.base[rank, OUTPUT])
                got = self.memory[start : start + len(expected)]
                bad, off = compare_outputs(rank, got, expected, self.program.ngpus, self.op)
                wrong += bad[:SHOWN]
                error = max(error, off)
        used = self.op if self.call.coll in REDUCING else None
        count, sent = self.memory.shape[1] * self.unit, self.interpreter.sent
        dtype = self.memory.dtype.name
        return RunReport(self.call.inplace, self.seed, dtype, used, count, sent, places, tuple(wrong), error)
