"""The parts of bounds against brute force: narrowest cuts, delays before and behind links, links with delays."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest

from collc.graph.distances import UNREACHABLE
from collc.synthesis.bounds import lower_bound
from collc.synthesis.bounds.bound import _BoundProblem
from collc.synthesis.bounds.cuts import with_switches
from collc.synthesis.bounds.ideal import distances_from_npus
from collc.synthesis.bounds.timing import Delays, TransferTimes
from collc.synthesis.bounds.traffic import traffic_of
from collc.ten.demand import Demand, Op
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from tests.support import (
    MiB,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    demand_of,
    grid,
    network,
    reduce,
    reduce_scatter,
    ring,
    switched,
)

STEP = 20_031_250
STORE = LinkModel.STORE
KINDS = [LinkKind(0, Fraction(10**9)), LinkKind(0, Fraction(2 * 10**9)), LinkKind(1000, Fraction(5 * 10**9))]


def random_network(seed: int, count: int) -> Network:
    chance = random.Random(seed)
    links = [(i, (i + 1) % count, chance.choice(KINDS)) for i in range(count)]
    for _ in range(2 * count):
        a, b = chance.sample(range(count), 2)
        links.append((a, b, chance.choice(KINDS)))
    return network(count, links)


@pytest.mark.parametrize("make", [all_gather, all_to_all, reduce_scatter, all_reduce])
def test_a_narrow_cut_that_no_name_or_cost_suggests(make) -> None:
    """Two fully connected halves of NPUs in mixed order, joined by one link each way."""
    left, right = [0, 3, 4, 7, 8], [1, 2, 5, 6, 9]
    links = [(a, b) for half in (left, right) for a, b in itertools.permutations(half, 2)]
    net = network(10, [*links, (0, 1), (1, 0)])
    bound = lower_bound(net, make(list(range(10))), STORE)
    chunks = {"all_gather": 5, "all_to_all": 25, "reduce_scatter": 5, "all_reduce": 10}[make.__name__]
    assert bound.time >= 0.9999 * chunks * STEP
    assert bound.name.startswith("the links")
    if make is all_to_all:
        assert "such as npu[0] -> npu[1]" in bound.name
        return
    assert "{npu[0], npu[3], npu[4], npu[7], npu[8]}" in bound.name or "{npu[1], npu[2]" in bound.name


@pytest.mark.parametrize("seed", range(8))
def test_delays_are_those_of_the_nearest_two(seed: int) -> None:
    """Against all shortest paths (Floyd and Warshall)."""
    net = random_network(seed, 8)
    chance = random.Random(seed)
    holders = np.array(sorted(chance.sample(range(8), chance.randrange(1, 5))), np.int32)
    wanting = np.array(sorted(chance.sample(range(8), chance.randrange(1, 5))), np.int32)
    cost = np.array([3, 5, 11])[: len(net.kinds)]
    far = np.full((8, 8), UNREACHABLE, np.int64)
    np.fill_diagonal(far, 0)
    for a, b, kind in zip(net.source, net.target, net.kind, strict=True):
        far[a, b] = min(far[a, b], cost[kind])
    for middle in range(8):
        far = np.minimum(far, far[:, middle : middle + 1] + far[middle : middle + 1])
    _, traffic = traffic_of(demand_of([(1, holders.tolist(), wanting.tolist(), Op.COPY)]), None)
    delays = Delays.of(net, cost, traffic)
    for device in range(8):
        near = sorted([*far[holders, device].tolist(), UNREACHABLE])
        assert delays.head[device] == near[0]
        behind = sorted([*far[device, wanting].tolist(), UNREACHABLE])
        assert (delays.tail[device], delays.fork_tail[device]) == (behind[0], behind[1])
    two = [sorted([*far[holders, device].tolist(), UNREACHABLE])[1] for device in range(8)]
    merged = [min(min(two[npu] + far[npu, device], UNREACHABLE) for npu in range(8)) for device in range(8)]
    assert delays.sum_head.tolist() == merged


def test_links_count_only_while_they_are_of_use() -> None:
    """A switch: nothing leaves it in the first step, and nothing may come to it in the last."""
    assert lower_bound(switched(4), all_gather([0, 1, 2, 3]), STORE).time == 4 * STEP
    assert lower_bound(switched(4), reduce_scatter([0, 1, 2, 3]), STORE).time == 4 * STEP
    line = network(4, [(a, b) for k in range(3) for a, b in ((k, k + 1), (k + 1, k))])
    assert lower_bound(line, broadcast([0, 1, 2, 3], chunks=5), STORE).time == 7 * STEP
    assert lower_bound(line, reduce([0, 1, 2, 3], chunks=5), STORE).time == 7 * STEP


def test_two_nodes_of_eight() -> None:
    """All-Reduce of 64 chunks of 16 MiB: 8 each over 8 NICs into a node, 671 us each and one more to the spine; before
    that two parts are added up in the other node, and behind it the sum goes on to the next GPU."""
    fast, slow = LinkKind(350_000, Fraction(300 * 10**9)), LinkKind(2_000_000, Fraction(25 * 10**9))
    links = [
        (a, b, kind)
        for gpu in range(16)
        for switch, kind in ((16 + gpu // 8, fast), (18, slow))
        for a, b in ((gpu, switch), (switch, gpu))
    ]
    net = network(16, links, switches=3, shape=(2, 8))
    nic = 2_000_000 + -(-(2**24) * 1000 // 25)
    hop = 350_000 + -(-(2**24) * 1000 // 300)
    bound = lower_bound(net, all_reduce(list(range(16)), 16 * MiB, chunks=4), STORE)
    assert bound.time == 9 * nic + 4 * hop
    assert bound.name == "the NICs of node 0"


def test_the_search_for_bounds_ends_at_a_known_time() -> None:
    net = grid(3, 3)
    demand = demand_of([(MiB, [0], [8], Op.COPY), (MiB, [0], [1], Op.COPY)])
    whole = lower_bound(net, demand, STORE)
    assert whole.time == 4 * STEP
    for time in range(STEP, 6 * STEP, STEP):
        assert min(time, lower_bound(net, demand, STORE, time).time) == min(time, whole.time)


@pytest.mark.parametrize(("chunks", "received"), [([0, 1], 6), ([3], 3), (list(range(8)), 24)])
def test_traffic_of_some_chunks_leaves_out_the_others(chunks: list[int], received: int) -> None:
    """An All-Gather of four NPUs with two chunks each: every chunk goes to three NPUs."""
    _, traffic = traffic_of(all_gather([0, 1, 2, 3], chunks=2), np.array(chunks, np.int32))
    assert [int(part.received_chunks().sum()) for part in traffic] == [received]


def test_traffic_counts_a_column_for_each_device() -> None:
    _, (part,) = traffic_of(all_gather([0, 1, 2, 3]), None)
    assert part.received_chunks().tolist() == [[3, 3, 3, 3]]
    assert part.sent_chunks().tolist() == [[1, 1, 1, 1]]  # others may pass them on


@pytest.mark.parametrize("outward", [False, True])
@pytest.mark.parametrize(("count", "members", "joins"), [(2, 1, False), (3, 1, False), (3, 2, True), (2, 2, True)])
def test_a_switch_joins_the_side_of_more_than_half_of_its_links(outward, count, members, joins) -> None:
    """A switch with links of one direction to some NPUs, the first of which are inside."""
    links = [(count, npu) if outward else (npu, count) for npu in range(count)]
    labels = [*(int(npu < members) for npu in range(count)), -1]
    found = with_switches(network(count, links, switches=1), np.array(labels))
    assert found.tolist() == [*labels[:count], 1 if joins else found[count]]
    assert (found[count] == 1) == joins


@pytest.mark.parametrize(
    ("sources", "expected"), [(2, [0, 5]), (3, [0, 5, 9]), (9, [0, 1, 2, 3, 5, 6, 7, 9]), (10, list(range(10)))]
)
def test_paths_start_at_as_many_npus_as_the_limit_allows(monkeypatch, sources: int, expected: list[int]) -> None:
    """A ring of ten NPUs with different roles: evenly spaced ones, and the one that is farthest from the first."""
    net = ring(10)
    monkeypatch.setattr("collc.synthesis.bounds.ideal.PATH_WORK", sources * net.link_count)
    _, traffic = traffic_of(demand_of([(1, [npu], range(npu), Op.COPY) for npu in range(1, 10)]), None)
    found, distance = distances_from_npus(net, np.array([7]), traffic)
    assert found.tolist() == expected
    assert distance[0].tolist() == [7 * min(k, 10 - k) for k in range(10)]


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        (all_gather(list(range(9))), [0, 1, 4, 6, 8]),
        (all_to_all(list(range(9))), [0, 1, 4, 6, 8]),
        (demand_of([(1, [0], range(1, 9), Op.COPY)]), [0, 1, 2, 4, 5, 8, 6]),
    ],
)
def test_paths_start_at_one_npu_of_each_class(monkeypatch, demand: Demand, expected: list[int]) -> None:
    """A mesh of nine NPUs, for all of which there is no time: corners, sides and the middle, if all do alike; and the
    farthest from each of these.
    """
    net = grid(3, 3)
    monkeypatch.setattr("collc.synthesis.bounds.ideal.PATH_WORK", 8 * net.link_count)
    found, distance = distances_from_npus(net, np.array([7]), traffic_of(demand, None)[1])
    assert found.tolist() == expected
    assert distance.max(axis=1).tolist() == [7 * (abs(npu // 3 - 1) + abs(npu % 3 - 1) + 2) for npu in found]


def test_a_transfer_occupies_its_link_for_a_picosecond_at_least() -> None:
    net = network(2, [(0, 1, LinkKind(0, Fraction(10**13)))])
    times = TransferTimes.of(net, np.array([1, 100]), LinkModel.PIPELINED)
    assert times.busy.tolist() == [[1, 10]]


def test_chunks_of_two_sizes_count_by_their_bytes_too() -> None:
    net = network(2, [(0, 1, LinkKind(0, Fraction(10**9)))])
    demand = demand_of([(size, [0], [1], Op.COPY) for size in (1000, 3000)])
    assert lower_bound(net, demand, LinkModel.PIPELINED).time == 4_000_000


def test_link_classes_are_those_without_sums_and_forks_unless_asked() -> None:
    net = grid(2, 3)
    sizes, traffic = traffic_of(all_gather(list(range(6))), None)
    problem = _BoundProblem(net, traffic, TransferTimes.of(net, sizes, STORE), Delays.without_lags(net))
    assert problem.link_classes() is problem.link_classes(summed=False, forked=False)
    assert problem.link_classes() is problem.link_classes(forked=True)  # without lags there are no others
    delayed = _BoundProblem(net, traffic, problem.times, Delays.of(net, problem.times.total[:, 0], traffic))
    assert delayed.link_classes() is delayed.link_classes(summed=False, forked=False)
    assert delayed.link_classes() is not delayed.link_classes(forked=True)
