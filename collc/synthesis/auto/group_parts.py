"""Runs on links that no other run can use are problems of their own; those that are alike are planned once.

Such as data-parallel groups along rails and tensor-parallel groups in nodes, which have all GPUs in common and no link.
A run can use the links between its own NPUs. Runs that have some of these in common are planned together, and one after
another on these links; the shorter schedule is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.synthesis.auto.candidates import Candidate
from collc.synthesis.auto.group_links import RunLinks, RunMembers, links_between_switches, own_links, part_of_runs
from collc.synthesis.symmetric import is_symmetric
from collc.synthesis.task import WorkMeter
from collc.ten.arrays import Int32Array, Int64Array, distinct
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
    try:
        division = group_parts(module)
    except SourceError:
        return None
    if division is None:
        return None
    kinds = division.kinds
    parts = sum(len(kind.run) for kind in kinds) if division.is_alone else 1
    divided = parts > 1
    if not divided and not all(kind.is_simple for kind in kinds):
        return None

    def build(meter: WorkMeter) -> Module:
        planned = [plan(kind.module, meter, len(kinds)) for kind in kinds]
        return joined_parts(module, kinds, planned)

    return Candidate("group by group", module.network, build, 2 if divided else 0, parts=max(1, parts // len(kinds)))


@dataclass(frozen=True, eq=False)
class PartKind:
    """Some runs on links of their own, in one place or in several alike.

    whole: the module of all runs. device, link, run: int32[places, ...], ascending in each, what the part has of the
    whole in each place; the runs of each are the same problem.
    """

    whole: Module
    device: Int32Array
    link: Int32Array
    run: Int32Array

    @property
    def is_simple(self) -> bool:
        """Whether a schedule is found by symmetry, or there is little choice."""
        return len(self.module.demand.runs[0].group) == 2 or is_symmetric(self.module)

    @cached_property
    def module(self) -> Module:
        """The runs alone, in the first place. Its network has the NPUs and switches of the part, numbered anew in the
        same order.
        """
        whole, device = self.whole, self.device[0]
        runs: list[int] = self.run[0].tolist()
        demand = Demand(tuple(_renumber(whole.demand.runs[run], device) for run in runs))
        own = _network(whole.network, device, self.link[0])
        return replace(whole, network=own, demand=demand, bound=None, notes=(), phases=(), planned=None)


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """The parts of a module, by kind. is_alone: whether no two have a link at an NPU in common."""

    kinds: list[PartKind]
    is_alone: bool


def group_parts(module: Module) -> Division | None:
    """The runs of a module, divided by the links that they can use; each run by itself if they cannot be divided.

    None if that is no smaller problem, or the links of a group do not join it. If there are several groups, links
    between switches are left out if no group needs them; else each group gets one of switches that do the same, in
    turn, and parts may have links between switches in common. Raises SourceError if there is no memory for these.
    """
    runs, network = module.demand.by_family, module.network
    sizes = [family.groups.shape[1] for family in runs.families]
    whole = len(runs) == 1 and sizes[0] == len(network.npus)
    if module.schedule is not None or network.has_limited_buffers or whole or min(sizes, default=0) < 2:
        return None
    members = RunMembers.of(runs)
    for between in links_between_switches(network, len(runs)):
        rows = own_links(network, members, between)
        if rows is None:
            continue
        part = part_of_runs(network, members, rows, len(runs))
        if part.any() or len(runs) == 1:
            return Division(_kinds(module, members, rows, part), is_alone=True)
        if not network.has_endpoints:
            return Division(_kinds(module, members, rows, np.arange(len(runs))), is_alone=False)
    return None


def _kinds(module: Module, members: RunMembers, rows: RunLinks, part: Int64Array) -> list[PartKind]:
    """The parts, those together that are the same problem: the same links between devices, and the same chunks.

    part: int64[runs], of each run.
    """
    network, count = module.network, int(part.max()) + 1
    devices, links = network.device_count, max(1, network.link_count)
    key = distinct(part[rows.run] * links + rows.link)
    link_part, link = np.divmod(key, links)
    ends = [link_part * devices + end[link].astype(np.int64) for end in (network.source, network.target)]
    device_key = distinct(np.concatenate([*ends, part[members.run] * devices + members.npu]))
    device_part, device = np.divmod(device_key, devices)
    first_device = np.searchsorted(device_part, np.arange(count + 1))
    first_link = np.searchsorted(link_part, np.arange(count + 1))

    def position(keys: Int64Array) -> Int64Array:
        """The place of each part and device among those of the part."""
        return np.searchsorted(device_key, keys) - first_device[keys // devices]

    run_order = np.argsort(part, kind="stable")
    first_run = np.searchsorted(part[run_order], np.arange(count + 1))
    order = np.argsort(part[members.run], kind="stable")
    member_part = part[members.run][order]
    first_member = np.searchsorted(member_part, np.arange(count + 1))
    arguments, others = _arguments(module.demand)
    link_table = np.stack([*map(position, ends), network.kind[link]], axis=1).astype(np.int32)
    device_table = _device_table(network, device)
    rows_of_members = position(member_part * devices + members.npu[order])
    member_table = np.stack([arguments[members.run[order]], rows_of_members], axis=1).astype(np.int32)
    of_kind: dict[Hashable, list[int]] = {}
    for number in range(count):
        own = slice(first_device[number], first_device[number + 1])
        runs: list[int] = run_order[first_run[number] : first_run[number + 1]].tolist() if others else []
        same: Hashable = (
            link_table[first_link[number] : first_link[number + 1]].tobytes(),
            device_table[own].tobytes(),
            member_table[first_member[number] : first_member[number + 1]].tobytes(),
            *(_chunks_key(module.demand.runs[run], device[own]) for run in runs if run in others),
        )
        of_kind.setdefault(same, []).append(number)

    def table(values: Int64Array, first: Int64Array, parts: list[int]) -> Int32Array:
        """int32[parts, n]: the values of some parts, which have equally many."""
        begin = first[parts]
        return values[begin[:, None] + np.arange(first[parts[0] + 1] - begin[0])].astype(np.int32)

    columns = (device, first_device), (link, first_link), (run_order, first_run)
    return [PartKind(module, *(table(*column, parts) for column in columns)) for parts in of_kind.values()]


def _device_table(network: Network, device: Int64Array) -> Int32Array:
    """int32[devices, 4]: what each device is: NPUs with their limits, switches with what they do."""
    is_switch = device >= network.npu_count
    switch = np.where(is_switch, device - network.npu_count, 0)
    table = np.stack([is_switch.astype(np.int32)] * 4, axis=1)
    if network.switch_count:
        table[:, 1] *= network.multicast[switch]
        table[:, 2] *= network.reduces[switch]
    if len(network.endpoint):
        table[:, 3] = np.where(is_switch, -1, network.endpoint[np.where(is_switch, 0, device)])
    return table


def _arguments(demand: Demand) -> tuple[Int64Array, set[int]]:
    """(int64[runs], equal numbers for equal arguments; the runs whose chunks these do not tell)."""
    number_of: dict[Hashable, int] = {}
    arguments = np.zeros(len(demand.runs), np.int64)
    others: set[int] = set()
    for family, numbers in zip(demand.by_family.families, demand.by_family.numbers(), strict=True):
        standard = family.first.standard
        key = standard, family.groups.shape[1]
        arguments[numbers] = number_of.setdefault(key, len(number_of))
        if standard is None or not standard.shape.by_rule:
            others.update(numbers.tolist())
    return arguments, others


def _chunks_key(run: Run, device: Int64Array) -> Hashable:
    """Equal for runs with the same chunks at the same places. device: ascending, those of the part."""
    table = run.pattern.expand()
    members = np.searchsorted(device, table.sets.members)
    columns = table.size, table.pre, table.post, table.op, table.sets.offsets, members
    return tuple(column.tobytes() for column in columns)


def joined_parts(module: Module, kinds: Sequence[PartKind], planned: Sequence[Module]) -> Module:
    """The module with the schedules of its parts.

    If parts have links in common, each begins as many transfers on such a link later as it must, or when the others
    have ended there; the shortest ones come first. Raises NoSchedule if messages of a part queue.
    planned: each kind of part with its schedule.
    """
    repeated = [
        RepeatedPart(own, kind.device, kind.link, kind.run, np.zeros(len(kind.run), np.int64))
        for kind, own in zip(kinds, planned, strict=True)
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


def _network(network: Network, device: Int32Array, link: Int32Array) -> Network:
    """The network of some devices and links, ascending, numbered anew."""
    source, target = (np.searchsorted(device, ends[link]).astype(np.int32) for ends in (network.source, network.target))
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
        source=source,
        target=target,
        kind=network.kind[link],
        kinds=network.kinds,
        unwound=network.unwound,
        endpoint=network.endpoint[npus] if len(network.endpoint) else network.endpoint,
        endpoint_kinds=network.endpoint_kinds,
    )


def _renumber(run: Run, device: Int32Array) -> Run:
    """A run over devices that are numbered anew. device: int32, ascending, their numbers before."""
    table = run.pattern.expand()
    sets = HolderSets(table.sets.offsets, np.searchsorted(device, table.sets.members).astype(np.int32))
    return replace(run, group=np.searchsorted(device, run.group).astype(np.int32), pattern=replace(table, sets=sets))
