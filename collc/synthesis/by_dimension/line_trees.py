"""Trees along the lines of a network (`graph/dimensions.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.graph.dimensions import Dimensions
from collc.graph.paths import PathTree, shortest_path_tree

VARIANTS: Final = 2
"""Trees of each NPU and dimension."""


@dataclass(frozen=True, slots=True)
class LineHop:
    """A chunk goes from an NPU to another of its line, over one link, or over several with switches between.

    path: the links. offset: positions from the source to the target along the line, which wraps round. If all NPUs
    of a line send to offset 1, then to offset 2 and so on, each receives from one NPU at a time.
    """

    source: int
    target: int
    path: tuple[int, ...]
    offset: int


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
        """Hops that bring a chunk from an NPU to its line, parents first; to a part of it if links are missing."""
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
