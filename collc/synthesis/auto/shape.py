"""What the choice among synthesizers looks at: the size and the kind of a problem on one network, quickly computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.dimensions import find_dimensions
from collc.graph.distances import UNREACHABLE, distances_to
from collc.synthesis.reductions.compose import OVERLAP_TRANSFERS, has_reductions
from collc.synthesis.swarm.switch_paths import PATHS_PER_PAIR
from collc.synthesis.symmetric import is_symmetric
from collc.ten.arrays import Int64Array
from collc.ten.module import Module
from collc.ten.schedule import Clock, LinkModel

FEW: Final = 2.0
"""Average number of NPUs that want a chunk up to which chunks are taken as going from one NPU to another."""

SAMPLE: Final = 16
"""NPUs from which distances are averaged."""

BANDWIDTH_BOUND: Final = 8
"""Latencies for which the links of an NPU must be busy in all for bandwidth to decide."""


@dataclass(frozen=True, eq=False)
class ProblemShape:
    """A module before synthesis, on one network (its own, or the one with direct links in the place of switches)."""

    module: Module

    @cached_property
    def has_switches(self) -> bool:
        """Whether any link leads to a switch."""
        return self.module.network.has_switches

    @cached_property
    def npus(self) -> int:
        """NPUs of the network."""
        return len(self.module.network.npus)

    @cached_property
    def has_outsiders(self) -> bool:
        """Whether some run leaves out NPUs of the network."""
        return any(len(run.group) < self.npus for run in self.module.demand.runs)

    @cached_property
    def reduces(self) -> bool:
        """Whether anything is reduced."""
        return has_reductions(self.module.demand)

    @cached_property
    def pairs(self) -> int:
        """Pairs of a chunk and an NPU that it must reach or be reduced from."""
        count = 0
        for table in self.module.demand.tables:
            pre, post = table.sets.sizes[table.pre], table.sets.sizes[table.post]
            count += int(post.sum()) + int(pre[table.op != 0].sum())
        return count

    @cached_property
    def is_shared(self) -> bool:
        """Whether chunks are wanted by, or reduced from, more than FEW NPUs on average."""
        return self.pairs > FEW * max(1, sum(len(table) for table in self.module.demand.tables))

    @cached_property
    def few_hold(self) -> bool:
        """Whether twice as many NPUs want something, or contribute to it, as hold it at first, or get the result."""
        few, many = set[int](), set[int]()
        for table in self.module.demand.tables:
            for pre, post, op in np.unique(np.stack([table.pre, table.post, table.op], axis=1), axis=0).tolist():
                holders, wanting = (post, pre) if op else (pre, post)
                few.update(table.sets[holders].tolist())
                many.update(table.sets[wanting].tolist())
        return self.is_shared and 2 * len(few) <= len(many)

    @cached_property
    def hops(self) -> float:
        """Transfers for each of `pairs`, about: 1 or, over switches, 2; for chunks of single pairs their distance."""
        if self.is_shared:
            return 2.0 if self.has_switches else 1.0
        return self.mean_distance

    @cached_property
    def mean_distance(self) -> float:
        """Links of a shortest path from one NPU to another, on average."""
        return float(self._distances.mean()) if self._distances.size else 1.0

    @cached_property
    def longest_path(self) -> int:
        """Links of the longest of the shortest paths from all NPUs to some of them."""
        return int(self._distances.max(initial=0))

    @cached_property
    def _distances(self) -> Int64Array:
        """Links from all NPUs to SAMPLE of them."""
        network = self.module.network
        step = max(1, self.npus // SAMPLE)
        length = np.ones(network.link_count, np.int64)
        distance = distances_to(Digraph.of(network), length, network.npus[::step])[:, : network.npu_count]
        return distance[(distance < UNREACHABLE) & (distance > 0)]

    @cached_property
    def switch_paths(self) -> int:
        """Paths from NPU to NPU with only switches between, about: those of as few links as possible, of some NPUs."""
        network = self.module.network
        after: list[list[int]] = [[] for _ in range(network.device_count)]
        starts: list[int] = network.source.tolist()
        ends: list[int] = network.target.tolist()
        for source, target in zip(starts, ends, strict=True):
            after[source].append(target)
        step = max(1, self.npus // SAMPLE)
        sample: list[int] = network.npus.tolist()[::step]
        return step * sum(_paths_from(npu, after, network.npu_count) for npu in sample)

    @cached_property
    def phases(self) -> int:
        """How often a synthesizer of copies is called: for the reductions, for the copies after them, and for the
        copies around them.
        """
        if not self.reduces:
            return 1
        table = self.module.demand.chunks
        again = bool((table.sets.sizes[table.post] > 1).any() | (table.op == 0).any())
        return 1 if not again else 2 if self.pairs * self.hops > OVERLAP_TRANSFERS else 3

    @cached_property
    def transfers(self) -> int:
        """Transfers that all calls together plan, about."""
        return int(self.pairs * self.hops * (self.phases + 1) / 2 if self.reduces else self.pairs * self.hops) + 1

    @cached_property
    def tree_growth(self) -> float:
        """Links that a search from all NPUs with a chunk to the next one that wants it looks at, for all chunks."""
        network = self.module.network
        degree = network.link_count / max(1, network.device_count)
        total = 0.0
        for table in self.module.demand.tables:
            sizes = np.maximum(table.sets.sizes[table.post], table.sets.sizes[table.pre]).astype(np.float64)
            total += float(np.minimum(sizes * sizes / 2 * degree, sizes * network.link_count).sum())
        return total * self.phases

    @cached_property
    def is_bandwidth_bound(self) -> bool:
        """Whether what an NPU gets keeps its links busy for much longer than latencies last."""
        network, sizes = self.module.network, self.module.demand.chunks.size
        if not len(sizes) or not network.link_count:
            return False
        try:
            clock = Clock.of(network, self.module.demand, LinkModel.PIPELINED)
        except ValueError:
            return False
        busy, total = clock.busy[network.kind], clock.total[network.kind]
        each = float(busy.mean()) * self.pairs / max(1, network.link_count)
        return each > BANDWIDTH_BOUND * float((total - busy).mean())

    @cached_property
    def is_latency_bound(self) -> bool:
        """Whether the links carry all contributions, and all sums, in less time than the longest path takes."""
        return self._takes_less_than_a_path(2 * len(self.module.demand.chunks) * self.npus)

    @cached_property
    def is_latency_bound_one_shot(self) -> bool:
        """Whether they do if each contribution travels to all NPUs by itself."""
        return self._takes_less_than_a_path(len(self.module.demand.chunks) * self.npus**2)

    def _takes_less_than_a_path(self, transfers: int) -> bool:
        """Whether links that share some transfers evenly are done before a chunk has crossed the longest path."""
        network, demand = self.module.network, self.module.demand
        if not len(demand.chunks) or not network.link_count:
            return False
        try:
            clock = Clock.of(network, demand, self.module.model)
        except ValueError:
            return False
        busy, total = clock.busy[network.kind], clock.total[network.kind]
        return float(busy.mean()) * transfers / network.link_count <= self.longest_path * float(total.min())

    @cached_property
    def has_dimensions(self) -> bool:
        """Whether the NPUs form an array with links along each of its dimensions."""
        return find_dimensions(self.module.network) is not None

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether one collective over all NPUs runs on a network whose NPUs are all alike."""
        return is_symmetric(self.module)

    @cached_property
    def is_one_collective(self) -> bool:
        """Whether each run gathers to, or reduces from, all of its group; on all of them together trees apply."""
        standards = [run.standard for run in self.module.demand.runs]
        shape = standards[0].shape if len(standards) == 1 and standards[0] is not None else None
        pair = len(self.module.demand.runs[0].group) == 2
        return shape is not None and (shape.phases > 0 or (shape.pairs and pair))


def _paths_from(npu: int, after: list[list[int]], npus: int) -> int:
    """Paths of fewest links from an NPU over switches to each other one. after: by device, where its links lead."""
    paths, seen, front = 0, {npu}, {npu: 1}
    while front:
        reached: dict[int, int] = {}
        for device, count in front.items():
            for target in after[device]:
                if target not in seen:
                    reached[target] = reached.get(target, 0) + count
        seen.update(reached)
        paths += sum(min(PATHS_PER_PAIR, count) for device, count in reached.items() if device < npus)
        front = {device: count for device, count in reached.items() if device >= npus}
    return paths
