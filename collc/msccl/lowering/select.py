"""First stage of lowering: messages become steps of GPUs, with a slot for every chunk.

A chunk that a GPU must end with is received in its slot of the output. A chunk that only passes through is received
in a scratch slot of its own (`scratch_slots` shares them later). Partial sums of an All-Reduce are kept in the output,
which the result overwrites. The input is never written out of place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby

from collc.msccl.collectives import BufferLayout
from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.program import ARRIVES, COPIES, LEAVES, Gpu, Moment, Op, Program, Slot, Step


@dataclass(slots=True)
class _GpuSelection:
    """Steps of one GPU while they are made. slots: the slot of the current value of each chunk; scratch: slots used."""

    rank: int
    inputs: dict[int, int]
    outputs: dict[int, int]
    slots: dict[int, Slot]
    steps: list[Step] = field(default_factory=list[Step])
    scratch: int = 0

    def home(self, chunk: int, current: Slot | None) -> Slot:
        """The slot for a value that arrives. current: the slot of what it is added to, None for a copy."""
        if chunk in self.outputs:
            return Slot("o", self.outputs[chunk])
        if current is not None and current.buffer == "s":
            return current
        self.scratch += 1
        return Slot("s", self.scratch - 1)


def select(program: Program, layout: BufferLayout) -> Program:
    """The program with the steps of each GPU, made of its messages and the layout of its buffers."""
    selections = [
        _GpuSelection(rank, inputs, outputs, {chunk: Slot("i", slot) for chunk, slot in inputs.items()})
        for rank, (inputs, outputs) in enumerate(zip(layout.inputs, layout.outputs, strict=True))
    ]
    for when, number in _moments(program):
        message = program.messages[number]
        selection = selections[message.target if when[1] == ARRIVES else message.source]
        current = selection.slots.get(message.chunk)
        if when[1] == LEAVES:
            selection.steps.append(Step(Op.SEND, when, 1, src=current, send=number))
        else:
            operand = current if message.reduce else None
            home = selection.home(message.chunk, operand)
            op = Op.RECEIVE if operand is None else Op.RECEIVE_REDUCE_COPY
            selection.steps.append(Step(op, when, 1, src=operand, dst=home, receive=number))
            selection.slots[message.chunk] = home
    gpus = tuple(_gpu(program, selection) for selection in selections)
    return replace(program, gpus=gpus, scratch_needed=sum(selection.scratch for selection in selections))


def _moments(program: Program) -> list[tuple[Moment, int]]:
    moments: list[tuple[Moment, int]] = []
    for number, message in enumerate(program.messages):
        moments.append(((message.start, LEAVES, number, 0), number))
        moments.append(((message.arrival, ARRIVES, number, 0), number))
    moments.sort()
    return moments


def _gpu(program: Program, selection: _GpuSelection) -> Gpu:
    inputs, outputs = len(selection.inputs), len(selection.outputs)
    collective = program.collective
    if collective.pad_buffers:
        inputs = outputs = collective.chunks_per_loop
    steps = sorted([*selection.steps, *_copies(program, selection)], key=lambda step: step.when)
    return Gpu(selection.rank, inputs, outputs, selection.scratch, tuple(steps))


def _copies(program: Program, selection: _GpuSelection) -> list[Step]:
    """Local copies of what must be in the output and is not, each at the time of its last reader."""
    missing = [
        (held, Slot("o", slot))
        for chunk, slot in selection.outputs.items()
        if (held := selection.slots.get(chunk)) is not None and held.buffer != "o"
    ]
    if program.placement.out_of_place:
        wanted = missing
    else:
        bases = program.collective.in_place_bases(selection.rank)
        wanted = [(a, b) for a, b in missing if a.offset + bases[0] != b.offset + bases[1]]
    return [_copy(selection, piece) for run in _runs(wanted) for piece in _pieces(program, run)]


def _pieces(program: Program, run: list[tuple[Slot, Slot]]) -> list[list[tuple[Slot, Slot]]]:
    """Pairs divided into steps that instances can take apart: whole groups of contiguous chunks, or parts of one."""
    most = max(1, MOST_CHUNKS // program.instances)
    if program.instances == 1:
        return [run[k : k + most] for k in range(0, len(run), most)]
    unit = program.collective.contiguous_chunks
    pieces: list[list[tuple[Slot, Slot]]] = []
    for _, group in groupby(run, key=lambda pair: (pair[0].offset // unit, pair[1].offset // unit)):
        part = list(group)
        last = pieces[-1] if pieces else []
        if last and len(part) == unit and len(last) % unit == 0 and len(last) + unit <= most:
            last += part
        else:
            pieces += [part[k : k + most] for k in range(0, len(part), most)]
    return pieces


def _runs(pairs: list[tuple[Slot, Slot]]) -> list[list[tuple[Slot, Slot]]]:
    """Pairs grouped so that neighbouring pairs are neighbours in both buffers."""
    ordered = sorted(pairs)
    keys = [(a.buffer, a.offset - k, b.offset - k) for k, (a, b) in enumerate(ordered)]
    numbered = groupby(range(len(ordered)), key=lambda k: keys[k])
    return [[ordered[k] for k in run] for _, run in numbered]


def _copy(selection: _GpuSelection, run: list[tuple[Slot, Slot]]) -> Step:
    sources = {a for a, _ in run}
    last = [s.when for s in selection.steps if s.src in sources]
    first = [s.when for s in selection.steps if s.op is Op.SEND][:1]
    when = max(last or first or [(0, LEAVES, 0, 0)])
    return Step(Op.COPY, (when[0], COPIES, run[0][1].offset, 0), len(run), src=run[0][0], dst=run[0][1])
