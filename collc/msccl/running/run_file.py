"""Execution of an MSCCL file on real data: NumPy buffers, bounded FIFOs, one actor for each threadblock.

Messages are those of the runtime at the given size (docs/msccl-contract.md, section 5): a step with cnt k moves ceil(k
/ M) of them, and a sender blocks when its connection is full. The order of events is random, from a seed, or that of
the operating system: with one thread for each threadblock, or one process for each rank (over_tcp). Results are
compared with what NumPy computes from the same inputs. Outputs and scratch begin as NaN, or as random numbers for
integers.
"""

from __future__ import annotations

import random
import threading
import time
from itertools import product
from pathlib import Path

import numpy as np

from collc.base.diagnostics import CheckFailed
from collc.msccl.check.collectives import KNOWN, canonical
from collc.msccl.check.contract import check_contract
from collc.msccl.check.deadlock import chunks_per_message
from collc.msccl.check.findings import Findings, check_root, errors_of
from collc.msccl.check.model import CAPACITY, FileProgram, Profile
from collc.msccl.check.reader import read_file
from collc.msccl.check.symbolic import call_of, layout_of, operands_of, placements_of, root_of
from collc.msccl.running.data import (
    OPS,
    Array,
    RunData,
    RunReport,
    TransportName,
    check_choices,
    check_transport,
    chunk_elements,
    op_of,
    unknown_result,
)
from collc.runtime.collectives import INPUT, REDUCING, ROOTED
from collc.runtime.data import Memory, Queues, StepData
from collc.runtime.replay import Blocked, Interpreter


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
    transport: TransportName = "memory",
) -> list[RunReport]:
    """Execute a file `runs` times in each placement that it claims; run k uses seed + k for data and order.

    count: elements as NCCL counts them (All-Gather: of one input; Reduce-Scatter: of one output; ...);
    default: one element a chunk. op: of reductions; default: the redop of the file, else "sum". transport: what carries
    messages.
    Raises UsageError for an unknown dtype, op or transport, for too many threads or processes, for a count that the
    file can't be used for and for collectives whose result is not known; CheckFailed if the file's structure is broken
    or a rank fails.
    """
    check_choices(dtype, op)
    program, coll = _load(path, collective, profile)
    op = op or (op_of(program.redop, path) if coll in REDUCING else "sum")
    check_transport(transport, len(program.tbs), program.ngpus)
    elements = chunk_elements(count, coll, program.ngpus, program.nchunksperloop, 1)
    check_root(root, program.ngpus, path)
    if coll not in ROOTED:
        root = -1
    elif root is None:
        root = 0 if program.unlimited_run[1] else root_of(program, coll)
    reports: list[RunReport] = []
    for number, inplace in product(range(seed, seed + runs), placements_of(program)):
        call = call_of(program, coll, root, inplace=inplace)
        chunks, layout = layout_of(program, call)
        data = RunData(call, layout, chunks[:, INPUT].tolist(), np.dtype(dtype), elements, op, number)
        reports.append(_run(program, data, random.Random(number), transport))
    return reports


def _load(path: Path, collective: str | None, profile: Profile) -> tuple[FileProgram, str]:
    findings = Findings()
    program = read_file(path, profile, findings)
    coll = canonical(collective or program.coll)
    check_contract(program, findings, coll)
    if findings.broken:
        raise CheckFailed(*errors_of(findings, path))
    if coll not in KNOWN:
        raise unknown_result(collective or program.coll)
    return program, coll


def _run(program: FileProgram, data: RunData, rng: random.Random, transport: TransportName) -> RunReport:
    """One run in one placement: the inputs, the steps, and the comparison of the outputs."""
    operands = operands_of(program, data.layout)
    steps = StepData[Array](operands, Memory[Array](data.memory, OPS[data.op]), Queues[Array](len(program.connections)))
    merge = chunks_per_message(program.message_bytes, data.memory.itemsize * data.memory.shape[1])
    messages = (-(-np.maximum(1, program.steps.cnt) // merge)).tolist()

    def move(step: int, first: int, count: int) -> None:
        steps.move(step, first * merge, min((first + count) * merge, operands.count[step]))

    interpreter = Interpreter(program.waits, messages, CAPACITY[program.proto], move)
    if transport == "tcp" and not program.unlimited_run[1]:
        from collc.msccl.running.over_tcp import run_over_tcp, run_program_of

        return run_over_tcp(run_program_of(program, data.call), data, merge, CAPACITY[program.proto])
    for rank in range(program.ngpus):
        data.fill_input(0, rank)
    hung = _run_threads(interpreter, rng) if transport == "threads" else interpreter.run(rng)
    data.finish()
    for rank in range(program.ngpus if not hung else 0):
        data.compare_output(0, rank)
    tbs, first = program.tbs, program.waits.first
    places = [(int(tbs.gpu[wait.tb]), int(tbs.id[wait.tb]), wait.step - first[wait.tb]) for wait in hung]
    return data.report(interpreter.sent, places)


def _run_threads(interpreter: Interpreter, rng: random.Random) -> list[Blocked]:
    """Run one thread for each threadblock, with short random pauses. Returns the threadblocks that hang."""
    changed = threading.Condition()
    running = {tb for tb in range(len(interpreter.at)) if not interpreter.is_done(tb)}
    pauses = {tb: random.Random(rng.random()) for tb in running}
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
