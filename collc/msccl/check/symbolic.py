"""Symbolic execution of an MSCCL file: the contributions in every slot after it.

One order of steps suffices if there are no races (see `races`), since every other order then gives the same. Source
operands are local slots (docs/msccl-contract.md, section 3).
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from collc.msccl.check.collectives import ExpectedResult
from collc.msccl.check.findings import PER_CODE, FileLocation, Finding, Findings
from collc.msccl.check.model import FileProgram
from collc.msccl.check.results import CollectiveCall, SymbolicState, WrongOutput, check_outputs, find_root, is_right
from collc.runtime.collectives import INPUT, OUTPUT, MemoryLayout, memory_layout, runtime_chunks
from collc.runtime.data import Memory, Operands, Queues, StepData
from collc.runtime.operations import WRITES, StepKind
from collc.ten.arrays import Int64Array

Operand = Literal["source", "target", "swapped"]
"""The local slots that a receiving reduction reads: src, as the runtimes do; or dst, or dst with src as the target."""

_REDUCING: Final = (StepKind.RRC, StepKind.RRS, StepKind.RRCS)


def call_of(
    program: FileProgram, coll: str, root: int, *, inplace: bool, expected: ExpectedResult | None = None
) -> CollectiveCall:
    """A call of the collective of a file. coll, root, expected: as in `CollectiveCall`."""
    return CollectiveCall(coll, program.ngpus, program.nchunksperloop, root, inplace, expected)


def placements_of(program: FileProgram) -> list[bool]:
    """Whether the calls are in place: for each placement that the file claims to serve."""
    return [inplace for inplace, claimed in ((False, program.outofplace), (True, program.inplace)) if claimed]


def layout_of(program: FileProgram, call: CollectiveCall) -> tuple[Int64Array, MemoryLayout]:
    """The chunks of the buffers, int64[gpus, 3], and their layout in the placement of a call."""
    chunks = runtime_chunks(call.coll, program.chunks, call.total, call.root)
    return chunks, memory_layout(call.coll, chunks, call.total, inplace=call.inplace, root=max(0, call.root))


def execute(program: FileProgram, call: CollectiveCall, operand: Operand = "source") -> SymbolicState:
    """Execute the steps in one possible order. Returns the memory after them."""
    chunks, layout = layout_of(program, call)
    state = SymbolicState.initial(call, layout, chunks[:, INPUT].tolist(), chunks[:, OUTPUT].tolist())
    memory = Memory(state.memory, lambda first, second: list(map(state.values.add, first, second)))
    operands = operands_of(program, layout, operand)
    data = StepData[list[int]](operands, memory, Queues(len(program.connections)))
    for step in program.unlimited_run[0]:
        data.move(step, 0, operands.count[step])
    return state


def operands_of(program: FileProgram, layout: MemoryLayout, operand: Operand = "source") -> Operands:
    """The operands of all steps in a memory."""
    source, target = program.operand_slots(layout.base)
    if operand != "source":
        reduces = np.isin(program.steps.kind, _REDUCING)
        swapped = np.where(reduces, target, source)
        if operand == "swapped":
            target = np.where(reduces, source, target)
        source = swapped
    kind, count = program.steps.kind.tolist(), program.steps.cnt.tolist()
    return Operands(kind, source.tolist(), target.tolist(), count, program.waits.receives, program.waits.sends)


def root_of(program: FileProgram, coll: str) -> int:
    """The rank with which as root the result is right; the likeliest one if there is none."""
    call = call_of(program, coll, 0, inplace=not program.outofplace)
    return find_root(call, lambda tried: execute(program, tried), len(program.steps))


def check_result(program: FileProgram, call: CollectiveCall, findings: Findings) -> None:
    """Compare every output slot of every rank with the collective's postcondition, in one placement."""
    state = execute(program, call)
    if is_right(call, state) or _finds_mix_up(program, call, findings):
        return
    steps, last = program.steps, dict[int, int]()
    target = program.operand_slots(state.layout.base)[1].tolist()
    for step in program.unlimited_run[0]:
        if WRITES[steps.kind[step]]:
            last.update(dict.fromkeys(range(target[step], target[step] + int(steps.cnt[step])), step))

    def location_of(miss: WrongOutput) -> FileLocation:
        slot = int(state.layout.base[miss.rank, OUTPUT]) + miss.slot
        return program.step_location(last[slot], "dstoff") if slot in last else program.gpu_location(miss.rank)

    check_outputs(call, state, "X0131", location_of, findings)


def _finds_mix_up(program: FileProgram, call: CollectiveCall, findings: Findings) -> bool:
    """Whether the result is right if src of reductions is the sender's slot, as a public tool writes it.

    Adds a finding (X0132) for each such step then.
    """
    steps = program.steps
    differ = np.isin(steps.kind, _REDUCING) & ((steps.srcbuf != steps.dstbuf) | (steps.srcoff != steps.dstoff))
    if not differ.any() or not _has_targets_inside(program):
        return False
    operands: tuple[Operand, ...] = ("target", "swapped")
    for operand in operands:
        if not is_right(call, execute(program, call, operand)):
            continue
        for row in np.flatnonzero(differ).tolist()[: PER_CODE + 1]:
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
