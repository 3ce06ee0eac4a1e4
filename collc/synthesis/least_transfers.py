"""How many transfers a schedule lists at least, by distances: what no search can list is refused before it begins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to, hop_counts
from collc.synthesis.bounds.timing import DETAILED_DEVICES
from collc.ten.arrays import Int32Array, Int64Array, group_positions
from collc.ten.demand import Demand, Run
from collc.ten.network import Network


def least_transfers(network: Network, demand: Demand, most: int) -> int:
    """The least number of transfers of a schedule; if it is more than `most`, some number between them.

    A chunk that goes from one NPU to one other crosses each link of a path.
    """
    least = demand.least_transfers
    for family in demand.by_family.families:
        if len(family) == 1 and least <= most:
            least += _further_hops(network, family.first, most - least)
    return least


def _further_hops(network: Network, run: Run, most: int) -> int:
    """Hops of the chunks of a run that go from one NPU to one other, after the first one of each; counted until there
    are more than `most`.
    """
    graph, standard = Digraph.of(network), run.standard
    if standard is not None and standard.shape.pairs and standard.shape.by_rule:
        roots, times = run.group, standard.chunks
        others = [run.group] * len(roots)
    else:
        to, roots, others = _pairs(run)
        graph, times = graph if to else graph.reverse(), 1
    if times * sum(map(len, others)) * network.device_count <= most:  # no path is as long
        return 0
    hops, low = 0, 0
    while low < len(roots) and times * hops <= most:
        high = len(roots) if _are_many(low + 1, graph) else 2 * low + 1
        for distance, ends in zip(_hops_to(graph, roots[low:high]), others[low:high], strict=True):
            reached = distance[ends]
            hops += int(reached[reached >= 0].sum()) - len(ends)
        low = high
    return times * hops


def _are_many(roots: int, graph: Digraph) -> bool:
    """Whether hops between all vertices take hardly longer to count than those to some roots."""
    return 32 * roots > graph.vertex_count and graph.vertex_count <= DETAILED_DEVICES


def _hops_to(graph: Digraph, roots: Int32Array) -> Int32Array | Int64Array:
    """int[roots, vertices]: the hops from each vertex to each root, -1 if no path leads there."""
    if _are_many(len(roots), graph):
        return hop_counts(graph)[roots]
    distance = distances_to(graph, np.ones(graph.edge_count, np.int64), roots)
    return np.where(distance < UNREACHABLE, distance, -1)


def _pairs(run: Run) -> tuple[bool, Int32Array, list[Int32Array]]:
    """(whether the roots are receivers, the roots, for each its other NPUs) of the chunks that one NPU has and one
    other wants; the roots are at the end that has fewer of them.
    """
    table = run.pattern.expand()
    single = np.flatnonzero((table.sets.sizes[table.pre] == 1) & (table.sets.sizes[table.post] == 1))
    ends = [table.sets.members[table.sets.offsets[sets[single]]] for sets in (table.pre, table.post)]
    (starts, from_number), (targets, to_number) = (np.unique(end, return_inverse=True) for end in ends)
    to = len(targets) <= len(starts)
    roots, number, other = (targets, to_number, ends[0]) if to else (starts, from_number, ends[1])
    offsets, order = group_positions(number.astype(np.int32), len(roots))
    return to, roots, [other[order[low:high]] for low, high in pairwise(offsets.tolist())]
