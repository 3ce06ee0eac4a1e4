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
from collc.ten.module import Module
from collc.ten.schedule import LinkModel

SAMPLE: Final = 16
"""NPUs to which the longest path is sought."""

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
    def reduces(self) -> bool:
        """Whether anything is reduced."""
        return has_reductions(self.module.demand)

    @cached_property
    def is_shared(self) -> bool:
        """Whether chunks are wanted by, or reduced from, more than two NPUs on average."""
        return self.module.demand.pair_count > 2 * max(1, self.module.demand.chunk_count)

    @cached_property
    def has_root(self) -> bool:
        """Whether one NPU of each run holds all of it at first, or gets the result, and many want it or contribute."""
        firsts = (family.first.standard for family in self.module.demand.by_family.families)
        return self.is_shared and all(standard is not None and standard.shape.has_root for standard in firsts)

    @cached_property
    def link_times(self) -> tuple[float, float]:
        """Picoseconds, on average, for which the bytes of a chunk take a link, and until the chunk arrives."""
        network, sizes = self.module.network, self.module.demand.chunk_sizes
        try:
            busy = network.occupancy(sizes)[network.kind]
            total = busy + network.latencies[network.kind, None]
        except ValueError:
            return 0.0, 0.0
        return (float(busy.mean()), float(total.mean())) if busy.size else (0.0, 0.0)

    @cached_property
    def is_bandwidth_bound(self) -> bool:
        """Whether what an NPU gets keeps its links busy for much longer than latencies last."""
        busy, total = self.link_times
        return busy * self.module.demand.pair_count > BANDWIDTH_BOUND * (total - busy) * self.module.network.link_count

    @cached_property
    def time_of_longest_path(self) -> float:
        """Picoseconds for which all links together could be busy while a chunk crosses the longest path to a SAMPLE."""
        network = self.module.network
        npus = network.npus[:: max(1, len(network.npus) // SAMPLE)]
        hops = distances_to(Digraph.of(network), np.ones(network.link_count, np.int64), npus)[:, : network.npu_count]
        return int(hops[hops < UNREACHABLE].max(initial=0)) * self.link_times[1] * network.link_count

    def takes_less_than_a_path(self, transfers_per_chunk: int) -> bool:
        """Whether links that share some transfers evenly are done before a chunk has crossed the longest path."""
        each = self.link_times[self.module.model is LinkModel.STORE]
        return 0 < each * transfers_per_chunk * self.module.demand.chunk_count <= self.time_of_longest_path

    @property
    def is_latency_bound(self) -> bool:
        """Whether the links carry all contributions, and all sums, in less time than the longest path takes."""
        return self.takes_less_than_a_path(2 * len(self.module.network.npus))

    @property
    def is_one_shot(self) -> bool:
        """Whether they do if each contribution travels to all NPUs by itself, and in files only few do."""
        if not self.shares_sums or self.module.network.has_limited_buffers:
            return False
        if self.module.relays and self.module.demand.pair_count > 2 * MOST_RELAYED_IN_FILES:
            return False
        return self.takes_less_than_a_path(len(self.module.network.npus) ** 2)

    @cached_property
    def shares_sums(self) -> bool:
        """Whether all contributors to a sum get it."""
        return not obstacle_to_shared_sums(self.module)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether one collective over all NPUs runs on a network whose NPUs are all alike, but for what is missing."""
        from collc.synthesis.symmetric import is_repairable, is_symmetric

        if self.module.schedule is not None or self.module.demand.standard is None:
            return False
        return is_symmetric(self.module) or is_repairable(self.module)

    @property
    def has_dimensions(self) -> bool:
        """Whether the network is a product. Not if `symmetric` applies: it uses the dimensions, and is never longer."""
        from collc.graph.coordinates import find_dimensions

        return not self.is_symmetric and find_dimensions(self.module.network) is not None

    @property
    def is_gathered(self) -> bool:
        """Whether one run gathers to, or reduces from, all of its group, and nothing is planned or limited."""
        module, standard = self.module, self.module.demand.standard
        if module.schedule is not None or module.network.has_limited_buffers:
            return False
        return standard is not None and standard.shape.phases > 0

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
        limited, damaged = self.module.network.has_limited_buffers, len(self.module.network.removed) > 0
        overlaps = self.reduces and not self.has_switches and self.is_bandwidth_bound
        repaired = self.reduces and damaged and self.is_symmetric  # trees take longer, and much work to grow
        table = (
            ("symmetric", self.is_symmetric),
            ("one_shot", self.is_one_shot and (damaged or not self.is_symmetric)),
            ("exchange", self.is_latency_bound),
            ("tacos", self.is_shared and not self.has_switches),
            ("overlapped", overlaps),
            ("swarm", self.is_shared and self.has_switches and self.is_bandwidth_bound and (self.has_root or limited)),
            ("forest", self.is_shared and self.is_bandwidth_bound and not overlaps and not repaired),
            ("pccl", not self.is_shared),
        )
        return tuple(name for name, holds in table if holds)
