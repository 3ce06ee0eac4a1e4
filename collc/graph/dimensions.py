"""The dimensions of a network: coordinates of its NPUs, and the links that join the NPUs of a line.

A line consists of the NPUs that differ in one coordinate only. The dimensions of a product are its factors; those of
any other network are the indices of its array of NPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.graph.coordinates import declared_coordinates
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
    coordinates = declared_coordinates(network)
    if coordinates is None or len(coordinates.sizes) < 2:
        return None
    index = coordinates.index.astype(np.int64)
    usable = _usable(network, index)
    if not bool(usable.any(axis=1).all()):
        return None
    # NPU 0 is the origin, so that the next one along an axis has the stride as its number.
    strides = tuple(int(coordinates.cyclic_shift(axis)[0]) for axis in range(len(index)))
    return Dimensions(network, coordinates.sizes, strides, index, usable)


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
