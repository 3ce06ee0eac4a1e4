"""Coordinates of the NPUs of a network, as declared or as its switches show, and the links of its dimensions.

NPUs that are linked to the same switches are alike. Each class of switches divides the NPUs into blocks: the nodes by
their NVSwitches, the rails by their leaf switches, the pods by their spines. Blocks that cross or contain each other
give the coordinates.

A line consists of the NPUs that differ in one coordinate only. The dimensions of a product are its factors; the
dimensions of any other network are the indices of its array of NPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.graph.automorphisms import kind_code, mix_bits, refine_colours
from collc.graph.digraph import Digraph, weakly_connected
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.network import Axis, Network


@dataclass(frozen=True, eq=False)
class Coordinates:
    """sizes: along each axis, at least 2. index: int32[axes, npus]; no two NPUs have the same coordinates."""

    sizes: tuple[int, ...]
    index: Int32Array

    @cached_property
    def _strides(self) -> list[int]:
        return [prod(self.sizes[axis + 1 :]) for axis in range(len(self.sizes))]

    @cached_property
    def _npu_at(self) -> tuple[Int64Array, Int32Array]:
        """(int64[npus], the place of each NPU in the array of all coordinates; int32[npus], the NPU at each place)."""
        place = (self.index * np.array(self._strides)[:, None]).sum(axis=0)
        npu = np.empty(len(place), np.int32)
        npu[place] = np.arange(len(place))
        return place, npu

    @property
    def places(self) -> Int64Array:
        """int64[npus]: the place of each NPU in the array of all coordinates, in row-major order."""
        return self._npu_at[0]

    def shift(self, axis: int, index: Int32Array) -> Int32Array:
        """int32[npus]: the NPU that has another index along an axis, for each NPU. index: int32[npus]."""
        place, npu = self._npu_at
        return npu[place + (index - self.index[axis]) * self._strides[axis]]

    def cyclic_shift(self, axis: int) -> Int32Array:
        """int32[npus]: the next NPU along an axis, round the end."""
        return self.shift(axis, (self.index[axis] + 1) % self.sizes[axis])

    def npus_at(self, index: Int32Array) -> Int32Array:
        """int32[npus]: the NPUs at other coordinates. index: int32[axes, npus]."""
        return self._npu_at[1][(index * np.array(self._strides)[:, None]).sum(axis=0)]

    @cached_property
    def negatives(self) -> Int32Array:
        """int32[npus]: the NPU that gives NPU 0 when it is added to each NPU, if NPU 0 has indices 0."""
        sizes = np.array(self.sizes, np.int32)[:, None]
        return self.npus_at((sizes - self.index) % sizes)

    def translation(self, by: int) -> Int32Array:
        """int32[npus]: each NPU plus the NPU `by`: indices are added, round the end of each axis."""
        place, npu = self._npu_at
        for size, stride, index in zip(self.sizes, self._strides, self.index, strict=True):
            own = int(index[by])
            if own:
                place = place + np.where(index < size - own, own * stride, (own - size) * stride)
        return npu[place]


def declared_coordinates(network: Network) -> Coordinates | None:
    """The indices of the NPUs; if they are equal copies of a topology, the number of the copy is one more."""
    if network.axes:
        sizes = tuple(axis.size for axis in network.axes)
        strides = tuple(prod(sizes[:axis]) for axis in range(len(sizes)))
    else:
        families = [family for family in network.families if family.first < network.npu_count]
        if not families:
            return None
        shape, count = families[0].shape, families[0].count
        alike = all(family.shape == shape and family.first == k * count for k, family in enumerate(families))
        if not alike or len(families) * count != network.npu_count:
            return None
        sizes, strides = (len(families), *shape), (count, *families[0].strides)
    long = [axis for axis, size in enumerate(sizes) if size > 1]
    if not long or prod(sizes) != network.npu_count:
        return None
    npus = np.arange(network.npu_count, dtype=np.int32)
    index = np.stack([npus // strides[axis] % sizes[axis] for axis in long])
    return Coordinates(tuple(sizes[axis] for axis in long), index.astype(np.int32))


def untwisted_coordinates(network: Network, declared: Coordinates) -> Coordinates:
    """Coordinates in which the NPUs of a twisted torus form a torus without twists; the declared ones if it has none.

    If the links round the end of an axis also lead t steps along another one, each step along the first axis counts t
    times the one part of its size as a step along the other one. See Camarero, Martinez and Beivide, "Lattice graphs
    for high-scale interconnection topologies", 2015.
    """
    sizes, index = np.array(declared.sizes, np.int64), declared.index.astype(np.int64)
    direct = np.flatnonzero((network.source < network.npu_count) & (network.target < network.npu_count))
    source, target = network.source[direct], network.target[direct]
    straight = index.copy()
    for axis, size in enumerate(declared.sizes):
        ends = (index[axis, source] == size - 1) & (index[axis, target] == 0) & (size > 2)
        steps = (index[:, target[ends]] - index[:, source[ends]]) % sizes[:, None]
        steps[axis] = 0
        vectors, count = np.unique(steps, axis=1, return_counts=True)
        twist = vectors[:, np.argmax(count)] if len(count) else sizes * 0
        if not bool((twist % size).any()):
            straight += twist[:, None] // size * index[axis]
    return replace(declared, index=(straight % sizes[:, None]).astype(np.int32))


def coordinates_of(network: Network) -> Iterator[Coordinates]:
    """Coordinates that the NPUs of a network may have, likely ones first."""
    declared = declared_coordinates(network)
    if declared is not None:
        yield declared
        straight = untwisted_coordinates(network, declared)
        if not np.array_equal(straight.index, declared.index):
            yield straight
    if network.has_switches:
        by_switches = _by_switches(network)
        if by_switches is not None:
            yield by_switches
    if network.npu_count > 1:
        yield Coordinates((network.npu_count,), np.arange(network.npu_count, dtype=np.int32)[None])


def with_bits(coordinates: Coordinates) -> Iterator[Coordinates]:
    """The coordinates, then those in which the bits of the indices along some axes are axes of their own."""
    options = [(False, True) if size > 2 and not size & (size - 1) else (False,) for size in coordinates.sizes]
    for choice in product(*options):
        sizes: list[int] = []
        rows: list[Int32Array] = []
        for size, index, in_bits in zip(coordinates.sizes, coordinates.index, choice, strict=True):
            bits = range(size.bit_length() - 1) if in_bits else ()
            sizes += [2 for _ in bits] or [size]
            rows += [index >> bit & 1 for bit in bits] or [index]
        yield Coordinates(tuple(sizes), np.stack(rows))


def _by_switches(network: Network) -> Coordinates | None:
    """The coordinates that the classes of switches give; None if blocks differ in size."""
    divisions = list(_divisions(network))
    divisions += [_join_divisions(a, b) for k, a in enumerate(divisions) for b in divisions[:k]]
    divisions.sort(key=lambda division: int(division.max()))
    cell = np.zeros(network.npu_count, np.int64)
    sizes: list[int] = []
    index: list[Int32Array] = []
    for division in [*divisions, np.arange(network.npu_count)]:
        finer = _labels(cell * network.npu_count + division)
        if int(finer.max()) == int(cell.max()):
            continue
        own = _rank_within(_join_divisions(division, cell), division)
        size = int(own.max()) + 1
        if (int(cell.max()) + 1) * size != int(finer.max()) + 1:
            return None
        sizes.append(size)
        index.append(own)
        cell = finer
    return Coordinates(tuple(sizes), np.stack(index)) if sizes and prod(sizes) == network.npu_count else None


def _divisions(network: Network) -> Iterator[Int64Array]:
    """int64[npus]: for each class of switches, the NPUs divided by the switches of that class above them."""
    level = _levels(network)
    up = np.flatnonzero(level[network.target] == level[network.source] + 1)
    source, target = network.source[up], network.target[up]
    order = np.argsort(level[source], kind="stable")[::-1]
    source, target = source[order], target[order]
    bounds = np.flatnonzero(np.diff(level[source], prepend=-1, append=-1))
    for members in _switch_classes(network, level):
        above = np.zeros(network.device_count, np.uint64)
        above[members] = mix_bits(members.astype(np.uint64) + np.uint64(1))
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            np.add.at(above, source[low:high], above[target[low:high]])
        if above[: network.npu_count].all():
            yield _labels(above[: network.npu_count])


def _levels(network: Network) -> Int64Array:
    """int64[devices]: links from the nearest NPU up to each device."""
    level = np.full(network.device_count, network.device_count, np.int64)
    level[: network.npu_count] = 0
    height = 0
    while True:
        reached = network.target[level[network.source] == height]
        reached = reached[level[reached] > height + 1]
        if not len(reached):
            return level
        height += 1
        level[reached] = height


def _switch_classes(network: Network, level: Int64Array) -> Iterator[Int64Array]:
    """The switches that look alike: by level, links and neighbours, and their neighbours' neighbours, and so on."""
    colour = mix_bits(level.astype(np.uint64))
    labels = _labels(refine_colours(colour, network.source, network.target, kind_code(network), 0))
    switches = np.arange(network.npu_count, network.device_count)
    for label in dict.fromkeys(labels[switches].tolist()):
        yield switches[labels[switches] == label]


def _join_divisions(left: Int64Array, right: Int64Array) -> Int64Array:
    """The finest division whose blocks contain those of both."""
    count = len(left)
    npus = np.arange(count)
    source = np.concatenate([npus, npus])
    target = np.concatenate([count + left, 2 * count + right])
    graph = Digraph(3 * count, source.astype(np.int32), target.astype(np.int32))
    return _labels(weakly_connected(graph)[:count].astype(np.int64))


def _labels(values: NDArray[np.generic]) -> Int64Array:
    """int64[n]: equal values as numbers from 0, in order of first occurrence."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse.reshape(-1)]


def _rank_within(outer: Int64Array, inner: Int64Array) -> Int32Array:
    """int32[n]: the number of each block of `inner` among those in the same block of `outer`, by first NPU."""
    pairs, first = np.unique(np.stack([outer, inner]), axis=1, return_index=True)
    order = np.lexsort((first, pairs[0]))
    starts = np.flatnonzero(np.diff(pairs[0][order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    of_inner = np.empty(int(inner.max()) + 1, np.int32)
    of_inner[pairs[1][order]] = rank
    return of_inner[inner]


KINDS: Final = ("ring", "fully_connected", "switched", "line")
"""The structures that are recognized along the lines of a dimension, by the names of their templates."""


@dataclass(frozen=True, eq=False)
class Dimensions:
    """Coordinates of NPUs and the links of each dimension.

    sizes: NPUs along each dimension. strides: what a step in each dimension adds to the number of an NPU.
    index: int64[dimensions, npus], the coordinates. usable: bool[dimensions, links], the links that chunks may take
    along each dimension; links of a switch that joins NPUs of several dimensions are usable for those of them that
    have no links of their own.
    """

    network: Network
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    index: Int64Array
    usable: BoolArray

    def __len__(self) -> int:
        return len(self.sizes)


def find_dimensions(network: Network) -> Dimensions | None:
    """The dimensions of more than one NPU; None if there are fewer than two, or one has no links along its lines."""
    coordinates = declared_coordinates(network)
    if coordinates is None or len(coordinates.sizes) < 2:
        return None
    index = coordinates.index.astype(np.int64)
    usable = _usable_links(network, index)
    if not bool(usable.any(axis=1).all()):
        return None
    # NPU 0 is the origin, so that the next one along an axis has the stride as its number.
    strides = tuple(int(coordinates.cyclic_shift(axis)[0]) for axis in range(len(index)))
    return Dimensions(network, coordinates.sizes, strides, index, usable)


def _usable_links(network: Network, index: Int64Array) -> BoolArray:
    """bool[dimensions, links]: see `Dimensions`."""
    spans = np.zeros((len(index), network.link_count), np.bool_)
    direct = (network.source < network.npu_count) & (network.target < network.npu_count)
    spans[:, direct] = index[:, network.source[direct]] != index[:, network.target[direct]]
    for links, members in _fabrics(network):
        spans[:, links] = (index[:, members] != index[:, members[:1]]).any(axis=1)[:, None]
    own = spans & (spans.sum(axis=0) == 1)
    shared = spans & ~direct
    covered = np.array([_reach_all(network, own[d]) for d in range(len(index))], np.bool_)
    return own | (shared & ~covered[:, None])


def _reach_all(network: Network, links: BoolArray) -> bool:
    """Whether every NPU has links in and out."""
    npus = network.npus
    return bool(np.isin(npus, network.source[links]).all() and np.isin(npus, network.target[links]).all())


def _fabrics(network: Network) -> list[tuple[Int32Array, Int32Array]]:
    """Groups of switches that links join, each as (all links of its switches, the NPUs on these links)."""
    graph, npus = Digraph.of(network), network.npu_count
    group = weakly_connected(graph.with_edges((network.source >= npus) & (network.target >= npus)))
    switched = np.flatnonzero((network.source >= npus) | (network.target >= npus)).astype(np.int32)
    switch = np.where(network.source[switched] >= npus, network.source[switched], network.target[switched])
    result: list[tuple[Int32Array, Int32Array]] = []
    order = np.argsort(group[switch], kind="stable")
    for links in np.split(switched[order], np.flatnonzero(np.diff(group[switch][order])) + 1):
        devices = np.unique(np.concatenate([network.source[links], network.target[links]]))
        members = devices[devices < npus].astype(np.int32)
        if len(members):
            result.append((links, members))
    return result


@dataclass(frozen=True, eq=False)
class _Dimension:
    """size, stride: NPUs along a line, and the difference of the numbers of two neighbours. links: bool[links]."""

    size: int
    stride: int
    links: BoolArray


def with_axes(network: Network, kind: str = "") -> Network:
    """The network with its dimensions as `axes`, dimension 0 counting fastest; without `axes` if they are not known.

    They are the factors of a product; the indices of an array of NPUs (meshes, tori, rails of domains), if each link
    is of one dimension and all lines of a dimension are alike; the bits of a hypercube; or the only dimension of a
    ring, a line, a switch or a fully connected network. kind: the template of the network, "" for none. An axis has the
    name of a template in KINDS that its lines are like; factors of other structures keep the name of their template.
    """
    if network.axes:
        return replace(network, axes=_named_axes(network))
    for dimensions in _candidates(network):
        whose = np.array([d.links for d in dimensions], np.bool_)
        names = [_kinds_of(network, d) for d in dimensions]
        if bool((whose.sum(axis=0) == 1).all()) and all(names):
            axes = [Axis(kind if kind in own else own[0], d.size) for d, own in zip(dimensions, names, strict=True)]
            return replace(network, axes=tuple(axes), link_axis=whose.argmax(axis=0).astype(np.int8))
    return network


def _named_axes(network: Network) -> tuple[Axis, ...]:
    """The axes of a product, those of users' own templates by their structure."""
    axes: list[Axis] = []
    stride = 1
    for number, axis in enumerate(network.axes):
        own = (
            () if axis.kind in KINDS else _kinds_of(network, _Dimension(axis.size, stride, network.link_axis == number))
        )
        axes.append(Axis(own[0], axis.size) if own else axis)
        stride *= axis.size
    return tuple(axes)


def _candidates(network: Network) -> Iterator[list[_Dimension]]:
    """The dimensions that a network which is no product may have."""
    count = network.npu_count
    array = find_dimensions(network)
    if array is not None:
        rows = [_Dimension(*row) for row in zip(array.sizes, array.strides, array.usable, strict=True)]
        yield sorted(rows, key=lambda row: row.stride)
    if count >= 4 and count & (count - 1) == 0 and not network.has_switches:
        differ = network.source ^ network.target
        yield [_Dimension(2, 1 << bit, differ == 1 << bit) for bit in range(count.bit_length() - 1)]
    yield [_Dimension(count, 1, np.ones(network.link_count, np.bool_))]


def _kinds_of(network: Network, dimension: _Dimension) -> tuple[str, ...]:
    """The names of KINDS that fit the lines of a dimension; () for none, or if the lines are not alike."""
    count, size, stride = network.npu_count, dimension.size, dimension.stride
    source, target = network.source[dimension.links], network.target[dimension.links]
    outside = (source >= count) | (target >= count)
    if bool(outside.any()):
        return ("switched",) if bool(outside.all()) and _joins_lines(network, dimension) else ()
    line = (source - source // stride % size * stride).astype(np.int64)
    pair = source // stride % size * np.int64(size) + target // stride % size
    pairs, lines = np.unique(np.unique(line * size**2 + pair) % size**2, return_counts=True)
    if not len(pairs) or bool((lines != count // size).any()):
        return ()
    first, second = np.divmod(pairs, size)
    steps = np.unique((second - first) % size).tolist()
    fits = {
        "ring": steps in ([1], [size - 1], [1, size - 1]) and len(pairs) == len(steps) * size,
        "fully_connected": len(pairs) == size * (size - 1),
        "line": len(pairs) == 2 * (size - 1) and bool((np.abs(second - first) == 1).all()),
    }
    return tuple(name for name, fit in fits.items() if fit)


def _joins_lines(network: Network, dimension: _Dimension) -> bool:
    """Whether the links of a dimension, all to or from switches, join the NPUs of each of its lines."""
    label = weakly_connected(Digraph.of(network).with_edges(dimension.links))[: network.npu_count]
    npus = np.arange(network.npu_count)
    base = npus - npus // dimension.stride % dimension.size * dimension.stride
    return bool((label == label[base]).all())
