"""Kinds of problems: which synthesizers apply, and which are likely to be the best.

No decision here concerns how long a synthesizer takes: that is counted as it goes (WorkMeter).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to
from collc.synthesis.reductions.compose import MOST_RELAYED_IN_FILES, has_reductions, obstacle_to_shared_sums
from collc.ten.arrays import Int64Array, unique_rows
from collc.ten.module import Module
from collc.ten.schedule import LinkModel

FEW: Final = 2.0
"""Average number of NPUs that want a chunk up to which chunks are taken as going from one NPU to another."""

SAMPLE: Final = 16
"""NPUs from which distances are averaged."""

BANDWIDTH_BOUND: Final = 8
"""Latencies for which the links of an NPU must be busy in all for bandwidth to decide."""


@dataclass(frozen=True, eq=False)
class ProblemKind:
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
    def reduces(self) -> bool:
        """Whether anything is reduced."""
        return has_reductions(self.module.demand)

    @cached_property
    def is_shared(self) -> bool:
        """Whether chunks are wanted by, or reduced from, more than FEW NPUs on average."""
        return self.module.demand.pair_count > FEW * max(1, self.module.demand.chunk_count)

    @cached_property
    def few_hold(self) -> bool:
        """Whether twice as many NPUs want something, or contribute to it, as hold it at first, or get the result."""
        few, many = set[int](), set[int]()
        for table in self.module.demand.tables:
            for pre, post, op in unique_rows([table.pre, table.post, table.op])[0].tolist():
                holders, wanting = (post, pre) if op else (pre, post)
                few.update(table.sets[holders].tolist())
                many.update(table.sets[wanting].tolist())
        return self.is_shared and 2 * len(few) <= len(many)

    @cached_property
    def mean_distance(self) -> float:
        """Links of a shortest path from one NPU to another, on average."""
        return float(self.distances.mean()) if self.distances.size else 1.0

    @cached_property
    def distances(self) -> Int64Array:
        """Links from all NPUs to SAMPLE of them."""
        network = self.module.network
        length = np.ones(network.link_count, np.int64)
        npus = network.npus[:: max(1, self.npus // SAMPLE)]
        distance = distances_to(Digraph.of(network), length, npus)[:, : network.npu_count]
        return distance[(distance < UNREACHABLE) & (distance > 0)]

    @cached_property
    def link_times(self) -> tuple[float, float]:
        """Picoseconds, on average, for which the bytes of a chunk take a link, and until the chunk arrives."""
        network, sizes = self.module.network, self.module.demand.chunk_sizes
        try:
            busy = network.occupancy(sizes)[network.kind]
            total = busy + network.latencies[network.kind, None]
        except ValueError:
            return 0.0, 0.0
        if not busy.size:
            return 0.0, 0.0
        return float(busy.mean()), float(total.mean())

    @cached_property
    def is_bandwidth_bound(self) -> bool:
        """Whether what an NPU gets keeps its links busy for much longer than latencies last."""
        busy, total = self.link_times
        return busy * self.module.demand.pair_count > BANDWIDTH_BOUND * (total - busy) * self.module.network.link_count

    @property
    def is_latency_bound(self) -> bool:
        """Whether the links carry all contributions, and all sums, in less time than the longest path takes."""
        return self._takes_less_than_a_path(2 * self.module.demand.chunk_count * self.npus)

    @property
    def is_latency_bound_one_shot(self) -> bool:
        """Whether they do if each contribution travels to all NPUs by itself."""
        return self._takes_less_than_a_path(self.module.demand.chunk_count * self.npus**2)

    def _takes_less_than_a_path(self, transfers: int) -> bool:
        """Whether links that share some transfers evenly are done before a chunk has crossed the longest path."""
        busy, total = self.link_times
        each = total if self.module.model is LinkModel.STORE else busy
        longest = int(self.distances.max(initial=0))
        return 0 < each * transfers <= longest * total * self.module.network.link_count

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether one collective over all NPUs runs on a network whose NPUs are all alike."""
        if self.module.schedule is not None or self.module.demand.standard is None:
            return False
        from collc.synthesis.symmetric import is_symmetric

        return is_symmetric(self.module)

    @cached_property
    def is_repairable(self) -> bool:
        """Whether that was so before a network without switches lost some links or NPUs."""
        from collc.synthesis.symmetric import is_repairable

        return is_repairable(self.module)

    @cached_property
    def has_dimensions(self) -> bool:
        """Whether the network is a product. Not if `symmetric` applies: it uses the dimensions, and is never longer."""
        from collc.graph.coordinates import find_dimensions

        return not self.is_symmetric and find_dimensions(self.module.network) is not None

    @cached_property
    def shares_sums(self) -> bool:
        """Whether all contributors to a sum get it."""
        return not obstacle_to_shared_sums(self.module)

    @property
    def is_one_shot(self) -> bool:
        """Whether it is about sums so small that latencies decide, and in files only about few partials."""
        module = self.module
        if not self.shares_sums or module.network.has_limited_buffers or not self.is_latency_bound_one_shot:
            return False
        return not module.relays or self.module.demand.pair_count <= 2 * MOST_RELAYED_IN_FILES

    @property
    def is_gathered(self) -> bool:
        """Whether one run gathers to, or reduces from, all of its group, and nothing is planned or limited."""
        module, run = self.module, self.module.demand.runs[0]
        if module.schedule is not None or module.network.has_limited_buffers or len(module.demand.runs) > 1:
            return False
        collective = None if run.standard is None else run.standard.shape
        return collective is not None and (collective.phases > 0 or (collective.pairs and len(run.group) == 2))

    @property
    def is_reduced_in_switches(self) -> bool:
        """Whether switches can form sums, and nothing is planned."""
        module = self.module
        if not self.reduces or module.schedule is not None or module.relays or not module.network.reduces.any():
            return False
        from collc.synthesis.in_network.synthesizer import has_reducing_switch

        return has_reducing_switch(module.network)

    @property
    def likely_best(self) -> tuple[str, ...]:
        """The synthesizers whose schedules are likely to be near the best possible one, the likeliest first."""
        limited = self.module.network.has_limited_buffers
        overlaps = self.reduces and not self.has_switches and self.is_bandwidth_bound
        table = (
            ("symmetric", self.is_symmetric or self.is_repairable),
            ("one_shot", self.is_latency_bound_one_shot and not self.is_symmetric),
            ("exchange", self.is_latency_bound),
            ("tacos", self.is_shared and not self.has_switches),
            ("overlapped", overlaps),
            ("swarm", self.is_shared and self.has_switches and self.is_bandwidth_bound and (self.few_hold or limited)),
            ("forest", self.is_shared and self.is_bandwidth_bound and not overlaps),
            ("pccl", not self.is_shared),
        )
        return tuple(name for name, holds in table if holds)
