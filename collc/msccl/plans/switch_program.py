"""The program of a schedule that uses switches which add and multicast, after `select`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.msccl.collectives import BufferLayout, collective_of, layout_of
from collc.msccl.limits import LimitUse
from collc.msccl.lowering.precheck import precheck
from collc.msccl.lowering.select import blank_program, select
from collc.msccl.options import MscclOptions, Placement, Profile, Protocol
from collc.msccl.plans.large_groups import MOST_SIGNALLED, large_groups_fit
from collc.msccl.plans.precheck import nodes_of_ranks
from collc.msccl.plans.switches import PartialSum, switch_messages, switches_with_sums, uses_switches
from collc.msccl.program import ARRIVES, Gpu, Message, Op, Program, Slot, Step
from collc.msccl.slots import cut_messages, cut_to_slots
from collc.ten.demand import Demand
from collc.ten.demand import Op as DemandOp
from collc.ten.module import Module
from collc.ten.network import Network

_PARTIAL: Final = 1 << 40
"""Input offsets from here on stand for partial sums until `select` has made steps of them."""


def switch_program(module: Module, options: MscclOptions, placement: Placement, node: tuple[int, ...]) -> Program:
    """The program of a module whose schedule uses such switches, in or out of place. node: of each rank.

    Raises SourceError as `switch_messages` and `selected` do, M0117 if a switch joins several nodes, M0111 if it
    has more GPUs than a threadblock can signal.
    """
    precheck(module.network, module.demand, options)
    demand = cut_to_slots(module.demand)
    if demand is not module.demand:
        message = "chunks of several sizes in switches that add and multicast"
        raise SourceError(Diagnostic("M0107", message, hint="let all chunks have one size"))
    layout = layout_of(module.network, demand)
    options = replace(options, profile=Profile.OLD if options.custom else options.profile)
    collective = collective_of(module.network, demand, layout, options.profile, custom=options.custom)
    messages, sums = switch_messages(module)
    messages = _inputs_at_once(messages, layout, {(one.rank, one.chunk) for one in sums})
    _check_groups(messages, sums, node, options.instances)
    cut = cut_messages(_with_equal_slots(messages, layout), module.demand)
    program = replace(blank_program(module, options, collective, cut), placement=placement)
    numbers = {(one.rank, one.chunk): number for number, one in enumerate(sums)}
    partials = [
        {chunk: _PARTIAL + numbers[rank, chunk] if (rank, chunk) in numbers else slot for chunk, slot in slots.items()}
        for rank, slots in enumerate(layout.inputs)
    ]
    chosen = select(program, BufferLayout(tuple(partials), layout.outputs))
    return replace(chosen, gpus=tuple(_with_sums(chosen, gpu, layout, sums) for gpu in chosen.gpus))


_STORED: Final = ("all_reduce", "all_gather", "broadcast")
"""Collectives of which switches can do a part: others would load sums for single GPUs, or store nothing to all."""


def may_use_switches(network: Network, demand: Demand, options: MscclOptions) -> bool:
    """Whether a plan of this demand can use switches that add and multicast."""
    run = next(iter(demand.runs))
    standard = run.standard
    if len(demand.runs) > 1 or standard is None or standard.kind not in _STORED:
        return False
    if not switches_with_sums(network).any():
        return False
    whole = np.array_equal(run.group, network.npus)
    plain = options.protocol is Protocol.SIMPLE and not options.custom
    return whole and plain and standard.op in (DemandOp.COPY, DemandOp.SUM)


def has_plan(module: Module, options: MscclOptions) -> bool:
    """Whether what a schedule does in switches has operations in MSCCL++."""
    try:
        if uses_switches(module):
            _check_groups(*switch_messages(module), nodes_of_ranks(module.network, options), options.instances)
    except SourceError:
        return False
    return True


def _check_groups(messages: list[Message], sums: list[PartialSum], node: tuple[int, ...], instances: int) -> None:
    groups = {message.switch.ranks for message in messages if message.switch is not None}
    for ranks in sorted(groups | {one.access.ranks for one in sums}):
        if len({node[rank] for rank in ranks}) > 1:
            message = "a switch that adds and multicasts joins GPUs of several nodes"
            raise SourceError(Diagnostic("M0117", message, hint="use a larger 'gpus_per_node', or leave it out"))
        most = MOST_SIGNALLED + 1
        if len(ranks) > most and (sums or not large_groups_fit(messages, instances)):
            hint = "declare the switch with 'reduce: false'"
            raise LimitUse("GPUs of one switch channel", len(ranks), most, hint).error("MSCCL++ plan")


def _inputs_at_once(messages: list[Message], layout: BufferLayout, later: set[tuple[int, int]]) -> list[Message]:
    """The messages; those by which switches store inputs start at once, since the switches put them in turn.

    later: (rank, chunk) of inputs that a GPU adds to before.
    """

    def ready(message: Message) -> bool:
        held = (message.source, message.chunk)
        return message.switch is not None and message.chunk in layout.inputs[message.source] and held not in later

    found = [replace(message, start=0) if ready(message) else message for message in messages]
    return sorted(found, key=lambda message: message.start)


def _with_equal_slots(messages: list[Message], layout: BufferLayout) -> list[Message]:
    """The messages; those whose chunk does not lie at one offset of all outputs are stored one by one."""

    def equal(message: Message) -> bool:
        ranks = message.switch.ranks if message.switch else ()
        return len({layout.outputs[rank].get(message.chunk, -1 - rank) for rank in ranks}) == 1

    return [m if m.switch is None or m.switch.adds or equal(m) else replace(m, switch=None) for m in messages]


def _with_sums(program: Program, gpu: Gpu, layout: BufferLayout, sums: list[PartialSum]) -> Gpu:
    """The steps of a GPU with the sums that switches make for it, and without copies of what switches store."""
    outputs = layout.outputs[gpu.rank]

    def moved_slot(slot: Slot | None) -> Slot | None:
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
        here = replace(step, src=moved_slot(step.src), dst=moved_slot(step.dst))
        message = program.messages[step.send] if step.op is Op.SEND else None
        if message is not None and message.switch is not None:
            here = replace(here, dst=Slot("o", outputs[message.chunk]))
            covered.add(Slot("o", outputs[message.chunk]))
        steps.append(here)
    steps = [part for step in steps for part in _without_covered_slots(step, covered)]
    scratch = len(sums) + max(one.scratch_chunks for one in program.gpus) if sums else gpu.scratch_chunks
    return replace(gpu, steps=tuple(sorted(steps, key=lambda step: step.when)), scratch_chunks=scratch)


def _without_covered_slots(step: Step, covered: set[Slot]) -> list[Step]:
    """A step; of a copy to slots of which a switch stores some, one for each of the others."""
    if step.op is not Op.COPY or step.switch is not None or not covered & set(step.writes()):
        return [step]
    pairs = zip(step.reads(), step.writes(), strict=True)
    return [
        replace(step, when=(*step.when[:2], to.offset, step.when[3]), count=1, src=held, dst=to)
        for held, to in pairs
        if to not in covered
    ]
