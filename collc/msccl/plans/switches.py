"""What a schedule does in switches that add and multicast, as operations of a plan over switch channels (NVLS).

Contributions that meet in such a switch, and what it sends to all its GPUs, are one operation of one GPU, which loads
the sum of all (or its own chunk) and stores it to all. MSCCL++ has no operation that loads a sum for one GPU alone, so
the sum for a GPU that passes it on to other nodes is stored in the scratch of all.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np

from collc.base.diagnostics import Diagnostic, Note, SourceError
from collc.base.disjoint_sets import DisjointSets
from collc.msccl.lowering.messages import messages_between
from collc.msccl.program import Message, SwitchAccess
from collc.ten.arrays import BoolArray
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
    found = np.zeros(network.device_count, np.bool_)
    found[network.npu_count :] = network.reduces & network.multicast
    return found


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
            around = {rank for one, ranks in self._around.items() if joined.root(one) == switch for rank in ranks}
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
        if not {int(npus[one]) for one in group} <= wanting:
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
    at = group.index(rank)
    first = min(at - at % 2, len(group) - 2)
    return group[first : first + 2]


def _gpus_of_switches(network: Network, able: BoolArray, rank_of: dict[int, int]) -> dict[int, tuple[int, ...]]:
    """The ranks that have links to each switch that adds and multicasts."""
    found: dict[int, set[int]] = {switch: set() for switch in np.flatnonzero(able).tolist()}
    for source, target in zip(network.source.tolist(), network.target.tolist(), strict=True):
        if target in found and source in rank_of:
            found[target].add(rank_of[source])
    return {switch: tuple(sorted(ranks)) for switch, ranks in found.items()}


def _refuse(module: Module, chunk: int, what: str) -> NoReturn:
    message = f"chunk {module.demand.chunk_name(chunk)} {what}, which no operation of MSCCL++ does"
    hint = "let collc plan it for 'emit mscclpp' alone, or declare the switches with 'multicast: false, reduce: false'"
    raise SourceError(Diagnostic("M0107", message, hint=hint))
