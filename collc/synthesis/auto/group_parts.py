"""Runs on links that no other run can use are problems of their own; those that are alike are planned once.

Such as data-parallel groups along rails and tensor-parallel groups in nodes, which have all GPUs in common and no link.
A run can use the links between its own NPUs, directly or by switches. Runs that have some of these in common are
planned together. Tables have rows of all runs, so that 100,000 groups take no more steps than one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.graph.digraph import Digraph, strongly_connected, weakly_connected
from collc.synthesis.auto.candidates import Candidate
from collc.synthesis.symmetric import is_symmetric
from collc.synthesis.task import WorkMeter
from collc.ten.arrays import Int32Array, Int64Array, distinct, find_keys, group_positions, ranges
from collc.ten.compaction import renumber_demand, renumber_network
from collc.ten.demand import Demand, FamilyRuns
from collc.ten.joined_schedule import JoinedSchedule, RepeatedPart
from collc.ten.module import Module
from collc.ten.network import DeviceFamily, Network
from collc.ten.schedule import RowSchedule

Rows = tuple[Int64Array, Int64Array]
"""(int64[rows], int64[rows]): runs in ascending order, and an NPU or a link of each."""


def by_group(module: Module, plan: Callable[[Module, WorkMeter, int], Module]) -> Candidate | None:
    """The candidate; None if the module has no parts, or one that has no symmetry, which is as hard as the whole.

    plan: a module with a schedule, given a module, the meter of its work and how many modules there are.
    """
    kinds = group_parts(module)
    parts = sum(len(kind.run) for kind in kinds or ())
    if kinds is None or (parts == 1 and not is_symmetric(kinds[0].module)):
        return None

    def build(meter: WorkMeter) -> Module:
        meter.finish()  # unless the search of a part is cut short
        return joined_parts(module, kinds, [plan(kind.module, meter, len(kinds)) for kind in kinds])

    return Candidate("group by group", build, 2 if parts > 1 else 0, parts=parts // len(kinds))


def group_parts(module: Module) -> list[RepeatedPart] | None:
    """The runs of a module without a schedule, divided by the links that they can use, by kind.

    None if that is no smaller problem, or the links of a group do not join it. Links between switches are left out if
    there are several groups.
    """
    runs, network = module.demand.by_family, module.network
    sizes = [family.groups.shape[1] for family in runs.families]
    whole = len(runs) == 1 and sizes[0] == len(network.npus)
    if module.schedule is not None or network.has_limited_buffers or whole or min(sizes, default=0) < 2:
        return None
    members = _members_of(runs)
    links = _own_links(network, members)
    if links is None:
        return None
    part = _part_of_runs(network, members, links, len(runs))
    return _kinds(module, members, links, part) if part.any() or len(runs) == 1 else None


def _members_of(runs: FamilyRuns) -> Rows:
    """The members of all runs, in order of run and rank."""
    pairs = list(zip(runs.families, runs.numbers(), strict=True))
    run = np.concatenate([np.repeat(numbers, family.groups.shape[1]) for family, numbers in pairs])
    npu = np.concatenate([family.groups.reshape(-1) for family, _ in pairs]).astype(np.int64)
    order = np.argsort(run, kind="stable")
    return run[order], npu[order]


def _own_links(network: Network, members: Rows) -> Rows | None:
    """The links between NPUs of each run and switches, without switches that are linked to one device only; None if
    they do not join the group of a run. A run that is alone may use the links between switches, too.
    """
    run, link = _links_at(network, members)
    devices = network.device_count
    joined = np.sort(members[0] * devices + members[1])
    kept = np.ones(len(link), np.bool_)
    for end in (network.source[link], network.target[link]):
        kept &= (end >= network.npu_count) | find_keys(joined, run * devices + end)[1]
    while True:
        run, link = run[kept], link[kept]
        ends = [run * devices + end[link] for end in (network.source, network.target)]
        vertices, number = np.unique(np.concatenate([joined, *ends]), return_inverse=True)
        source, target = np.split(number[len(joined) :], 2)
        pair_source, pair_target = np.divmod(distinct(source * len(vertices) + target), len(vertices))
        into, out = (np.bincount(ends, minlength=len(vertices)) for ends in (pair_target, pair_source))
        idle = (into < 2) & (out < 2) & (vertices % devices >= network.npu_count)
        kept = ~idle[source] & ~idle[target]
        if kept.all():
            break
    component = strongly_connected(Digraph(len(vertices), source.astype(np.int32), target.astype(np.int32)))
    of_member, run_of = component[number[: len(joined)]], joined // devices
    same_run = run_of[1:] == run_of[:-1]
    return (run, link) if (of_member[1:] == of_member[:-1])[same_run].all() else None


def _links_at(network: Network, members: Rows) -> Rows:
    """The links at the members of each run, and those between switches for a run that is alone."""
    run, npu = members
    is_between = (network.source >= network.npu_count) & (network.target >= network.npu_count)
    between = np.flatnonzero(is_between & (run.max() == 0))
    runs, links = [np.zeros(len(between), np.int64)], [between]
    for offsets, ends in (network.out_links, network.in_links):
        first, after = offsets[npu].astype(np.int64), offsets[npu + 1].astype(np.int64)
        runs.append(np.repeat(run, after - first))
        links.append(ends[ranges(first, after)].astype(np.int64))
    width = max(1, network.link_count)
    run, link = np.divmod(distinct(np.concatenate(runs) * width + np.concatenate(links)), width)
    return run, link


def _part_of_runs(network: Network, members: Rows, links: Rows, runs: int) -> Int64Array:
    """int64[runs]: parts of runs that share links, or NPUs if these have limits; in the order of their first runs."""
    run, used = links
    if network.has_endpoints:
        run, used = np.append(run, members[0]), np.append(used, network.link_count + members[1])
    count = runs + network.link_count + network.npu_count
    label = weakly_connected(Digraph(count, run.astype(np.int32), (runs + used).astype(np.int32)))[:runs]
    return np.unique(label, return_inverse=True)[1].reshape(-1).astype(np.int64)


class _ByPart:
    """Rows of a table by part. part: int64[rows]."""

    def __init__(self, part: Int64Array, table: Int64Array) -> None:
        self.first, order = group_positions(part.astype(np.int32), int(part.max()) + 1)
        self._table: Int32Array = table[order].astype(np.int32)

    def __getitem__(self, part: int) -> Int32Array:
        return self._table[self.first[part] : self.first[part + 1]]


def _kinds(module: Module, members: Rows, links: Rows, part: Int64Array) -> list[RepeatedPart]:
    """The parts, those together that are the same problem: the same links between devices, and the same chunks.

    part: int64[runs], of each run.
    """
    network, devices = module.network, module.network.device_count
    part_of_link = np.full(network.link_count, -1)
    part_of_link[links[1]] = part[links[0]]
    link = np.flatnonzero(part_of_link >= 0)
    of_link, of_member = part_of_link[link], part[members[0]]
    ends = [of_link * devices + end[link].astype(np.int64) for end in (network.source, network.target)]
    member = of_member * devices + members[1]
    keys = distinct(np.concatenate([*ends, member]))
    of_device, device = np.divmod(keys, devices)
    columns = _ByPart(of_device, device), _ByPart(of_link, link), _ByPart(part, np.arange(len(part)))

    def position(wanted: Int64Array) -> Int64Array:
        """The places of devices among those of their parts. wanted: keys of part and device."""
        return np.searchsorted(keys, wanted) - columns[0].first[wanted // devices]

    argument = _arguments(module.demand, lambda run, npus: position(part[run] * devices + npus))
    tables = (
        _ByPart(of_link, np.stack([position(ends[0]), position(ends[1]), network.kind[link].astype(np.int64)], axis=1)),
        _ByPart(of_device, _traits(network)[device]),
        _ByPart(of_member, np.stack([argument[members[0]], position(member)], axis=1)),
    )
    of_kind: dict[Hashable, list[int]] = {}
    for number in range(int(part.max()) + 1):
        of_kind.setdefault(tuple(table[number].tobytes() for table in tables), []).append(number)
    found: list[RepeatedPart] = []
    for same in of_kind.values():
        each = [np.stack([column[number] for number in same]) for column in columns]
        found.append(RepeatedPart(_first_part(module, *(rows[0] for rows in each)), *each))
    return found


def _traits(network: Network) -> Int64Array:
    """int64[devices]: what each device is: an NPU with limits, or what a switch does; equal numbers for equal ones."""
    limits = network.endpoint if len(network.endpoint) else np.zeros(network.npu_count, np.int64)
    return np.concatenate([limits, -1 - network.multicast - 2 * network.reduces.astype(np.int64)]).astype(np.int64)


def _arguments(demand: Demand, position: Callable[[int, Int32Array], Int64Array]) -> Int64Array:
    """int64[runs]: equal numbers for runs with equal arguments and, if these do not tell the chunks, equal chunks.

    position: of NPUs of a run in its part.
    """
    number_of: dict[Hashable, int] = {}
    argument = np.zeros(len(demand.runs), np.int64)
    for family, numbers in zip(demand.by_family.families, demand.by_family.numbers(), strict=True):
        standard = family.first.standard
        key = standard, family.groups.shape[1]
        if standard is not None and standard.shape.by_rule:
            argument[numbers] = number_of.setdefault(key, len(number_of))
            continue
        runs: list[int] = numbers.tolist()
        for run in runs:
            table = demand.runs[run].pattern.expand()
            columns = table.size, table.pre, table.post, table.op, table.sets.offsets, position(run, table.sets.members)
            argument[run] = number_of.setdefault((key, *(column.tobytes() for column in columns)), len(number_of))
    return argument


def _first_part(whole: Module, device: Int32Array, link: Int32Array, run: Int32Array) -> Module:
    """The runs of a part alone. Its network has the NPUs and switches of the part, numbered anew in the same order.

    device, link, run: numbers in the whole.
    """
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
    runs: list[int] = run.tolist()
    demand = renumber_demand(Demand(tuple(map(whole.demand.runs.__getitem__, runs))), number)
    return replace(whole, network=own, demand=demand, bound=None, notes=(), phases=(), planned=None)


def joined_parts(module: Module, kinds: Sequence[RepeatedPart], planned: Sequence[Module]) -> Module:
    """The module with the schedules of its parts. Raises NoSchedule if messages of a part queue.

    planned: each kind of part with its schedule.
    """
    parts = tuple(replace(kind, module=own) for kind, own in zip(kinds, planned, strict=True))
    if any(isinstance(one.schedule, RowSchedule) and one.schedule.rows.messages is not None for one in parts):
        raise NoSchedule(Diagnostic("S0201", "messages of a group queue at links"))
    schedule = JoinedSchedule(module.model, module.demand, parts)
    return replace(module, schedule=schedule, phases=(), planned=None)
