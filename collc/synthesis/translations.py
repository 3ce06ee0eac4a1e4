"""Finds the translations of a network with or without switches: nodes, GPUs of a node, rails, pods, rings, tori.

The candidates are shifts along the coordinates of the NPUs. Each is extended to the switches and links, and kept if it
is an automorphism of links, kinds of links and properties of devices. If some shifts are not automorphisms, there are
several orbits of NPUs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collc.graph.automorphisms import Automorphisms
from collc.synthesis.coordinates import coordinates_of
from collc.synthesis.switch_shifts import spread_over_switches
from collc.ten.arrays import Int32Array
from collc.ten.coordinates import Coordinates
from collc.ten.network import Network
from collc.ten.translations import Translations


def find_translations(network: Network) -> Translations | None:
    """The largest group of translations that the network's coordinates give; None if there is none.

    Networks without some of their NPUs have none.
    """
    if network.npu_count < 2 or not network.link_count or not bool(network.present[: network.npu_count].all()):
        return None
    automorphisms = Automorphisms(network)
    best: Translations | None = None
    for coordinates in coordinates_of(network):
        found = _translations(automorphisms, coordinates)
        if found is not None and (best is None or found.count > best.count):
            best = found
        if best is not None and best.count == network.npu_count:
            break
    return None if best is None else spread_over_switches(network, best)


def _translations(automorphisms: Automorphisms, coordinates: Coordinates) -> Translations | None:
    """The group of all shifts along coordinates that are automorphisms."""
    sizes: list[int] = []
    devices: list[Int32Array] = []
    links: list[Int32Array] = []
    for axis in range(len(coordinates.sizes)):
        for size, shifts in _shifts(coordinates, axis):
            before = len(sizes)
            for npus in shifts:
                found = automorphisms.extended(npus)
                if found is None or not _generates(found, size):
                    continue
                if all(_commute(found, other) for other in zip(devices, links, strict=True)):
                    sizes.append(size)
                    devices.append(found[0])
                    links.append(found[1])
            if len(sizes) > before:
                break
    if not sizes:
        return None
    return Translations(tuple(sizes), coordinates.index.shape[1], np.stack(devices), np.stack(links))


def _shifts(coordinates: Coordinates, axis: int) -> Iterator[tuple[int, list[Int32Array]]]:
    """Shifts along an axis, int32[npus], with their order: the cyclic one, or those of each bit, or the reflection.

    Only those of one of the three make a group without fixed NPUs.
    """
    size, index = coordinates.sizes[axis], coordinates.index[axis]
    shifted = [(size, [(index + 1) % size])]
    if size > 2 and not size & (size - 1):
        shifted.append((2, [index ^ (1 << bit) for bit in range(size.bit_length() - 1)]))
    if size > 2 and size % 2 == 0:
        shifted.append((2, [size - 1 - index]))
    for order, moved in shifted:
        yield order, [coordinates.shift(axis, to) for to in moved]


def _generates(automorphism: tuple[Int32Array, Int32Array], size: int) -> bool:
    """Whether devices and links are where they were after `size` times."""
    for permutation in automorphism:
        power, result, rest = permutation, np.arange(len(permutation), dtype=np.int32), size
        while rest:
            if rest & 1:
                result = power[result]
            power, rest = power[power], rest >> 1
        if not np.array_equal(result, np.arange(len(permutation))):
            return False
    return True


def _commute(left: tuple[Int32Array, Int32Array], right: tuple[Int32Array, Int32Array]) -> bool:
    return all(np.array_equal(a[b], b[a]) for a, b in zip(left, right, strict=True))
