"""The dimensions of a network: coordinates of its NPUs, and the links that join those of a line.

A line is the NPUs that differ in one coordinate only. Products know their dimensions; elsewhere they are the
indices by which the NPUs are declared.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.network import Network

VARIANTS = 2
"""Trees of each NPU and dimension that take turns."""


@dataclass(frozen=True, slots=True)
class Move:
    """A chunk goes from an NPU to another of its line: over one link, or over several through switches.

    turn: how far the target is ahead on the line, round its end. Where all send to the next, then to the one after
    it, no two meet.
    """

    source: int
    target: int
    path: tuple[int, ...]
    turn: int


@dataclass(frozen=True, eq=False)
class Dimensions:
    """Coordinates of NPUs and the links of each dimension.

    index: int64[dimensions, npus]. strides: what a step in each dimension adds to the number of an NPU.
    usable: bool[dimensions, links]; a switch that joins whole planes serves those of their dimensions that have no
    links of their own.
    """

    network: Network
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    index: Int64Array
    usable: BoolArray

    def __len__(self) -> int:
        return len(self.sizes)


def find_dimensions(network: Network) -> Dimensions | None:
    """The dimensions of more than one NPU, or None where there are fewer than two or links do not keep to lines."""
    found = _shape(network)
    if found is None:
        return None
    shape, strides = found
    several = [axis for axis, size in enumerate(shape) if size > 1]
    if len(several) < 2:
        return None
    sizes, steps = tuple(shape[axis] for axis in several), tuple(strides[axis] for axis in several)
    index = np.array([np.arange(network.npu_count) // t % s for s, t in zip(sizes, steps, strict=True)], np.int64)
    usable = _usable(network, index)
    return Dimensions(network, sizes, steps, index, usable) if bool(usable.any(axis=1).all()) else None


def _shape(network: Network) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Sizes and strides of the array that the NPUs form, copies of a topology counting as one more index."""
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
    """bool[dimensions, links]: the links that serve each dimension."""
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
    """Switches that are joined, each time as (all their links, their NPUs)."""
    root = list(range(network.device_count))

    def find(device: int) -> int:
        while root[device] != device:
            root[device] = root[root[device]]
            device = root[device]
        return device

    switched = np.flatnonzero((network.source >= network.npu_count) | (network.target >= network.npu_count))
    ends = np.stack([network.source[switched], network.target[switched]], axis=1).tolist()
    for a, b in ends:
        if a >= network.npu_count and b >= network.npu_count:
            root[find(a)] = find(b)
    groups: dict[int, list[int]] = {}
    for link, (a, b) in zip(switched.tolist(), ends, strict=True):
        groups.setdefault(find(a if a >= network.npu_count else b), []).append(link)
    result: list[tuple[Int32Array, Int32Array]] = []
    for group in groups.values():
        links = np.array(group, np.int32)
        devices = np.unique(np.concatenate([network.source[links], network.target[links]]))
        members = devices[devices < network.npu_count].astype(np.int32)
        if len(members):
            result.append((links, members))
    return result


@dataclass(eq=False)
class Lines:
    """Trees along the lines of a network: for each NPU and dimension, the moves that take a chunk to its whole line.

    Trees follow shortest ways, and among these the links that fewer trees use. Several trees of each NPU take turns,
    so that what has two shortest ways goes both.
    cost: picoseconds that a chunk takes on each link.
    """

    dimensions: Dimensions
    cost: list[int]
    _load: list[int] = field(init=False)
    _ahead: list[list[list[tuple[int, int]]]] = field(init=False, default_factory=list[list[list[tuple[int, int]]]])
    _trees: dict[tuple[int, int], list[list[Move]]] = field(
        init=False, default_factory=dict[tuple[int, int], list[list[Move]]]
    )
    _used: dict[tuple[int, int], int] = field(init=False, default_factory=dict[tuple[int, int], int])

    def __post_init__(self) -> None:
        network = self.dimensions.network
        self._load = [0] * network.link_count
        ends: list[tuple[int, int]] = list(zip(network.source.tolist(), network.target.tolist(), strict=True))
        for axis in range(len(self.dimensions)):
            ahead: list[list[tuple[int, int]]] = [[] for _ in range(network.device_count)]
            links: list[int] = np.flatnonzero(self.dimensions.usable[axis]).tolist()
            for link in links:
                ahead[ends[link][0]].append((ends[link][1], link))
            self._ahead.append(ahead)

    def tree(self, npu: int, axis: int) -> list[Move]:
        """Moves that bring a chunk from an NPU to its line, parents first; to fewer where there is no way."""
        turn = self._used.get((npu, axis), 0)
        self._used[npu, axis] = turn + 1
        known = self._trees.setdefault((npu, axis), [])
        if turn < VARIANTS:
            known.append(self._grow(npu, axis))
        return known[turn % VARIANTS]

    def _grow(self, npu: int, axis: int) -> list[Move]:
        """A tree of shortest ways (Dijkstra), the less loaded link first among equals."""
        dimensions, ahead = self.dimensions, self._ahead[axis]
        npus, stride, size = dimensions.network.npu_count, dimensions.strides[axis], dimensions.sizes[axis]
        line = npu - npu // stride % size * stride
        best: dict[int, tuple[int, int]] = {npu: (0, 0)}
        via: dict[int, tuple[int, int]] = {}
        done: list[int] = []
        heap = [(0, 0, npu)]
        while heap:
            far, load, device = heapq.heappop(heap)
            if best[device] != (far, load):
                continue
            if device < npus:
                done.append(device)
            for there, link in ahead[device]:
                if there < npus and there - there // stride % size * stride != line:
                    continue
                key = far + self.cost[link], load + self._load[link]
                if there not in best or key < best[there]:
                    best[there], via[there] = key, (device, link)
                    heapq.heappush(heap, (*key, there))
        return [self._move(via, target, axis) for target in done[1:]]

    def _move(self, via: dict[int, tuple[int, int]], target: int, axis: int) -> Move:
        dimensions = self.dimensions
        path: list[int] = []
        device = target
        while not path or device >= dimensions.network.npu_count:
            device, link = via[device]
            path.append(link)
            self._load[link] += self.cost[link]
        turn = (target - device) // dimensions.strides[axis] % dimensions.sizes[axis]
        return Move(device, target, tuple(reversed(path)), turn)
