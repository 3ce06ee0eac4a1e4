"""Links by cost, for the component rule of collc/synthesis/tacos/events.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.reachability import strongly_connected
from collc.synthesis.tacos.problem import CopyProblem
from collc.ten.arrays import Int32Array, Int64Array


@dataclass(frozen=True, eq=False)
class CostLevels:
    """Links by cost, cheap ones first.

    of_link: int64[links], the level of each. component: int32[levels, devices], the lowest device of the strongly
    connected component of each device over the links of all lower levels.
    """

    of_link: Int64Array
    component: Int32Array

    @property
    def count(self) -> int:
        """How many levels there are."""
        return len(self.component)


def cost_levels_of(problem: CopyProblem) -> CostLevels:
    """The levels by the time that the largest chunk takes."""
    network = problem.network
    kinds = np.unique(network.kind)
    costs, rank = np.unique(problem.total[kinds, -1], return_inverse=True)
    by_kind = np.zeros(len(network.kinds), np.int64)
    by_kind[kinds] = rank.reshape(-1)
    level = by_kind[network.kind]
    component = np.zeros((len(costs), problem.devices), np.int32)
    for bound in range(len(costs)):
        kept = level < bound
        graph = Digraph(problem.devices, network.source[kept], network.target[kept])
        component[bound] = strongly_connected(graph)
    return CostLevels(level, component)
