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
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic, UsageError
from collc.msccl.check.collectives import KNOWN, REDUCING, ROOTED, TOTAL, MemoryLayout, canonical
from collc.msccl.check.connections import connect
from collc.msccl.check.contract import check_contract
from collc.msccl.check.deadlock import chunks_per_message
from collc.msccl.check.findings import Findings, errors_of
from collc.msccl.check.model import CAPACITY, INPUT, OUTPUT, FileProgram, Profile, StepKind
from collc.msccl.check.reader import read_file
from collc.msccl.check.replay import UNLIMITED, StepWaits, replay, waits_of
from collc.msccl.check.results import find_root
from collc.msccl.check.symbolic import CollectiveCall, layout_of
from collc.msccl.file_kinds import kind_of_program
from collc.msccl.running.data import (
    OPS,
    Array,
    check_choices,
    differences,
    expected_data,
    op_of,
    random_data,
    undefined_data,
    unknown_result,
)
from collc.msccl.running.limits import check_size

THREADS_LIMIT: Final = 512
SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class WrongChunk:
    """An output chunk with wrong numbers: its rank and number, and the first wrong element."""

    rank: int
    chunk: int
    got: float
    expected: float


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run in one placement.

    op: the reduction, None if the collective has none. count: elements as NCCL counts them. messages: messages or
    signals sent. hung: (gpu, tb, step) of the threadblocks that wait forever. error: the largest relative error.
    """

    inplace: bool
    seed: int
    dtype: str
    op: str | None
    count: int
    messages: int
    hung: tuple[tuple[int, int, int], ...]
    wrong: tuple[WrongChunk, ...]
    error: float

    @property
    def ok(self) -> bool:
        """Whether it ended and the outputs of all ranks agree with NumPy."""
        return not self.hung and not self.wrong


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
    where the file's structure is broken, and for collectives whose result is not known.
    """
    check_choices(dtype, op)
    if kind_of_program(path) == "mscclpp":
        hint = "'collc run' runs plans too, 'run_plan_file' in Python; 'collc verify' checks them"
        raise UsageError(Diagnostic("X0206", f"{path} is an MSCCL++ plan, and no MSCCL XML file", hint=hint))
    program, waits, coll = _load(path, collective, profile)
    op = op or (op_of(program.redop, path) if coll in REDUCING else "sum")
    if threads and len(program.tbs) > THREADS_LIMIT:
        text = f"{len(program.tbs)} threadblocks are too many for real threads (at most {THREADS_LIMIT})"
        raise UsageError(Diagnostic("X0201", text, hint="leave the threads out: the order of events is random then"))
    elements = _chunk_elements(program, coll, count)
    found = _root(program, waits, coll, root)
    reports: list[RunReport] = []
    for number in range(runs):
        for inplace, claimed in ((False, program.outofplace), (True, program.inplace)):
            if claimed:
                call = CollectiveCall(coll, found, inplace)
                machine = _FileRun(program, waits, call, np.dtype(dtype), elements, op, seed + number)
                hung = machine.run_threads() if threads else machine.run_in_random_order()
                reports.append(machine.report(hung, seed + number))
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
        if not 0 <= root < program.ngpus:
            raise UsageError(Diagnostic("X0203", f"root {root} is not a rank: the file has {program.ngpus}"))
        return root
    order, halted = replay(waits, [1] * len(program.steps), UNLIMITED)
    return 0 if halted else find_root(program, waits, order, coll, inplace=not program.outofplace)


def _chunk_elements(program: FileProgram, coll: str, count: int | None) -> int:
    if count is None:
        return 1
    factor = program.ngpus if coll in TOTAL else 1
    elements, rest = divmod(count * factor, program.nchunksperloop)
    if rest or elements < 1:
        text = f"the runtime would not choose this file for a count of {count}"
        rule = f"count * {factor} must be a multiple of nchunksperloop = {program.nchunksperloop}"
        raise UsageError(Diagnostic("X0204", text, hint=rule))
    return elements


class _FileRun:
    """The state of a run: memory of all gpus, FIFOs, and the next step of every threadblock."""

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
        self.combine: Callable[[Array, Array], Array] = OPS[op]
        self.op: str = op
        self.random: random.Random = random.Random(seed)
        self.elements: int = elements
        self.merge: int = chunks_per_message(program.message_bytes, elements * dtype.itemsize)
        self.capacity: int = CAPACITY[program.proto]
        chunks, self.layout = layout_of(program, call)
        factor = program.ngpus if call.coll in TOTAL else 1
        slots = self.layout.size + int(chunks[:, INPUT].sum())
        check_size(slots, elements, dtype.itemsize, program.nchunksperloop // factor)
        generator = np.random.default_rng(seed)
        self.inputs: list[Array] = [random_data(generator, (int(n), elements), dtype) for n in chunks[:, INPUT]]
        self.memory: Array = undefined_data(generator, (self.layout.size, elements), dtype)
        for rank, data in enumerate(self.inputs):
            start = int(self.layout.base[rank, INPUT])
            self.memory[start : start + len(data)] = data
        steps, gpu = program.steps, program.step_gpu
        self.source: list[int] = (self.layout.base[gpu, steps.srcbuf] + steps.srcoff).tolist()
        self.target: list[int] = (self.layout.base[gpu, steps.dstbuf] + steps.dstoff).tolist()
        self.kind: list[int] = steps.kind.tolist()
        self.count: list[int] = steps.cnt.tolist()
        self.fifos: list[deque[Array]] = [deque() for _ in waits.sender]
        self.at: list[int] = waits.first[:-1]
        self.moved: list[int] = [0] * len(program.tbs)
        self.passed: list[int] = [-1] * len(program.tbs)
        self.messages: int = 0

    def done(self, tb: int) -> bool:
        """Whether a threadblock has run all its steps."""
        return self.at[tb] >= self.waits.first[tb + 1]

    def ready(self, tb: int) -> bool:
        """Whether the next message, or local step, of a threadblock can proceed now."""
        step, waits = self.at[tb], self.waits
        on = waits.needs_tb[step]
        if on >= 0 and self.passed[on] < waits.needs_step[step]:
            return False
        into, out = waits.receives[step], waits.sends[step]
        return (into < 0 or bool(self.fifos[into])) and (out < 0 or len(self.fifos[out]) < self.capacity)

    def move(self, tb: int) -> Array | None:
        """Compute one message of a step; returns what is to be sent, if anything. Leaves the FIFOs as they are."""
        step = self.at[tb]
        kind, begin = self.kind[step], self.moved[tb]
        if kind == StepKind.NOP:
            return None
        communicates = self.waits.receives[step] >= 0 or self.waits.sends[step] >= 0
        end = min(self.count[step], begin + self.merge) if communicates else self.count[step]
        memory, source, target = self.memory, self.source[step], self.target[step]
        into = self.waits.receives[step]
        if into >= 0:
            out = self.fifos[into][0]
            length = min(len(out), end - begin)
            if kind not in (StepKind.R, StepKind.RCS):
                out = self.combine(out[:length], memory[source + begin : source + begin + length])
        else:
            length = end - begin
            out = memory[source + begin : source + end].copy()
            if kind == StepKind.RE:
                out = self.combine(memory[target + begin : target + end], out)
        if kind not in (StepKind.S, StepKind.RRS):
            memory[target + begin : target + begin + length] = out[:length]
        return out if self.waits.sends[step] >= 0 else None

    def commit(self, tb: int, out: Array | None) -> None:
        """Make a message known: free the FIFO that it came from, fill the one that it goes to, go on."""
        step, waits = self.at[tb], self.waits
        into, target = waits.receives[step], waits.sends[step]
        if into >= 0:
            self.fifos[into].popleft()
        if target >= 0 and out is not None:
            self.fifos[target].append(out)
        if into >= 0 or target >= 0:
            self.messages += target >= 0
            self.moved[tb] += self.merge
            if self.moved[tb] < self.count[step]:
                return
        self.moved[tb] = 0
        if waits.sets[step]:
            self.passed[tb] = step - waits.first[tb]
        self.at[tb] = step + 1

    def run_in_random_order(self) -> list[int]:
        """Move one message at a time, of a random threadblock that can proceed. Returns the threadblocks that hang."""
        waiting: dict[int, set[int]] = {}
        candidates = [tb for tb in range(len(self.program.tbs)) if not self.done(tb)]
        listed = set(candidates)
        while candidates:
            pick = self.random.randrange(len(candidates))
            tb = candidates[pick]
            if self.done(tb) or not self.ready(tb):
                candidates[pick] = candidates[-1]
                candidates.pop()
                listed.discard(tb)
                if not self.done(tb) and (on := self.waits.needs_tb[self.at[tb]]) >= 0:
                    waiting.setdefault(on, set()).add(tb)
                continue
            step = self.at[tb]
            self.commit(tb, self.move(tb))
            woken = waiting.pop(tb, set()) if self.at[tb] != step and self.waits.sets[step] else set[int]()
            ends = ((self.waits.sends[step], self.waits.receiver), (self.waits.receives[step], self.waits.sender))
            woken |= {side[number] for number, side in ends if number >= 0}
            fresh = sorted(woken - listed)
            candidates += fresh
            listed.update(fresh)
        return [tb for tb in range(len(self.program.tbs)) if not self.done(tb)]

    def run_threads(self) -> list[int]:
        """Run one thread for each threadblock, with short random pauses. Returns the threadblocks that hang."""
        changed = threading.Condition()
        running = [tb for tb in range(len(self.program.tbs)) if not self.done(tb)]
        state = {"asleep": 0, "alive": len(running), "hung": 0}
        pauses = {tb: random.Random(self.random.random()) for tb in running}

        def actor(tb: int) -> None:
            while not self.done(tb):
                with changed:
                    state["asleep"] += 1
                    while not state["hung"] and not self.ready(tb):
                        if state["asleep"] == state["alive"] and not any(
                            self.ready(other) for other in running if not self.done(other)
                        ):
                            state["hung"] = 1
                            changed.notify_all()
                            break
                        changed.wait()
                    state["asleep"] -= 1
                    if state["hung"]:
                        break
                out = self.move(tb)
                if pauses[tb].random() < 0.2:
                    time.sleep(pauses[tb].random() * 2e-4)
                with changed:
                    self.commit(tb, out)
                    changed.notify_all()
            with changed:
                state["alive"] -= 1
                changed.notify_all()

        actors = [threading.Thread(target=actor, args=(tb,), daemon=True) for tb in running]
        for thread in actors:
            thread.start()
        for thread in actors:
            thread.join()
        return [tb for tb in running if not self.done(tb)]

    def report(self, hung: list[int], seed: int) -> RunReport:
        """Compare the outputs of all ranks with NumPy's."""
        tbs, first = self.program.tbs, self.waits.first
        places = tuple((int(tbs.gpu[tb]), int(tbs.id[tb]), self.at[tb] - first[tb]) for tb in hung)
        wrong: list[WrongChunk] = []
        error = 0.0
        if not hung:
            outputs = expected_data(self.call.coll, self.call.root, self.op, self.inputs)
            for rank, expected in enumerate(outputs):
                if expected is not None:
                    got = _output(self.memory, self.layout, rank, len(expected))
                    bad, off = differences(got, expected, self.program.ngpus, self.op)
                    error = max(error, off)
                    for chunk in np.flatnonzero(bad.any(axis=1)).tolist()[:SHOWN]:
                        at = int(np.argmax(bad[chunk]))
                        wrong.append(WrongChunk(rank, chunk, float(got[chunk, at]), float(expected[chunk, at])))
        used = self.op if self.call.coll in REDUCING else None
        factor = self.program.ngpus if self.call.coll in TOTAL else 1
        count = self.elements * self.program.nchunksperloop // factor
        dtype = self.memory.dtype.name
        return RunReport(self.call.inplace, seed, dtype, used, count, self.messages, places, tuple(wrong), error)


def _output(memory: Array, layout: MemoryLayout, rank: int, chunks: int) -> Array:
    start = int(layout.base[rank, OUTPUT])
    return memory[start : start + chunks]
