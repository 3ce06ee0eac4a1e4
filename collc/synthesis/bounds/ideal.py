"""The ideal of a demand: a lower bound on its time that holds for any number of chunks.

The data that must enter a set of devices takes at least its bytes divided by the bandwidth of the links into the set,
and it needs the latencies of a path (collc/synthesis/bounds/fluid.py). For standard collectives the narrowest set is
found exactly (collc/graph/throughput.py), and the sets that the bounds of given chunks use are tried too. An All-Reduce
needs more than any one set shows (collc/synthesis/bounds/partitions.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from typing import Final

import numpy as np

from collc.synthesis.bounds.cuts import cuts_of, narrowest_sets
from collc.synthesis.bounds.endpoints import endpoint_bounds
from collc.synthesis.bounds.fluid import SECOND, Fluid
from collc.synthesis.bounds.longest_paths import longest_path
from collc.synthesis.bounds.partitions import partition_bounds, several_runs_bounds
from collc.synthesis.bounds.path_loads import PathLoads
from collc.synthesis.bounds.set_names import name_of_links_into
from collc.synthesis.bounds.slots import parts_of
from collc.synthesis.bounds.traffic import traffic_of
from collc.ten.arrays import BoolArray
from collc.ten.demand import Demand, Run
from collc.ten.module import Bound
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

NPU_SETS: Final = 16
"""Single NPUs that are tried as sets, those with the most bytes for their bandwidth."""

MORE_CUTS_DEVICES: Final = 256
"""Devices up to which other cuts are tried beside the narrowest: latencies can make them better."""


def ideal_bound(network: Network, demand: Demand, model: LinkModel = LinkModel.PIPELINED) -> Bound:
    """The largest such bound found, in picoseconds, with its name. That for `pipelined` is valid for both link models.

    Raises ValueError if links have no bandwidth or latency.
    """
    best = Bound(0, "nothing moves")
    for bound in ideal_bounds(network, demand, model):
        if bound.time > best.time:
            best = bound
    return best


def ideal_bounds(network: Network, demand: Demand, model: LinkModel) -> Iterator[Bound]:
    """All such bounds. Raises ValueError as ideal_bound does."""
    return iter(_shared_bounds(network, demand, model))


class _SharedBounds:
    """Bounds that are each computed once, at the first request: `auto` and the report request the same ones."""

    def __init__(self, bounds: Iterator[Bound]) -> None:
        self._rest = bounds
        self._found: list[Bound] = []

    def __iter__(self) -> Iterator[Bound]:
        for number in count():
            if number == len(self._found):
                try:
                    found = next(self._rest)
                except StopIteration:
                    return
                except BaseException:  # as at a time limit: what is left is unknown, not none
                    _shared_bounds.cache_clear()
                    raise
                self._found.append(found)
            yield self._found[number]


@lru_cache(maxsize=2)
def _shared_bounds(network: Network, demand: Demand, model: LinkModel) -> _SharedBounds:
    """The bounds of the last networks and demands, which are told apart as objects."""
    return _SharedBounds(_ideal_bounds(network, demand, model))


def _ideal_bounds(network: Network, demand: Demand, model: LinkModel) -> Iterator[Bound]:
    sizes, traffic = traffic_of(demand, None)
    if not len(sizes) or not network.link_count:
        return
    yield from endpoint_bounds(network, sizes, traffic)
    fluid = Fluid.of(network, sizes, traffic)
    known = 0
    for bound in _bounds(fluid, demand):
        known = max(known, bound.time)
        yield bound
    if model is LinkModel.STORE and network.latencies[network.kind].any():
        yield from _bounds(fluid.storing(max(_largest_chunk(run) for run in demand.runs)), demand)
    path = longest_path(network, traffic, network.latencies, 0, known)
    if path is not None:
        yield Bound(path.time, f"the {path.name}")


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
    network = fluid.network
    best = 0
    for inside in _sets(fluid, demand):
        time = fluid.time_into(inside, best)
        if time > best:
            best = time
            yield Bound(time, name_of_links_into(network, inside))
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
    exact = demand.standard is not None and demand.standard.shape.phases > 0
    if exact and network.device_count > MORE_CUTS_DEVICES:
        return
    per_byte = np.array([max(1, int(SECOND * 1024 / rate)) for rate in fluid.rates], np.int64)
    for inside in cuts_of(network, per_byte):
        yield inside
        yield ~inside
