"""What a schedule does in switches that add and multicast, as a program with operations over switch channels (NVLS).

Contributions that meet in such a switch, and what it sends to all its GPUs, are one operation of one GPU, which loads
the sum of all (or its own chunk) and stores it to all. MSCCL++ has no operation that loads a sum for one GPU alone, so
the sum for a GPU that passes it on to other nodes is stored in the scratch of all.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn

import numpy as np

from collc.base.diagnostics import Diagnostic, Note, SourceError
from collc.base.disjoint_sets import DisjointSets
from collc.msccl.collectives import BufferLayout, collective_of, layout_of
from collc.msccl.limits import PLAN_CHANNELS, LimitUse
from collc.msccl.lowering.messages import messages_between
from collc.msccl.lowering.precheck import precheck
from collc.msccl.lowering.select import blank_program, select
from collc.msccl.options import MscclOptions, Placement, Profile, Protocol
from collc.msccl.plans.precheck import nodes_of_ranks
from collc.msccl.plans.switch_blocks import large_groups_fit
from collc.msccl.program import ARRIVES, Gpu, Message, Op, Program, Slot, Step, SwitchAccess
from collc.msccl.slots import cut_messages, cut_to_slots
from collc.ten.arrays import BoolArray
from collc.ten.demand import Demand
from collc.ten.demand import Op as DemandOp
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule


@dataclass(frozen=True, slots=True)
class PartialSum:
    """The sum of a chunk over the GPUs of a switch, for one of them. rank: of this one. when: picoseconds."""

    rank: int
    chunk: int
    access: SwitchAccess
    when: int


def switches_with_sums(network: Network) -> BoolArray:
    """bool[devices]: the switches that add and multicast, as NVSwitches with NVLS."""
    able = np.zeros(network.device_count, np.bool_)
    able[network.npu_count :] = network.reduces & network.multicast
    return able


def uses_switches(module: Module) -> bool:
    """Whether a schedule goes over switches that add and multicast."""
    network, schedule = module.network, module.schedule
    able = switches_with_sums(network)
    if schedule is None or not able.any():
        return False
    over = able[network.source] | able[network.target]
    return any(bool(over[rows.link].any()) for rows in schedule.blocks())


def switch_messages(module: Module) -> tuple[list[Message], list[PartialSum]]:
    """The messages of a schedule over switches that add and multicast, and the sums for single GPUs.

    A multicast to all GPUs of a switch is one message to each of them, which share a `SwitchAccess`. Raises SourceError
    M0107 if such a switch adds or multicasts for a part of its GPUs in a way that no operation has, M0118 if it
    adds for a GPU that does not share the sum.
    """
    schedule, network = module.schedule, module.network
    assert schedule is not None
    rows, able = schedule.transfers, switches_with_sums(network)
    inside = able[network.source[rows.link]] | able[network.target[rows.link]]
    rest = replace(module, schedule=RowSchedule(schedule.model, rows.select(~inside)))
    split = _SwitchRows(module, able)
    within = rows.select(inside)
    clock = Clock.of(network, module.demand, schedule.model)
    busy, total = clock.busy_of(within).tolist(), clock.total_of(within).tolist()
    columns = (within.chunk.tolist(), within.link.tolist(), within.start.tolist(), within.reduce.tolist())
    for chunk, link, start, reduce, spent, took in zip(*columns, busy, total, strict=True):
        split.hops[chunk].append(_Hop(link, start, start + spent, start + took, reduce))
    for chunk in sorted(split.hops):
        split.take(chunk)
    messages = [*messages_between(rest), *split.messages]
    messages.sort(key=lambda m: (m.start, m.path, m.chunk))
    return messages, split.sums


@dataclass(frozen=True, slots=True)
class _Hop:
    """A transfer over a link. start, leave, arrival: picoseconds, as in `Message`."""

    link: int
    start: int
    leave: int
    arrival: int
    reduce: bool


@dataclass
class _SwitchRows:
    """The transfers to and from switches that add and multicast. able: these, by device. hops: by chunk."""

    module: Module
    able: BoolArray
    hops: dict[int, list[_Hop]] = field(default_factory=lambda: defaultdict(list))
    messages: list[Message] = field(default_factory=list[Message])
    sums: list[PartialSum] = field(default_factory=list[PartialSum])
    turns: dict[tuple[int, ...], int] = field(default_factory=dict["tuple[int, ...]", int])

    def __post_init__(self) -> None:
        network = self.module.network
        self._source: list[int] = network.source.tolist()
        self._target: list[int] = network.target.tolist()
        self._rank = {npu: rank for rank, npu in enumerate(network.npus.tolist())}
        self._around = _gpus_of_switches(network, self.able, self._rank)

    def take(self, chunk: int) -> None:
        """Make messages and sums of the transfers of one chunk."""
        joined = DisjointSets[int]()
        for hop in self.hops[chunk]:
            ends = self._source[hop.link], self._target[hop.link]
            if all(end not in self._rank for end in ends):
                if not (self.able[ends[0]] and self.able[ends[1]]):
                    _refuse(self.module, chunk, "goes on between a switch that adds and one that does not")
                joined.join(*sorted(map(joined.root, ends)))
        ups: dict[int, list[_Hop]] = defaultdict(list)
        downs: dict[int, list[_Hop]] = defaultdict(list)
        for hop in sorted(self.hops[chunk], key=lambda one: (one.start, one.link)):
            source, target = self._source[hop.link], self._target[hop.link]
            if source in self._rank:
                ups[joined.root(target)].append(hop)
            elif target in self._rank:
                downs[joined.root(source)].append(hop)
        for switch in sorted(ups):
            around = {rank for device, ranks in self._around.items() if joined.root(device) == switch for rank in ranks}
            self._divide_meetings(chunk, tuple(sorted(around)), ups[switch], downs[switch])

    def _divide_meetings(self, chunk: int, around: tuple[int, ...], ups: list[_Hop], downs: list[_Hop]) -> None:
        """Divide what enters and leaves a switch: what leaves carries what has entered since the last departure."""
        while ups and downs:
            first = downs[0].start
            here = [up for up in ups if up.arrival <= first]
            ups = [up for up in ups if up.arrival > first]
            end = min((up.arrival for up in ups), default=None)
            leaving = [down for down in downs if end is None or down.start < end]
            downs = downs[len(leaving) :]
            if here:
                self._add_meeting(chunk, around, here, leaving)

    def _add_meeting(self, chunk: int, around: tuple[int, ...], ups: list[_Hop], downs: list[_Hop]) -> None:
        sources = [self._rank[self._source[up.link]] for up in ups]
        targets = [self._rank[self._target[down.link]] for down in downs]
        if len(ups) == 1:
            everyone = not ups[0].reduce and {*sources, *targets} == set(around) and len(around) > 2
            access = SwitchAccess(around, adds=False) if everyone else None
            self._send(chunk, sources[0], ups[0], downs, access)
        elif not all(up.reduce for up in ups):
            _refuse(self.module, chunk, "comes from several GPUs at once")
        elif len(downs) == 1:
            self._partial(chunk, tuple(sorted({*sources, *targets})), targets[0], downs[0])
        elif set(sources) == set(targets):
            group = tuple(sorted(sources))
            turn = self.turns[group] = self.turns.get(group, -1) + 1
            chosen = group[turn % len(group)]
            self._send(chunk, chosen, ups[sources.index(chosen)], downs, SwitchAccess(group, adds=True))
        else:
            _refuse(self.module, chunk, "is added by other GPUs than those that get the sum")

    def _send(self, chunk: int, source: int, up: _Hop, downs: list[_Hop], access: SwitchAccess | None) -> None:
        for down in downs:
            target = self._rank[self._target[down.link]]
            if target != source:
                path, times = (up.link, down.link), (up.start, up.leave, down.arrival)
                reduce = up.reduce and (access is None or not access.adds)
                self.messages.append(Message(source, target, chunk, 1, path, *times, reduce, switch=access))

    def _partial(self, chunk: int, group: tuple[int, ...], rank: int, down: _Hop) -> None:
        """A sum for one GPU, which all others must want too."""
        table, npus = self.module.demand.chunks, self.module.network.npus
        wanting = set(table.sets[int(table.post[chunk])].tolist())
        if not {int(npus[member]) for member in group} <= wanting:
            name = self.module.demand.chunk_name(chunk)
            message = f"a switch adds chunk {name} for {self.module.network.device_name(int(npus[rank]))} alone"
            note = Note("MSCCL++ has no operation that loads a sum without storing it to all GPUs of the switch")
            hint = "let collc plan it for 'emit mscclpp', which then sends from GPU to GPU, or run an All-Reduce"
            raise SourceError(Diagnostic("M0118", message, notes=(note,), hint=hint))
        access = SwitchAccess(group, adds=True, into=_with_neighbour(group, rank))
        self.sums.append(PartialSum(rank, chunk, access, down.arrival))


def _with_neighbour(group: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A rank of a group and the one beside it: the fewest GPUs of a switch channel, so that a sum for one of them loads
    the links of few others.
    """
    position = group.index(rank)
    first = min(position - position % 2, len(group) - 2)
    return group[first : first + 2]


def _gpus_of_switches(network: Network, able: BoolArray, rank_of: dict[int, int]) -> dict[int, tuple[int, ...]]:
    """The ranks that have links to each switch that adds and multicasts."""
    gpus_of: dict[int, set[int]] = {switch: set() for switch in np.flatnonzero(able).tolist()}
    for source, target in zip(network.source.tolist(), network.target.tolist(), strict=True):
        if target in gpus_of and source in rank_of:
            gpus_of[target].add(rank_of[source])
    return {switch: tuple(sorted(ranks)) for switch, ranks in gpus_of.items()}


def _refuse(module: Module, chunk: int, what: str) -> NoReturn:
    message = f"chunk {module.demand.chunk_name(chunk)} {what}, which no operation of MSCCL++ does"
    hint = "let collc plan it for 'emit mscclpp' alone, or declare the switches with 'multicast: false, reduce: false'"
    raise SourceError(Diagnostic("M0107", message, hint=hint))


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
    messages = _inputs_at_once(messages, layout, {(summed.rank, summed.chunk) for summed in sums})
    _check_groups(messages, sums, node)
    cut = cut_messages(_with_equal_slots(messages, layout), module.demand)
    program = replace(blank_program(module, options, collective, cut), placement=placement)
    numbers = {(summed.rank, summed.chunk): number for number, summed in enumerate(sums)}
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
            _check_groups(*switch_messages(module), nodes_of_ranks(module.network, options))
    except SourceError:
        return False
    return True


def _check_groups(messages: list[Message], sums: list[PartialSum], node: tuple[int, ...]) -> None:
    groups = {message.switch.ranks for message in messages if message.switch is not None}
    for ranks in sorted(groups | {summed.access.ranks for summed in sums}):
        if len({node[rank] for rank in ranks}) > 1:
            message = "a switch that adds and multicasts joins GPUs of several nodes"
            raise SourceError(Diagnostic("M0117", message, hint="use a larger 'gpus_per_node', or leave it out"))
        most = PLAN_CHANNELS + 1
        if len(ranks) > most and (sums or not large_groups_fit(messages)):
            hint = "declare the switch with 'reduce: false'"
            raise LimitUse("GPUs of one switch channel", len(ranks), most, hint).error("MSCCL++ plan")


def _inputs_at_once(messages: list[Message], layout: BufferLayout, later: set[tuple[int, int]]) -> list[Message]:
    """The messages; those by which switches store inputs start at once, since the switches put them in turn.

    later: (rank, chunk) of inputs that a GPU adds to before.
    """

    def ready(message: Message) -> bool:
        held = (message.source, message.chunk)
        return message.switch is not None and message.chunk in layout.inputs[message.source] and held not in later

    at_once = [replace(message, start=0) if ready(message) else message for message in messages]
    return sorted(at_once, key=lambda message: message.start)


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
            (summed.when, ARRIVES, -1, number),
            1,
            Slot("i", layout.inputs[gpu.rank][summed.chunk]),
            Slot("s", number),
            switch=summed.access,
        )
        for number, summed in enumerate(sums)
        if summed.rank == gpu.rank
    ]
    covered: set[Slot] = set()
    for step in gpu.steps:
        here = replace(step, src=moved_slot(step.src), dst=moved_slot(step.dst))
        message = program.messages[step.send] if step.op is Op.SEND else None
        if message is not None and message.switch is not None:
            here = replace(here, dst=Slot("o", outputs[message.chunk]))
            covered.add(Slot("o", outputs[message.chunk]))
        steps.append(here)
    steps = [fitted for step in steps for fitted in _without_covered_slots(step, covered)]
    scratch = len(sums) + max(each.scratch_chunks for each in program.gpus) if sums else gpu.scratch_chunks
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
