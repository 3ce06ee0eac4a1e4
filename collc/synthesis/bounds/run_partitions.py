"""What several runs together must send between the parts of a partition of the NPUs, with any number of chunks.

As for one All-Reduce (partitions.py): each byte of an All-Reduce needs 2 (P - 1) transfers into parts, where P parts
have members of its group. What is gathered, scattered, sent to all or reduced to one needs P - 1. What goes from one
NPU to another needs one where their parts differ. All of them share the links between the parts. Parts without members
only add transfers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collc.graph.coordinates import declared_coordinates
from collc.synthesis.bounds.fluid import Fluid
from collc.synthesis.bounds.partitions import fast_components, with_switches
from collc.synthesis.bounds.set_names import name_of_links_between
from collc.ten.arrays import Int64Array
from collc.ten.demand import Demand, Run
from collc.ten.module import Bound


def several_runs_bounds(fluid: Fluid, demand: Demand) -> Iterator[Bound]:
    """Bounds on several runs of which some are All-Reduces; what other cuts show for each run counts there already."""
    network = fluid.network
    phases = [run.standard.shape.phases for run in demand.runs if run.standard]
    if len(demand.runs) < 2 or 2 not in phases or network.reduces.any():
        return
    for labels in _partitions(fluid):
        volume = sum(_entering(run, labels) for run in demand.runs)
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


def _entering(run: Run, labels: Int64Array) -> int:
    """Bytes of a run that must enter parts."""
    standard, part = run.standard, labels[run.group]
    if standard is None:
        return 0
    if standard.shape.pairs:
        _, counts = np.unique(part, return_counts=True)
        pairs = len(part) ** 2 - int((counts.astype(np.int64) ** 2).sum())
        return pairs * (standard.size // len(part))
    return standard.shape.phases * (len(np.unique(part)) - 1) * standard.size
