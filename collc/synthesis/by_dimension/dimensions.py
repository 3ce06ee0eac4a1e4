"""The dimensions of a network: coordinates of its NPUs, and the links that join the NPUs of a line.

A line consists of the NPUs that differ in one coordinate only. The dimensions of a product are its factors; those of
any other network are the indices of its array of NPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.paths import PathTree, shortest_path_tree
from collc.graph.reachability import weakly_connected
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.network import Network

VARIANTS: Final = 2
"""Trees of each NPU and dimension."""


@dataclass(frozen=True, slots=True)
class LineHop:
    """A chunk goes from an NPU to another of its line, over one link, or over several with switches between.

    path: the links. offset: positions from the source to the target along the line, which wraps round. Where all NPUs
    of a line send to offset 1, then to offset 2 and so on, each receives from one NPU at a time.
    """

    source: int
    target: int
    path: tuple[int, ...]
    offset: int


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


class LineTrees:
    """Trees along the lines of a network: for each NPU and dimension, the hops that take a chunk to its whole line.

    Trees consist of shortest paths, and among these of the links that carry less of the trees so far. Each NPU has
    VARIANTS trees for a dimension, used in turns, so that both of two shortest paths carry chunks.
    """

    def __init__(self, dimensions: Dimensions, cost: list[int]) -> None:
        """cost: picoseconds that a chunk takes on each link."""
        network = dimensions.network
        self.dimensions, self._cost = dimensions, cost
        self._load = [0] * network.link_count
        self._total_load = 0
        sources: list[int] = network.source.tolist()
        targets: list[int] = network.target.tolist()
        self._out: list[list[list[tuple[int, int]]]] = []
        for axis in range(len(dimensions)):
            out: list[list[tuple[int, int]]] = [[] for _ in range(network.device_count)]
            links: list[int] = np.flatnonzero(dimensions.usable[axis]).tolist()
            for link in links:
                out[sources[link]].append((targets[link], link))
            self._out.append(out)
        self._trees: dict[tuple[int, int], list[list[LineHop]]] = {}
        self._uses: dict[tuple[int, int], int] = {}

    def tree(self, npu: int, axis: int) -> list[LineHop]:
        """Hops that bring a chunk from an NPU to its line, parents first; to a part of it where links are missing."""
        use = self._uses.get((npu, axis), 0)
        self._uses[npu, axis] = use + 1
        known = self._trees.setdefault((npu, axis), [])
        if use < VARIANTS:
            known.append(self._grow(npu, axis))
        return known[use % VARIANTS]

    def _grow(self, npu: int, axis: int) -> list[LineHop]:
        """A tree of shortest paths, the less loaded link first among equals."""
        dimensions, out = self.dimensions, self._out[axis]
        npus, stride, size = dimensions.network.npu_count, dimensions.strides[axis], dimensions.sizes[axis]
        line = npu - npu // stride % size * stride
        scale = self._total_load + 1  # more than the load of any path, so that the cost counts first

        def out_edges(device: int) -> Iterator[tuple[int, int, int]]:
            for target, link in out[device]:
                if target >= npus or target - target // stride % size * stride == line:
                    yield target, self._cost[link] * scale + self._load[link], link

        tree = shortest_path_tree(out_edges, {npu: 0})
        return [self._hop(tree, target, axis) for target in tree.distance if target < npus and target != npu]

    def _hop(self, tree: PathTree, target: int, axis: int) -> LineHop:
        """The hop of a tree that ends at an NPU; adds it to the loads of its links."""
        dimensions = self.dimensions
        path: list[int] = []
        device = target
        while not path or device >= dimensions.network.npu_count:
            device, link = tree.before[device]
            path.append(link)
            self._load[link] += self._cost[link]
            self._total_load += self._cost[link]
        offset = (target - device) // dimensions.strides[axis] % dimensions.sizes[axis]
        return LineHop(device, target, tuple(reversed(path)), offset)
