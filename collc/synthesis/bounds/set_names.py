"""Names of the links into a set of devices, in the words of the program: "the NICs of node 3"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collc.base.wording import SHOWN
from collc.synthesis.bounds.timing import MOST_CUTS
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, distinct
from collc.ten.network import DeviceFamily, Network


def name_of_links_into(network: Network, inside: BoolArray) -> str:
    """The links into a set of devices, bool[devices], or out of the other devices if these have fewer NPUs."""
    npus = network.present.copy()
    npus[network.npu_count :] = False
    within, beyond = int((inside & npus).sum()), int((~inside & npus).sum())
    into = within <= beyond if within and beyond else not within
    members = _DeviceSet(network, (inside if into else ~inside) & network.present)
    if members.node and members.has_nics:
        return f"the NICs of {members.node}"
    return f"the links {'into' if into else 'out of'} {members.name}"


def name_of_links_between(network: Network, group: Int32Array, parts: Sequence[int]) -> str:
    """The links between the parts of a partition. parts: for each member of the group the number of its part."""
    label = np.array(parts)
    labels, sizes = np.unique(label, return_counts=True)
    if len(labels) == len(parts):
        return "the links between all NPUs" + ("" if len(group) == len(network.npus) else " of the group")

    def part(number: int) -> _DeviceSet:
        members = np.zeros(network.device_count, np.bool_)
        members[group[label == number]] = True
        return _DeviceSet(network, members)

    smallest = part(int(labels[int(sizes.argmin())]))
    if len(labels) == 2:
        return f"the links between {smallest.name} and all other NPUs"
    named = len(group) == len(network.npus) and len(labels) <= MOST_CUTS
    if named and (_are_nodes(network, label[np.argsort(group)]) or all(part(each).node for each in labels.tolist())):
        return f"the links between the {len(labels)} nodes"
    return f"the links between {len(labels)} parts of the NPUs, such as {smallest.name}"


def _are_nodes(network: Network, label: Int64Array) -> bool:
    """Whether all parts are rows of one array that only switches join, each at least half there, and have two NPUs.

    label: of each NPU that is there, ascending.
    """
    family = next((f for f in network.families if f.count == network.npu_count and len(f.shape) > 1), None)
    if family is None or family.first or family.strides[0] < max(family.strides):
        return False
    npus, length = network.npus, family.strides[0]
    rows = distinct(npus // length)
    sizes = np.bincount(npus // length)[rows]
    part = np.full(network.device_count, -1, np.int64)
    part[npus] = label
    source, target = part[network.source], part[network.target]
    return (
        len(distinct(label)) == len(distinct(label * len(part) + npus // length)) == len(rows)
        and max(2, length // 2 + 1) <= int(sizes.min())
        and not bool(((source != target) & (source >= 0) & (target >= 0)).any())
    )


@dataclass(frozen=True, eq=False)
class _DeviceSet:
    """Some devices of a network, bool[devices]."""

    network: Network
    members: BoolArray

    @cached_property
    def devices(self) -> Int32Array:
        """Its NPUs, or its switches if it has no NPUs."""
        found = np.flatnonzero(self.members).astype(np.int32)
        npus = found[found < self.network.npu_count]
        return npus if len(npus) else found

    @cached_property
    def name(self) -> str:
        """A device, a copy of a topology, a node with its parts, a slice of an array, or the names of all devices."""
        network = self.network
        if len(self.devices) == 1:
            return network.shown_name(int(self.devices[0]))
        if self.copy:
            return self.copy
        if self.node:
            return f"{self.node} ({', '.join([self.slice, *self._switches()])})"
        if self.slice:
            return self.slice
        names = [network.shown_name(int(device)) for device in self.devices[:SHOWN]]
        more = f" and {len(self.devices) - SHOWN} more" if len(self.devices) > SHOWN else ""
        return "{" + ", ".join(names) + more + "}"

    @cached_property
    def _family(self) -> DeviceFamily | None:
        """The array that all its devices are of."""
        first, last = int(self.devices[0]), int(self.devices[-1])
        families = self.network.families
        return next((f for f in families if f.first <= first <= last < f.first + f.count and f.shape), None)

    @cached_property
    def _ranges(self) -> list[tuple[int, int]] | None:
        """For each index of the array the smallest and the largest, if the set is all between them; of whole rows,
        such as nodes, less than half may have been removed.
        """
        family = self._family
        if family is None:
            return None
        rest = self.devices - family.first
        found = [(0, 0)] * len(family.shape)
        for axis in sorted(range(len(family.shape)), key=lambda a: -family.strides[a]):
            index, rest = np.divmod(rest, family.strides[axis])
            found[axis] = int(index.min()), int(index.max())
        for axis, size in enumerate(family.shape):  # the first or last may have been removed
            wider = [*found[:axis], (0, size - 1), *found[axis + 1 :]]
            found = wider if self._is_all_between(family, wider) else found
        return found if self._is_all_between(family, found) else None

    def _is_all_between(self, family: DeviceFamily, ranges: list[tuple[int, int]]) -> bool:
        """Whether the set is all devices between these indexes of an array, or what is left of whole rows."""
        devices = np.array([family.first])
        for (low, high), stride in zip(ranges, family.strides, strict=True):
            devices = np.add.outer(devices, np.arange(low, high + 1) * stride).ravel()
        whole = all(
            low == high or high - low == size - 1 for (low, high), size in zip(ranges, family.shape, strict=True)
        )
        most = 2 * len(self.devices) - 1 if whole else len(self.devices)
        return len(devices) <= most and int(self.network.present[devices].sum()) == len(self.devices)

    @cached_property
    def slice(self) -> str:
        """`gpu[3, *]` or `gpu[0..4, *]` if the devices are such a part of an array, else ""."""
        family, ranges = self._family, self._ranges
        if family is None or ranges is None:
            return ""
        subscripts = [
            "*" if high - low + 1 == size > 1 else str(low) if low == high else f"{low}..{high + 1}"
            for (low, high), size in zip(ranges, family.shape, strict=True)
        ]
        return f"{family.name}[{', '.join(subscripts)}]"

    @cached_property
    def copy(self) -> str:
        """`node[2]` if the devices are all NPUs of that copy of a topology, else ""."""
        network = self.network
        prefix = network.device_name(int(self.devices[0])).rpartition(".")[0]
        while prefix:
            inside = np.zeros(network.device_count, np.bool_)
            for family in network.families:
                if family.name.startswith(prefix + ".") and family.first < network.npu_count:
                    inside[family.first : family.first + family.count] = True
            if np.array_equal(np.flatnonzero(inside & network.present), self.devices):
                return prefix
            prefix = prefix.rpartition(".")[0]
        return ""

    @cached_property
    def node(self) -> str:
        """`node 3`, `nodes 0 to 3` or `node[2]` if the devices are NPUs that only switches join to others."""
        network, family, ranges = self.network, self._family, self._ranges
        source, target = self.members[network.source], self.members[network.target]
        switched = (network.source >= network.npu_count) | (network.target >= network.npu_count)
        if len(self.devices) < 2 or int(self.devices[0]) >= network.npu_count or not switched[source != target].all():
            return ""
        if self.copy:
            return self.copy
        if family is None or ranges is None or len(ranges) < 2 or family.strides[0] < max(family.strides):
            return ""
        (low, high), *others = ranges
        whole = all(last - first + 1 == size for (first, last), size in zip(others, family.shape[1:], strict=True))
        return "" if not whole else f"node {low}" if low == high else f"nodes {low} to {high}"

    @cached_property
    def has_nics(self) -> bool:
        """Whether its NPUs are joined inside, and all links out of it are between them and switches."""
        network = self.network
        source, target = self.members[network.source], self.members[network.target]
        crossing = source != target
        inner = np.where(source, network.source, network.target)[crossing]
        return bool((source & target).any() and (inner < network.npu_count).all())

    def _switches(self) -> list[str]:
        found = np.flatnonzero(self.members[self.network.npu_count :]) + self.network.npu_count
        names = [self.network.shown_name(int(switch)) for switch in found]
        return names if len(names) <= SHOWN else [f"{len(names)} switches"]
