"""The dimensions of a network: coordinates of its NPUs, and the links that join the NPUs of a line.

A line consists of the NPUs that differ in one coordinate only. The dimensions of a product are its factors; the
dimensions of any other network are the indices of its array of NPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from collc.graph.coordinates import declared_coordinates
from collc.graph.digraph import Digraph, weakly_connected
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.network import Axis, Network

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
    for number in np.unique(group[switch]).tolist():
        links = switched[group[switch] == number]
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
