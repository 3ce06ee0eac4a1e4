"""The dimensions of a network as its `axes`, also where it is no product: a design gives each of them a bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.dimensions import find_dimensions
from collc.graph.reachability import weakly_connected
from collc.ten.arrays import BoolArray
from collc.ten.network import Axis, Network

KINDS: Final = ("ring", "fully_connected", "switched", "line")
"""The structures that are recognized along the lines of a dimension, by the names of their templates."""


@dataclass(frozen=True, eq=False)
class _Dimension:
    """size, stride: NPUs along a line, and the difference of the numbers of two neighbours. links: bool[links]."""

    size: int
    stride: int
    links: BoolArray


def with_axes(network: Network, kind: str = "") -> Network:
    """The network with its dimensions as `axes`, dimension 0 counting fastest; without `axes` where they are not known.

    They are the factors of a product; the indices of an array of NPUs (meshes, tori, rails of domains), where each link
    is of one dimension and all lines of a dimension are alike; the bits of a hypercube; or the only dimension of a
    ring, a line, a switch or a fully connected network. kind: the template of the network, "" for none. An axis has the
    name of a template in KINDS that its lines are like; factors of other structures keep that of theirs.
    """
    if network.axes:
        return replace(network, axes=_named(network))
    for dimensions in _candidates(network):
        whose = np.array([d.links for d in dimensions], np.bool_)
        names = [_kinds(network, d) for d in dimensions]
        if bool((whose.sum(axis=0) == 1).all()) and all(names):
            axes = [Axis(kind if kind in own else own[0], d.size) for d, own in zip(dimensions, names, strict=True)]
            return replace(network, axes=tuple(axes), link_axis=whose.argmax(axis=0).astype(np.int8))
    return network


def _named(network: Network) -> tuple[Axis, ...]:
    """The axes of a product, those of users' own templates by their structure."""
    found: list[Axis] = []
    stride = 1
    for number, axis in enumerate(network.axes):
        own = () if axis.kind in KINDS else _kinds(network, _Dimension(axis.size, stride, network.link_axis == number))
        found.append(Axis(own[0], axis.size) if own else axis)
        stride *= axis.size
    return tuple(found)


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


def _kinds(network: Network, dimension: _Dimension) -> tuple[str, ...]:
    """The names of KINDS that fit the lines of a dimension; () for none, or where the lines are not alike."""
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
