"""Communicators: the NPUs that make a call together. Rank r of a file is the r-th member of its run's group.

A schedule of several runs becomes a file for each, with only the transfers of its run. NPUs outside the group have no
rank, so a file cannot use them as relays (docs/msccl.md, "Ranks").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.compaction import renumber_network
from collc.ten.demand import Demand, HolderSets, Run
from collc.ten.module import Module
from collc.ten.network import DeviceFamily, Network
from collc.ten.schedule import RowSchedule, Transfers
from collc.ten.transform import remove_parts


@dataclass(frozen=True, eq=False)
class Communicator:
    """What one file is for.

    run: number of its run; None for all runs together. members: int32, by rank, NPU numbers in the schedule's network.
    network: NPU r is rank r; all other NPUs are absent, and links keep their numbers. demand: of the run, on it.
    in_order: whether the ranks are all NPUs in their order.
    """

    run: int | None
    members: Int32Array
    network: Network
    demand: Demand
    in_order: bool

    def module(self, module: Module) -> Module:
        """The part of a scheduled module that belongs to the communicator.

        Raises SourceError M0114 if a transfer of the run ends at an NPU outside its group.
        """
        if self.run is None or module.schedule is None:
            return module
        first, end = module.demand.first_chunk[self.run : self.run + 2].tolist()
        blocks = [
            rows.select((rows.chunk >= first) & (rows.chunk < end)) for rows in module.schedule.blocks()
        ]  # since a large schedule has no list of its transfers
        for relay in (npu for rows in blocks for npu in _relays_outside(module, rows)):
            collective, name = module.demand.runs[self.run].collective, module.network.shown_name(relay)
            message = f"{collective} passes through {name}, which is not in its group"
            hint = "let collc plan the run, use algorithms that stay inside the group, or run it over all NPUs of the "
            raise SourceError(Diagnostic("M0114", message, hint=hint + "network"))
        rows = Transfers.concatenate([replace(rows, chunk=rows.chunk - np.int32(first)) for rows in blocks])
        schedule = RowSchedule(module.schedule.model, rows)
        return replace(module, network=self.network, demand=self.demand, schedule=schedule)


def communicators_of(network: Network, demand: Demand, *, joint: bool = False) -> list[Communicator]:
    """A communicator for each run; with `joint`, one of all NPUs for all runs together."""
    whole = Communicator(None, network.npus, network, demand, in_order=True)
    if joint or (len(demand.runs) == 1 and np.array_equal(demand.runs[0].group, network.npus)):
        return [whole]
    return [_of_run(network, demand, number) for number in range(len(demand.runs))]


def _of_run(network: Network, demand: Demand, number: int) -> Communicator:
    run = demand.runs[number]
    members = run.group
    if np.array_equal(members, network.npus):
        return Communicator(number, members, network, Demand((run,)), in_order=True)
    number_of = _new_numbers(network, members)
    table = demand.tables[number]
    sets = HolderSets.of([number_of[table.sets[k]].tolist() for k in range(len(table.sets))])
    moved = Run(run.collective, number_of[members], replace(table, sets=sets), run.standard)
    return Communicator(number, members, _renumber(network, members, number_of), Demand((moved,)), in_order=False)


def _new_numbers(network: Network, members: Int32Array) -> Int32Array:
    """int32[devices]: the number of each device if the members come first, by rank."""
    outside = ~_is_member(network, members)
    outside[network.npu_count :] = True
    order = np.concatenate([members, np.flatnonzero(outside)])
    number_of = np.empty(network.device_count, np.int32)
    number_of[order] = np.arange(network.device_count, dtype=np.int32)
    return number_of


def _renumber(network: Network, members: Int32Array, number_of: Int32Array) -> Network:
    """The network with NPUs in another order, of which only the members are present. Links keep their numbers."""
    order = np.argsort(number_of)[: network.npu_count]
    real = [network.real_name(int(old)) for old in order]
    names = [
        DeviceFamily(network.device_name(int(old)), (), new, (), (real[new],) if real[new] else ())
        for new, old in enumerate(order)
    ]
    switches = tuple(family for family in network.families if family.first >= network.npu_count)
    present = network.present.copy()
    present[: network.npu_count] = np.arange(network.npu_count) < len(members)
    return replace(renumber_network(network, number_of), families=(*names, *switches), present=present)


def _relays_outside(module: Module, rows: Transfers) -> Int32Array:
    """int32: the NPUs at which transfers end that are not in the group of their run."""
    network, demand = module.network, module.demand
    allowed = np.stack([_is_member(network, run.group) for run in demand.runs])
    allowed[:, network.npu_count :] = True
    target = network.target[rows.link]
    run = np.searchsorted(demand.first_chunk, rows.chunk, side="right") - 1
    return target[~allowed[run, target]]


def relays_outside(module: Module) -> bool:
    """Whether the schedule of a module sends chunks of a run to NPUs that are not in its group."""
    return module.schedule is not None and any(len(_relays_outside(module, rows)) for rows in module.schedule.blocks())


def network_of_groups(network: Network, demand: Demand) -> Network:
    """The network without what no run can use if it stays inside its group.

    These are the NPUs in no group, and links between two NPUs that have no group in common. If nothing of that is
    there, the network itself.
    """
    groups = [_is_member(network, run.group) for run in demand.runs]
    used = np.any(groups, axis=0) if groups else np.zeros(network.device_count, np.bool_)
    between = (network.source < network.npu_count) & (network.target < network.npu_count)
    together = np.zeros(network.link_count, np.bool_)
    for group in groups:
        together |= group[network.source] & group[network.target]
    idle = [npu for npu in network.npus.tolist() if not used[npu]]
    apart = np.flatnonzero(between & ~together)
    return remove_parts(network, idle, apart) if idle or len(apart) else network


def _is_member(network: Network, group: Int32Array) -> BoolArray:
    """bool[devices]: whether each device is an NPU of the group."""
    inside = np.zeros(network.device_count, np.bool_)
    inside[group] = True
    return inside


def for_one_run(network: Network, group: Int32Array) -> Network:
    """The network on which a chunk can pass no NPU outside the group. Links keep their numbers.

    Links to other NPUs lead to a switch that nothing leaves, and those from them come from one that nothing enters.
    """
    outside = ~_is_member(network, group)
    outside[network.npu_count :] = False
    end, origin = network.device_count, network.device_count + 1
    family = DeviceFamily("outside", (2,), end, (1,))

    two = np.zeros(2, np.bool_)
    return replace(
        network,
        families=(*network.families, family),
        present=np.concatenate([network.present, ~two]),
        buffers=np.concatenate([network.buffers, np.full(2, -1, np.int64)]),
        multicast=np.concatenate([network.multicast, two]),
        reduces=np.concatenate([network.reduces, two]),
        source=np.where(outside[network.source], origin, network.source).astype(np.int32),
        target=np.where(outside[network.target], end, network.target).astype(np.int32),
        axes=(),
        link_axis=np.empty(0, np.int8),
    )


def rank_names(network: Network, members: Sequence[int] | Int32Array) -> Iterator[str]:
    """The names of the members by rank."""
    for npu in members:
        yield network.device_name(int(npu))
