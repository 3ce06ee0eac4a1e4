"""Bounds on many runs: what is counted for all together, and which runs are searched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from collc.graph.digraph import Digraph
from collc.graph.throughput import GatherRate, ReduceRate, broadcast_rate, reduce_rate
from collc.synthesis.bounds import ideal_bound
from collc.synthesis.bounds.cuts import narrowest_sets, searched_runs
from collc.synthesis.bounds.fluid import Fluid
from collc.synthesis.bounds.partitions import partition_bounds
from collc.synthesis.bounds.traffic import traffic_of
from collc.ten.arrays import Int64Array
from collc.ten.demand import Demand
from tests.support import all_gather, all_reduce, all_to_all, broadcast, fully_connected, network, switched
from tests.synthesis.clusters import NIC, both


def test_of_many_runs_those_with_the_slowest_links_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of NPUs on one switch; one NPU has slow links. The only run of another size is searched, too."""
    slow = replace(NIC, bandwidth=NIC.bandwidth / 4)
    net = network(9, [row for npu in range(9) for row in both(npu, 9, slow if npu == 5 else NIC)], switches=1)
    groups = [[0, 1], [2, 3], [4, 5], [6, 7], [0, 2, 8]]
    demand = Demand(tuple(run for group in groups for run in all_reduce(group).runs))
    fluid = Fluid.of(net, *traffic_of(demand, None))
    assert searched_runs(fluid, demand) == list(demand.runs)
    before = ideal_bound(net, demand)
    monkeypatch.setattr("collc.synthesis.bounds.cuts.MOST_SEARCHED", 1)
    assert searched_runs(fluid, demand) == [demand.runs[2], demand.runs[4]]
    ideal_bound.cache_clear()
    assert ideal_bound(net, demand) == before


def test_of_many_members_with_a_root_those_with_the_slowest_links_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 NPUs on one switch, the last with slow links; most_sets allows 16 members."""
    slow = replace(NIC, bandwidth=NIC.bandwidth / 4)
    net = network(20, [row for npu in range(20) for row in both(npu, 20, slow if npu == 19 else NIC)], switches=1)
    demand = broadcast(list(range(20)))
    fluid = Fluid.of(net, *traffic_of(demand, None))
    searched: list[int] = []

    def count(graph: Digraph, capacity: Int64Array, root: int, members: list[int]) -> GatherRate:
        searched.append(len(members))
        return broadcast_rate(graph, capacity, root, members)

    monkeypatch.setattr("collc.synthesis.bounds.cuts.broadcast_rate", count)
    for work, most in ((20 * 40, 20), (16 * 40, 16)):
        monkeypatch.setattr("collc.synthesis.bounds.cuts.CUT_WORK", work)
        (inside,) = narrowest_sets(fluid, demand.runs[0])
        assert np.flatnonzero(inside).tolist() == [19]
        assert searched.pop() == most


def test_the_worst_partition_is_not_sought_over_many_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow for each of 300 NPUs over 89,700 links, several times, takes 30 s; the bound of single NPUs stays."""
    searched: list[int] = []

    def count(graph: Digraph, capacity: Int64Array, members: list[int]) -> ReduceRate:
        searched.append(len(members))
        return reduce_rate(graph, capacity, members)

    monkeypatch.setattr("collc.synthesis.bounds.partitions.reduce_rate", count)
    for count_of_npus, expected in ((8, [8]), (300, [])):
        net, demand = fully_connected(count_of_npus), all_reduce(list(range(count_of_npus)))
        (bound,) = partition_bounds(Fluid.of(net, *traffic_of(demand, None)), demand.runs[0])
        assert bound.time > 0
        assert searched == expected
        searched.clear()


def test_the_traffic_of_several_runs_is_that_of_each() -> None:
    net = switched(6, NIC)
    demands = [all_reduce([0, 1, 2]), all_gather([3, 4], chunks=2), broadcast([0, 5]), all_to_all([1, 2, 4])]
    together = traffic_of(Demand(tuple(run for demand in demands for run in demand.runs)), None)[1]
    apart = [part for demand in demands for part in traffic_of(demand, None)[1]]
    assert (len(together), len(apart)) == (2, 4)
    for bits in range(1, 64):
        inside = np.append(np.array([bits >> npu & 1 for npu in range(6)], np.bool_), False)[: net.device_count]
        counts = [sum(int(part.chunks_into(inside).counts.sum()) for part in parts) for parts in (together, apart)]
        assert counts[0] == counts[1]
