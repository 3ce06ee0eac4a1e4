"""Sets of devices into which the links are likely to be narrow, and of those the narrowest, by maximum flow."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph, weakly_connected
from collc.graph.throughput import GatherRate, broadcast_rate, gather_rate
from collc.synthesis.bounds.fluid import Fluid, exactly
from collc.synthesis.bounds.timing import FEW_SETS, MOST_CUTS
from collc.ten.arrays import BoolArray, Int64Array, count_distinct, distinct
from collc.ten.demand import Demand, Run, RunFamily
from collc.ten.network import Network

MOST_SEARCHED: Final = 300_000
"""Members x links, at most, of runs that differ in their groups only and that are searched; a bound on time: 1 s. Also
of NPUs with chunks of their own, for which prices of links are sought; up to 8 times that, simple prices count.
"""

EXHAUSTIVE_DEVICES: Final = 8
"""Devices up to which every cut is tried."""

CUT_WORK: Final = 4_000_000
"""Sets x links that are looked at for each sort of sets; at least a few sets are tried on any network."""


def most_sets(network: Network, most: int) -> int:
    """How many sets of a sort are tried: `most`, or fewer on a large network, but two at least."""
    return min(most, max(2, CUT_WORK // max(1, network.link_count)))


def npu_sets(fluid: Fluid) -> Iterator[BoolArray]:
    """bool[devices]: single NPUs, and all devices but one NPU, those with the most bytes for their bandwidth first."""
    for received in (True, False):
        for npu in fluid.busiest(received, most_sets(fluid.network, FEW_SETS)):
            inside = np.arange(fluid.network.device_count) == npu
            yield inside if received else ~inside


@lru_cache(maxsize=2)  # the bounds of given chunks and the ideal ask for the same ones
def narrow_sets(fluid: Fluid, demand: Demand) -> list[BoolArray]:
    """bool[devices]: the narrowest sets of runs, and the cuts of the network from both sides, each once."""
    network = fluid.network
    narrowest = chain.from_iterable(narrowest_sets(fluid, run) for run in searched_runs(fluid, demand))
    cuts = cuts_of(network, network.occupancy(fluid.sizes[-1:])[:, 0] + network.latencies)
    both = chain.from_iterable((cut, ~cut) for cut in cuts)
    return [*{inside.tobytes(): inside for inside in chain(narrowest, both)}.values()]


def searched_runs(fluid: Fluid, demand: Demand) -> list[Run]:
    """The runs for each of which the worst set and partition are sought: of those with the same arguments and as many
    members, at least one and as many as MOST_SEARCHED allows, those first of which an NPU has the slowest links.
    """
    alike: dict[Hashable, list[tuple[RunFamily, Int64Array]]] = {}
    for family, numbers in zip(demand.by_family.families, demand.by_family.numbers(), strict=True):
        alike.setdefault((family.first.standard, len(family.first.group)), []).append((family, numbers))
    found: list[Run] = []
    for families in alike.values():
        most = max(1, MOST_SEARCHED // max(1, families[0][0].groups.shape[1] * fluid.network.link_count))
        numbers = np.sort(np.concatenate([numbers for _, numbers in families]))
        if len(numbers) > most:
            groups = np.concatenate([family.groups for family, _ in families])
            order = np.argsort(np.concatenate([numbers for _, numbers in families]))
            ends = np.concatenate([fluid.network.source, fluid.network.target])
            width = np.bincount(ends, np.tile(fluid.capacity, 2), fluid.network.device_count)
            numbers = numbers[np.argsort(width[groups[order]].min(axis=1), kind="stable")[:most]]
        found += [demand.runs[number] for number in numbers.tolist()]
    return found


def cuts_of(network: Network, cost: Int64Array) -> Iterator[BoolArray]:
    """The cuts to try, bool[devices]. cost: int64[kinds], picoseconds of a chunk on links of a kind.

    Every set of devices gives a valid bound; these tend to give tight ones: components of the graph of the cheaper
    links, halves along the axes of arrays, the NPUs on a switch, and all sets of a small network.
    """
    used = np.flatnonzero(network.present)
    if 1 < len(used) <= EXHAUSTIVE_DEVICES:
        for bits in range(1, 1 << (len(used) - 1)):
            inside = np.zeros(network.device_count, np.bool_)
            inside[used[[k for k in range(len(used)) if bits >> k & 1]]] = True
            yield inside
        return
    yield from _component_cuts(network, cost)
    yield from _axis_cuts(network)
    yield from _switch_cuts(network)


def _component_cuts(network: Network, cost: Int64Array) -> Iterator[BoolArray]:
    """For each link cost but the least, the components of the graph of all cheaper links, the narrowest first."""
    rates = np.array([float(kind.bandwidth or 0) for kind in network.kinds])
    for price in distinct(cost[network.kinds_in_use])[1:].tolist():
        component = weakly_connected(Digraph.of(network).with_edges(cost[network.kind] < price))
        labels, sizes = np.unique(component[network.present], return_counts=True)
        into, out = component[network.target], component[network.source]
        width = np.bincount(into, np.where(into != out, rates[network.kind], 0), network.device_count)
        labels = labels[sizes > 1]
        order = np.argsort(width[labels], kind="stable")[: most_sets(network, MOST_CUTS)]
        for label in labels[order].tolist():
            inside = component == label
            if not inside[network.present].all():
                yield inside


def _axis_cuts(network: Network) -> Iterator[BoolArray]:
    """For each index of each array of NPUs, those below some value of it."""
    for family in network.families:
        if family.first >= network.npu_count or not family.shape:
            continue
        rest = np.arange(family.count)
        index = np.empty((len(family.shape), family.count), np.int64)
        for axis in sorted(range(len(family.shape)), key=lambda a: -family.strides[a]):
            index[axis], rest = np.divmod(rest, family.strides[axis])
        most = most_sets(network, FEW_SETS)
        for axis, size in enumerate(family.shape):
            limits = range(1, size)
            if size > most:
                limits = sorted({1, size - 1, *(size * part // most for part in range(1, most))})
            for limit in limits:
                labels = np.where(np.arange(network.device_count) < network.npu_count, 0, -1)
                labels[family.first : family.first + family.count] = index[axis] < limit
                yield with_switches(network, labels) == 1


def with_switches(network: Network, labels: Int64Array) -> Int64Array:
    """Labels of devices, int64[devices], in which a switch without one (-1) gets that of more than half of the devices
    at its links, if any.
    """
    if not (labels < 0).any():
        return labels
    ends = np.concatenate([network.source, network.target]), np.concatenate([network.target, network.source])
    open_, width = labels[ends[0]] < 0, int(labels.max(initial=0)) + 2
    keys, counts = count_distinct(ends[0][open_].astype(np.int64) * width + labels[ends[1]][open_] + 1)
    switch, label = np.divmod(keys, width)
    degree = np.bincount(ends[0], minlength=network.device_count)
    most = 2 * counts > degree[switch]
    joined = labels.copy()
    joined[switch[most]] = label[most] - 1
    return joined


def _switch_cuts(network: Network) -> Iterator[BoolArray]:
    """Each switch with the NPUs on it."""
    for switch in range(
        network.npu_count, min(network.device_count, network.npu_count + most_sets(network, MOST_CUTS))
    ):
        inside = np.zeros(network.device_count, np.bool_)
        inside[network.target[network.source == switch]] = True
        inside[network.npu_count :] = False
        inside[switch] = True
        if int(inside.sum()) > 2 and not inside[: network.npu_count][network.present[: network.npu_count]].all():
            yield inside


def narrowest_sets(fluid: Fluid, run: Run) -> Iterator[BoolArray]:
    """bool[devices]: sets whose incoming links are the bottleneck of a run if it ran alone, exactly; with a root and
    many members, the bottleneck of as many as `most_sets` says, those with the slowest links.

    For All-Gather that is the bottleneck of ForestColl (Zhao et al., 2024).
    """
    standard, group = run.standard, run.group
    large = most_sets(fluid.network, FEW_SETS) < FEW_SETS  # a maximum flow for each NPU
    if standard is None or len(group) < 2 or large:
        return
    shape, root = standard.shape, int(group[standard.root])
    for backward, members in ((False, shape.end), (True, shape.start)):
        if members != "all":
            continue

        def search(fluid: Fluid, backward: bool = backward) -> GatherRate:
            graph = fluid.graph.reverse() if backward else fluid.graph
            if shape.has_root:
                width = np.bincount(graph.target, fluid.capacity, graph.vertex_count)[group]
                few = np.sort(np.argsort(width, kind="stable")[: most_sets(fluid.network, len(group))])
                return broadcast_rate(graph, fluid.capacity, root, group[few].tolist())
            return gather_rate(graph, fluid.capacity, group.tolist())

        found = exactly(fluid, search)
        if found is not None:
            yield found[0].outside == backward
