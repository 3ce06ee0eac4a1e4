"""The ideal of a demand: a lower bound on its time that holds for any number of chunks.

The data that must enter a set of devices takes at least its bytes divided by the bandwidth of the links into the set,
and it needs the latencies of a path (collc/synthesis/bounds/fluid.py). For standard collectives the narrowest set is
found exactly (collc/graph/throughput.py), and the sets that the bounds of given chunks use are tried too. An All-Reduce
needs more than any one set shows (collc/synthesis/bounds/partitions.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to
from collc.synthesis.bounds.cuts import narrow_sets, npu_sets
from collc.synthesis.bounds.endpoints import endpoint_bounds
from collc.synthesis.bounds.fluid import Fluid
from collc.synthesis.bounds.partitions import partition_bounds, several_runs_bounds
from collc.synthesis.bounds.path_loads import PathLoads
from collc.synthesis.bounds.set_names import name_of_links_into
from collc.synthesis.bounds.slots import parts_of
from collc.synthesis.bounds.traffic import Traffic, traffic_of
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Demand, Run
from collc.ten.module import Bound
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

PATH_WORK: Final = 1_000_000
"""Sources x links that the search for the longest path may visit."""


@lru_cache(maxsize=2)  # `auto` and the report ask for the same ones
def ideal_bound(network: Network, demand: Demand, model: LinkModel = LinkModel.PIPELINED) -> Bound:
    """The largest such bound found, in picoseconds, with its name. That for `pipelined` is valid for both link models.

    Raises ValueError if links have no bandwidth or latency.
    """
    return max(_ideal_bounds(network, demand, model), key=lambda bound: bound.time, default=Bound(0, "nothing moves"))


def _ideal_bounds(network: Network, demand: Demand, model: LinkModel) -> Iterator[Bound]:
    sizes, traffic = traffic_of(demand, None)
    if not len(sizes) or not network.link_count:
        return
    yield from endpoint_bounds(network, sizes, traffic)
    fluid = Fluid.of(network, sizes, traffic)
    yield from _bounds(fluid, demand)
    if model is LinkModel.STORE and network.latencies[network.kind].any():
        yield from _bounds(fluid.with_stored_chunks(max(_largest_chunk(run) for run in demand.runs)), demand)
    path = longest_path(network, traffic, network.latencies, 0)
    yield Bound(path.time, f"the {path.name}")


def longest_path(network: Network, traffic: list[Traffic], cost: Int64Array, size: int) -> Bound:
    """The longest of the shortest paths that chunks of size number `size` or more must take.

    cost: int64[kinds], picoseconds.
    """
    best = Bound(0, "")
    sources, distance = distances_from_npus(network, cost)
    for part in traffic:
        time, start, end = part.longest(distance, sources, size)
        if best.time < time < UNREACHABLE:
            best = Bound(time, f"path from {network.shown_name(start)} to {network.shown_name(end)}")
    return best


def distances_from_npus(network: Network, cost: Int64Array) -> tuple[Int32Array, Int64Array]:
    """(sources int32; distances int64[sources, devices], picoseconds), from all NPUs or as many as PATH_WORK allows.

    cost: int64[kinds], picoseconds.
    """
    npus, length = network.npus, cost[network.kind]
    backward = Digraph.of(network).reverse()
    most = max(1, PATH_WORK // max(1, network.link_count))
    if most < len(npus):
        first = distances_to(backward, length, npus[:1])[0, : network.npu_count]
        farthest = int(np.where(first < UNREACHABLE, first, -1).argmax())
        even = npus[np.linspace(0, len(npus) - 1, max(1, most - 1)).astype(np.int64)]
        npus = np.unique(np.append(even, farthest)).astype(np.int32)
    return npus, distances_to(backward, length, npus)


def _largest_chunk(run: Run) -> int:
    """Bytes of the largest chunk that a run can have with any number of chunks: all that has the same conditions."""
    standard = run.standard
    if standard is None:
        table = run.pattern.expand()
        _, alike = np.unique(np.stack([table.pre, table.post, table.op]), axis=1, return_inverse=True)
        return int(np.bincount(alike.ravel(), table.size).max(initial=1))
    blocks = max(1, standard.shape.parts(len(run.group)))
    return max(1, -(-standard.size // blocks))


def _bounds(fluid: Fluid, demand: Demand) -> Iterator[Bound]:
    best = 0
    for inside in chain(npu_sets(fluid), narrow_sets(fluid, demand)):
        time = fluid.time_into(inside)
        if time > best:
            best = time
            yield Bound(time, name_of_links_into(fluid.network, inside))
    yield from _slot_bounds(fluid)
    for run in demand.runs:
        yield from partition_bounds(fluid, run)
    yield from several_runs_bounds(fluid, demand)
    loads = PathLoads.of(fluid, demand)
    if loads is not None:
        yield from loads.bounds(best)


def _slot_bounds(fluid: Fluid) -> Iterator[Bound]:
    """What all parts of a network must get, or send, over switches with few slots."""
    if not fluid.network.has_limited_buffers:
        return
    for parts in parts_of(fluid.network, fluid.traffic):
        for backward in (False, True):
            volume = int(fluid.sizes @ (parts.leaving if backward else parts.entering))
            yield Bound(fluid.time_between(parts.label, volume, backward), parts.name)
