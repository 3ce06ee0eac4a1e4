"""Runs on links that no other run can use are problems of their own; those that are alike are planned once.

Such as data-parallel groups along rails and tensor-parallel groups in nodes, which have all GPUs in common and no link.
A run can use the links between its own NPUs. Runs that have some of these in common are planned together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.auto.candidates import Candidate
from collc.synthesis.auto.group_links import RunLinks, RunMembers, own_links, part_of_runs
from collc.synthesis.symmetric import is_symmetric
from collc.synthesis.task import WorkMeter
from collc.ten.arrays import Int32Array, Int64Array, distinct
from collc.ten.compaction import renumber_demand, renumber_network
from collc.ten.demand import Demand, Run
from collc.ten.joined_schedule import JoinedSchedule, RepeatedPart
from collc.ten.module import Module
from collc.ten.network import DeviceFamily, Network
from collc.ten.schedule import RowSchedule


def by_group(module: Module, plan: Callable[[Module, WorkMeter, int], Module]) -> Candidate | None:
    """The candidate; None if the module has no parts, or one that has no symmetry, which is as hard as the whole.

    plan: a module with a schedule, given a module, the meter of its work and how many modules there are.
    """
    kinds = group_parts(module)
    if kinds is None:
        return None
    parts = sum(len(kind.run) for kind in kinds)
    if parts == 1 and not is_symmetric(kinds[0].module):
        return None

    def build(meter: WorkMeter) -> Module:
        planned = [plan(kind.module, meter, len(kinds)) for kind in kinds]
        return joined_parts(module, kinds, planned)

    return Candidate("group by group", build, 2 if parts > 1 else 0, parts=parts // len(kinds))


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

    @cached_property
    def module(self) -> Module:
        """The runs alone, in the first place. Its network has the NPUs and switches of the part, numbered anew in the
        same order.
        """
        whole, device, link = self.whole, self.device[0], self.link[0]
        network = whole.network
        number = np.full(network.device_count, -1, np.int32)
        number[device] = np.arange(len(device))
        npus = int(np.searchsorted(device, network.npu_count))
        families = (DeviceFamily("npu", (npus,), 0, (1,)), DeviceFamily("switch", (len(device) - npus,), npus, (1,)))
        ends = {"source": network.source[link], "target": network.target[link], "kind": network.kind[link]}
        own = replace(
            renumber_network(replace(network, **ends), number),
            families=families if len(device) > npus else families[:1],
            removed=np.empty((0, 2), np.int32),
        )
        runs: list[int] = self.run[0].tolist()
        demand = renumber_demand(Demand(tuple(whole.demand.runs[run] for run in runs)), number)
        return replace(whole, network=own, demand=demand, bound=None, notes=(), phases=(), planned=None)


def group_parts(module: Module) -> list[PartKind] | None:
    """The runs of a module, divided by the links that they can use, by kind.

    None if that is no smaller problem, or the links of a group do not join it. Links between switches are left out if
    there are several groups.
    """
    runs, network = module.demand.by_family, module.network
    sizes = [family.groups.shape[1] for family in runs.families]
    whole = len(runs) == 1 and sizes[0] == len(network.npus)
    if module.schedule is not None or network.has_limited_buffers or whole or min(sizes, default=0) < 2:
        return None
    members = RunMembers.of(runs)
    rows = own_links(network, members)
    if rows is None:
        return None
    part = part_of_runs(network, members, rows, len(runs))
    return _kinds(module, members, rows, part) if part.any() or len(runs) == 1 else None


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
    """The module with the schedules of its parts. Raises NoSchedule if messages of a part queue.

    planned: each kind of part with its schedule.
    """
    parts = tuple(RepeatedPart(own, kind.device, kind.link, kind.run) for kind, own in zip(kinds, planned, strict=True))
    if any(isinstance(one.schedule, RowSchedule) and one.schedule.rows.messages is not None for one in parts):
        raise NoSchedule(Diagnostic("S0201", "messages of a group queue at links"))
    schedule = JoinedSchedule(module.model, module.demand, parts)
    return replace(module, schedule=schedule, phases=(), planned=None)
