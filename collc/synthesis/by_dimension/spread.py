"""Chunks that spread dimension by dimension.

A chunk goes along the line of its holder in one dimension; then all NPUs that have it send it along their lines in the
next. The order of the dimensions can differ from chunk to chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.graph.coordinates import Dimensions, find_dimensions
from collc.graph.paths import PathTree, shortest_path_tree
from collc.synthesis.by_dimension.hop_schedule import LineHop, schedule_hops
from collc.synthesis.conditions import Conditions
from collc.synthesis.list_schedule import TASK_WORK
from collc.synthesis.task import Effort
from collc.ten.schedule import RowSchedule, Schedule

VARIANTS: Final = 2
"""Trees of each NPU and dimension."""

LineTree = dict[int, tuple[int, LineHop]]
"""By NPU of a line, the hop of a tree to it, and its number; parents first."""

Order = Sequence[int]
"""Dimensions in the order in which a chunk spreads along them."""


def dimensions_of(conditions: Conditions, synthesizer: str) -> Dimensions:
    """The dimensions of a task's network. Raises SourceError if there are fewer than two."""
    network = conditions.task.network
    dimensions = find_dimensions(network)
    if dimensions is None:
        message = (
            f"'{synthesizer}' needs a network of two dimensions or more, and '{network.name}' has no lines of NPUs"
        )
        hint = "build it as a product, as in ring(4) * switched(8), or use auto, tacos or pccl"
        raise SourceError(Diagnostic("S0305", message, hint=hint))
    return dimensions


def link_costs(conditions: Conditions) -> list[int]:
    """Picoseconds for which the largest chunk occupies each link."""
    return conditions.clock.busy[conditions.task.network.kind].max(axis=1, initial=1).tolist()


def dimension_times(conditions: Conditions, dimensions: Dimensions) -> list[float]:
    """For each dimension, the picoseconds for which one copy of a chunk keeps all its links together busy."""
    network = conditions.task.network
    costs = np.array(link_costs(conditions), np.float64)
    leaving = network.source < network.npu_count
    return [1 / float((1 / costs[links & leaving]).sum()) for links in dimensions.usable]


def slowest_first(conditions: Conditions, dimensions: Dimensions) -> Order:
    """The dimensions by the rate at which NPUs can send along them, lowest first; among equals the later one first."""
    times = dimension_times(conditions, dimensions)
    return sorted(range(len(dimensions)), key=lambda axis: (-times[axis], -axis))


def spread(conditions: Conditions, dimensions: Dimensions, orders: Sequence[Order], effort: Effort) -> Schedule:
    """The schedule in which row k of the conditions spreads along the dimensions in orders[k].

    Raises SourceError if no path along the lines leads to an NPU, NoSchedule if `effort.stop` returns True before
    there is a schedule, or if the buffers of switches are too small.
    """
    trees = LineTrees(dimensions, link_costs(conditions))
    hops: list[list[LineHop]] = []
    for k in range(len(conditions)):
        if effort.work.is_exceeded or (k % 256 == 0 and effort.stop()):
            raise _stopped_early()
        before = trees.hop_count
        hops.append(_hops(conditions, trees, k, orders[k]))
        effort.work.add(TASK_WORK * (len(hops[-1]) + trees.hop_count - before))
    transfers = schedule_hops(conditions, hops, effort)
    if transfers is None:
        raise _stopped_early()
    effort.work.finish()
    return RowSchedule(conditions.task.model, transfers)


def _stopped_early() -> NoSchedule:
    return NoSchedule(Diagnostic("S0201", "stopped before all chunks were planned", hint="give it more time"))


def _hops(conditions: Conditions, trees: LineTrees, k: int, order: Order) -> list[LineHop]:
    """The hops of a row from its first holder to all NPUs that want it, each after the hop that brings the chunk."""
    holders, wanting = conditions.row(k)
    senders: list[tuple[int, list[int]]] = [(int(holders[0]), wanting.tolist())]
    hops: list[LineHop] = []
    for axis in order:
        position = trees.positions[axis]
        next_senders: list[tuple[int, list[int]]] = []
        for npu, targets in senders:
            by_position: dict[int, list[int]] = {}
            for target in targets:
                by_position.setdefault(position[target], []).append(target)
            own = by_position.pop(position[npu], None)
            if own is not None:
                next_senders.append((npu, own))
            if by_position:
                tree = trees.tree(npu, axis)
                reached = _next_senders(trees.dimensions, tree, axis, by_position, npu)
                hops += _hops_towards(tree, reached)
                next_senders += reached.items()
        senders = next_senders
    return hops


def _next_senders(
    dimensions: Dimensions, tree: LineTree, axis: int, by_position: dict[int, list[int]], npu: int
) -> dict[int, list[int]]:
    """The NPUs of a line that must get a chunk, each with the targets that it serves in the dimensions to come.

    by_position: targets by coordinate. Raises SourceError if the tree does not lead to one of these NPUs.
    """
    stride = dimensions.strides[axis]
    own = npu // stride % dimensions.sizes[axis]
    senders = {npu + (position - own) * stride: targets for position, targets in by_position.items()}
    missing = senders.keys() - tree.keys()
    if missing:
        network = dimensions.network
        names = f"{network.shown_name(npu)} to {network.shown_name(min(missing))}"
        message = f"no links of their dimension lead from {names}"
        raise SourceError(Diagnostic("S0306", message, hint="use auto, tacos or pccl instead"))
    return senders


def _hops_towards(tree: LineTree, targets: Iterable[int]) -> list[LineHop]:
    """The hops of a tree that are needed to reach some NPUs, parents first."""
    kept: LineTree = {}
    for target in targets:
        npu = target
        while npu in tree and npu not in kept:
            kept[npu] = tree[npu]
            npu = tree[npu][1].source
    return [hop for _, hop in sorted(kept.values(), key=itemgetter(0))]


class LineTrees:
    """Trees along the lines of a network: for each NPU and dimension, the hops that take a chunk to its whole line.

    Trees consist of shortest paths, and among these of the links that carry less of the trees so far. Each NPU has
    VARIANTS trees for a dimension, used in turns, so that both of two shortest paths carry chunks. hop_count: of all.
    positions: by dimension and NPU, the coordinate.
    """

    def __init__(self, dimensions: Dimensions, cost: list[int]) -> None:
        """cost: picoseconds that a chunk takes on each link."""
        network = dimensions.network
        self.dimensions, self._cost = dimensions, cost
        self.positions: list[list[int]] = dimensions.index.tolist()
        self._load = [0] * network.link_count
        self._total_load = self.hop_count = 0
        sources: list[int] = network.source.tolist()
        targets: list[int] = network.target.tolist()
        self._out: list[list[list[tuple[int, int]]]] = []
        for axis in range(len(dimensions)):
            out: list[list[tuple[int, int]]] = [[] for _ in range(network.device_count)]
            links: list[int] = np.flatnonzero(dimensions.usable[axis]).tolist()
            for link in links:
                out[sources[link]].append((targets[link], link))
            self._out.append(out)
        self._trees: dict[tuple[int, int], list[LineTree]] = {}
        self._uses: dict[tuple[int, int], int] = {}

    def tree(self, npu: int, axis: int) -> LineTree:
        """Hops that bring a chunk from an NPU to its line, parents first; to a part of it if links are missing."""
        use = self._uses.get((npu, axis), 0)
        self._uses[npu, axis] = use + 1
        known = self._trees.setdefault((npu, axis), [])
        if use < VARIANTS:
            known.append(self._grow(npu, axis))
        return known[use % VARIANTS]

    def _grow(self, npu: int, axis: int) -> LineTree:
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
        self.hop_count += len(tree.distance)
        reached = (target for target in tree.distance if target < npus and target != npu)
        return {target: (number, self._hop(tree, target, axis)) for number, target in enumerate(reached)}

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
