"""Parts of a network that fail as one: a NIC, a cable, a node, a rail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from collc.ten.arrays import Int64Array
from collc.ten.network import Network
from collc.ten.transform import remove_parts


@dataclass(frozen=True, slots=True)
class Part:
    """Devices and links with a name.

    name: in the program, as `nic[3, 5]`. devices: ascending numbers; their links fail with them. links: (source,
    target) of other links, ascending; all parallel ones. label: what the machine calls it, "" if no label says it.
    left: the share of the bandwidth of its links that is left after its failure; 0 if it is dead.
    """

    name: str
    devices: tuple[int, ...]
    links: tuple[tuple[int, int], ...] = ()
    label: str = ""
    left: Fraction = Fraction(0)

    @property
    def failure(self) -> str:
        """The name of its failure: its own name, if it is slow with the share that is left."""
        return f"{self.name} (bandwidth: {self.left})" if self.left else self.name


def devices_and_links(network: Network, parts: Iterable[Part]) -> tuple[Int64Array, Int64Array]:
    """(devices, links), int64 each, ascending: what a network lacks without some parts.

    Links of such devices are not among them.
    """
    parts = tuple(parts)
    devices = np.unique(np.array([device for part in parts for device in part.devices], np.int64))
    ends = np.array([pair for part in parts for pair in part.links], np.int64).reshape(-1, 2)
    keys = network.source.astype(np.int64) * network.device_count + network.target
    return devices, np.flatnonzero(np.isin(keys, ends[:, 0] * network.device_count + ends[:, 1]))


def links_of(network: Network, part: Part) -> Int64Array:
    """int64, ascending: the links of a part and of its devices."""
    devices, links = devices_and_links(network, [part])
    ends = np.isin(network.source, devices) | np.isin(network.target, devices)
    return np.union1d(np.flatnonzero(ends), links)


def rates_of(network: Network, part: Part) -> list[Fraction]:
    """Bytes a second of the links of a part, ascending, each once."""
    kinds: list[int] = np.unique(network.kind[links_of(network, part)]).tolist()
    return sorted({network.kinds[kind].bandwidth or Fraction(0) for kind in kinds})


def share_left(network: Network, part: Part, left: Fraction, *, is_rate: bool) -> Fraction | None:
    """The share of the bandwidth of a part's links that bytes a second are, or a share; None if it is not between 0 and
    1, or if the links differ.
    """
    if not is_rate:
        return left if 0 < left < 1 else None
    rates = rates_of(network, part)
    return left / rates[0] if len(rates) == 1 and 0 < left < rates[0] else None


def without_parts(network: Network, parts: Iterable[Part]) -> Network:
    """The network without the dead ones of some parts, and with the bandwidth that the others leave. If a link is of
    several parts, the least share counts.
    """
    parts = tuple(parts)
    devices, links = devices_and_links(network, [part for part in parts if not part.left])
    kinds, kind = dict.fromkeys(network.kinds), network.kind.copy()
    for part in sorted((part for part in parts if part.left), key=lambda part: -part.left):
        own = links_of(network, part)
        numbers: list[int] = np.unique(network.kind[own]).tolist()
        for old in numbers:
            before = network.kinds[old]
            slow = replace(before, bandwidth=None if before.bandwidth is None else before.bandwidth * part.left)
            kinds.setdefault(slow)
            kind[own[network.kind[own] == old]] = [*kinds].index(slow)
    return remove_parts(replace(network, kind=kind, kinds=tuple(kinds)), devices.tolist(), links)
