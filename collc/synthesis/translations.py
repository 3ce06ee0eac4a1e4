"""Finds the translations of a network with or without switches: nodes, GPUs of a node, rails, pods, rings, tori.

The candidates are shifts along the coordinates of the NPUs; each is extended to the switches and links, and kept where
it is an automorphism of links, kinds of links and properties of devices. Where not all shifts are, there are several
orbits of NPUs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from collc.synthesis.coordinates import coordinates_of, kind_code, mixed
from collc.synthesis.switch_shifts import spread_over_switches
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.coordinates import Coordinates
from collc.ten.network import Network
from collc.ten.translations import Translations


def find_translations(network: Network) -> Translations | None:
    """The largest group of translations that the network's coordinates give; None where there is none.

    Networks without some of their NPUs have none.
    """
    if network.npu_count < 2 or not network.link_count or not bool(network.present[: network.npu_count].all()):
        return None
    automorphisms = _Automorphisms(network)
    best: Translations | None = None
    for coordinates in coordinates_of(network):
        found = _translations(automorphisms, coordinates)
        if found is not None and (best is None or found.count > best.count):
            best = found
        if best is not None and best.count == network.npu_count:
            break
    return None if best is None else spread_over_switches(network, best)


def _translations(automorphisms: _Automorphisms, coordinates: Coordinates) -> Translations | None:
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


class _Automorphisms:
    """Extends permutations of the NPUs of a network to its switches and links.

    Switches are matched by what they are linked to: each has a colour, the NPUs different ones, which is refined by the
    colours of its neighbours. Where several switches keep the same colour, they are matched by number, if that fails
    one by one.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._count = network.npu_count
        at = np.flatnonzero((network.source >= self._count) | (network.target >= self._count))
        self._source, self._target, self._code = network.source[at], network.target[at], kind_code(network)[at]
        attributes = np.stack([network.present[self._count :], network.multicast, network.reduces, network.buffers])
        self._first = mixed((attributes.T.astype(np.int64) @ np.array([1, 2, 4, 8])).astype(np.uint64))
        self._keys = self._link_keys(np.arange(network.device_count))
        self._order = np.argsort(self._keys, kind="stable")
        self._sorted = self._keys[self._order]

    def extended(self, npus: Int32Array) -> tuple[Int32Array, Int32Array] | None:
        """(int32[devices], int32[links]) where the NPUs go to `npus`; None where that is no automorphism."""
        network = self._network
        if len(network.endpoint) and not np.array_equal(network.endpoint[npus], network.endpoint):
            return None
        own, image = np.empty((2, network.device_count), np.uint64)
        own[: self._count] = mixed(np.arange(self._count, dtype=np.uint64))
        image[npus] = own[: self._count]
        own[self._count :] = image[self._count :] = self._first
        for number in range(network.switch_count + 1):
            own, image = self._refined(own), self._refined(image)
            matched = self._matched(own, image)
            if matched is None:
                return None
            devices = np.concatenate([npus, matched]).astype(np.int32)
            links = self._links(devices)
            if links is not None:
                return devices, links
            pair = self._pair(own, image)
            if pair is None:
                return None
            own[pair[0]] = image[pair[1]] = mixed(np.array([number], np.uint64))[0] ^ own[pair[0]]
        return None

    def _refined(self, colour: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Colours that differ wherever neighbours do."""
        classes = 0
        while True:
            found = len(np.unique(colour[self._count :]))
            if found <= classes or found == self._network.switch_count > 0 < classes:
                return colour
            classes = found
            total = np.zeros(len(colour), np.uint64)
            np.add.at(total, self._target, mixed(colour[self._source] + self._code))
            np.add.at(total, self._source, mixed(colour[self._target] - self._code))
            colour = colour.copy()
            colour[self._count :] = mixed(colour[self._count :] + total[self._count :])

    def _matched(self, own: NDArray[np.uint64], image: NDArray[np.uint64]) -> Int64Array | None:
        """int64[switches]: the image of each switch, by colour, then number; None where there are other colours."""
        own, image = own[self._count :], image[self._count :]
        left, right = np.argsort(own, kind="stable"), np.argsort(image, kind="stable")
        if not np.array_equal(own[left], image[right]):
            return None
        found = np.empty(len(left), np.int64)
        found[left] = right
        return found + self._count

    def _pair(self, own: NDArray[np.uint64], image: NDArray[np.uint64]) -> tuple[int, int] | None:
        """A switch among several of its colour, with its image: itself if possible; None where all colours differ."""
        colours, counts = np.unique(own[self._count :], return_counts=True)
        first: tuple[int, int] | None = None
        for colour in colours[counts > 1]:
            left, right = np.flatnonzero(own == colour), np.flatnonzero(image == colour)
            if np.array_equal(left, right):
                return int(left[0]), int(left[0])
            first = first or (int(left[0]), int(right[0]))
        return first

    def _links(self, devices: Int32Array) -> Int32Array | None:
        """int32[links]: the image of each link; None where there is none. Parallel links keep their order."""
        keys = self._link_keys(devices)
        order = np.argsort(keys, kind="stable")
        if not np.array_equal(keys[order], self._sorted):
            return None
        found = np.empty(len(keys), np.int32)
        found[order] = self._order
        return found

    def _link_keys(self, devices: NDArray[np.integer]) -> Int64Array:
        network = self._network
        ends = devices[network.source].astype(np.int64) * network.device_count + devices[network.target]
        return ends * len(network.kinds) + network.kind
