"""Translations that use parallel switches in turns.

Where several switches join the same devices (the spines of a rail, the aggregation switches of a pod), a shift of the
NPUs may shift these switches too. Then fewer translations of a transfer share a link, and each needs fewer turns.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from collc.ten.arrays import Int32Array
from collc.ten.network import DeviceFamily, Network
from collc.ten.translations import Translations

MOST = 64
"""Combinations of shifts that are tried at most."""

Automorphism = tuple[Int32Array, Int32Array]
"""Where devices and links go."""


def spread_over_switches(network: Network, translations: Translations) -> Translations:
    """The translations with shifts of parallel switches added to their generators, where fewer share a link then."""
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
            found = replace(before, device=devices, link=links)
            if _commute(devices) and _commute(links) and _shared(found) < _shared(best):
                best = found
    return best


def _shared(translations: Translations) -> int:
    return int(translations.link_share.sum())


def _commute(permutations: Int32Array) -> bool:
    pairs = [(a, b) for number, a in enumerate(permutations) for b in permutations[:number]]
    return all(np.array_equal(a[b], b[a]) for a, b in pairs)


def _switch_shifts(network: Network) -> list[tuple[int, Automorphism]]:
    """Automorphisms that leave all NPUs in place and shift arrays of switches along an axis, with their orders."""
    options = [[(1, np.empty(0, np.int32)), *_shifted(family)] for family in network.families if _many(network, family)]
    combinations = 1
    for option in options:
        combinations *= len(option)
    if not 1 < combinations <= MOST:
        return []
    found: list[tuple[int, Automorphism]] = []
    for choice in product(*options):
        device = np.arange(network.device_count, dtype=np.int32)
        for _, moved in choice:
            device[np.sort(moved)] = moved
        orders = {order for order, _ in choice if order > 1}
        if len(orders) == 1:
            link = _links(network, device)
            if link is not None:
                found.append((orders.pop(), (device, link)))
    return found


def _many(network: Network, family: DeviceFamily) -> bool:
    """Whether a family consists of several switches of which none is linked to an NPU that others lack."""
    if family.first < network.npu_count or family.count == 1:
        return False
    own = np.arange(family.first, family.first + family.count)
    return not bool((network.source[np.isin(network.target, own)] < network.npu_count).any())


def _shifted(family: DeviceFamily) -> list[tuple[int, Int32Array]]:
    """For each axis of an array of switches: its length, and where a shift along it takes each of them."""
    number = np.arange(family.count, dtype=np.int32)
    found: list[tuple[int, Int32Array]] = []
    for size, stride in zip(family.shape, family.strides, strict=True):
        if size > 1:
            index = number // stride % size
            found.append((size, (family.first + number + ((index + 1) % size - index) * stride).astype(np.int32)))
    return found


def _links(network: Network, device: Int32Array) -> Int32Array | None:
    """int32[links]: where each link goes; None if there is no such link."""
    count, kinds = network.device_count, len(network.kinds)
    here = (network.source.astype(np.int64) * count + network.target) * kinds + network.kind
    there = (device[network.source].astype(np.int64) * count + device[network.target]) * kinds + network.kind
    order, moved = np.argsort(here, kind="stable"), np.argsort(there, kind="stable")
    if not np.array_equal(here[order], there[moved]):
        return None
    link = np.empty(len(order), np.int32)
    link[moved] = order
    return link
