"""Races: two accesses of one chunk slot, at least one a write, that nothing orders.

Happens-before is program order, messages and dependencies (docs/msccl-contract.md, section 5). A sender that waits for
a full FIFO orders nothing here, since it depends on the size whether it waits. Every chunk is a message of its own
(M = 1), which orders least: what is ordered then is ordered at every size. A copy of a slot onto itself (in place)
leaves the same bytes and counts as a read.
"""

from __future__ import annotations

import numpy as np

from collc.msccl.check.findings import PER_CODE, Finding, Findings
from collc.msccl.check.happens_before import EventOrder, conflicting_accesses
from collc.msccl.check.model import BUFFERS, FileProgram
from collc.runtime.collectives import MemoryLayout
from collc.runtime.operations import READS_SOURCE, READS_TARGET, WRITES, StepKind
from collc.runtime.replay import StepWaits
from collc.ten.arrays import BoolArray, Int64Array, ranges


def check_races(program: FileProgram, layout: MemoryLayout, findings: Findings) -> None:
    """Find races in one placement of a program that ends."""
    _check_overlaps(program, layout, findings)
    step, chunk, events = _chunk_events(program)
    slot, event, write = _accesses(program, step, chunk, layout)
    before, after = conflicting_accesses(slot, write)
    tb = program.steps.tb[step[event]] if len(event) else event
    rows = np.flatnonzero(tb[before] != tb[after])
    first, second = event[before[rows]].tolist(), event[after[rows]].tolist()
    racing: dict[tuple[int, int], int] = {}
    for number in events.unordered_pairs(list(zip(first, second, strict=True))):
        racing.setdefault((int(step[first[number]]), int(step[second[number]])), int(slot[before[rows[number]]]))
    for steps, place in racing.items():
        findings.add(_race_finding(program, layout, *steps, place))


def _race_finding(program: FileProgram, layout: MemoryLayout, first: int, second: int, slot: int) -> Finding:
    gpu = int(program.step_gpu[first])
    placement = "in place" if layout.inplace else "out of place"
    names = [
        f"{name}[{slot - int(base)}]"
        for name, base, size in zip(BUFFERS, layout.base[gpu], program.chunks[gpu], strict=True)
        if 0 <= slot - base < size
    ]
    text = f"nothing orders this step and another one that touch {' = '.join(names)}, one of them writing ({placement})"
    other = (("the other step", program.step_location(second)),)
    hint = "make one depend on the other (depid, deps, and hasdep on what is depended on)"
    return Finding("race", "X0150", text, program.step_location(first), "an order of the two", hint, also=other)


def _chunk_events(program: FileProgram) -> tuple[Int64Array, Int64Array, EventOrder]:
    """The step and the chunk of each event, one a step and chunk, numbered in one possible order; and what orders them.

    These are program order, messages and dependencies.
    """
    steps, waits = program.steps, program.waits
    taken = np.asarray(program.unlimited_run[0], np.int64)
    counts = np.maximum(1, np.where(steps.kind == StepKind.NOP, 1, steps.cnt)).astype(np.int64)
    ends = np.cumsum(counts[taken])
    start = np.zeros(len(steps), np.int64)
    start[taken] = ends - counts[taken]
    step = np.repeat(taken, counts[taken])
    by_tb = np.argsort(steps.tb[step] if len(step) else step, kind="stable")
    same = steps.tb[step[by_tb[1:]]] == steps.tb[step[by_tb[:-1]]]
    edges = [
        (by_tb[1:][same], by_tb[:-1][same]),
        _message_edges(waits, counts, start),
        _dependency_edges(program, counts, start),
    ]
    after, before = (np.concatenate(column) for column in zip(*edges, strict=True))
    by_event = np.argsort(after, kind="stable")
    first: list[int] = np.searchsorted(after[by_event], np.arange(len(step) + 1)).tolist()
    return step, np.arange(len(step)) - start[step], EventOrder(first, before[by_event].tolist())


def _message_edges(waits: StepWaits, counts: Int64Array, start: Int64Array) -> tuple[Int64Array, Int64Array]:
    """(receiving event, sending event): the j-th chunk taken on a connection is the j-th sent."""
    columns: list[Int64Array] = []
    for of in (waits.receives, waits.sends):
        number = np.asarray(of, np.int64)
        rows = np.flatnonzero(number >= 0)
        rows = rows[np.argsort(number[rows], kind="stable")]
        columns.append(ranges(start[rows], start[rows] + counts[rows]))
    return columns[0], columns[1]


def _dependency_edges(program: FileProgram, counts: Int64Array, start: Int64Array) -> tuple[Int64Array, Int64Array]:
    """(first event of the step, last event of the step that frees it: the first to move the counter far enough)."""
    waits = program.waits
    on_tb = np.asarray(waits.needs_tb, np.int64)
    rows = np.flatnonzero(on_tb >= 0)
    sets = np.flatnonzero(np.asarray(waits.sets))
    wanted = program.tbs.first[on_tb[rows]] + np.asarray(waits.needs_step, np.int64)[rows]
    source = _certainly_done(program)[sets[np.searchsorted(sets, wanted)]]
    rows, source = rows[source >= 0], source[source >= 0]
    return start[rows], start[source] + counts[source] - 1


def _certainly_done(program: FileProgram) -> Int64Array:
    """int64[steps]: the last step that all threads have ended when the counter passes each step; -1 for none.

    It is the step itself, except if the counter of a send may move early (docs/msccl-contract.md, section 7): then
    it is the last step before that is no send.
    """
    rows = np.arange(len(program.steps))
    if not program.early_flags:
        return rows
    safe = np.maximum.accumulate(np.where(program.steps.kind == StepKind.S, -1, rows))
    return np.where(safe >= program.tbs.first[program.steps.tb], safe, -1)


def _accesses(
    program: FileProgram, step: Int64Array, chunk: Int64Array, layout: MemoryLayout
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """(slot, event, writes) of every access, by slot and then in order; an event that reads and writes a slot once."""
    steps = program.steps
    kind = steps.kind[step]
    every = np.arange(len(step))
    source, target = (first[step] + chunk for first in program.operand_slots(layout.base))
    itself = (kind == StepKind.CPY) & (source == target)
    writes, updates = WRITES[kind] & ~itself, READS_TARGET[kind]
    reads = READS_SOURCE[kind] & ~((writes | updates) & (source == target))
    slot = np.concatenate([source[reads], target[writes]])
    event = np.concatenate([every[reads], every[writes]])
    write = np.arange(len(slot)) >= reads.sum()
    by = np.lexsort((event, slot))
    return slot[by], event[by], write[by]


def _check_overlaps(program: FileProgram, layout: MemoryLayout, findings: Findings) -> None:
    """One step whose source and destination overlap without being the same: its chunks overwrite each other."""
    steps = program.steps
    source, target = program.operand_slots(layout.base)
    both = READS_SOURCE[steps.kind] & WRITES[steps.kind]
    rows = np.flatnonzero(both & (source != target) & (np.abs(source - target) < steps.cnt))
    placement = "in place" if layout.inplace else "out of place"
    for row in rows.tolist()[: PER_CODE + 1]:
        text = f"source and destination of one step overlap ({placement})"
        findings.add(Finding("race", "X0151", text, program.step_location(row), "the same slots, or none in common"))
