"""What one All-Reduce, or several runs together, must send between the parts of a partition of the NPUs, for any number
of chunks.

In an All-Reduce, a part knows the contributions of some parts, and a transfer into a part adds at most what the part of
its sender knows. Before the first part knows all contributions, P - 1 transfers into parts have arrived, and each of
the other P - 1 parts then needs one more: 2 (P - 1) transfers for each byte, as in one-way gossip. Switches between the
parts may copy; only devices in the parts may reduce.

Of several runs, each byte of an All-Reduce needs 2 (P - 1) transfers into parts, if P parts have members of its group.
What is gathered, scattered, sent to all or reduced to one needs P - 1. What goes from one NPU to another needs one if
their parts differ. All of them share the links between the parts. Parts without members only add transfers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np

from collc.graph.coordinates import declared_coordinates
from collc.graph.digraph import Digraph, weakly_connected
from collc.graph.throughput import ReduceRate, reduce_rate
from collc.synthesis.bounds.cuts import CUT_WORK, with_switches
from collc.synthesis.bounds.fluid import SECOND, Fluid, exactly
from collc.synthesis.bounds.set_names import name_of_links_between
from collc.synthesis.bounds.timing import MOST_CUTS
from collc.ten.arrays import Int64Array, distinct
from collc.ten.demand import Demand, Run, RunFamily
from collc.ten.module import Bound
from collc.ten.network import Network

FLOW_WORK: Final = 4 * CUT_WORK
"""Members x links up to which the worst partition is sought, with a maximum flow for each member again and again: 16
links for each of MOST_CUTS members.
"""


def several_runs_bounds(fluid: Fluid, demand: Demand) -> Iterator[Bound]:
    """Bounds on several runs of which some are All-Reduces; what other cuts show for each run counts there already."""
    network = fluid.network
    families = demand.by_family.families
    phases = [family.first.standard.shape.phases for family in families if family.first.standard]
    if len(demand.runs) < 2 or 2 not in phases or network.reduces.any():
        return
    for labels in _partitions(fluid):
        volume = sum(_bytes_into_parts(family, labels) for family in families)
        time = fluid.time_between(with_switches(network, labels), volume)
        npus = network.npus
        yield Bound(time, name_of_links_between(network, npus, labels[npus].tolist()))


def _partitions(fluid: Fluid) -> Iterator[Int64Array]:
    """int64[devices], the part of each NPU, -1 for switches: single NPUs, those that faster links join, and those with
    the same place along one axis of the network.
    """
    network = fluid.network
    own = np.full(network.device_count, -1, np.int64)
    own[network.npus] = network.npus
    yield own
    yield from fast_components(fluid, own)
    coordinates = declared_coordinates(network)
    if coordinates is None:
        return
    for index in coordinates.index:
        labels = own.copy()
        labels[network.npus] = index[network.npus]
        if len(np.unique(labels[network.npus])) > 1:
            yield labels


def _bytes_into_parts(family: RunFamily, labels: Int64Array) -> int:
    """Bytes of the runs of a family that must enter parts."""
    standard, part = family.first.standard, np.sort(labels[family.groups], axis=1)
    if standard is None:
        return 0
    begins = np.insert(part[:, 1:] != part[:, :-1], 0, values=True, axis=1)
    if standard.shape.pairs:
        counts = np.diff(np.append(np.flatnonzero(begins), part.size))
        pairs = part.shape[0] * part.shape[1] ** 2 - int((counts**2).sum())
        return pairs * (standard.size // part.shape[1])
    return standard.shape.phases * (int(np.count_nonzero(begins)) - len(part)) * standard.size


def partition_bounds(fluid: Fluid, run: Run) -> Iterator[Bound]:
    """Bounds on an All-Reduce by the worst partitions that were found; none for other runs."""
    standard = run.standard
    if standard is None or standard.shape.phases < 2 or len(run.group) < 2:
        return
    owner = _owners(fluid.network, run)
    members = np.unique(owner[run.group])
    tried, least = [owner, *fast_components(fluid, owner)], 0
    if len(members) <= MOST_CUTS and len(members) * fluid.network.link_count <= FLOW_WORK:
        found = _worst(fluid, owner, members)
        if found is None:
            return
        partition, time = found
        part_of = dict(zip(members.tolist(), partition.parts, strict=True))
        tried = [np.array([part_of.get(device, -1) for device in owner.tolist()], np.int64)]
        least = math.ceil(standard.size * time) + int(fluid.waits[fluid.network.kind].min())
    for labels in tried:
        volume = 2 * (len(np.unique(labels[run.group])) - 1) * standard.size
        time = fluid.time_between(with_switches(fluid.network, labels), volume)
        yield Bound(max(least, time), _name(fluid.network, run, labels))


def _name(network: Network, run: Run, labels: Int64Array) -> str:
    return name_of_links_between(network, run.group, labels[run.group].tolist())


def fast_components(fluid: Fluid, owner: Int64Array) -> Iterator[Int64Array]:
    """Parts that links faster than others join; each device that adds up is in one."""
    network = fluid.network
    rates = np.array([float(rate) for rate in fluid.rates])
    for limit in distinct(rates[network.kinds_in_use])[:-1].tolist():
        component = weakly_connected(Digraph.of(network).with_edges(rates[network.kind] > limit)).astype(np.int64)
        labels = np.where(np.isin(component, component[owner >= 0]), component, -1)
        parts = len(np.unique(labels[owner >= 0]))
        if 1 < parts < int((owner >= 0).sum()):
            yield labels


def _worst(fluid: Fluid, owner: Int64Array, members: Int64Array) -> tuple[ReduceRate, Fraction] | None:
    """The worst partition of the owners, and picoseconds a byte; None where no path leads from one to another."""

    def search(one: Fluid) -> ReduceRate:
        network = one.network
        vertex = np.where(owner >= 0, owner, np.arange(network.device_count))
        source, target = vertex[network.source].astype(np.int32), vertex[network.target].astype(np.int32)
        between = source != target
        # What enters a part, not what leaves it: switches copy.
        graph = Digraph(network.device_count, target[between], source[between])
        return reduce_rate(graph, one.capacity[between], members.tolist())

    found = exactly(fluid, search)
    return None if found is None else (found[0], SECOND / (found[0].rate * found[1]))


def _owners(network: Network, run: Run) -> Int64Array:
    """int64[devices]: the member of the group to whose part a device belongs, -1 for switches that only copy.

    What adds up beside the members (switches that reduce, NPUs outside the group) can belong to any part: here to that
    of the nearest member.
    """
    adds = np.ones(network.device_count, np.bool_)
    adds[network.npu_count :] = network.reduces
    adds &= network.present
    owner = np.full(network.device_count, -1, np.int64)
    owner[run.group] = run.group
    while True:
        new = adds[network.target] & (owner[network.target] < 0) & (owner[network.source] >= 0)
        if not new.any():
            owner[adds & (owner < 0)] = run.group[0]
            return owner
        links = np.flatnonzero(new)[::-1]
        owner[network.target[links]] = owner[network.source[links]]
