"""Names of the links into a set of devices, in the words of the program: "the NICs of gpu[3, *]"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.network import DeviceFamily, Network

MOST_NAMES = 4
"""So many devices are listed by name."""


def name_of_links_into(network: Network, inside: BoolArray) -> str:
    """The links into a set of devices, bool[devices], or out of the other devices where these are fewer NPUs."""
    npus = network.present.copy()
    npus[network.npu_count :] = False
    within, beyond = int((inside & npus).sum()), int((~inside & npus).sum())
    into = within <= beyond if within and beyond else bool(within)
    members = inside if into else ~inside & network.present
    kind = "NICs of" if _are_nics(network, members) else "links into" if into else "links out of"
    return f"the {kind} {_set_name(network, members)}"


def name_of_links_between(network: Network, group: Int32Array, parts: Sequence[int]) -> str:
    """The links between the parts of a partition. parts: for each member of the group the number of its part."""
    labels, sizes = np.unique(np.array(parts), return_counts=True)
    if len(labels) == len(parts):
        return "the links between all NPUs"
    largest = labels[int(sizes.argmax())]
    members = np.zeros(network.device_count, np.bool_)
    members[group[np.array(parts) == largest]] = True
    return f"the links between {len(labels)} parts, one of them {_set_name(network, members)}"


def _are_nics(network: Network, members: BoolArray) -> bool:
    """Whether several NPUs that are joined inside a set have all links out of it with switches."""
    source, target = members[network.source], members[network.target]
    crossing = source != target
    outer = np.where(source, network.target, network.source)[crossing]
    inner = np.where(source, network.source, network.target)[crossing]
    several = int(members[: network.npu_count].sum()) > 1
    joined = bool((source & target).any())
    return several and joined and bool((outer >= network.npu_count).all() and (inner < network.npu_count).all())


def _set_name(network: Network, members: BoolArray) -> str:
    """A slice of an array where the NPUs are one, else their names; those of switches where there are no NPUs."""
    found = np.flatnonzero(members & network.present).astype(np.int32)
    npus = found[found < network.npu_count]
    devices = npus if len(npus) else found
    if len(devices) > 1:
        for family in network.families:
            if family.first <= devices[0] < family.first + family.count and family.shape:
                slice_ = _slice_of(family, devices)
                if slice_:
                    return slice_
    names = [network.device_name(int(device)) for device in devices[:MOST_NAMES]]
    more = f" and {len(devices) - MOST_NAMES} more" if len(devices) > MOST_NAMES else ""
    return names[0] if len(devices) == 1 else "{" + ", ".join(names) + more + "}"


def _slice_of(family: DeviceFamily, devices: Int32Array) -> str:
    """`gpu[3, *]` or `gpu[0..4, *]` where some devices of a family are such a part of it, else ""."""
    rest = devices - family.first
    if int(rest.max()) >= family.count:
        return ""
    subscripts = [""] * len(family.shape)
    volume = 1
    for axis in sorted(range(len(family.shape)), key=lambda a: -family.strides[a]):
        index, rest = np.divmod(rest, family.strides[axis])
        low, high = int(index.min()), int(index.max())
        volume *= high - low + 1
        whole = high - low + 1 == family.shape[axis] > 1
        subscripts[axis] = "*" if whole else str(low) if low == high else f"{low}..{high + 1}"
    return f"{family.name}[{', '.join(subscripts)}]" if volume == len(devices) else ""
