"""The dimensions of a network: coordinates of its NPUs, and the links that join the NPUs of a line.

A line consists of the NPUs that differ in one coordinate only. The dimensions of a product are its factors; those of
any other network are the indices of its array of NPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.reachability import weakly_connected
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.network import Network


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
    """The dimensions of more than one NPU; None where there are fewer than two, or one has no links along its lines."""
    found = _shape(network)
    if found is None:
        return None
    shape, strides = found
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if len(axes) < 2:
        return None
    sizes, strides = tuple(shape[axis] for axis in axes), tuple(strides[axis] for axis in axes)
    npus = np.arange(network.npu_count)
    index = np.array([npus // stride % size for size, stride in zip(sizes, strides, strict=True)], np.int64)
    usable = _usable(network, index)
    return Dimensions(network, sizes, strides, index, usable) if bool(usable.any(axis=1).all()) else None


def _shape(network: Network) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Sizes and strides of the array of all NPUs; None where they form none.

    Where a topology consists of equal copies of another, the number of the copy is one more index.
    """
    if network.axes:
        sizes = tuple(axis.size for axis in network.axes)
        return sizes, tuple(int(np.prod(sizes[:axis])) for axis in range(len(sizes)))
    families = [family for family in network.families if family.first < network.npu_count]
    shape, strides, count = families[0].shape, families[0].strides, families[0].count
    alike = all(f.shape == shape and f.first == k * count for k, f in enumerate(families))
    if not alike or len(families) * count != network.npu_count:
        return None
    return ((len(families), *shape), (count, *strides)) if len(families) > 1 else (shape, strides)


def _usable(network: Network, index: Int64Array) -> BoolArray:
    """bool[dimensions, links]: see `Dimensions`."""
    spans = np.zeros((len(index), network.link_count), np.bool_)
    direct = (network.source < network.npu_count) & (network.target < network.npu_count)
    spans[:, direct] = index[:, network.source[direct]] != index[:, network.target[direct]]
    for links, members in _fabrics(network):
        spans[:, links] = (index[:, members] != index[:, members[:1]]).any(axis=1)[:, None]
    own = spans & (spans.sum(axis=0) == 1)
    shared = spans & ~direct
    covered = np.array([_covers(network, own[d]) for d in range(len(index))], np.bool_)
    return own | (shared & ~covered[:, None])


def _covers(network: Network, links: BoolArray) -> bool:
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
