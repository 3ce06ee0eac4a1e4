"""Finds the translations of a network with or without switches: nodes, GPUs of a node, rails, pods, rings, tori.

The candidates are shifts along the coordinates of the NPUs. Each is extended to the switches and links, and kept if it
is an automorphism of links, kinds of links and properties of devices. If some shifts are not automorphisms, there are
several orbits of NPUs.

If several switches join the same devices (the spines of a rail, the aggregation switches of a pod), a shift of the NPUs
may shift these switches too. Then fewer translations of a transfer share a link, and each needs fewer turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from math import prod
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from collc.graph.automorphisms import Automorphisms
from collc.graph.coordinates import Coordinates, coordinates_of
from collc.ten.arrays import Int32Array
from collc.ten.factored_schedule import Translations
from collc.ten.network import DeviceFamily, Network

MOST_SHIFTS: Final = 64
"""Combinations of shifts of parallel switches, or exchanges of neighbours along an axis, that are tried at most."""

_FOUND: Final = WeakKeyDictionary[Network, "Translations | None"]()

Automorphism = tuple[Int32Array, Int32Array]
"""Where devices and links go."""


def find_translations(network: Network) -> Translations | None:
    """The largest group of translations that the network's coordinates give; None if there is none.

    Networks without some of their NPUs have none. It is searched once, and kept as long as the network.
    """
    if network not in _FOUND:
        _FOUND[network] = _largest_group(network)
    return _FOUND[network]


def _largest_group(network: Network) -> Translations | None:
    if network.npu_count < 2 or not network.link_count or not bool(network.present[: network.npu_count].all()):
        return None
    automorphisms = Automorphisms(network)
    best: Translations | None = None
    for coordinates in coordinates_of(network):
        candidate = _translations_along(automorphisms, coordinates)
        if candidate is not None and (best is None or candidate.count > best.count):
            best = candidate
        if best is not None and best.count == network.npu_count:
            break
    return None if best is None else _spread_over_switches(network, best)


def _translations_along(automorphisms: Automorphisms, coordinates: Coordinates) -> Translations | None:
    """The group of all shifts along coordinates that are automorphisms."""
    sizes: list[int] = []
    devices: list[Int32Array] = []
    links: list[Int32Array] = []
    for axis in range(len(coordinates.sizes)):
        for size, shifts in _shifts(coordinates, axis):
            before = len(sizes)
            for npus in shifts:
                extended = automorphisms.extend(npus)
                # Links follow devices, parallel ones in order, so what holds for all devices holds for links.
                if extended is None or not _has_order(extended[0], size):
                    continue
                if _commute([*devices, extended[0]]):
                    sizes.append(size)
                    devices.append(extended[0])
                    links.append(extended[1])
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


def _has_order(permutation: Int32Array, size: int) -> bool:
    """Whether `size` applications of a permutation leave every device in place."""
    power, result, rest = permutation, np.arange(len(permutation), dtype=np.int32), size
    while rest:
        if rest & 1:
            result = power[result]
        power, rest = power[power], rest >> 1
    return np.array_equal(result, np.arange(len(permutation)))


def _commute(permutations: list[Int32Array]) -> bool:
    return all(np.array_equal(a[b], b[a]) for a, b in combinations(permutations, 2))


def _spread_over_switches(network: Network, translations: Translations) -> Translations:
    """The translations with shifts of parallel switches added to their generators, if fewer share a link then."""
    best = translations
    if int(best.link_share.max(initial=1)) == 1:
        return best
    shifts = _switch_shifts(network)
    for axis in range(len(best.sizes)):
        before = best
        for order, (device, link) in shifts:
            if before.sizes[axis] % order:
                continue
            devices, links = before.device.copy(), before.link.copy()
            devices[axis], links[axis] = device[devices[axis]], link[links[axis]]
            candidate = replace(before, device=devices, link=links)
            if _commute(list(devices)) and int(candidate.link_share.sum()) < int(best.link_share.sum()):
                best = candidate
    return best


def _switch_shifts(network: Network) -> list[tuple[int, Automorphism]]:
    """Automorphisms that leave all NPUs in place and shift arrays of switches along an axis, with their orders."""
    options = [
        [(1, np.empty(0, np.int32)), *_shifts_of_family(family)]
        for family in network.families
        if _is_parallel(network, family)
    ]
    if not 1 < prod(map(len, options)) <= MOST_SHIFTS:
        return []
    automorphisms = Automorphisms(network)
    shifts: list[tuple[int, Automorphism]] = []
    for choice in product(*options):
        device = np.arange(network.device_count, dtype=np.int32)
        for _, moved in choice:
            device[np.sort(moved)] = moved
        orders = {order for order, _ in choice if order > 1}
        if len(orders) == 1:
            link = automorphisms.link_images(device)
            if link is not None:
                shifts.append((orders.pop(), (device, link)))
    return shifts


def _is_parallel(network: Network, family: DeviceFamily) -> bool:
    """Whether a family consists of several switches of which none is linked to an NPU that others lack."""
    if family.first < network.npu_count or family.count == 1:
        return False
    own = np.arange(family.first, family.first + family.count)
    return not bool((network.source[np.isin(network.target, own)] < network.npu_count).any())


def _shifts_of_family(family: DeviceFamily) -> list[tuple[int, Int32Array]]:
    """For each axis of an array of switches: its length, and the image of each switch under a shift along it."""
    number = np.arange(family.count, dtype=np.int32)
    shifts: list[tuple[int, Int32Array]] = []
    for size, stride in zip(family.shape, family.strides, strict=True):
        if size > 1:
            index = number // stride % size
            shifts.append((size, (family.first + number + ((index + 1) % size - index) * stride).astype(np.int32)))
    return shifts
