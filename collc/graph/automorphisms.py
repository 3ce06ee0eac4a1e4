"""Automorphisms of a network: permutations of its NPUs that keep links, kinds of links and properties of devices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network


def kind_code(network: Network) -> NDArray[np.uint64]:
    """uint64[links]: a number for the kind of each link."""
    return mixed(network.kind.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each value scrambled, so that sums of different values differ (SplitMix64, Steele et al., OOPSLA 2014)."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Automorphisms:
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
