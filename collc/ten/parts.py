"""Parts of a network that fail as one: a NIC, a cable, a node, a rail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from collc.ten.arrays import Int64Array
from collc.ten.network import Network


@dataclass(frozen=True, slots=True)
class Part:
    """Devices and links with a name.

    name: in the program, as `nic[3, 5]`. devices: ascending numbers; their links fail with them. links: (source,
    target) of other links, ascending; all parallel ones. label: what the machine calls it, "" if no label says it.
    """

    name: str
    devices: tuple[int, ...]
    links: tuple[tuple[int, int], ...] = ()
    label: str = ""


def devices_and_links(network: Network, parts: Iterable[Part]) -> tuple[Int64Array, Int64Array]:
    """(devices, links), int64 each, ascending: what a network lacks without some parts.

    Links of such devices are not among them.
    """
    parts = tuple(parts)
    devices = np.unique(np.array([device for part in parts for device in part.devices], np.int64))
    ends = np.array([pair for part in parts for pair in part.links], np.int64).reshape(-1, 2)
    keys = network.source.astype(np.int64) * network.device_count + network.target
    return devices, np.flatnonzero(np.isin(keys, ends[:, 0] * network.device_count + ends[:, 1]))
