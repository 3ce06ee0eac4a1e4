"""Symbolic execution of a program: the contributions in every slot after it.

One order of steps suffices if there are no races (see `races`), since every other order then gives the same. Source
operands are local slots (docs/msccl-contract.md, section 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import ne
from typing import Final, Literal

import numpy as np

from collc.msccl.check.collectives import (
    REDUCING,
    ExpectedResult,
    MemoryLayout,
    buffer_sizes,
    memory_layout,
    wanted_copy,
    wanted_sums,
)
from collc.msccl.check.model import INPUT, OUTPUT, FileProgram
from collc.msccl.check.values import UNDEFINED, SymbolicValues
from collc.msccl.interpreter.data import Operands, Queues, StepData
from collc.msccl.interpreter.operations import StepKind
from collc.msccl.interpreter.replay import StepWaits
from collc.ten.arrays import Int64Array

Operand = Literal["source", "target", "swapped"]
"""The local slots that a receiving reduction reads: src, as the runtimes do; or dst, or dst with src as the target."""


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A call of a collective: its canonical name, root (-1: none), placement, and the result of a custom collective."""

    coll: str
    root: int
    inplace: bool
    expected: ExpectedResult | None = None


@dataclass(frozen=True, slots=True)
class WrongOutput:
    """An output slot with another value than it must hold; value, wanted: numbers of `SymbolicValues`."""

    rank: int
    slot: int
    value: int
    wanted: int


def buffer_chunks(program: FileProgram, coll: str, root: int) -> Int64Array:
    """int64[gpus, 3]: chunks of the buffers at run time, at least those of the collective."""
    chunks = program.chunks.copy()
    sizes = buffer_sizes(coll, program.ngpus, program.nchunksperloop)
    if sizes is not None and program.coll != "custom":
        for buffer in (INPUT, OUTPUT):
            grown = np.maximum(chunks[:, buffer], sizes[buffer])
            only_root = coll == ("scatter", "gather")[buffer]
            chunks[:, buffer] = (
                np.where(np.arange(program.ngpus) == root, grown, chunks[:, buffer]) if only_root else grown
            )
    return chunks


_SAME_OUTPUT: Final = ("allgather", "allreduce", "broadcast")
"""Collectives whose output is the same on all ranks."""


def layout_of(program: FileProgram, call: CollectiveCall) -> tuple[Int64Array, MemoryLayout]:
    """The chunks of the buffers, int64[gpus, 3], and their layout in the placement of a call."""
    chunks = buffer_chunks(program, call.coll, call.root)
    total = program.nchunksperloop
    return chunks, memory_layout(call.coll, chunks, total, inplace=call.inplace, root=max(0, call.root))


def execute(
    program: FileProgram, waits: StepWaits, order: Sequence[int], call: CollectiveCall, operand: Operand = "source"
) -> tuple[SymbolicValues, list[int], MemoryLayout]:
    """Execute the steps in order.

    Returns the values, the memory (the number of a value for each slot) and its layout.
    """
    chunks, layout = layout_of(program, call)
    values = SymbolicValues(program.ngpus, _width(program, call, chunks))
    memory = [UNDEFINED] * layout.size
    for rank in range(program.ngpus):
        start = int(layout.base[rank, INPUT])
        first = values.input(rank, 0)
        count = int(chunks[rank, INPUT])
        memory[start : start + count] = range(first, first + count)
    symbols = _Symbols(values, memory)
    data = StepData[list[int]](operands_of(program, waits, layout, operand), symbols, Queues(len(waits.sender)))
    for step in order:
        data.move(step, 0, data.operands.count[step])
    return values, memory, layout


def _width(program: FileProgram, call: CollectiveCall, chunks: Int64Array) -> int:
    """Most input chunks of a rank, present or wanted, so that every contribution has a number of its own."""
    sizes = buffer_sizes(call.coll, program.ngpus, program.nchunksperloop) or (1, 1)
    wanted = call.expected.width if call.expected is not None else 1
    return max(1, int(chunks[:, INPUT].max(initial=1)), sizes[INPUT], wanted)


@dataclass(frozen=True, slots=True)
class _Symbols:
    """The numbers of values in all slots, as a domain of the interpreter."""

    values: SymbolicValues
    memory: list[int]

    def load(self, slot: int, count: int) -> list[int]:
        return self.memory[slot : slot + count]

    def store(self, slot: int, data: list[int]) -> None:
        self.memory[slot : slot + len(data)] = data

    def add(self, first: list[int], second: list[int]) -> list[int]:
        return list(map(self.values.add, first, second))


def operands_of(program: FileProgram, waits: StepWaits, layout: MemoryLayout, operand: Operand = "source") -> Operands:
    """The operands of all steps in a memory."""
    source, target = program.operand_slots(layout.base)
    if operand != "source":
        reduces = np.isin(program.steps.kind, (StepKind.RRC, StepKind.RRS, StepKind.RRCS))
        swapped = np.where(reduces, target, source)
        if operand == "swapped":
            target = np.where(reduces, source, target)
        source = swapped
    kind, count = program.steps.kind.tolist(), program.steps.cnt.tolist()
    return Operands(kind, source.tolist(), target.tolist(), count, waits.receives, waits.sends)


def wrong_outputs(
    program: FileProgram,
    call: CollectiveCall,
    values: SymbolicValues,
    memory: list[int],
    layout: MemoryLayout,
    shown: int,
) -> tuple[list[WrongOutput], int]:
    """(the first output slots with wrong values, by rank and slot; the number of all). Slots beyond the output buffer
    are undefined. shown: how many slots there are at most for each rank.
    """
    first: list[WrongOutput] = []
    count = 0
    for slots, of_rank in _wrong_by_rank(program, call, values, memory, layout, shown):
        first += slots
        count += of_rank
    return first, count


def is_right(
    program: FileProgram, call: CollectiveCall, values: SymbolicValues, memory: list[int], layout: MemoryLayout
) -> bool:
    """Whether no output slot has a wrong value."""
    return not any(count for _, count in _wrong_by_rank(program, call, values, memory, layout, 0))


def _wrong_by_rank(
    program: FileProgram,
    call: CollectiveCall,
    values: SymbolicValues,
    memory: list[int],
    layout: MemoryLayout,
    shown: int,
) -> Iterator[tuple[list[WrongOutput], int]]:
    """For each rank with wrong slots, the first of them and their number."""
    held = buffer_chunks(program, call.coll, call.root)[:, OUTPUT].tolist()
    wanted: list[int] = []
    for rank in range(program.ngpus):
        base = int(layout.base[rank, OUTPUT])
        if call.expected is not None:
            wrong = _wrong_custom_outputs(rank, base, call.expected, values, memory)
            if wrong:
                yield wrong[:shown], len(wrong)
            continue
        if not rank or call.coll not in _SAME_OUTPUT:
            wanted = _wanted_values(program, call, rank, values)
        got = memory[base : base + min(len(wanted), held[rank])]
        got += [UNDEFINED] * (len(wanted) - len(got))
        if got != wanted:
            pairs = enumerate(zip(got, wanted, strict=True))
            slots = (WrongOutput(rank, slot, a, b) for slot, (a, b) in pairs if a != b)
            yield list(islice(slots, shown)), sum(map(ne, got, wanted))


def _wanted_values(program: FileProgram, call: CollectiveCall, rank: int, values: SymbolicValues) -> list[int]:
    ranks, total = program.ngpus, program.nchunksperloop
    if call.coll in REDUCING:
        chunks = wanted_sums(call.coll, rank, ranks, total, call.root)
        everyone = (1 << ranks) - 1
        return [values.number((((chunk, everyone),), ())) for chunk in chunks or ()]
    copies = wanted_copy(call.coll, rank, ranks, total, call.root)
    return [values.input(source, chunk) for source, chunk in copies or ()]


def _wrong_custom_outputs(
    rank: int, base: int, expected: ExpectedResult, values: SymbolicValues, memory: list[int]
) -> list[WrongOutput]:
    wrong: list[WrongOutput] = []
    for slot in expected.slots(rank):
        want = expected.outputs[rank, slot]
        got = memory[base + slot]
        if want.reduced:
            wanted = [values.sum_of(want.contributions)]
        else:
            wanted = sorted(values.input(*contribution) for contribution in want.contributions)
        if got not in wanted:
            wrong.append(WrongOutput(rank, slot, got, wanted[0] if wanted else UNDEFINED))
    return wrong
