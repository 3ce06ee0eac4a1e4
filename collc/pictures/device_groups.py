"""Groups of devices for pictures of large networks: by node, by the outermost coordinate, or of consecutive NPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.pictures.layout import node_label, node_numbers
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import DeviceFamily, LinkKind, Network


@dataclass(frozen=True, slots=True)
class DeviceGroups:
    """labels: of the groups, those of NPUs first. npu_groups: how many these are. of: int64[devices], the group of each
    device.
    """

    labels: list[str]
    npu_groups: int
    of: Int64Array

    def network_of(self, network: Network) -> Network:
        """The network with a device for each group, and a link for all links from one group to another."""
        pairs = self._pairs(np.stack([network.source, network.target], axis=1))
        count, switches = len(self.labels), len(self.labels) - self.npu_groups
        return Network(
            network.name,
            self.npu_groups,
            tuple(DeviceFamily(label, (), number, ()) for number, label in enumerate(self.labels)),
            np.ones(count, np.bool_),
            np.full(switches, -1, np.int64),
            np.zeros(switches, np.bool_),
            np.zeros(switches, np.bool_),
            pairs[:, 0],
            pairs[:, 1],
            np.zeros(len(pairs), np.int32),
            (LinkKind(None, None),),
            removed=self._pairs(network.removed),
        )

    def _pairs(self, links: Int32Array) -> Int32Array:
        """int32[any, 2]: each pair of groups that links join. links: int32[any, 2], their ends."""
        ends = self.of[links]
        return np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0).astype(np.int32)


def device_groups(network: Network, most_npu_groups: int, most: int) -> DeviceGroups:
    """Nodes, or NPUs if they have one index, with the switches that are linked to one of them only; if there are more
    than `most_npu_groups`, as many consecutive ones together as needed. Other switches are alone, or if there would be
    more than `most` groups, by family.
    """
    nodes = node_numbers(network)
    parts = np.arange(network.npu_count, dtype=np.int64) if nodes is None else nodes
    size = -(-(int(parts.max(initial=0)) + 1) // most_npu_groups)
    of = switch_homes(network, parts // size)
    _, first = np.unique(of[: network.npu_count], return_index=True)
    names = [network.device_name(npu) for npu in first.tolist()]
    labels = names if nodes is None else [node_label(name) for name in names]
    labels = [f"{label} …" for label in labels] if size > 1 else labels
    npu_groups = len(labels)
    others = np.flatnonzero((of < 0) & network.present)
    if npu_groups + len(others) <= most:
        of[others] = npu_groups + np.arange(len(others))
        return DeviceGroups(labels + [network.device_name(switch) for switch in others.tolist()], npu_groups, of)
    for family in network.families:
        members = others[(others >= family.first) & (others < family.first + family.count)]
        if len(members):
            of[members] = len(labels)
            labels.append(f"{family.name}[*]" if family.count > 1 else family.name)
    return DeviceGroups(labels, npu_groups, of)


def switch_homes(network: Network, groups: Int64Array) -> Int64Array:
    """int64[devices]: the group of each NPU, and of each switch whose neighbours are NPUs of one group; else -1.

    groups: int64[npus].
    """
    inner, device_count = network.npu_count, network.device_count
    of = np.full(device_count, -1, np.int64)
    of[:inner] = groups
    device, other = np.concatenate([[network.source, network.target], [network.target, network.source]], axis=1)
    low, high = np.full(device_count, np.iinfo(np.int64).max), np.full(device_count, -1, np.int64)
    np.minimum.at(low, device, of[other])
    np.maximum.at(high, device, of[other])
    of[inner:] = np.where(low == high, high, -1)[inner:]
    return of
