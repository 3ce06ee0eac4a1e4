"""The ideal time of a demand: a lower bound that holds for any number of chunks and for both link models.

What must enter a set of devices takes at least its bytes over the bandwidth of the links into it
(collc/synthesis/bounds/fluid.py). For standard collectives the narrowest set is found exactly
(collc/graph/throughput.py); the sets that the bounds of given chunks use are tried too. An All-Reduce among NPUs that
alone add up needs more than any one set shows: see `_partition_bound`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final, TypeVar

import numpy as np

from collc.graph.throughput import broadcast_rate, gather_rate, reduce_rate
from collc.synthesis.bounds.cuts import cuts_of, tries_all_cuts
from collc.synthesis.bounds.flow import flow_cuts
from collc.synthesis.bounds.fluid import SECOND, Fluid
from collc.synthesis.bounds.set_names import name_of_links_between, name_of_links_into
from collc.synthesis.bounds.traffic import traffic_of
from collc.ten.arrays import BoolArray
from collc.ten.demand import Demand, Run
from collc.ten.module import Bound
from collc.ten.network import Network

T = TypeVar("T")

NPU_SETS: Final = 16
"""Single NPUs that are tried as sets, those with the most bytes for their bandwidth."""

PARTITION_NPUS: Final = 1024
"""NPUs up to which the best partition is sought for an All-Reduce."""

EXACT_KINDS: Final = frozenset({"all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce"})
"""Collectives whose narrowest set is found exactly."""

MORE_CUTS_DEVICES: Final = 256
"""Devices up to which other cuts are tried beside the narrowest: latencies can make them better."""


def ideal_bound(network: Network, demand: Demand) -> Bound:
    """The largest such bound found, in picoseconds, with its name.

    Raises ValueError where links have no bandwidth or latency.
    """
    best = Bound(0, "nothing moves")
    for bound in ideal_bounds(network, demand):
        if bound.time > best.time:
            best = bound
    return best


def ideal_bounds(network: Network, demand: Demand) -> Iterator[Bound]:
    """All such bounds. Raises ValueError as ideal_bound does."""
    sizes, traffic = traffic_of(demand, None)
    if not len(sizes) or not network.link_count:
        return
    fluid = Fluid.of(network, sizes, traffic)
    for inside in _sets(fluid, demand):
        yield Bound(fluid.time_into(inside), name_of_links_into(network, inside))
    for run in demand.runs:
        yield from _partition_bound(fluid, run)


def _sets(fluid: Fluid, demand: Demand) -> Iterator[BoolArray]:
    """bool[devices]: sets that data must enter."""
    network = fluid.network
    for received in (True, False):
        for npu in fluid.busiest(received, NPU_SETS):
            inside = np.zeros(network.device_count, np.bool_)
            inside[npu] = True
            yield inside if received else ~inside
    for run in demand.runs:
        yield from narrowest_sets(fluid, run)
    standard = demand.runs[0].standard
    exact = len(demand.runs) == 1 and standard is not None and standard.kind in EXACT_KINDS
    if exact and network.device_count > MORE_CUTS_DEVICES:
        return
    per_byte = np.array([max(1, int(SECOND * 1024 / rate)) for rate in fluid.rates], np.int64)
    cuts = [cuts_of(network, per_byte)]
    if not tries_all_cuts(network) and not exact:
        cuts.append(flow_cuts(network, fluid.traffic, per_byte))
    for found in cuts:
        for cut in found:
            yield cut.inside
            yield ~cut.inside


def narrowest_sets(fluid: Fluid, run: Run) -> Iterator[BoolArray]:
    """bool[devices]: sets whose incoming links are the bottleneck of a run if it ran alone, exactly."""
    standard, group = run.standard, run.group.tolist()
    if standard is None or len(group) < 2:
        return
    kind = standard.kind
    if kind in ("all_gather", "all_reduce"):
        found = _exact(fluid, lambda one: gather_rate(one.graph, one.capacity, group))
        if found is not None:
            yield ~found[0].outside
    if kind in ("reduce_scatter", "all_reduce"):
        found = _exact(fluid, lambda one: gather_rate(one.graph.reversed(), one.capacity, group))
        if found is not None:
            yield found[0].outside
    root = group[standard.root]
    if kind == "broadcast":
        found = _exact(fluid, lambda one: broadcast_rate(one.graph, one.capacity, root, group))
        if found is not None:
            yield ~found[0].outside
    if kind == "reduce":
        found = _exact(fluid, lambda one: broadcast_rate(one.graph.reversed(), one.capacity, root, group))
        if found is not None:
            yield found[0].outside


def _exact(fluid: Fluid, search: Callable[[Fluid], T]) -> tuple[T, Fraction] | None:
    """What a search finds, and the unit of its capacities; None where a path is missing, so that no schedule exists.

    Where flows do not fit in 64 bits, capacities are rounded up to a larger unit, which keeps bounds valid.
    """
    while True:
        try:
            return search(fluid), fluid.unit
        except OverflowError:
            if int(fluid.capacity.max()) == 1:
                return None
            fluid = fluid.coarser()
        except ValueError:
            return None


def _partition_bound(fluid: Fluid, run: Run) -> Iterator[Bound]:
    """What an All-Reduce must send between the parts of the worst partition of the NPUs.

    A part knows the contributions of some parts; a transfer into a part adds at most what its sender's part knows.
    Before the first part knows all, P - 1 transfers between parts have arrived, and each of the other P - 1 parts then
    needs one more: 2 (P - 1) for each byte. Switches may copy, but not add up, and all NPUs are members.
    """
    network, standard, group = fluid.network, run.standard, run.group.tolist()
    if standard is None or standard.kind != "all_reduce" or not 2 <= len(group) <= PARTITION_NPUS:
        return
    if bool(network.reduces.any()) or len(group) < len(network.npus):
        return
    found = _exact(fluid, lambda one: reduce_rate(one.graph.reversed(), one.capacity, group))
    if found is None:
        return
    partition, unit = found
    latency = int(network.latencies[network.kind].min())
    time = math.ceil(standard.size * SECOND / (partition.rate * unit)) + latency
    yield Bound(time, name_of_links_between(network, run.group, partition.parts))
