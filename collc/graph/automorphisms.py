"""Automorphisms of a network: permutations of its NPUs that keep links, kinds of links and properties of devices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network


def kind_code(network: Network) -> NDArray[np.uint64]:
    """uint64[links]: a number for the kind of each link."""
    return mix_bits(network.kind.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))


def mix_bits(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each value scrambled, so that sums of different values differ (SplitMix64, Steele et al., OOPSLA 2014)."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def refine_colours(
    colour: NDArray[np.uint64], source: Int32Array, target: Int32Array, code: NDArray[np.uint64], first: int
) -> NDArray[np.uint64]:
    """uint64[devices]: colours that differ wherever neighbours do, of the devices from `first` on; others keep theirs.

    source, target, code: of the links.
    """
    classes = 0
    while (more := len(np.unique(colour[first:]))) > classes and not 0 < classes < more == len(colour) - first:
        classes = more
        total = np.zeros(len(colour), np.uint64)
        np.add.at(total, target, mix_bits(colour[source] + code))
        np.add.at(total, source, mix_bits(colour[target] - code))
        colour = np.concatenate([colour[:first], mix_bits(colour[first:] + total[first:])])
    return colour


def match_keys(wanted: NDArray[Any], given: NDArray[Any]) -> Int32Array | None:
    """int32[n]: for each wanted key the position of an equal one among those given, each once and equal ones in order;
    None if there are others.
    """
    left, right = np.argsort(wanted, kind="stable"), np.argsort(given, kind="stable")
    if not np.array_equal(wanted[left], given[right]):
        return None
    position = np.empty(len(left), np.int32)
    position[left] = right
    return position


def link_keys(network: Network, source: NDArray[np.integer], target: NDArray[np.integer]) -> Int64Array:
    """int64[links]: numbers that are equal for links between the same devices and of the same kind.

    source, target: int[links], the ends that the links of a network are to have.
    """
    return (source.astype(np.int64) * network.device_count + target) * len(network.kinds) + network.kind


def opposite_links(network: Network) -> Int32Array | None:
    """int32[links]: for each link one of its kind in the other direction, each once; None if some link has none."""
    source, target = network.source, network.target
    return match_keys(link_keys(network, target, source), link_keys(network, source, target))


class Automorphisms:
    """Extends permutations of the NPUs of a network to its switches and links.

    Switches are matched by what they are linked to: each has a colour, the NPUs different ones, which is refined by the
    colours of its neighbours. If several switches keep the same colour, they are matched by number, and if that fails
    one by one.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._count = network.npu_count
        switched = np.flatnonzero((network.source >= self._count) | (network.target >= self._count))
        self._source, self._target = network.source[switched], network.target[switched]
        self._code = kind_code(network)[switched]
        attributes = np.stack([network.present[self._count :], network.multicast, network.reduces, network.buffers])
        self._first = mix_bits((attributes.T.astype(np.int64) @ np.array([1, 2, 4, 8])).astype(np.uint64))
        self._keys = link_keys(network, network.source, network.target)
        ends = (network.source, network.target)
        self._degrees = np.stack([np.bincount(end, minlength=network.device_count)[: self._count] for end in ends])

    def extend(self, npus: Int32Array) -> tuple[Int32Array, Int32Array] | None:
        """(int32[devices], int32[links]), where all go if the NPUs go to `npus`; None if that is no automorphism."""
        network = self._network
        if len(network.endpoint) and not np.array_equal(network.endpoint[npus], network.endpoint):
            return None
        if not np.array_equal(self._degrees[:, npus], self._degrees):  # what follows takes much longer
            return None
        own, image = np.empty((2, network.device_count), np.uint64)
        own[: self._count] = mix_bits(np.arange(self._count, dtype=np.uint64))
        image[npus] = own[: self._count]
        own[self._count :] = image[self._count :] = self._first
        for number in range(network.switch_count + 1):
            own, image = (
                refine_colours(colour, self._source, self._target, self._code, self._count) for colour in (own, image)
            )
            switches = match_keys(own[self._count :], image[self._count :])
            if switches is None:
                return None
            devices = np.concatenate([npus, switches + np.int32(self._count)]).astype(np.int32)
            links = self.link_images(devices)
            if links is not None:
                return devices, links
            pair = self._choose_pair(own, image)
            if pair is None:
                return None
            own[pair[0]] = image[pair[1]] = mix_bits(np.array([number], np.uint64))[0] ^ own[pair[0]]
        return None

    def link_images(self, devices: NDArray[np.integer]) -> Int32Array | None:
        """int32[links]: where each link goes if devices go to `devices`; None if there is no such link. Parallel links
        keep their order.
        """
        network = self._network
        return match_keys(link_keys(network, devices[network.source], devices[network.target]), self._keys)

    def _choose_pair(self, own: NDArray[np.uint64], image: NDArray[np.uint64]) -> tuple[int, int] | None:
        """A switch among several of its colour, with its image: itself if possible; None if all colours differ."""
        colours, counts = np.unique(own[self._count :], return_counts=True)
        first: tuple[int, int] | None = None
        for colour in colours[counts > 1]:
            left, right = np.flatnonzero(own == colour), np.flatnonzero(image == colour)
            if np.array_equal(left, right):
                return int(left[0]), int(left[0])
            first = first or (int(left[0]), int(right[0]))
        return first
