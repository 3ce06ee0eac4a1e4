"""The check `result`: executes the program on symbols in each placement, and compares the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from collc.msccl.check.collectives import ROOTED, ExpectedResult, MemoryLayout
from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check.model import OUTPUT, FileProgram
from collc.msccl.check.symbolic import CollectiveCall, Operand, WrongOutput, execute, is_right, wrong_outputs
from collc.msccl.check.values import UNDEFINED, SymbolicValues
from collc.msccl.interpreter.operations import RECEIVES, SENDS, WRITES, StepKind
from collc.msccl.interpreter.replay import StepWaits

ROOT_WORK: Final = 4_000_000
"""Most steps and slots that are executed to find a root that was not given; a rank counts as `RANK_WORK` slots."""
RANK_WORK: Final = 50
SHOWN: Final = 13


def find_root(program: FileProgram, waits: StepWaits, order: Sequence[int], coll: str, *, inplace: bool) -> int:
    """The rank with which as root the result is right; the likeliest one if there is none."""
    guesses = _likely_roots(program, coll)
    tried = CollectiveCall(coll, guesses[0], inplace)
    values, memory, layout = execute(program, waits, order, tried)
    if is_right(program, tried, values, memory, layout):
        return guesses[0]
    votes = _votes(program, coll, values, memory, layout)
    guesses.sort(key=lambda rank: -votes[rank])
    work = len(program.steps) + layout.size + RANK_WORK * program.ngpus
    for root in guesses[: max(1, ROOT_WORK // work)]:
        call = CollectiveCall(coll, root, inplace)
        values, memory, layout = execute(program, waits, order, call)
        if is_right(program, call, values, memory, layout):
            return root
    return guesses[0]


def _votes(
    program: FileProgram, coll: str, values: SymbolicValues, memory: list[int], layout: MemoryLayout
) -> list[int]:
    """For each rank a count of what indicates that it is the root, after an execution with another root.

    Broadcast and scatter: the ranks whose first output chunk comes from it. Reduce and gather: the ranks with
    contributions in its output.
    """
    votes = [0] * program.ngpus
    for rank in range(program.ngpus):
        start, count = int(layout.base[rank, OUTPUT]), int(program.chunks[rank, OUTPUT])
        if coll in ("broadcast", "scatter"):
            count = min(1, count)
        given = 0
        for value in set(memory[start : start + count]) - {UNDEFINED}:
            for _, ranks in values.parts(value)[0]:
                given |= ranks
        if coll in ("reduce", "gather"):
            votes[rank] = given.bit_count()
        elif given:
            votes[given.bit_length() - 1] += 1
    return votes


def _likely_roots(program: FileProgram, coll: str) -> list[int]:
    """All ranks; first those that only send (broadcast, scatter) or only receive (reduce, gather)."""
    moves = RECEIVES if coll in ("broadcast", "scatter") else SENDS
    other = SENDS if coll in ("broadcast", "scatter") else RECEIVES
    against = np.bincount(program.step_gpu[moves[program.steps.kind]], minlength=program.ngpus)
    along = np.bincount(program.step_gpu[other[program.steps.kind]], minlength=program.ngpus)
    return np.lexsort((np.arange(program.ngpus), -along, against)).tolist()


def check_result(
    program: FileProgram,
    waits: StepWaits,
    order: Sequence[int],
    findings: Findings,
    call: CollectiveCall,
) -> None:
    """Compare every output slot of every rank with the collective's postcondition, in one placement."""
    values, memory, layout = execute(program, waits, order, call)
    wrong, count = wrong_outputs(program, call, values, memory, layout, SHOWN)
    if not count:
        return
    if not _finds_mix_up(program, waits, order, findings, call):
        last = _last_writers(program, order, layout)
        for miss in wrong[:SHOWN]:
            findings.add(_finding(program, call, values, layout, miss, last))
        if count > SHOWN:
            findings.count_more("result", "X0131", count - SHOWN)


def _finding(
    program: FileProgram,
    call: CollectiveCall,
    values: SymbolicValues,
    layout: MemoryLayout,
    miss: WrongOutput,
    last: dict[int, int],
) -> Finding:
    slot = int(layout.base[miss.rank, 1]) + miss.slot
    location: FileLocation = program.gpu_location(miss.rank)
    if slot in last:
        location = program.step_location(last[slot], "dstoff")
    placement = "in place" if call.inplace else "out of place"
    root = f", root {call.root}" if call.coll in ROOTED else ""
    text = f"output chunk {miss.slot} of rank {miss.rank} ends with {values.describe(miss.value)}"
    details = values.difference(miss.value, miss.wanted)
    detail = f" ({details})" if details else ""
    wanted = f"{values.describe(miss.wanted)} ({call.coll}, {placement}{root})"
    return Finding("result", "X0131", text + detail, location, wanted)


def _last_writers(program: FileProgram, order: Sequence[int], layout: MemoryLayout) -> dict[int, int]:
    steps = program.steps
    _, target = program.operand_slots(layout.base)
    last: dict[int, int] = {}
    for step in order:
        if WRITES[steps.kind[step]]:
            last.update(dict.fromkeys(range(int(target[step]), int(target[step] + steps.cnt[step])), step))
    return last


def _finds_mix_up(
    program: FileProgram, waits: StepWaits, order: Sequence[int], findings: Findings, call: CollectiveCall
) -> bool:
    """Whether the result is right if src of reductions is the sender's slot, as a public tool writes it.

    Adds a finding (X0132) for each such step then.
    """
    steps = program.steps
    reduces = np.isin(steps.kind, (StepKind.RRC, StepKind.RRS, StepKind.RRCS))
    differ = reduces & ((steps.srcbuf != steps.dstbuf) | (steps.srcoff != steps.dstoff))
    if not differ.any() or not _has_targets_inside(program):
        return False
    operands: tuple[Operand, ...] = ("target", "swapped")
    for operand in operands:
        values, memory, layout = execute(program, waits, order, call, operand)
        if not is_right(program, call, values, memory, layout):
            continue
        for row in np.flatnonzero(differ).tolist()[:SHOWN]:
            kind = StepKind(int(steps.kind[row])).name.lower()
            text = (
                f"local/remote mix-up: src of {kind} is this gpu's own operand, but the file gives the sender's "
                "slot; the sum is wrong"
            )
            rule = "src = the local slot that is added (the result is right with the slots of dst)"
            hint = "write the local slot as src" if operand == "target" else "swap src and dst"
            findings.add(Finding("result", "X0132", text, program.step_location(row, "srcoff"), rule, hint))
        return True
    return False


def _has_targets_inside(program: FileProgram) -> bool:
    """Whether dst of every rrs is inside its buffer, which the contract does not require."""
    steps = program.steps
    rows = np.flatnonzero(steps.kind == StepKind.RRS)
    size = program.chunks[program.step_gpu[rows], steps.dstbuf[rows]]
    end = steps.dstoff[rows].astype(np.int64) + steps.cnt[rows]
    return bool(((steps.dstoff[rows] >= 0) & (end <= size)).all())


def calls_of(coll: str, root: int, expected: ExpectedResult | None, program: FileProgram) -> list[CollectiveCall]:
    """The calls that the file claims to serve: one for each placement."""
    flags = ((False, program.outofplace), (True, program.inplace))
    return [CollectiveCall(coll, root, inplace, expected) for inplace, claimed in flags if claimed]
