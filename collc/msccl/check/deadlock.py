"""Deadlock: cycles of waits on empty FIFOs, full FIFOs and dependencies, for all sizes in the range of a file.

A step with cnt k is ceil(k / M) messages, M = clamp(message bytes / chunk bytes, 1, 71); a connection holds 2 messages
(Simple) or 8 (LL, LL128). One replay for each distinct M decides (docs/msccl-contract.md, section 5).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import zip_longest
from typing import Final

import numpy as np

from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check.model import CAPACITY, MAX_COUNT, FileProgram
from collc.runtime.operations import StepKind
from collc.runtime.replay import Blocked, replay

SHOWN_CYCLE: Final = 8


def chunks_per_message(message_bytes: int, chunk_bytes: int) -> int:
    """M: how many chunks of a step are sent in one message of at most `message_bytes` bytes."""
    return max(1, min(MAX_COUNT, message_bytes // max(1, chunk_bytes)))


def check_deadlock(program: FileProgram, findings: Findings) -> int | None:
    """Replay the program for every M. Returns the largest size in bytes up to which it ends, also outside its range.

    None: it ends at every size; 0: at none.
    Sizes are whole multiples of nchunksperloop (docs/msccl-contract.md, section 2), so that chunks are whole bytes.
    """
    effective, total = program.message_bytes, program.nchunksperloop
    counts = np.maximum(1, program.steps.cnt)
    limit = program.size_limit
    most = chunks_per_message(effective, -(-program.min_bytes // total))
    least = 1 if limit is None else chunks_per_message(effective, limit // total)
    halts: dict[int, list[Blocked]] = {}
    known: dict[tuple[int, ...], list[Blocked]] = {}
    kinds = np.unique(counts)
    for merge in range(MAX_COUNT, 0, -1):
        key = tuple((-(-kinds // merge)).tolist())
        if key not in known:
            known[key] = replay(program.waits, (-(-counts // merge)).tolist(), CAPACITY[program.proto])[1]
        if known[key]:
            halts[merge] = known[key]
    safe = None if not halts else 0 if MAX_COUNT in halts else total * (effective // (max(halts) + 1))
    inside = [merge for merge in halts if least <= merge <= most]
    if inside:
        findings.add(_deadlock_finding(program, halts[max(inside)], max(inside), safe))
    return safe


def check_matches(program: FileProgram, findings: Findings) -> bool:
    """Whether the j-th send and the j-th receive of every connection carry the same number of chunks."""
    steps, matched = program.steps, True
    rows_of: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, connections in enumerate((program.waits.sends, program.waits.receives)):
        for row, number in enumerate(connections):
            rows_of[number][side].append(row)
    rows_of.pop(-1, None)
    for number in sorted(rows_of):
        for sent, taken in zip_longest(*rows_of[number], fillvalue=-1):
            if min(sent, taken) < 0 or steps.cnt[sent] != steps.cnt[taken]:
                findings.add(_mismatch(program, sent, taken))
                matched = False
                break
    return matched


def _mismatch(program: FileProgram, sent: int, taken: int) -> Finding:
    steps = program.steps
    if sent >= 0 and taken >= 0:
        text = f"sends {steps.cnt[sent]} chunks, but the matching receive takes {steps.cnt[taken]}"
        other = (("the receive", program.step_location(taken, "cnt")),)
        return Finding("result", "X0130", text, program.step_location(sent, "cnt"), "equal counts", also=other)
    moves, other, takes = ("sends", "receives", "receive") if sent >= 0 else ("receives", "sends", "send")
    location = program.step_location(max(sent, taken), "type")
    text = f"{moves}, but no step of the peer {other} it"
    return Finding("result", "X0130", text, location, f"one {takes} per {moves[:-1]}")


def _deadlock_finding(program: FileProgram, halts: list[Blocked], merge: int, safe: int | None) -> Finding:
    cycle, closed = _cycle(halts)
    also = tuple((_describe(program, halt), program.step_location(halt.step)) for halt in cycle[1:SHOWN_CYCLE])
    first = cycle[0]
    when = f"above {safe} bytes" if safe else "at every size"
    what = f"a cycle of {len(cycle)} waits" if closed else f"{len(halts)} threadblocks wait forever"
    text = f"hangs {when} ({program.proto}, {merge} chunks in a message): {what}; {_describe(program, first)}"
    hint = f'maxBytes="{safe}" would keep it safe' if safe and safe >= program.min_bytes else ""
    location: FileLocation = program.step_location(first.step)
    return Finding("deadlock", "X0140", text, location, "every wait ends", hint, also=also)


def _cycle(halts: list[Blocked]) -> tuple[list[Blocked], bool]:
    """A cycle of waits and True; else the first threadblock that waits for one that has finished, and False."""
    by_tb = {halt.tb: halt for halt in halts}
    for start in halts:
        path: dict[int, int] = {}
        walk: list[Blocked] = []
        halt: Blocked | None = start
        while halt is not None and halt.tb not in path:
            path[halt.tb] = len(walk)
            walk.append(halt)
            halt = by_tb.get(halt.on)
        if halt is not None:
            return walk[path[halt.tb] :], True
    return halts[:1], False


def _describe(program: FileProgram, halt: Blocked) -> str:
    """The wait of a threadblock, for messages."""
    kind = StepKind(int(program.steps.kind[halt.step])).name.lower()
    on = str(program.tb_location(halt.on)) if halt.on >= 0 else "nobody"
    if halt.reason == "dependency":
        return f"{kind} waits for step {program.steps.deps[halt.step]} of {on}"
    full = "whose FIFO is full" if halt.reason == "send" else "whose FIFO is empty"
    verb = "receive it" if halt.reason == "send" else "send"
    return f"{kind} waits for {on} to {verb}, {full}"
