"""Bounds by the load of all paths against linear programs of multicommodity flows, and by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from collc.graph.digraph import Digraph
from collc.synthesis.bounds import ideal_bound, path_loads
from collc.synthesis.bounds.fluid import Fluid
from collc.synthesis.bounds.path_loads import PathLoads, flow_prices
from collc.synthesis.bounds.traffic import traffic_of
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Demand, Op
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from collc.ten.transform import remove_parts
from tests.support import all_gather, all_to_all, demand_of, dragonfly, grid, network, ring

GB = 10**9
SECOND = 10**12


def kind(gb: int) -> LinkKind:
    return LinkKind(0, Fraction(gb * GB))


def best(net: Network, demand: Demand) -> int:
    sizes, traffic = traffic_of(demand, None)
    loads = PathLoads.of(Fluid.of(net, sizes, traffic), demand)
    assert loads is not None
    return max(bound.time for bound in loads.bounds())


def flow_time(net: Network, pairs: dict[tuple[int, int], int]) -> float:
    """Seconds that the best multicommodity flow takes, by a linear program; pairs: GB from and to each NPU."""
    scipy = pytest.importorskip("scipy.optimize")
    sources = sorted({source for source, _ in pairs})
    devices, links = net.device_count, net.link_count
    balance = np.zeros((len(sources) * devices, len(sources) * links + 1))
    needs = np.zeros(len(balance))
    load = np.zeros((links, balance.shape[1]))
    for row, source in enumerate(sources):
        for link in range(links):
            balance[row * devices + net.source[link], row * links + link] += 1
            balance[row * devices + net.target[link], row * links + link] -= 1
            load[link, row * links + link] = 1
        for (start, end), amount in pairs.items():
            if start == source:
                needs[row * devices + start] += amount
                needs[row * devices + end] -= amount
    load[:, -1] = [-float(net.kinds[number].bandwidth) / GB for number in net.kind.tolist()]
    cost = np.eye(1, balance.shape[1], balance.shape[1] - 1)[0]
    found = scipy.linprog(cost, load, np.zeros(links), balance, needs, method="highs")
    return float(found.fun)


def random_case(seed: int) -> tuple[Network, dict[tuple[int, int], int]]:
    chance = random.Random(seed)
    count = chance.randrange(6, 12)
    links = []
    for _ in range(3):
        order = chance.sample(range(count), count)
        for a, b in zip(order, order[1:] + order[:1], strict=True):
            one = kind(chance.choice([1, 1, 2, 5]))
            links += [(a, b, one), (b, a, one)]
    pairs = {(a, b): 1 for a in range(count) for b in range(count) if a != b}
    if seed % 2:
        pairs = {pair: chance.choice([1, 1, 5]) for pair in chance.sample(sorted(pairs), 3 * count)}
    return network(count, links), pairs


@pytest.mark.parametrize("seed", range(8))
def test_they_are_near_the_linear_program_and_never_above(seed: int) -> None:
    net, pairs = random_case(seed)
    demand = demand_of([(amount * GB, [a], [b], Op.COPY) for (a, b), amount in pairs.items()])
    optimum = flow_time(net, pairs) * SECOND
    assert best(net, demand) <= optimum * (1 + 1e-6)
    assert 0.9999 * optimum <= ideal_bound(net, demand).time <= optimum * (1 + 1e-6)


def test_larger_networks_have_prices_near_those_of_the_linear_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_loads, "MOST_FLOWS", 0)
    for seed in range(4):
        net, pairs = random_case(seed)
        demand = demand_of([(amount * GB, [a], [b], Op.COPY) for (a, b), amount in pairs.items()])
        optimum = flow_time(net, pairs) * SECOND
        assert 0.9 * optimum <= best(net, demand) <= optimum * (1 + 1e-6)


def test_flows_that_nothing_can_carry_have_no_prices() -> None:
    net = network(3, [(0, 1, kind(1)), (1, 0, kind(1))])
    volume = np.zeros((1, 3), np.int64)
    volume[0, 0] = GB
    prices = flow_prices(net, np.full(2, 1, np.int64), np.array([2], np.int32), volume)
    assert prices is None or (prices <= 1).all()


def test_cheapest_paths_of_symmetric_networks_are_exact() -> None:
    """A ring of nine: the mean distance is 20 / 8 hops, and 18 links carry them."""
    assert best(ring(9, kind(1)), all_to_all(list(range(9)), GB)) == 9 * 20 * SECOND // 18
    assert best(grid(4, 4, kind=kind(1), wrap=True), all_to_all(list(range(16)), GB)) == 16 * 32 * SECOND // 64


def test_slow_links_between_fast_groups_decide() -> None:
    """Between two groups go 16 blocks, over one link; a detour would load two."""
    net = dragonfly(5, 4, kind(100), kind(1))
    assert best(net, all_to_all(list(range(20)), GB)) == pytest.approx(16 * SECOND, rel=0.01)


def test_of_several_ends_the_farthest_counts_from_the_nearest_holder() -> None:
    """Eight links. A copy for NPU 4 is sent from NPU 1, 3 hops; a sum needs what NPU 0 has, 4 hops."""
    line = network(5, [(a, a + 1, kind(1)) for a in range(4)] + [(a + 1, a, kind(1)) for a in range(4)])
    sizes = (8 * GB, [0, 1], [2, 4])
    for op, hops in ((Op.COPY, 3), (Op.SUM, 4)):
        sizes_and_prices = PathLoads.of(fluid_of(line, demand_of([(*sizes, op)])), demand_of([(*sizes, op)]))
        assert sizes_and_prices is not None
        assert next(sizes_and_prices.bounds()).time >= hops * SECOND


def fluid_of(net: Network, demand: Demand) -> Fluid:
    return Fluid.of(net, *traffic_of(demand, None))


def test_links_carry_only_after_data_can_be_there() -> None:
    """Two hops of a second each: the first link is of use until a second before the end, the second from then on."""
    hop = LinkKind(SECOND, Fraction(GB))
    net = network(3, [(0, 1, hop), (1, 2, hop)])
    assert best(net, demand_of([(4 * GB, [0], [2], Op.COPY)])) == 6 * SECOND
    assert ideal_bound(net, demand_of([(4 * GB, [0], [2], Op.COPY)]), LinkModel.STORE).time >= 6 * SECOND


def test_where_every_chunk_goes_to_all_cuts_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    cycle = ring(3)
    net = replace(
        cycle, source=cycle.source[[0, *range(6)]], target=cycle.target[[0, *range(6)]], kind=np.zeros(7, np.int32)
    )
    assert PathLoads.of(fluid_of(net, all_gather([0, 1, 2])), all_gather([0, 1, 2])) is None
    loads = PathLoads.of(fluid_of(net, all_to_all([0, 1, 2])), all_to_all([0, 1, 2]))
    assert loads is not None
    assert len(list(loads.bounds())) == 3
    monkeypatch.setattr("collc.synthesis.bounds.path_loads.MOST_SEARCHED", 3)
    assert len(list(loads.bounds())) == 2
    monkeypatch.setattr("collc.synthesis.bounds.path_loads.MOST_SEARCHED", 2)
    assert PathLoads.of(fluid_of(net, all_to_all([0, 1, 2])), all_to_all([0, 1, 2])) is None


def test_one_npu_stands_for_all_alike_also_after_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is at most that of all pairs, and near it."""
    torus = grid(4, 4, kind=kind(1), wrap=True)
    for npus, links in (([], []), ([], [0]), ([5], []), ([1, 6], [])):
        net = remove_parts(torus, npus, np.array(links, np.int64)) if npus or links else torus
        demand = all_to_all(net.npus.tolist(), GB)
        exact = flow_time(net, {(a, b): 1 for a in net.npus.tolist() for b in net.npus.tolist() if a != b}) * SECOND
        monkeypatch.setattr(path_loads, "MOST_SEARCHED", 400)  # fewer than NPUs x links, more than links
        loads = PathLoads.of(fluid_of(net, demand), demand)
        assert loads is not None
        assert loads.targets.tolist() == [0]
        assert 0.75 * exact <= best(net, demand) <= exact * (1 + 1e-6)
        monkeypatch.undo()
        assert 0.99 * exact <= best(net, demand) <= exact * (1 + 1e-6)


def test_no_prices_are_sought_that_cannot_show_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the linear program: if the links of NPUs decide, the first paths show it. The bound is as good as that
    of all rounds, but for a tenth of a percent."""
    monkeypatch.setattr(path_loads, "MOST_FLOWS", 0)
    rounds: list[int] = []
    used = path_loads.distances_to

    def counted(graph: Digraph, price: Int64Array, targets: Int32Array, calls: int) -> Int64Array:
        rounds.append(1)
        return used(graph, price, targets, calls)

    monkeypatch.setattr(path_loads, "distances_to", counted)
    pods = [row for npu in range(12) for row in ((npu, 12 + npu // 3, kind(4)), (12 + npu // 3, npu, kind(4)))]
    pods += [row for pod in range(4) for row in ((12 + pod, 16, kind(10)), (16, 12 + pod, kind(10)))]
    nets = [network(12, pods, switches=5), *(random_case(seed)[0] for seed in range(8))]
    for number, net in enumerate(nets):
        demand = all_to_all(net.npus.tolist(), GB)
        loads = PathLoads.of(fluid_of(net, demand), demand)
        assert loads is not None
        full = max(bound.time for bound in loads.bounds())
        without = len(rounds)
        assert ideal_bound(net, demand).time >= full * 0.999
        if not number:
            assert len(rounds) - without < 10 < 30 < without


def test_sums_of_products_are_exact_beyond_64_bits() -> None:
    large = np.full((2, 3), (1 << 40) + 1, np.int64)
    assert path_loads._dot(large, large) == 6 * ((1 << 40) + 1) ** 2
    assert path_loads._dot(large, np.ones_like(large)) == 6 * ((1 << 40) + 1)
