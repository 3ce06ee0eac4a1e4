"""Kinds of problems: which synthesizers apply, and which are likely to be the best. How long one takes is not asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from collc.synthesis.reductions.compose import MOST_RELAYED_IN_FILES, has_reductions, obstacle_to_shared_sums
from collc.ten.module import Module
from collc.ten.schedule import LinkModel

FEW: Final = 8
"""Latencies up to which links are busy if bandwidth does not decide."""


@dataclass(frozen=True, eq=False)
class ProblemKind:
    """A module before synthesis, on one network (its own, or the one with direct links in the place of switches)."""

    module: Module

    @cached_property
    def reduces(self) -> bool:
        """Whether anything is reduced."""
        return has_reductions(self.module.demand)

    @cached_property
    def shares_sums(self) -> bool:
        """Whether all contributors to a sum get it."""
        return not obstacle_to_shared_sums(self.module)

    def is_short(self, copies: int, stores: bool = False) -> bool:
        """Whether all links, in equal parts, carry some copies of chunks in a FEW latencies; not if there is nothing to
        carry, or times are unknown. stores: whether a copy takes a link until it arrives.
        """
        network = self.module.network
        try:
            sent = network.occupancy(self.module.demand.chunk_sizes)[network.kind]
            latency = float(network.latencies[network.kind].sum()) / max(1, network.link_count)
        except ValueError:
            return False
        each = float(sent.mean() if sent.size else 0) + latency * stores
        return 0 < copies * each <= FEW * latency * network.link_count

    @property
    def is_one_shot(self) -> bool:
        """Whether each contribution may travel to all NPUs by itself, and in files only few do."""
        module, demand = self.module, self.module.demand
        many = module.relays and demand.pair_count > 2 * MOST_RELAYED_IN_FILES
        if many or not self.shares_sums or module.network.has_limited_buffers:
            return False
        return self.is_short(demand.chunk_count * len(module.network.npus) ** 2, module.model is LinkModel.STORE)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether one collective over all NPUs runs on a network whose NPUs are all alike, but for what is missing."""
        from collc.synthesis.symmetric import is_repairable, is_symmetric

        return self.module.schedule is None and (is_symmetric(self.module) or is_repairable(self.module))

    @property
    def is_repaired(self) -> bool:
        """Whether `symmetric` mends the plan of the network without failures, which may be far from the best."""
        from collc.synthesis.damage import undamaged_network

        return self.is_symmetric and undamaged_network(self.module.network) is not None

    @property
    def has_dimensions(self) -> bool:
        """Whether the network is a product. Not if `symmetric` applies: it uses the dimensions, and is never longer."""
        from collc.graph.coordinates import find_dimensions

        return not self.is_symmetric and find_dimensions(self.module.network) is not None

    @property
    def is_gathered(self) -> bool:
        """Whether one run gathers to, or reduces from, all of its group, and nothing is planned or limited."""
        module, standard = self.module, self.module.demand.standard
        free = module.schedule is None and not module.network.has_limited_buffers
        return free and standard is not None and standard.shape.phases > 0

    @property
    def likely_best(self) -> tuple[str, ...]:
        """The synthesizers whose schedules are likely to be near the best possible one, the likeliest first."""
        demand, is_direct = self.module.demand, not self.module.network.has_switches
        is_shared = demand.pair_count > 2 * max(1, demand.chunk_count)  # by more than two NPUs on average
        decides = not self.is_short(demand.pair_count)  # bandwidth
        overlaps, damaged = decides and self.reduces and is_direct, len(self.module.network.removed) > 0
        table = (
            ("symmetric", self.is_symmetric),
            ("one_shot", self.is_one_shot and (damaged or not self.is_symmetric)),
            ("exchange", not decides),
            ("tacos", is_shared and is_direct),
            ("overlapped", overlaps),
            ("swarm", is_shared and not is_direct and not self.is_one_shot and not self.is_repaired),
            ("forest", is_shared and decides and not overlaps and not self.is_symmetric),
            ("pccl", not is_shared),
        )
        return tuple(name for name, holds in table if holds)
