"""Runs on links that no other run can use are problems of their own; those that are alike are planned once.

Such as data-parallel groups along rails and tensor-parallel groups in nodes, which have all GPUs in common and no link.
A run can use the links between its own NPUs. Runs that have some of these in common are planned together, and one after
another on these links; the shorter schedule is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.graph.digraph import Digraph, strongly_connected, weakly_connected
from collc.synthesis.auto.candidates import Candidate
from collc.synthesis.symmetric import is_symmetric
from collc.synthesis.task import WorkMeter
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Demand, HolderSets, Run
from collc.ten.joined_schedule import JoinedSchedule, RepeatedPart
from collc.ten.module import Module
from collc.ten.network import DeviceFamily, Network
from collc.ten.schedule import LATEST_KEY, Clock, RowSchedule


def by_group(module: Module, plan: Callable[[Module, WorkMeter, int], Module]) -> Candidate | None:
    """The candidate; None if the module has no parts, or not several that share nothing and some are not simple: then
    others are more likely to be better.

    plan: a module with a schedule, given a module, the meter of its work and how many modules there are.
    """
    parts = group_parts(module)
    if parts is None:
        return None
    kinds: dict[Hashable, GroupPart] = {part.key: part for part in parts}
    divided = len(parts) > 1 and parts[0].is_alone
    if not divided and not all(part.is_simple for part in kinds.values()):
        return None

    def build(meter: WorkMeter) -> Module:
        planned = {kind: plan(part.module, meter, len(kinds)) for kind, part in kinds.items()}
        return joined_parts(module, parts, planned)

    return Candidate("group by group", module.network, build, 2 if divided else 0)


@dataclass(frozen=True, eq=False)
class GroupPart:
    """Some runs on links of their own.

    whole: the module of all runs. runs: numbers of the runs. device, link: int32, ascending, what the part has of the
    network. is_alone: whether no other part has the same links at NPUs.
    """

    whole: Module
    runs: tuple[int, ...]
    device: Int32Array
    link: Int32Array
    is_alone: bool

    @property
    def is_simple(self) -> bool:
        """Whether a schedule is found by symmetry, or there is little choice."""
        return len(self.whole.demand.runs[self.runs[0]].group) == 2 or is_symmetric(self.module)

    @cached_property
    def ends(self) -> tuple[Int32Array, Int32Array]:
        """The sources and targets of the links, as rows of `device`."""
        network = self.whole.network
        found = (np.searchsorted(self.device, ends[self.link]) for ends in (network.source, network.target))
        source, target = (ends.astype(np.int32) for ends in found)
        return source, target

    @cached_property
    def key(self) -> Hashable:
        """Equal for parts that are the same problem: the same links between devices, and the same chunks."""
        network, demand = self.whole.network, self.whole.demand
        npus = self.device[self.device < network.npu_count]
        switches = self.device[len(npus) :] - network.npu_count
        columns: list[NDArray[Any]] = [*self.ends, network.kind[self.link]]
        columns += [network.multicast[switches], network.reduces[switches]]
        if network.has_endpoints:
            columns.append(network.endpoint[npus])
        standards: list[Hashable] = []
        for run in map(demand.runs.__getitem__, self.runs):
            standards.append(run.standard)
            columns.append(np.searchsorted(self.device, run.group))
            if run.standard is None or not run.standard.shape.by_rule:
                table = run.pattern.expand()
                members = np.searchsorted(self.device, table.sets.members)
                columns += [table.size, table.pre, table.post, table.op, table.sets.offsets, members]
        digests = tuple(blake2b(column.tobytes()).digest() for column in columns)
        return len(npus), tuple(standards), digests

    @cached_property
    def module(self) -> Module:
        """The runs alone. Its network has the NPUs and switches of the part, numbered anew in the same order."""
        whole = self.whole
        demand = Demand(tuple(_renumber(whole.demand.runs[run], self.device) for run in self.runs))
        own = _network(whole.network, self.device, self.link, self.ends)
        return replace(whole, network=own, demand=demand, bound=None, notes=(), phases=(), planned=None)


def group_parts(module: Module) -> list[GroupPart] | None:
    """The runs of a module, divided by the links that they can use; each run by itself if they cannot be divided.

    None if that is no smaller problem, or the links of a group do not join it. If there are several groups, links
    between switches are left out if no group needs them; else each group gets one of switches that do the same, in
    turn, and parts may have links between switches in common.
    """
    runs, network = module.demand.runs, module.network
    members = np.concatenate([run.group for run in runs]) if runs else np.empty(0, np.int32)
    whole = len(runs) == 1 and len(members) == len(network.npus)
    if module.schedule is not None or network.has_limited_buffers or whole or any(len(run.group) < 2 for run in runs):
        return None
    for between in _links_between_switches(network, len(runs)):
        links = [_own_links(network, run.group, more) for run, more in zip(runs, between, strict=True)]
        usable = [own for own in links if own is not None]
        if len(usable) == len(runs):
            divided = _components(network, usable, [run.group for run in runs])
            if len(divided) > 1 or len(runs) == 1:
                return [_part(module, numbers, usable, is_alone=True) for numbers in divided]
            if not network.has_endpoints:
                return [_part(module, [run], usable, is_alone=False) for run in range(len(runs))]
    return None


def _part(module: Module, runs: list[int], links: list[Int32Array], *, is_alone: bool) -> GroupPart:
    """Some runs on their links."""
    network = module.network
    link = np.unique(np.concatenate([links[run] for run in runs]))
    ends = network.source[link], network.target[link], *(module.demand.runs[run].group for run in runs)
    return GroupPart(module, tuple(runs), np.unique(np.concatenate(ends)), link, is_alone)


def _components(network: Network, links: list[Int32Array], groups: list[Int32Array]) -> list[list[int]]:
    """The runs that have links at NPUs in common, directly or by others, or NPUs if these have limits."""
    at_npus = (network.source < network.npu_count) | (network.target < network.npu_count)
    shared = [own[at_npus[own]] for own in links]
    if network.has_endpoints:
        shared = [np.append(own, network.link_count + group) for own, group in zip(shared, groups, strict=True)]
    run = np.repeat(np.arange(len(links), dtype=np.int32), [len(own) for own in shared])
    target = (len(links) + np.concatenate(shared)).astype(np.int32)
    count = len(links) + network.link_count + network.npu_count
    label = weakly_connected(Digraph(count, run, target))[: len(links)]
    found: dict[int, list[int]] = {}
    for number, component in enumerate(label.tolist()):
        found.setdefault(component, []).append(number)
    return list(found.values())


def _links_between_switches(network: Network, groups: int) -> Iterator[list[Int32Array]]:
    """int32 for each group: the links between switches that it may use, in the order in which to try them."""
    between = (network.source >= network.npu_count) & (network.target >= network.npu_count)
    if groups == 1:
        yield [np.flatnonzero(between).astype(np.int32)]
        return
    yield [np.empty(0, np.int32)] * groups
    equal = _equal_switches(network)
    usable: list[Int32Array] = []
    for group in range(groups):
        left_out = np.zeros(network.device_count, np.bool_)
        for switches in equal:
            left_out[switches] = True
            left_out[switches[group % len(switches)]] = False
        kept = between & ~left_out[network.source] & ~left_out[network.target]
        usable.append(np.flatnonzero(kept).astype(np.int32))
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


def joined_parts(module: Module, parts: list[GroupPart], planned: Mapping[Hashable, Module]) -> Module:
    """The module with the schedules of its parts.

    If parts have links in common, each begins as many transfers on such a link later as it must, or when the others
    have ended there; the shortest ones come first. Raises NoSchedule if messages of a part queue.
    planned: each kind of part with its schedule.
    """
    of_kind: dict[Hashable, list[GroupPart]] = {}
    for part in parts:
        of_kind.setdefault(part.key, []).append(part)
    repeated = [
        RepeatedPart(
            planned[kind],
            np.stack([part.device for part in alike]),
            np.stack([part.link for part in alike]),
            np.array([part.runs for part in alike], np.int32),
            np.zeros(len(alike), np.int64),
        )
        for kind, alike in of_kind.items()
    ]
    if any(isinstance(one.schedule, RowSchedule) and one.schedule.rows.messages is not None for one in repeated):
        raise NoSchedule(Diagnostic("S0201", "messages of a group queue at links"))
    users = np.zeros(module.network.link_count, np.int64)
    for one in repeated:
        np.add.at(users, one.link[:, one.used_links], 1)
    if int(users.max(initial=0)) > 1:
        _delay(repeated, users)
    schedule = JoinedSchedule(module.model, module.demand, tuple(repeated))
    return replace(module, schedule=schedule, phases=(), planned=None)


def _delay(repeated: list[RepeatedPart], users: Int64Array) -> None:
    """Sets delays of parts so that no two use a link at the same time. users: int64[links], how many use each link."""
    taken = _TakenTimes()
    for one in sorted(repeated, key=lambda one: one.module.collective_time()):
        shared = (users[one.link] > 1) & one.used_links
        if not shared.any():
            continue
        rows = one.schedule.transfers
        busy = Clock.of(one.module.network, one.module.demand, one.module.model).busy_of(rows)
        for image in range(len(one.delay)):
            on_shared = shared[image, rows.link]
            link = one.link[image, rows.link[on_shared]].astype(np.int64)
            times = rows.start[on_shared], busy[on_shared]
            one.delay[image] = taken.find_delay(link, *times, int(users[link].max(initial=0)))
            taken.add(link, times[0] + one.delay[image], times[1])


class _TakenTimes:
    """When links are busy."""

    def __init__(self) -> None:
        self._link: Int64Array = np.empty(0, np.int64)
        self._start: Int64Array = np.empty(0, np.int64)
        self._end: Int64Array = np.empty(0, np.int64)

    def find_delay(self, link: Int64Array, start: Int64Array, busy: Int64Array, tries: int) -> int:
        """Picoseconds after which links are free for some times: as long as some of the shortest transfers last, or
        until all others have ended on these links.
        """
        if not len(link):
            return 0
        step, ends = int(busy.min()), self._end[np.isin(self._link, link)]
        after = max(0, int(ends.max(initial=0)) - int(start.min()))
        delays = (number * step for number in range(tries) if number * step < after)
        return next((delay for delay in delays if self._are_free(link, start + delay, busy)), after)

    def _are_free(self, link: Int64Array, start: Int64Array, busy: Int64Array) -> bool:
        """Whether some links are free for some times; False too if a link and a time do not fit in one number."""
        if not len(self._link):
            return True
        last = max(int(self._end.max()), int((start + busy).max())) + 1
        if max(int(link.max()), int(self._link.max())) + 1 >= LATEST_KEY // last:
            return False
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


def _own_links(network: Network, group: Int32Array, between: Int32Array) -> Int32Array | None:
    """int32: the links between NPUs of a group and switches, without switches that are linked to one device only;
    None if they do not join the group. between: the links between switches that count too.
    """
    at_group = [links[offsets[npu] : offsets[npu + 1]] for offsets, links in _ends(network) for npu in group.tolist()]
    link = np.unique(np.concatenate([*at_group, between]))
    inside = np.append(group, np.arange(network.npu_count, network.device_count))
    kept = np.isin(network.source[link], inside) & np.isin(network.target[link], inside)
    while True:
        link = link[kept]
        device, number = np.unique(
            np.concatenate([group, network.source[link], network.target[link]]), return_inverse=True
        )
        source, target = number[len(group) : len(group) + len(link)], number[len(group) + len(link) :]
        pairs = np.unique(np.stack([source, target], axis=1), axis=0)
        into, out = (np.bincount(ends, minlength=len(device)) for ends in (pairs[:, 1], pairs[:, 0]))
        idle = (into < 2) & (out < 2) & (device >= network.npu_count)
        kept = ~idle[source] & ~idle[target]
        if kept.all():
            break
    component = strongly_connected(Digraph(len(device), source.astype(np.int32), target.astype(np.int32)))
    return link if len(np.unique(component[number[: len(group)]])) == 1 else None


def _ends(network: Network) -> tuple[tuple[Int32Array, Int32Array], ...]:
    """The links at each device."""
    return network.out_links, network.in_links


def _network(network: Network, device: Int32Array, link: Int32Array, ends: tuple[Int32Array, Int32Array]) -> Network:
    """The network of some devices and links, numbered anew. ends: the sources and targets of the links."""
    npus = device[device < network.npu_count]
    switches = device[len(npus) :] - network.npu_count
    families = [DeviceFamily("npu", (len(npus),), 0, (1,))]
    if len(switches):
        families.append(DeviceFamily("switch", (len(switches),), len(npus), (1,)))
    return Network(
        name=network.name,
        npu_count=len(npus),
        families=tuple(families),
        present=np.ones(len(device), np.bool_),
        buffers=network.buffers[switches],
        multicast=network.multicast[switches],
        reduces=network.reduces[switches],
        source=ends[0],
        target=ends[1],
        kind=network.kind[link],
        kinds=network.kinds,
        unwound=network.unwound,
        endpoint=network.endpoint[npus] if network.has_endpoints else network.endpoint,
        endpoint_kinds=network.endpoint_kinds,
    )


def _renumber(run: Run, device: Int32Array) -> Run:
    """A run over devices that are numbered anew. device: int32, ascending, their numbers before."""
    table = run.pattern.expand()
    sets = HolderSets(table.sets.offsets, np.searchsorted(device, table.sets.members).astype(np.int32))
    return replace(run, group=np.searchsorted(device, run.group).astype(np.int32), pattern=replace(table, sets=sets))
