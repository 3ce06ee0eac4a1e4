"""First stage of lowering: messages become steps of GPUs, with a slot for every chunk.

A chunk that a GPU must end with is received in its slot of the output. A chunk that only passes through is received
in a scratch slot of its own (`scratch_slots` shares them later). Partial sums of an All-Reduce are kept in the output,
which the result overwrites. The input is never written out of place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from collc.base.units import format_bytes
from collc.msccl.collectives import BufferLayout, Collective, collective_of, layout_of
from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.lowering.exchange import exchange_alike_gpus
from collc.msccl.lowering.messages import messages_of
from collc.msccl.lowering.precheck import NO_PLACEMENT, check_message_count, impossible_placement, precheck
from collc.msccl.options import MscclOptions, Placement, Profile
from collc.msccl.program import ARRIVES, COPIES, LEAVES, Gpu, Message, Moment, Op, Program, Slot, Step
from collc.msccl.slots import cut_messages, cut_to_slots, slot_bytes, slots_together, with_common_slots
from collc.ten.module import Module

_RCCL_NOTE: Final = (
    "RCCL reads the file up to ROCm 7.12 and ignores it from 7.13 on; set RCCL_MSCCL_FORCE_ENABLE=1 on all ranks, "
    "except on fully connected nodes of 8 or 16 MI300X"
)

_EXCHANGED_NOTE: Final = (
    "equivalent GPUs (under an automorphism of the network and the collective) are exchanged in the schedule, so that "
    "messages that reach a switch together leave it in the order of the schedule"
)


def first_program(
    module: Module, options: MscclOptions, *, several_slots: bool = False, common: bool = False
) -> Program:
    """The program after `select`: its steps belong to no threadblock yet.

    several_slots: whether messages of chunks that are cut have several slots each if there would be too many. common:
    whether an All-Reduce has slots that usual sizes divide by (`with_common_slots`); its messages have several then.
    Raises SourceError as `lower` does, except for limits.
    """
    precheck(module.network, module.demand, options)
    _check_messages(module)
    whole = with_common_slots(module, options) if common else module.demand
    demand = cut_to_slots(whole)
    layout = layout_of(module.network, demand)
    collective = collective_of(module.network, demand, layout, options.profile, custom=options.custom)
    messages, resent = messages_of(module)
    # The parts of an instance are no neighbours in a custom collective, so that each moves alone.
    together = slots_together(messages, whole) if several_slots and options.instances == 1 else 1
    together = together if whole is module.demand else MOST_CHUNKS
    program = blank_program(module, options, collective, cut_messages(messages, whole, together))
    program = replace(program, chunk_bytes=slot_bytes(whole))
    placement, note = _placement(program, layout, options)
    notes = [note] if note else []
    if whole is not module.demand:
        blocks = f"{len(whole.chunks)} blocks of {whole.chunks.size.min() // program.chunk_bytes}"
        notes.append(f"{len(demand.chunks)} chunks, {blocks} or one more, so that powers of two are served")
    elif demand is not module.demand:
        notes.append(f"chunks of several sizes are cut into slots of {format_bytes(program.chunk_bytes)}")
    if collective.root >= 0 and options.profile is not Profile.RUN:
        notes.append(f"for root {collective.root} alone: the runtime uses the file for any root")
    if collective.root >= 0 and placement is not Placement.BOTH:
        where = "in" if placement.in_place else "out of"
        notes.append(
            f"for calls {where} place alone, which each rank decides by its own pointers: if the root is in place and "
            "other ranks are not, or the other way round, only some ranks use the file, and the call hangs"
        )
    if options.profile is Profile.RCCL:
        notes.append(_RCCL_NOTE)
    if resent:
        notes.append(f"{resent} messages are sent again by GPUs, since a switch forwards each message once")
    return select(replace(program, placement=placement, notes=tuple(notes)), layout)


def _check_messages(module: Module) -> None:
    """Raise SourceError M0111 if the schedule of a module has too many messages."""
    network = module.network
    from_gpus = network.source < network.npu_count
    if module.schedule is not None:
        check_message_count(sum(int(from_gpus[rows.link].sum()) for rows in module.schedule.blocks()))


def blank_program(module: Module, options: MscclOptions, collective: Collective, messages: list[Message]) -> Program:
    """A program out of place without steps, for messages that are cut to slots."""
    return Program(
        name=module.name if collective.root < 0 else f"{module.name} root {collective.root}",
        collective=collective,
        profile=options.profile,
        protocol=options.protocol,
        placement=Placement.OUT,
        sizes=options.sizes,
        chunk_bytes=slot_bytes(module.demand),
        instances=options.instances,
        channels=1,
        messages=tuple(messages),
        gpus=(),
    )


def _placement(program: Program, layout: BufferLayout, options: MscclOptions) -> tuple[Placement, str]:
    """The placement that was requested, or else every one in which the program is right; and a note on what is not.

    Raises SourceError M0109 if the requested placement is impossible.
    """
    obstacle = _in_place_obstacle(program, layout)
    if options.placement is None:
        return (Placement.OUT, f"out of place only: {obstacle}") if obstacle else (Placement.BOTH, "")
    if obstacle and options.placement.in_place:
        raise impossible_placement(options.placement, obstacle)
    return options.placement, ""


def _in_place_obstacle(program: Program, layout: BufferLayout) -> str:
    """Why the program cannot run in place, or "".

    In an All-to-All in place, a block that a rank receives replaces one that it sends, which must have left before.
    """
    collective = program.collective
    if not collective.has_in_place:
        return NO_PLACEMENT
    if collective.kind != "all_to_all":
        return ""
    last_read = {
        (m.source, layout.inputs[m.source][m.chunk]): (m.start, LEAVES)
        for m in program.messages
        if m.chunk in layout.inputs[m.source]
    }
    for message in program.messages:
        slot = layout.outputs[message.target].get(message.chunk)
        if slot is not None and last_read.get((message.target, slot), (-1, 0)) > (message.arrival, ARRIVES):
            return f"block {slot} of rank {message.target} arrives before the one that it replaces has left"
    return ""


def exchanged_program(start: Program, module: Module) -> Program:
    """The program after `select` with alike GPUs exchanged; the program itself if no exchange is possible or helps."""
    is_cut = start.chunk_bytes != slot_bytes(module.demand)  # as in `with_common_slots`
    if is_cut or any(message.relayed >= 0 for message in start.messages):
        return start
    messages = exchange_alike_gpus(start.messages, module.network, module.demand)
    if messages is start.messages:
        return start
    program = replace(start, messages=messages, gpus=(), scratch_needed=0, notes=(*start.notes, _EXCHANGED_NOTE))
    return select(program, layout_of(module.network, cut_to_slots(module.demand)))


@dataclass(slots=True)
class _GpuSelection:
    """Steps of one GPU while they are made.

    slots: the slot of the current value of each chunk. scratch: slots used. apart: by link and chunk, the slot of what
    came over the link last, if it is relayed.
    """

    rank: int
    inputs: dict[int, int]
    outputs: dict[int, int]
    slots: dict[int, Slot]
    steps: list[Step] = field(default_factory=list[Step])
    scratch: int = 0
    apart: dict[tuple[int, int], Slot] = field(default_factory=dict[tuple[int, int], Slot])

    def home(self, message: Message, current: Slot | None) -> Slot:
        """The first slot for what a message brings. current: the slot of what it is added to, None for a copy."""
        if message.chunk in self.outputs:
            return Slot("o", self.outputs[message.chunk])
        if current is not None and current.buffer == "s":
            return current
        return self.fresh(message.count)

    def fresh(self, count: int) -> Slot:
        """The first of scratch slots of their own."""
        self.scratch += count
        return Slot("s", self.scratch - count)

    def hold(self, message: Message, home: Slot) -> None:
        """Record where the chunks of a message are, from the first slot on."""
        for k in range(message.count):
            self.slots[message.chunk + k] = Slot(home.buffer, home.offset + k)

    def keep_apart(self, message: Message, number: int, when: Moment) -> None:
        """Receive a partial that is relayed later in a slot of its own, and add it to the value there is, unless it is
        only kept.
        """
        chunk, count = message.chunk, message.count
        kept = self.apart[message.path[-1], chunk] = self.fresh(count)
        self.steps.append(Step(Op.RECEIVE, when, count, dst=kept, receive=number))
        if message.kept:
            return
        current = self.slots.get(chunk)
        home = self.home(message, current if message.reduce else None)
        later = [(*when[:3], tie) for tie in (1, 2)]
        if current is None or not message.reduce:
            self.steps.append(Step(Op.COPY, later[0], count, src=kept, dst=home))
        else:
            if current != home:
                self.steps.append(Step(Op.COPY, later[0], count, src=current, dst=home))
            self.steps.append(Step(Op.REDUCE, later[1], count, src=kept, dst=home))
        self.hold(message, home)


def select(program: Program, layout: BufferLayout) -> Program:
    """The program with the steps of each GPU, made of its messages and the layout of its buffers."""
    selections = [
        _GpuSelection(rank, inputs, outputs, {chunk: Slot("i", slot) for chunk, slot in inputs.items()})
        for rank, (inputs, outputs) in enumerate(zip(layout.inputs, layout.outputs, strict=True))
    ]
    moments = _moments(program)
    relayed = _relayed_messages(program, moments)
    for when, number in moments:
        message = program.messages[number]
        selection = selections[message.target if when[1] == ARRIVES else message.source]
        current = selection.slots.get(message.chunk)
        if when[1] == LEAVES:
            if message.relayed >= 0:
                current = selection.apart[message.relayed, message.chunk]
            selection.steps.append(Step(Op.SEND, when, message.count, src=current, send=number))
        elif number in relayed:
            selection.keep_apart(message, number, when)
        else:
            operand = current if message.reduce else None
            home = selection.home(message, operand)
            op = Op.RECEIVE if operand is None else Op.RECEIVE_REDUCE_COPY
            selection.steps.append(Step(op, when, message.count, src=operand, dst=home, receive=number))
            selection.hold(message, home)
    gpus = tuple(_gpu(program, selection) for selection in selections)
    return replace(program, gpus=gpus, scratch_needed=sum(selection.scratch for selection in selections))


def _relayed_messages(program: Program, moments: list[tuple[Moment, int]]) -> set[int]:
    """The messages that are relayed: those that came last over the link that a later message names."""
    last: dict[tuple[int, int], int] = {}
    found: set[int] = set()
    for when, number in moments:
        message = program.messages[number]
        if when[1] == ARRIVES:
            last[message.path[-1], message.chunk] = number
        elif message.relayed >= 0:
            found.add(last[message.relayed, message.chunk])
    return found


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
