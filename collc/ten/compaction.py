"""Networks and demands whose devices have other numbers; without those that were removed, the others keep their names.

What is left of a cluster without one of its nodes is a cluster with a symmetry of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from collc.ten.arrays import Int32Array
from collc.ten.demand import ChunkPattern, ChunkTable, Demand, FamilyRuns, HolderSets, Run, RunFamily
from collc.ten.network import DeviceFamily, Network


def renumber_network(network: Network, number: Int32Array) -> Network:
    """The network whose devices have other numbers, which are called what the devices of these numbers were; links
    keep theirs. number: int32[devices], NPUs first, -1 for those that are left out.
    """
    left = np.flatnonzero(number >= 0)
    old = left[np.argsort(number[left])]
    npus = old[old < network.npu_count]
    switches = old[len(npus) :] - network.npu_count
    return replace(
        network,
        npu_count=len(npus),
        present=network.present[old],
        buffers=network.buffers[switches],
        multicast=network.multicast[switches],
        reduces=network.reduces[switches],
        source=number[network.source],
        target=number[network.target],
        axes=(),
        link_axis=np.empty(0, np.int8),
        endpoint=network.endpoint[npus] if len(network.endpoint) else network.endpoint,
        removed=number[network.removed],
    )


def without_removed_devices(network: Network) -> tuple[Network, Int32Array]:
    """(the network, int32[devices]: the new number of each device, -1 if it was removed). Links keep their numbers."""
    present = network.present
    number = np.where(present, np.cumsum(present) - 1, -1).astype(np.int32)
    families = tuple(
        DeviceFamily(network.device_name(device), (), int(number[device]), (), (label,) if label else ())
        for device in np.flatnonzero(present).tolist()
        for label in (network.real_name(device),)
    )
    compact = replace(renumber_network(network, number), families=families, removed=np.empty((0, 2), np.int32))
    return compact, number


@dataclass(frozen=True, slots=True, eq=False)
class _RenumberedChunks:
    """The chunks of another pattern, on NPUs with other numbers; see ChunkPattern."""

    pattern: ChunkPattern
    number: Int32Array

    def __len__(self) -> int:
        return len(self.pattern)

    def expand(self) -> ChunkTable:
        """See ChunkPattern."""
        table = self.pattern.expand()
        return replace(table, sets=HolderSets(table.sets.offsets, self.number[table.sets.members]))


def renumber_demand(demand: Demand, number: Int32Array) -> Demand:
    """The demand on NPUs with other numbers, in the same order. number: int32[NPUs]."""
    families: list[RunFamily] = []
    for family in demand.by_family.families:
        pattern = _RenumberedChunks(family.first.pattern, number)
        first = replace(family.first, group=number[family.first.group], pattern=pattern)
        families.append(RunFamily(first, number[family.groups]))
    runs = FamilyRuns(tuple(families), demand.by_family.family, demand.by_family.row)
    single: tuple[Run, ...] = tuple(runs)
    return Demand(runs if len(runs) > len(families) else single)
