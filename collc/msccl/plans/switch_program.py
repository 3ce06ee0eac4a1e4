"""The program of a schedule that uses switches which add and multicast, after `select`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError
from collc.msccl.collectives import BufferLayout, collective_of, layout_of
from collc.msccl.limits import LimitUse
from collc.msccl.lowering.precheck import precheck
from collc.msccl.lowering.select import select
from collc.msccl.options import MscclOptions, Placement, Profile
from collc.msccl.plans.switches import MOST_GPUS, PartialSum, switch_messages
from collc.msccl.program import ARRIVES, Gpu, Message, Op, Program, Slot, Step
from collc.msccl.slots import cut_messages, cut_to_slots, slot_bytes
from collc.ten.module import Module

_PARTIAL: Final = 1 << 40
"""Input offsets from here on stand for partial sums until `select` has made steps of them."""


def switch_program(module: Module, options: MscclOptions, placement: Placement, node: tuple[int, ...]) -> Program:
    """The program of a module whose schedule uses such switches, in or out of place. node: of each rank.

    Raises SourceError as `switch_messages` and `selected` do, M0117 where a switch joins several nodes, M0111 where it
    has more GPUs than a threadblock can signal.
    """
    precheck(module.network, module.demand, options)
    demand = cut_to_slots(module.demand)
    if demand is not module.demand:
        message = "chunks of several sizes in switches that add and multicast"
        raise SourceError(Diagnostic("M0107", message, hint="let all chunks have one size"))
    layout = layout_of(module.network, demand)
    profile = Profile.OLD if options.custom else options.profile
    collective = collective_of(module.network, demand, layout, profile, custom=options.custom)
    messages, sums = switch_messages(module)
    _check_groups(messages, sums, node)
    program = Program(
        name=module.name if collective.root < 0 else f"{module.name} root {collective.root}",
        collective=collective,
        profile=profile,
        protocol=options.protocol,
        placement=placement,
        sizes=options.sizes,
        chunk_bytes=slot_bytes(demand),
        instances=options.instances,
        channels=1,
        messages=tuple(cut_messages(_with_equal_slots(messages, layout), module.demand)),
        gpus=(),
    )
    place = {(one.rank, one.chunk): number for number, one in enumerate(sums)}
    partials = [
        {chunk: _PARTIAL + place[rank, chunk] if (rank, chunk) in place else slot for chunk, slot in slots.items()}
        for rank, slots in enumerate(layout.inputs)
    ]
    chosen = select(program, BufferLayout(tuple(partials), layout.outputs))
    return replace(chosen, gpus=tuple(_with_sums(chosen, gpu, layout, sums) for gpu in chosen.gpus))


def _check_groups(messages: list[Message], sums: list[PartialSum], node: tuple[int, ...]) -> None:
    groups = {message.switch.ranks for message in messages if message.switch is not None}
    for ranks in sorted(groups | {one.access.ranks for one in sums}):
        if len({node[rank] for rank in ranks}) > 1:
            message = "a switch that adds and multicasts joins GPUs of several nodes"
            raise SourceError(Diagnostic("M0117", message, hint="say a larger 'gpus_per_node', or leave it out"))
        if len(ranks) > MOST_GPUS:
            hint = "declare the switch with 'reduce: false'"
            raise LimitUse("GPUs of one switch channel", len(ranks), MOST_GPUS, hint).error("MSCCL++ plan")


def _with_equal_slots(messages: list[Message], layout: BufferLayout) -> list[Message]:
    """The messages; those whose chunk does not lie at one offset of all outputs are stored one by one."""

    def equal(message: Message) -> bool:
        ranks = message.switch.ranks if message.switch else ()
        return len({layout.outputs[rank].get(message.chunk, -1 - rank) for rank in ranks}) == 1

    return [m if m.switch is None or m.switch.adds or equal(m) else replace(m, switch=None) for m in messages]


def _with_sums(program: Program, gpu: Gpu, layout: BufferLayout, sums: list[PartialSum]) -> Gpu:
    """The steps of a GPU with the sums that switches make for it, and without copies of what switches store."""
    outputs = layout.outputs[gpu.rank]

    def moved(slot: Slot | None) -> Slot | None:
        if slot is None or slot.buffer == "o" or (slot.buffer == "i" and slot.offset < _PARTIAL):
            return slot
        return Slot("s", slot.offset - _PARTIAL if slot.buffer == "i" else slot.offset + len(sums))

    steps = [
        Step(
            Op.COPY,
            (one.when, ARRIVES, -1, number),
            1,
            Slot("i", layout.inputs[gpu.rank][one.chunk]),
            Slot("s", number),
            switch=one.access,
        )
        for number, one in enumerate(sums)
        if one.rank == gpu.rank
    ]
    covered: set[Slot] = set()
    for step in gpu.steps:
        here = replace(step, src=moved(step.src), dst=moved(step.dst))
        message = program.messages[step.send] if step.op is Op.SEND else None
        if message is not None and message.switch is not None:
            here = replace(here, dst=Slot("o", outputs[message.chunk]))
            covered.add(Slot("o", outputs[message.chunk]))
        steps.append(here)
    steps = [part for step in steps for part in _uncovered(step, covered)]
    scratch = len(sums) + max(one.scratch_chunks for one in program.gpus) if sums else gpu.scratch_chunks
    return replace(gpu, steps=tuple(sorted(steps, key=lambda step: step.when)), scratch_chunks=scratch)


def _uncovered(step: Step, covered: set[Slot]) -> list[Step]:
    """A step; of a copy to slots of which a switch stores some, one for each of the others."""
    if step.op is not Op.COPY or step.switch is not None or not covered & set(step.writes()):
        return [step]
    pairs = zip(step.reads(), step.writes(), strict=True)
    return [
        replace(step, when=(*step.when[:2], to.offset, step.when[3]), count=1, src=held, dst=to)
        for held, to in pairs
        if to not in covered
    ]
