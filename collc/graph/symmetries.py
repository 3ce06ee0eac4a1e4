"""Symmetries of a network as moves along coordinates of its NPUs, and the classes of sets of its parts.

A move exchanges two indices of an axis, shifts or reflects all of them, or exchanges two axes. Each is extended to the
switches, and kept if it is an automorphism. All moves along an axis follow from few that are tried: an exchange of
neighbours that is moved by a shift is one too, and exchanges of neighbours give all exchanges between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from collc.graph.automorphisms import Automorphisms, kind_code, mix_bits
from collc.graph.coordinates import Coordinates, coordinates_of, with_bits
from collc.graph.digraph import Digraph, weakly_connected
from collc.graph.translations import MOST_SHIFTS
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network
from collc.ten.parts import Part

Move = tuple[str, int, int, int]
"""("swap", axis, a, b) exchanges two indices, ("shift", axis, by, 0) adds to all, ("flip", axis, 0, 0) reverses them,
("axes", axis, other, 0) exchanges two axes of equal size; (SWITCHES, a, b, 0) exchanges two devices, and moves no NPU.
"""

SWITCHES: Final = "switches"
"""The kind of moves that exchange two switches."""


class Symmetry(NamedTuple):
    """A move, and where all devices go, int32[devices]."""

    move: Move
    devices: Int32Array


@dataclass(frozen=True, eq=False)
class Symmetries:
    """coordinates: of the NPUs, None without moves. all: the moves."""

    coordinates: Coordinates | None
    all: tuple[Symmetry, ...]


def find_symmetries(network: Network, keeps: Callable[[Int32Array], bool]) -> Symmetries:
    """The moves that are automorphisms of a network. keeps: whether one is wanted, given where the NPUs go.

    Of several coordinates, those that make the most NPUs alike, then those with the most moves.
    """
    best, fewest = Symmetries(None, ()), network.npu_count + 1
    automorphisms = Automorphisms(network)

    def extend(npus: Int32Array) -> Int32Array | None:
        present = network.present[: network.npu_count]
        if not np.array_equal(present[npus], present) or not keeps(npus):
            return None
        extended = automorphisms.extend(npus)
        return None if extended is None else extended[0]

    known = coordinates_of(network) if network.link_count else ()
    for coordinates in (each for declared in known for each in with_bits(declared)):
        moves = _moves(coordinates, extend)
        orbits = _count_orbits(network.npu_count, moves) if moves else network.npu_count
        if moves and (orbits, -len(moves)) < (fewest, -len(best.all)):
            best, fewest = Symmetries(coordinates, tuple(moves)), orbits
    return best


def _count_orbits(npus: int, symmetries: Sequence[Symmetry]) -> int:
    """The number of classes of NPUs that moves take to each other."""
    return len(np.unique(_orbits(npus, symmetries)))


def _orbits(devices: int, symmetries: Sequence[Symmetry]) -> Int32Array:
    """int32[devices]: equal numbers for those of the first devices that moves take to each other."""
    own = np.arange(devices, dtype=np.int32)
    target = np.concatenate([own, *(each.devices[:devices] for each in symmetries)])
    return weakly_connected(Digraph(devices, np.tile(own, len(symmetries) + 1), target))


def exchange_switches(network: Network, symmetries: Symmetries) -> tuple[Symmetry, ...]:
    """The exchanges of switches that have the same links, as the NVSwitches of a node. Of several sets of such switches
    that symmetries take to each other, those of the first one; with the symmetries they give those of all.
    """
    devices, code = mix_bits(np.arange(network.device_count, dtype=np.uint64)), kind_code(network)
    links = np.zeros(network.device_count, np.uint64)
    np.add.at(links, network.source, mix_bits(devices[network.target] + code))
    np.add.at(links, network.target, mix_bits(devices[network.source] - code))
    own = slice(network.npu_count, None)
    rows = links[own].astype(np.int64), network.present[own], network.multicast, network.reduces, network.buffers
    _, firsts, label, count = np.unique(
        np.stack(rows), axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    if not (count > 1).any():
        return ()
    orbits = _orbits(network.device_count, symmetries.all)
    exchanges: list[Symmetry] = []
    seen = set[int]()
    for row in np.sort(firsts[count > 1]):
        first, *others = (np.flatnonzero(label.reshape(-1) == label.reshape(-1)[row]) + network.npu_count).tolist()
        if int(orbits[first]) in seen:
            continue
        seen.add(int(orbits[first]))
        for other in others:
            moved = np.arange(network.device_count, dtype=np.int32)
            moved[[first, other]] = other, first
            exchanges.append(Symmetry((SWITCHES, first, other, 0), moved))
    return tuple(exchanges)


def _moves(coordinates: Coordinates, extend: Callable[[Int32Array], Int32Array | None]) -> list[Symmetry]:
    """All moves along coordinates."""
    moves: list[Symmetry] = []
    for axis, size in enumerate(coordinates.sizes):
        moves += _AxisMoves(coordinates, axis, extend).find_all()
        for other in range(axis):
            if coordinates.sizes[other] == size:
                index = coordinates.index.copy()
                index[[axis, other]] = index[[other, axis]]
                devices = extend(coordinates.npus_at(index))
                moves += [] if devices is None else [Symmetry(("axes", other, axis, 0), devices)]
    return moves


class _AxisMoves:
    """The moves along one axis."""

    def __init__(self, coordinates: Coordinates, axis: int, extend: Callable[[Int32Array], Int32Array | None]) -> None:
        self._axis, self._size = axis, coordinates.sizes[axis]
        self._coordinates, self._extend = coordinates, extend

    def _automorphism_of(self, index: Int32Array) -> Int32Array | None:
        return self._extend(self._coordinates.shift(self._axis, index))

    def find_all(self) -> list[Symmetry]:
        """The exchanges, or if not all are possible also the shifts and the reflection."""
        axis, size, index = self._axis, self._size, self._coordinates.index[self._axis]
        step, shift = size, None
        for by in range(1, size):
            if size % by == 0 and (shift := self._automorphism_of((index + by) % size)) is not None:
                step = by
                break
        swaps = self._exchanges(step, shift)
        moves = [Symmetry(("swap", axis, low, high), devices) for (low, high), devices in swaps.items()]
        if len(swaps) == size - 1:
            return moves
        power = shift
        for by in range(step, size, step):
            assert shift is not None
            assert power is not None
            moves.append(Symmetry(("shift", axis, by, 0), power))
            power = shift[power]
        flip = self._automorphism_of(size - 1 - index)
        return moves + ([] if flip is None else [Symmetry(("flip", axis, 0, 0), flip)])

    def _exchanges(self, step: int, shift: Int32Array | None) -> dict[tuple[int, int], Int32Array]:
        """The exchanges of the first index of each run of indices that are alike with the others of it."""
        size, index = self._size, self._coordinates.index[self._axis]
        neighbours: dict[int, Int32Array] = {}
        for low in range(min(step, size - 1, MOST_SHIFTS)):
            swapped = np.where(index == low, low + 1, np.where(index == low + 1, low, index))
            devices = self._automorphism_of(swapped.astype(np.int32))
            if devices is not None:
                neighbours[low] = devices
        if shift is not None:
            back = np.argsort(shift).astype(np.int32)
            for low in range(step, size - 1):
                if low - step in neighbours:
                    neighbours[low] = shift[neighbours[low - step][back]]
        exchanges: dict[tuple[int, int], Int32Array] = {}
        first = 0
        for low in range(size - 1):
            if low not in neighbours:
                first = low + 1
                continue
            near = neighbours[low]
            exchanges[first, low + 1] = near if first == low else near[exchanges[first, low][near]]
        return exchanges


# Classes of sets of parts


@dataclass(frozen=True, eq=False)
class PartClasses:
    """Which sets of parts symmetries take to each other, int64[sets] each.

    number: the class, from 0 in order of the first set of each. parent, move: the set and the number of the symmetry
    that takes it to this one; -1 for the first set of a class.
    """

    number: Int64Array
    parent: Int64Array
    move: Int64Array

    def words(self, row: int) -> list[int]:
        """The symmetries that take the first set of its class to a set, in order."""
        word: list[int] = []
        while self.parent[row] >= 0:
            word.append(int(self.move[row]))
            row = int(self.parent[row])
        return word[::-1]


def classify_parts(
    network: Network, parts: Sequence[Part], sets: Int64Array, symmetries: Sequence[Symmetry], most: int
) -> PartClasses:
    """The classes of sets of parts. sets: int64[sets, parts], ascending rows of `parts`; most: classes up to which all
    are told apart, what is left then has the class -1.
    """
    keys = _PartKeys(network, parts)
    images = [keys.images(each.devices) for each in symmetries]
    width = len(parts)
    weights = np.array([width ** (sets.shape[1] - 1 - k) for k in range(sets.shape[1])], np.int64)
    codes = sets @ weights
    order = np.argsort(codes)
    ordered = codes[order]
    number, parent, move = (np.full(len(sets), -1, np.int64) for _ in range(3))
    count = 0
    for first in range(len(sets)):
        if number[first] >= 0:
            continue
        if count == most:
            break
        number[first] = count
        frontier = np.array([first], np.int64)
        while len(frontier):
            reached: list[Int64Array] = []
            for own, image in enumerate(images):
                rows = image[sets[frontier]]
                code = np.sort(rows, axis=1) @ weights
                place = np.minimum(np.searchsorted(ordered, code), len(codes) - 1)
                target = order[place]
                new = (rows >= 0).all(axis=1) & (codes[target] == code) & (number[target] < 0)
                target, origin = np.unique(target[new], return_index=True)
                number[target], parent[target], move[target] = count, frontier[new][origin], own
                reached.append(target)
            frontier = np.concatenate(reached) if reached else frontier[:0]
        count += 1
    return PartClasses(number, parent, move)


class _PartKeys:
    """Numbers for parts, wherever their devices go."""

    def __init__(self, network: Network, parts: Sequence[Part]) -> None:
        self._parts, self._count = len(parts), network.device_count
        device = [(row, d) for row, part in enumerate(parts) for d in part.devices]
        pairs = [(row, *pair) for row, part in enumerate(parts) for pair in part.links]
        self._row, self._device = np.array(device, np.int64).reshape(-1, 2).T
        self._link, self._source, self._target = np.array(pairs, np.int64).reshape(-1, 3).T
        left = {part.left: number for number, part in enumerate(parts)}
        self._left = np.array([left[part.left] for part in parts], np.uint64)
        self._own = self._keys(np.arange(self._count))
        self._order = np.argsort(self._own)

    def _keys(self, devices: Int32Array | Int64Array) -> Int64Array:
        """int64[parts]: numbers that differ for different parts, if devices go to `devices`."""
        keys = mix_bits(self._left)
        np.add.at(keys, self._row, mix_bits(devices[self._device].astype(np.uint64)))
        ends = (devices[self._source].astype(np.int64) + 1) * self._count + devices[self._target]
        np.add.at(keys, self._link, mix_bits(ends.astype(np.uint64)))
        return keys.astype(np.int64)

    def images(self, devices: Int32Array) -> Int64Array:
        """int64[parts]: the part that each one goes to; -1 if it is none of them."""
        image, own = self._keys(devices), self._own[self._order]
        place = np.minimum(np.searchsorted(own, image), self._parts - 1)
        return np.where(own[place] == image, self._order[place], -1)
