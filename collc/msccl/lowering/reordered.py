"""First programs: the messages of a schedule and the steps of each GPU, in the order of the schedule or another one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

from collc.base.units import format_bytes
from collc.msccl.collectives import BufferLayout, collective_of, layout_of
from collc.msccl.lowering.alike import exchanged_messages
from collc.msccl.lowering.eager import eager_messages
from collc.msccl.lowering.messages import messages_of
from collc.msccl.lowering.precheck import NO_PLACEMENT, impossible_placement, precheck
from collc.msccl.lowering.quality import TOLERATED_SLOWDOWN
from collc.msccl.lowering.select import select
from collc.msccl.options import MscclOptions, Placement, Profile
from collc.msccl.program import ARRIVES, LEAVES, Program
from collc.msccl.slots import cut_messages, cut_to_slots, slot_bytes, slots_together
from collc.ten.module import Module

_RCCL_NOTE: Final = (
    "RCCL reads the file up to ROCm 7.12 and ignores it from 7.13 on; set RCCL_MSCCL_FORCE_ENABLE=1 on all ranks, "
    "except on fully connected nodes of 8 or 16 MI300X"
)

_EXCHANGED_NOTE: Final = (
    "equivalent GPUs (under an automorphism of the network and the collective) are exchanged in the schedule, so that "
    "messages that reach a switch together leave it in the order of the schedule"
)


def selected(module: Module, options: MscclOptions, *, several_slots: bool = False) -> Program:
    """The program after `select`: its steps belong to no threadblock yet.

    several_slots: whether messages of chunks that are cut have several slots each where there would be too many.
    Raises SourceError as `lower` does, except for limits.
    """
    precheck(module.network, module.demand, options)
    demand = cut_to_slots(module.demand)
    layout = layout_of(module.network, demand)
    collective = collective_of(module.network, demand, layout, options.profile, custom=options.custom)
    messages, resent = messages_of(module)
    # The parts of an instance are no neighbours in a custom collective, so that each moves alone.
    together = slots_together(messages, module.demand) if several_slots and options.instances == 1 else 1
    program = Program(
        name=module.name if collective.root < 0 else f"{module.name} root {collective.root}",
        collective=collective,
        profile=options.profile,
        protocol=options.protocol,
        placement=Placement.OUT,
        sizes=options.sizes,
        chunk_bytes=slot_bytes(demand),
        instances=options.instances,
        channels=1,
        messages=tuple(cut_messages(messages, module.demand, together)),
        gpus=(),
    )
    placement, note = _placement(program, layout, options)
    notes = [note] if note else []
    if demand is not module.demand:
        notes.append(f"chunks of several sizes are cut into slots of {format_bytes(program.chunk_bytes)}")
    if collective.root >= 0:
        notes.append(f"for root {collective.root} alone: the runtime uses the file for any root")
    if options.profile is Profile.RCCL:
        notes.append(_RCCL_NOTE)
    if resent:
        notes.append(f"{resent} messages are sent again by GPUs where a switch forwards a chunk more than once")
    return select(replace(program, placement=placement, notes=tuple(notes)), layout)


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


def eager(start: Program, module: Module) -> Program | None:
    """A program after `select` with messages as early as they can be; None where that is not possible.

    It is not where partials are relayed, nor where in place a block would arrive before the one that it replaces has
    left.
    """
    if module.schedule is None or any(message.relayed >= 0 for message in start.messages):
        return None
    layout = layout_of(module.network, cut_to_slots(module.demand))
    messages = eager_messages(start.messages, start.chunk_bytes, module.network, module.schedule.model)
    program = replace(start, messages=messages, gpus=(), scratch_needed=0)
    if program.placement.in_place and _in_place_obstacle(program, layout):
        return None
    return select(program, layout)


def exchanged(start: Program, module: Module, good: Fraction) -> Program | None:
    """As `eager`, with GPUs that are alike exchanged; None also where that takes no less time.

    good: a time, over that of the schedule, at which no better exchange is looked for; after some tries, one that is
    tolerated is enough.
    """
    if module.schedule is None or any(message.relayed >= 0 for message in start.messages):
        return None
    enough = tuple(int(share * module.collective_time()) for share in (good, TOLERATED_SLOWDOWN))
    network, model = module.network, module.schedule.model
    messages = exchanged_messages(start.messages, start.chunk_bytes, network, module.demand, model, *enough)
    if messages is start.messages:
        return None
    return eager(replace(start, messages=messages, notes=(*start.notes, _EXCHANGED_NOTE)), module)
