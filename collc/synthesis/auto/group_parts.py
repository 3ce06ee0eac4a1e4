"""Runs over disjoint groups, or over some of the NPUs: each on the links of its own NPUs, as a problem of its own.

Such as data-parallel groups along rails and tensor-parallel groups in nodes. Groups that are alike are planned once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.graph.digraph import Digraph, strongly_connected
from collc.synthesis.auto.candidates import Candidate
from collc.synthesis.symmetric import is_symmetric
from collc.synthesis.task import WorkMeter
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import ChunkTable, Demand, HolderSets, Run
from collc.ten.module import Module
from collc.ten.network import DeviceFamily, Network
from collc.ten.schedule import Clock, RowSchedule, Schedule, Transfers


def by_group(module: Module, plan: Callable[[Module, int], tuple[Module, int]]) -> Candidate | None:
    """The candidate; None if groups share NPUs, or are neither alike nor symmetric on their own links: then others
    are more likely to be better.

    plan: a module with a schedule, and the work of that, given a module and how many there are.
    """
    parts = group_parts(module)
    if parts is None:
        return None
    kinds: dict[Hashable, GroupPart] = {part.key: part for part in parts}
    alike = len(kinds) == 1 < len(parts)
    if not alike and not all(is_symmetric(part.module) for part in kinds.values()):
        return None

    def build(meter: WorkMeter) -> Module:
        schedules: dict[Hashable, Schedule] = {}
        for kind, part in kinds.items():
            planned, work = plan(part.module, len(kinds))
            assert planned.schedule is not None
            meter.add_setup(work)
            schedules[kind] = planned.schedule
        joined = joined_parts(module, parts, schedules)
        if joined is None:
            raise NoSchedule(Diagnostic("S0201", "two groups would use a link at the same time"))
        return joined

    return Candidate("group by group", module.network, build)


LATEST: Final = 1 << 62
"""Picoseconds, later than anything."""


@dataclass(frozen=True, eq=False)
class GroupPart:
    """A run on the links of its own NPUs.

    module: the run alone; its network has the NPUs of the group and switches between them, numbered anew in the same
    order. link: int32, the link of the whole network for each of its links. first_chunk: of the run in the whole
    demand.
    """

    module: Module
    link: Int32Array
    first_chunk: int

    @cached_property
    def key(self) -> Hashable:
        """Equal for parts that are the same problem: the same links between devices, and the same chunks."""
        network, run = self.module.network, self.module.demand.runs[0]
        table = self.module.demand.chunks
        ends = network.source, network.target, network.kind, network.endpoint
        switches = network.buffers, network.multicast, network.reduces
        chunks = table.size, table.pre, table.post, table.op, table.sets.offsets, table.sets.members
        digests = tuple(blake2b(column.tobytes()).digest() for column in (*ends, *switches, run.group, *chunks))
        return network.npu_count, run.standard, digests


def group_parts(module: Module) -> list[GroupPart] | None:
    """The runs of a module, each on the links of its own NPUs; None if that is no smaller problem, groups overlap,
    or the links of a group do not join it.

    If there are several groups, links between switches are left out if no group needs them; else each group gets one
    of switches that do the same, in turn.
    """
    runs, network = module.demand.runs, module.network
    members = np.concatenate([run.group for run in runs]) if runs else np.empty(0, np.int32)
    whole = len(runs) == 1 and len(members) == len(network.npus)
    if module.schedule is not None or whole or len(np.unique(members)) < len(members):
        return None
    if network.has_limited_buffers or any(len(run.group) < 2 for run in runs):
        return None
    for usable in _usable_links(network, len(runs)):
        parts = [part for number, links in enumerate(usable) if (part := _part(module, number, links)) is not None]
        if len(parts) == len(runs):
            return parts
    return None


def _usable_links(network: Network, groups: int) -> Iterator[list[BoolArray]]:
    """bool[links] for each group: the links of the network that it may use, in the order in which to try them."""
    if groups == 1:
        yield [np.ones(network.link_count, np.bool_)]
        return
    yield [(network.source < network.npu_count) | (network.target < network.npu_count)] * groups
    equal = _equal_switches(network)
    usable: list[BoolArray] = []
    for group in range(groups):
        left_out = np.zeros(network.device_count, np.bool_)
        for switches in equal:
            left_out[switches] = True
            left_out[switches[group % len(switches)]] = False
        usable.append(~left_out[network.source] & ~left_out[network.target])
    yield usable


def _equal_switches(network: Network) -> list[list[int]]:
    """Switches between switches, by what they are and by the kinds of links and where each leads."""
    to_npus = (network.source < network.npu_count) | (network.target < network.npu_count)
    below = np.unique(np.concatenate([network.source[to_npus], network.target[to_npus]]))
    ends: dict[int, list[tuple[int, int, int]]] = {}
    for source, target, kind in zip(
        network.source.tolist(), network.target.tolist(), network.kind.tolist(), strict=True
    ):
        ends.setdefault(source, []).append((1, target, kind))
        ends.setdefault(target, []).append((0, source, kind))
    equal: dict[Hashable, list[int]] = {}
    for switch in np.setdiff1d(np.arange(network.npu_count, network.device_count), below).tolist():
        row = switch - network.npu_count
        key = bool(network.multicast[row]), bool(network.reduces[row]), *sorted(ends.get(switch, []))
        equal.setdefault(key, []).append(switch)
    return list(equal.values())


def joined_parts(module: Module, parts: list[GroupPart], planned: Mapping[Hashable, Schedule]) -> Module | None:
    """The module with the schedules of its parts; None if two groups would use a link at the same time.

    If groups share links between switches, each begins as many transfers on such a link later as it must.
    planned: a schedule of each kind of part.
    """
    schedules = [_transfers_of(part, planned[part.key].transfers) for part in parts]
    if any(rows.messages is not None for rows in schedules):
        return None
    clock = Clock.of(module.network, module.demand, module.model)
    users = np.zeros(module.network.link_count, np.int64)
    for rows in schedules:
        users[np.unique(rows.link)] += 1
    taken = _TakenTimes()
    for number, rows in enumerate(schedules):
        shared = users[rows.link] > 1
        link, start, busy = rows.link[shared].astype(np.int64), rows.start[shared], clock.busy_of(rows)[shared]
        step = int(busy.min(initial=LATEST))
        delay = next((k * step for k in range(len(schedules)) if taken.are_free(link, start + k * step, busy)), None)
        if delay is None:
            return None
        taken.add(link, start + delay, busy)
        schedules[number] = replace(rows, start=rows.start + delay)
    return replace(
        module, schedule=RowSchedule(module.model, Transfers.concatenate(schedules)), phases=(), planned=None
    )


class _TakenTimes:
    """When links are busy."""

    def __init__(self) -> None:
        self._link, self._start, self._end = (np.empty(0, np.int64) for _ in range(3))

    def are_free(self, link: Int64Array, start: Int64Array, busy: Int64Array) -> bool:
        """Whether some links are free for some times."""
        if not len(link) or not len(self._link):
            return True
        last = max(int(self._end.max()), int((start + busy).max())) + 1
        known = self._link * last + self._start
        position = np.searchsorted(known, link * last + start, "right")
        before, after = np.maximum(position - 1, 0), np.minimum(position, len(known) - 1)
        late = (position > 0) & (self._link[before] == link) & (self._end[before] > start)
        early = (position < len(known)) & (self._link[after] == link) & (self._start[after] < start + busy)
        return not bool((late | early).any())

    def add(self, link: Int64Array, start: Int64Array, busy: Int64Array) -> None:
        """Takes some times, which are free."""
        link, start = np.concatenate([self._link, link]), np.concatenate([self._start, start])
        end = np.concatenate([self._end, start[len(self._end) :] + busy])
        order = np.lexsort((start, link))
        self._link, self._start, self._end = link[order], start[order], end[order]


def _transfers_of(part: GroupPart, rows: Transfers) -> Transfers:
    """The transfers of a part in the numbers of the whole network and demand."""
    relayed = rows.relayed
    if relayed is not None:
        relayed = np.where(relayed >= 0, part.link[relayed], -1).astype(np.int32)
    chunk = (rows.chunk.astype(np.int64) + part.first_chunk).astype(np.int32)
    return Transfers.of(chunk, part.link[rows.link], rows.start, rows.reduce, relayed, rows.messages, rows.kept)


def _part(module: Module, run_number: int, usable: BoolArray) -> GroupPart | None:
    """A run on its own links; None if they do not join its NPUs. usable: bool[links], those that it may use."""
    network, run = module.network, module.demand.runs[run_number]
    inside = np.zeros(network.device_count, np.bool_)
    inside[run.group] = True
    inside[network.npu_count :] = network.present[network.npu_count :]
    kept = _inner_links(network, inside, usable)
    used = np.zeros(network.device_count, np.bool_)
    used[run.group] = True
    used[network.source[kept]] = used[network.target[kept]] = True
    number = np.cumsum(used) - 1
    link = np.flatnonzero(kept).astype(np.int32)
    own = _network(network, used, number, link)
    component = strongly_connected(Digraph.of(own))
    if len(np.unique(component[: own.npu_count])) > 1:
        return None
    demand = Demand((_renumber_run(run, module.demand.tables[run_number], number),))
    part = replace(module, network=own, demand=demand, bound=None, notes=(), phases=(), planned=None)
    return GroupPart(part, link, int(module.demand.first_chunk[run_number]))


def _inner_links(network: Network, inside: BoolArray, usable: BoolArray) -> BoolArray:
    """bool[links]: the usable links between devices inside, without switches that are linked to one device only."""
    npus = network.npu_count
    kept = inside[network.source] & inside[network.target] & usable
    while True:
        pairs = np.unique(np.stack([network.source[kept], network.target[kept]], axis=1), axis=0)
        into = np.bincount(pairs[:, 1], minlength=network.device_count)
        out = np.bincount(pairs[:, 0], minlength=network.device_count)
        idle = (into < 2) & (out < 2)
        idle[:npus] = False
        fewer = kept & ~idle[network.source] & ~idle[network.target]
        if np.array_equal(fewer, kept):
            return kept
        kept = fewer


def _network(network: Network, used: BoolArray, number: Int64Array, link: Int32Array) -> Network:
    """The network of some devices and links, numbered anew."""
    npus, all_npus = int(used[: network.npu_count].sum()), network.npu_count
    devices = int(used.sum())
    families = [DeviceFamily("npu", (npus,), 0, (1,))]
    if devices > npus:
        families.append(DeviceFamily("switch", (devices - npus,), npus, (1,)))
    switches = used[all_npus:]
    return Network(
        name=network.name,
        npu_count=npus,
        families=tuple(families),
        present=np.ones(devices, np.bool_),
        buffers=network.buffers[switches],
        multicast=network.multicast[switches],
        reduces=network.reduces[switches],
        source=number[network.source[link]].astype(np.int32),
        target=number[network.target[link]].astype(np.int32),
        kind=network.kind[link],
        kinds=network.kinds,
        unwound=network.unwound,
        endpoint=network.endpoint[used[:all_npus]] if network.has_endpoints else network.endpoint,
        endpoint_kinds=network.endpoint_kinds,
    )


def _renumber_run(run: Run, table: ChunkTable, number: Int64Array) -> Run:
    """A run over devices that are numbered anew. table: its chunks."""
    members = number[table.sets.members].astype(np.int32)
    pattern = replace(table, sets=HolderSets(table.sets.offsets, members))
    return replace(run, group=number[run.group].astype(np.int32), pattern=pattern)
