"""Races: two accesses of one chunk slot, at least one a write, that nothing orders.

Happens-before is program order, messages and dependencies (docs/msccl-contract.md, section 5). A sender that waits for
a full FIFO orders nothing here, since it depends on the size whether it waits. Every chunk is a message of its own
(M = 1), which orders least: what is ordered then is ordered at every size.

In any possible order of the accesses of a slot, it suffices that every access is ordered after the last write, and
every write after the reads since that write: the order of all other pairs follows. A copy of a slot onto itself (in
place) leaves the same bytes and counts as a read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.msccl.check.collectives import MemoryLayout
from collc.msccl.check.findings import Finding, Findings
from collc.msccl.check.model import BUFFERS, FileProgram
from collc.msccl.interpreter.operations import READS_SOURCE, READS_TARGET, WRITES, StepKind
from collc.msccl.interpreter.replay import StepWaits
from collc.ten.arrays import BoolArray, Int64Array

BLOCK: Final = 1024
"""Questions answered in one pass over the events (bits of a set)."""
SHOWN: Final = 13


@dataclass(frozen=True, eq=False)
class AccessPairs:
    """Pairs of events that must be ordered: int64[pairs] each, before and after, and the slot that they share."""

    before: Int64Array
    after: Int64Array
    slot: Int64Array


@dataclass(frozen=True, eq=False)
class ChunkEvents:
    """One event a step and chunk, numbered in one possible order.

    step, chunk: int64[events]. start: int64[steps], the first event of each step (a step's events
    follow each other). sources: event -> the events that it waits for, besides the one before it in
    its threadblock, as two columns (event, source) sorted by event.
    """

    step: Int64Array
    chunk: Int64Array
    start: Int64Array
    event: Int64Array
    source: Int64Array


def check_races(
    program: FileProgram, waits: StepWaits, order: Sequence[int], layout: MemoryLayout, findings: Findings
) -> None:
    """Find races in one placement; `order`: all steps in one possible order."""
    events = _events(program, waits, order)
    pairs = _pairs(program, events, layout)
    _overlaps(program, layout, findings)
    if not len(pairs.before):
        return
    known = _known_within_gpu(program, waits, events, pairs)
    open_pairs = np.flatnonzero(~known)
    loose = open_pairs[~_reach_over_all_gpus(program, events, pairs.before[open_pairs], pairs.after[open_pairs])]
    seen: set[tuple[int, int]] = set()
    for at in loose.tolist():
        first, second = int(events.step[pairs.before[at]]), int(events.step[pairs.after[at]])
        if (first, second) not in seen:
            seen.add((first, second))
            findings.add(_finding(program, layout, first, second, int(pairs.slot[at])))


def _finding(program: FileProgram, layout: MemoryLayout, first: int, second: int, slot: int) -> Finding:
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


def _events(program: FileProgram, waits: StepWaits, order: Sequence[int]) -> ChunkEvents:
    steps = program.steps
    taken = np.asarray(order, np.int64)
    counts = np.maximum(1, np.where(steps.kind == StepKind.NOP, 1, steps.cnt)).astype(np.int64)
    ends = np.cumsum(counts[taken])
    start = np.zeros(len(steps), np.int64)
    start[taken] = ends - counts[taken]
    step = np.repeat(taken, counts[taken])
    chunk = np.arange(len(step)) - start[step]
    event, source = _message_edges(waits, counts, start)
    needs, on = _dependency_edges(program, waits, counts, start)
    event, source = np.concatenate([event, needs]), np.concatenate([source, on])
    by = np.argsort(event, kind="stable")
    return ChunkEvents(step, chunk, start, event[by], source[by])


def _message_edges(waits: StepWaits, counts: Int64Array, start: Int64Array) -> tuple[Int64Array, Int64Array]:
    """(receiving event, sending event): the j-th chunk taken on a connection is the j-th sent."""
    columns: list[Int64Array] = []
    for of in (waits.receives, waits.sends):
        number = np.asarray(of, np.int64)
        rows = np.flatnonzero(number >= 0)
        rows = rows[np.argsort(number[rows], kind="stable")]
        length = counts[rows]
        offset = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
        columns.append(np.repeat(start[rows], length) + offset)
    return columns[0], columns[1]


def _dependency_edges(
    program: FileProgram, waits: StepWaits, counts: Int64Array, start: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """(first event of the step, last event of the step that frees it: the first to move the counter far enough)."""
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
    program: FileProgram, events: ChunkEvents, layout: MemoryLayout
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """(slot, event, writes) of every access, by slot and then in order; an event that reads and writes a slot once."""
    steps = program.steps
    kind = steps.kind[events.step]
    every = np.arange(len(events.step))
    columns: list[tuple[Int64Array, Int64Array, BoolArray]] = []
    source, target = (first[events.step] + events.chunk for first in program.operand_slots(layout.base))
    itself = (kind == StepKind.CPY) & (source == target)
    writes, updates = WRITES[kind] & ~itself, READS_TARGET[kind]
    reads = READS_SOURCE[kind] & ~((writes | updates) & (source == target))
    columns.append((source[reads], every[reads], np.zeros(int(reads.sum()), np.bool_)))
    columns.append((target[writes], every[writes], np.ones(int(writes.sum()), np.bool_)))
    slot, event, write = (np.concatenate(column) for column in zip(*columns, strict=True))
    by = np.lexsort((event, slot))
    return slot[by], event[by], write[by]


def _pairs(program: FileProgram, events: ChunkEvents, layout: MemoryLayout) -> AccessPairs:
    """Pairs of different threadblocks whose order implies that of all accesses."""
    slot, event, write = _accesses(program, events, layout)
    tb = program.steps.tb[events.step[event]] if len(event) else event
    if not len(slot):
        return AccessPairs(slot, slot, slot)
    at = np.arange(len(slot))
    first = np.searchsorted(slot, slot)
    last_write = np.maximum.accumulate(np.where(write, at, -1))
    before = np.concatenate(([-1], last_write[:-1]))
    has = before >= first
    after_write = np.stack([before[has], at[has]])
    next_write = np.minimum.accumulate(np.where(write, at, len(at))[::-1])[::-1]
    follow = np.concatenate((next_write[1:], [len(at)]))
    end = np.searchsorted(slot, slot, side="right")
    read_then = ~write & (follow < end)
    before_write = np.stack([at[read_then], follow[read_then]])
    both = np.concatenate([after_write, before_write], axis=1)
    both = both[:, tb[both[0]] != tb[both[1]]]
    return AccessPairs(event[both[0]], event[both[1]], slot[both[0]])


def _known_within_gpu(program: FileProgram, waits: StepWaits, events: ChunkEvents, pairs: AccessPairs) -> BoolArray:
    """Pairs that program order and dependencies of one gpu order: vector clocks, a gpu at a time."""
    known = np.zeros(len(pairs.before), np.bool_)
    before, after = events.step[pairs.before], events.step[pairs.after]
    gpu = program.step_gpu[before]
    depends = np.flatnonzero(np.asarray(waits.needs_tb, np.int64) >= 0)
    if not len(depends):
        return known
    rows_of = np.split(np.arange(len(gpu))[np.argsort(gpu, kind="stable")], np.cumsum(np.bincount(gpu))[:-1])
    in_order = depends[np.argsort(events.start[depends])]
    by_gpu = np.split(
        in_order[np.argsort(program.step_gpu[in_order], kind="stable")],
        np.cumsum(np.bincount(program.step_gpu[in_order], minlength=program.ngpus))[:-1],
    )
    for number, rows in enumerate(rows_of):
        if len(rows) and len(by_gpu[number]):
            known[rows] = _clocks(program, waits, by_gpu[number].tolist(), before[rows], after[rows])
    return known


def _clocks(
    program: FileProgram, waits: StepWaits, depends: list[int], before: Int64Array, after: Int64Array
) -> BoolArray:
    """Whether each `before` step is known to have ended when `after` begins; depends: waiting steps in order."""
    tb = program.steps.tb
    base = int(program.gpu_first[program.step_gpu[depends[0]]])
    width = int(program.gpu_first[program.step_gpu[depends[0]] + 1]) - base
    history: dict[int, tuple[list[int], list[Int64Array]]] = {}
    certain = _certainly_done(program)
    for step in depends:
        own, on = int(tb[step]), waits.needs_tb[step]
        goal = int(program.tbs.first[on]) + waits.needs_step[step]
        source = waits.sets.index(True, goal)
        known = history.setdefault(own, ([], []))
        clock = known[1][-1].copy() if known[1] else np.full(width, -1, np.int64)
        past = history.get(on)
        if past is not None and (at := bisect_right(past[0], source)) > 0:
            clock = np.maximum(clock, past[1][at - 1])
        clock[on - base] = max(int(clock[on - base]), int(certain[source]))
        known[0].append(step)
        known[1].append(clock)
    answers = np.zeros(len(before), np.bool_)
    for at, (first, second) in enumerate(zip(before.tolist(), after.tolist(), strict=True)):
        past = history.get(int(tb[second]))
        if past is not None and (number := bisect_right(past[0], second)) > 0:
            answers[at] = past[1][number - 1][int(tb[first]) - base] >= first
    return answers


def _reach_over_all_gpus(program: FileProgram, events: ChunkEvents, before: Int64Array, after: Int64Array) -> BoolArray:
    """Whether `before` reaches `after` over all gpus: sets of questions flow along the edges."""
    answers = np.zeros(len(before), np.bool_)
    if not len(before):
        return answers
    edges: list[int] = np.searchsorted(events.event, np.arange(len(events.step) + 1)).tolist()
    source: list[int] = events.source.tolist()
    tb: list[int] = program.steps.tb[events.step].tolist()
    by = np.argsort(before, kind="stable")
    for begin in range(0, len(by), BLOCK):
        block = by[begin : begin + BLOCK].tolist()
        asked: dict[int, int] = {}
        for bit, at in enumerate(block):
            asked[int(before[at])] = asked.get(int(before[at]), 0) | 1 << bit
        first, last = min(asked), int(after[block].max())
        reached: list[int] = [0] * (last + 1 - first)
        current: dict[int, int] = {}
        for event in range(first, last + 1):
            mask = current.get(tb[event], 0)
            for edge in range(edges[event], edges[event + 1]):
                if source[edge] >= first:
                    mask |= reached[source[edge] - first]
            mask |= asked.get(event, 0)
            if mask:
                reached[event - first] = current[tb[event]] = mask
        for bit, at in enumerate(block):
            answers[at] = reached[int(after[at]) - first] >> bit & 1
    return answers


def _overlaps(program: FileProgram, layout: MemoryLayout, findings: Findings) -> None:
    """One step whose source and destination overlap without being the same: its chunks overwrite each other."""
    steps = program.steps
    source, target = program.operand_slots(layout.base)
    both = READS_SOURCE[steps.kind] & WRITES[steps.kind]
    rows = np.flatnonzero(both & (source != target) & (np.abs(source - target) < steps.cnt))
    placement = "in place" if layout.inplace else "out of place"
    for row in rows.tolist()[:SHOWN]:
        text = f"source and destination of one step overlap ({placement})"
        findings.add(Finding("race", "X0151", text, program.step_location(row), "the same slots, or none in common"))
