"""First stage of lowering: messages become steps of GPUs, with a place for every chunk.

A chunk that a GPU must end with goes straight to its slot of the output; one that only passes
through goes to a scratch slot of its own (`place` shares them later). Partial sums of All-Reduce
gather in the output, which the result overwrites; the input is never written out of place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby

from collc.msccl.collectives import BufferLayout
from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.program import ARRIVES, COPIES, LEAVES, Gpu, Moment, Op, Program, Slot, Step


@dataclass(slots=True)
class _GpuSelection:
    """One GPU while its steps are chosen. place: where the current value of each chunk is."""

    rank: int
    inputs: dict[int, int]
    outputs: dict[int, int]
    place: dict[int, Slot]
    steps: list[Step] = field(default_factory=list[Step])
    scratch: int = 0

    def home(self, chunk: int, current: Slot | None) -> Slot:
        """Where a value that arrives goes; `current` is what it is combined with."""
        if chunk in self.outputs:
            return Slot("o", self.outputs[chunk])
        if current is not None and current.buffer == "s":
            return current
        self.scratch += 1
        return Slot("s", self.scratch - 1)


def select(program: Program, layout: BufferLayout) -> Program:
    """The program with the steps of each GPU, from its messages and the layout of its buffers."""
    selections = [
        _GpuSelection(rank, inputs, outputs, {chunk: Slot("i", slot) for chunk, slot in inputs.items()})
        for rank, (inputs, outputs) in enumerate(zip(layout.inputs, layout.outputs, strict=True))
    ]
    for when, number in _moments(program):
        message = program.messages[number]
        selection = selections[message.target if when[1] == ARRIVES else message.source]
        current = selection.place.get(message.chunk)
        if when[1] == LEAVES:
            selection.steps.append(Step(Op.SEND, when, 1, src=current, send=number))
        else:
            operand = current if message.reduce else None
            home = selection.home(message.chunk, operand)
            op = Op.RECEIVE if operand is None else Op.RECEIVE_REDUCE_COPY
            selection.steps.append(Step(op, when, 1, src=operand, dst=home, receive=number))
            selection.place[message.chunk] = home
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
    if collective.pads:
        inputs = outputs = collective.chunks_per_loop
    steps = sorted([*selection.steps, *_copies(program, selection)], key=lambda step: step.when)
    return Gpu(selection.rank, inputs, outputs, selection.scratch, tuple(steps))


def _copies(program: Program, selection: _GpuSelection) -> list[Step]:
    """Local copies of what is not in the output yet, as early as its last reader allows."""
    missing = [
        (place, Slot("o", slot))
        for chunk, slot in selection.outputs.items()
        if (place := selection.place.get(chunk)) is not None and place.buffer != "o"
    ]
    if program.placement.out_of_place:
        wanted = missing
    else:
        bases = program.collective.bases(selection.rank)
        wanted = [(a, b) for a, b in missing if a.offset + bases[0] != b.offset + bases[1]]
    return [_copy(selection, piece) for run in _runs(wanted) for piece in _pieces(program, run)]


def _pieces(program: Program, run: list[tuple[Slot, Slot]]) -> list[list[tuple[Slot, Slot]]]:
    """Pairs in steps that instances can make together or apart: some units, or a part of one."""
    most = max(1, MOST_CHUNKS // program.instances)
    if program.instances == 1:
        return [run[k : k + most] for k in range(0, len(run), most)]
    unit = program.collective.unit
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
    """Pairs whose slots neighbour on both sides, together."""
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
