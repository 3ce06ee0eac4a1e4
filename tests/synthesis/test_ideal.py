"""The ideal time, with any number of chunks, against published values, brute force and what is known by hand."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from collc.base.interrupts import OutOfTime
from collc.synthesis.bounds import fluid, ideal, ideal_bound, lower_bound
from collc.ten.demand import Demand, Op
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from tests.support import (
    GiB,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    demand_of,
    fully_connected,
    grid,
    network,
    reduce,
    reduce_scatter,
    ring,
    switched,
)

GB = 10**9
SECOND = 10**12
MI250_LANES = (
    "0400200010000000",
    "4000010001100000",
    "0004001001100000",
    "0040000200010000",
    "2000041000000000",
    "0100401100000000",
    "0010110400000000",
    "0002014000000000",
    "1000000004002000",
    "0110000040000100",
    "0110000000040010",
    "0001000000400002",
    "0000000020000410",
    "0000000001004011",
    "0000000000101104",
    "0000000000020140",
)
"""Of each die of an MI250 node to each other, as in the public topology file of ForestColl."""


def rate(gb: int | Fraction, latency: int = 0) -> LinkKind:
    return LinkKind(latency, Fraction(gb * GB))


def nodes(count: int, size: int, inside: LinkKind, outside: LinkKind) -> Network:
    """Nodes of GPUs on a switch each, and one switch that joins all GPUs."""
    links = []
    for npu in range(count * size):
        for switch, kind in ((count * size + npu // size, inside), (count * size + count, outside)):
            links += [(npu, switch, kind), (switch, npu, kind)]
    return network(count * size, links, switches=count + 1, shape=(count, size))


def gathered(demand: Demand, net: Network) -> float:
    """GB/s of the gathered buffer at the ideal time."""
    return sum(demand.chunks.size.tolist()) * 1000 / ideal_bound(net, demand).time


@pytest.mark.parametrize(("count", "rate_gb"), [(2, 346.67), (4, 266.67), (8, 228.57)])
def test_published_rates_of_a100(count: int, rate_gb: float) -> None:
    """Zhao et al., ForestColl (2024)."""
    net = nodes(count, 8, rate(300), rate(25))
    assert gathered(all_gather(list(range(8 * count)), GiB), net) == pytest.approx(rate_gb, rel=1e-4)
    assert gathered(reduce_scatter(list(range(8 * count)), GiB), net) == pytest.approx(rate_gb, rel=1e-4)
    assert gathered(all_reduce(list(range(8 * count)), GiB), net) == pytest.approx(rate_gb / 2, rel=1e-4)


def test_published_rate_of_mi250() -> None:
    """Two nodes of sixteen dies; Zhao et al., ForestColl (2024)."""
    lanes = [(a, b, int(n)) for a, row in enumerate(MI250_LANES) for b, n in enumerate(row) if n != "0"]
    links = [(16 * node + a, 16 * node + b, rate(50 * n)) for node in range(2) for a, b, n in lanes]
    links += [row for npu in range(32) for row in ((npu, 32, rate(16)), (32, npu, rate(16)))]
    net = network(32, links, switches=1, shape=(2, 16))
    assert gathered(all_gather(list(range(32)), GiB), net) == pytest.approx(354.1333, rel=1e-6)


def test_all_reduce_of_a_mesh_is_bounded_by_its_partition() -> None:
    """288 steps of 512 chunks; Reduce-Scatter and All-Gather, which its corners bound, would take 504."""
    net = grid(8, 8, kind=rate(50))
    assert gathered(all_reduce(list(range(64)), GiB), net) == pytest.approx(50 * 512 / 288, rel=1e-6)
    assert gathered(all_gather(list(range(64)), GiB), net) == pytest.approx(2 * 50.79, rel=1e-4)


def test_switches_that_copy_are_not_taken_for_npus() -> None:
    """Up half as fast as down: every NPU sends its buffer once, and the switch copies each sum. Were each transfer
    counted at its sender, the bound would be one and a half times that."""
    links = [row for npu in range(4) for row in ((npu, 4, rate(1)), (4, npu, rate(2)))]
    assert ideal_bound(network(4, links, switches=1), all_reduce([0, 1, 2, 3], GB)).time == 4 * SECOND


def reducing(net: Network, switches: list[int]) -> Network:
    reduces = np.isin(np.arange(net.npu_count, net.device_count), switches)
    return replace(net, reduces=reduces)


def test_a_reducing_switch_sends_one_sum() -> None:
    assert ideal_bound(switched(4, rate(1)), all_reduce([0, 1, 2, 3], GB)).time == 6 * SECOND
    assert ideal_bound(reducing(switched(4, rate(1)), [4]), all_reduce([0, 1, 2, 3], GB)).time == 4 * SECOND


def test_between_nodes_that_reduce_inside_plain_switches_bound() -> None:
    """Four nodes of two behind slow links: each must send and get 3/4 of the buffer twice, over two NICs."""
    net = nodes(4, 2, rate(100), rate(1))
    inside = reducing(net, [8, 9, 10, 11])
    plain, reduced = (ideal_bound(one, all_reduce(list(range(8)), GB)) for one in (net, inside))
    assert plain.time == reduced.time == 2 * 3 * 8 * SECOND // (4 * 2)
    everywhere = reducing(net, [8, 9, 10, 11, 12])
    assert ideal_bound(everywhere, all_reduce(list(range(8)), GB)).time == 8 * SECOND // 2


def test_npus_outside_the_group_may_add_up() -> None:
    """Three members round one NPU that is none: it can add up and spread, as a switch that reduces."""
    links = [row for npu in range(3) for row in ((npu, 3, rate(1)), (3, npu, rate(1)))]
    assert ideal_bound(network(4, links), all_reduce([0, 1, 2], GB)).time == 3 * SECOND
    assert ideal_bound(network(3, links, switches=1), all_reduce([0, 1, 2], GB)).time == 4 * SECOND


@pytest.mark.parametrize("slots", [1, 2, 5, -1])
def test_few_slots_limit_all_links_of_a_switch(slots: int) -> None:
    """Six NPUs: 30 GB pass through, at most `slots` at once."""
    net = switched(6, rate(1), buffer=slots)
    at_once = 6 if slots < 0 else slots
    for make in (all_gather, reduce_scatter):
        assert ideal_bound(net, make(list(range(6)), GB)).time == 30 * SECOND // at_once
    assert ideal_bound(net, all_reduce(list(range(6)), GB)).time == 60 * SECOND // at_once
    assert ideal_bound(net, all_gather(list(range(6)), GB // 7, 7)).time == pytest.approx(30 * SECOND // at_once)
    several = replace(net, multicast=np.array([True]))
    assert ideal_bound(several, all_gather(list(range(6)), GB)).time == max(5, 6 / at_once) * SECOND


def test_the_store_model_occupies_links_for_a_latency_a_chunk() -> None:
    """Three blocks over two links into each of four NPUs: each takes half a second, and half a second of latency."""
    net = ring(4, LinkKind(SECOND // 2, Fraction(2 * GB)))
    demand = all_gather([0, 1, 2, 3], GB)
    assert ideal_bound(net, demand).time == 1.25 * SECOND
    for chunks in (1, 4):
        store = ideal_bound(net, all_gather([0, 1, 2, 3], GB // chunks, chunks), LinkModel.STORE)
        assert store.time == 1.5 * SECOND
    custom = demand_of([(2 * GB, [0], [1, 3], Op.COPY)])
    assert ideal_bound(net, custom, LinkModel.STORE).time == 1.5 * SECOND


def test_data_needs_the_latencies_of_a_path() -> None:
    line = network(4, [(a, a + 1, LinkKind(1000, Fraction(1000 * GB))) for a in range(3)])
    far = ideal_bound(line, demand_of([(1, [0, 1], [2], Op.COPY), (1, [0], [3], Op.COPY)]))
    assert (far.time, far.name) == (3000, "the path from npu[0] to npu[3]")
    assert ideal_bound(line, demand_of([(1, [0, 2], [3], Op.SUM)])).time == 3001


def volume_into(demand: Demand, inside: set[int]) -> int:
    table = demand.chunks
    volume = 0
    for chunk in range(len(table)):
        pre, post = (set(table.sets[int(row[chunk])].tolist()) for row in (table.pre, table.post))
        wanted = bool(post & inside)
        enters = bool(pre - inside) if table.op[chunk] != Op.COPY and len(pre) > 1 else not pre & inside
        volume += int(table.size[chunk]) * (wanted and enters)
    return volume


def random_fluid_network(chance: random.Random) -> Network:
    npus, switches = chance.randrange(2, 6), chance.randrange(0, 3)
    count = npus + switches
    links = [(i, (i + 1) % count, rate(chance.randrange(1, 6))) for i in range(count)]
    for _ in range(chance.randrange(3 * count)):
        a, b = chance.sample(range(count), 2)
        links.append((a, b, rate(Fraction(chance.randrange(1, 60), chance.randrange(1, 4)))))
    return network(npus, links, switches)


@pytest.mark.parametrize("make", [all_gather, reduce_scatter, broadcast, reduce])
@pytest.mark.parametrize("seed", range(12))
def test_without_latency_it_is_the_worst_of_all_cuts(make, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collc.synthesis.bounds.cuts.cuts_of", lambda *_: iter(()))
    net = random_fluid_network(random.Random(seed))
    demand = make(list(range(net.npu_count)), 10**6)
    worst = Fraction(0)
    for bits in itertools.product((False, True), repeat=net.device_count):
        inside = np.array(bits)
        over = ~inside[net.source] & inside[net.target]
        width = sum((net.kinds[k].bandwidth for k in net.kind[over].tolist()), Fraction(0))
        volume = volume_into(demand, set(np.flatnonzero(inside).tolist()))
        if volume:
            worst = max(worst, volume * SECOND / width)
    assert ideal_bound(net, demand).time == math.ceil(worst)


def test_numbers_that_are_too_large_for_exact_flows_are_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    net = random_fluid_network(random.Random(5))
    demand = all_reduce(list(range(net.npu_count)), GB)
    exact = ideal_bound(net, demand).time
    kinds = tuple(LinkKind(0, kind.bandwidth * Fraction(2**61 + 1, 2**61)) for kind in net.kinds)
    object.__setattr__(net, "kinds", kinds)
    monkeypatch.setattr(fluid, "LARGEST_CAPACITY", 1 << 60)
    assert exact * (1 - 1e-3) < ideal_bound(net, demand).time <= exact


def test_links_count_only_while_data_can_be_of_use() -> None:
    """A direct link, and one by way of a third NPU that data reaches a second later."""
    slow = LinkKind(SECOND, Fraction(GB))
    net = network(3, [(0, 1, rate(1)), (0, 2, slow), (2, 1, rate(1))])
    demand = demand_of([(3 * GB, [0], [1], Op.COPY)])
    assert ideal_bound(net, demand).time == 2 * SECOND


def test_names_are_those_of_the_program() -> None:
    net = nodes(4, 8, rate(300), rate(25))
    assert ideal_bound(net, all_gather(list(range(32)))).name == "the NICs of node 0"
    assert ideal_bound(net, all_reduce(list(range(32)))).name == "the links between the 4 nodes"
    assert ideal_bound(grid(3, 3), broadcast(list(range(9)))).name == "the links into npu[2, 2]"
    assert ideal_bound(grid(3, 3), all_gather(list(range(9)))).name == "the links into npu[0, 0]"
    assert ideal_bound(fully_connected(4), all_reduce([0, 1, 2, 3])).name == "the links between all NPUs"
    assert ideal_bound(grid(3, 3), demand_of([])).name == "nothing moves"


@pytest.mark.parametrize("model", LinkModel)
def test_bounds_of_given_chunks_are_never_below(model: LinkModel) -> None:
    """Eight NPUs that all links join, of which some are dead or slow: one chunk from each NPU takes 500 us."""
    fast, slow = rate(50, 500_000), rate(10, 500_000)
    gone = {(0, 1), (2, 5), (6, 3)}
    links = [
        (a, b, slow if (a + b) % 5 == 0 else fast) for a in range(8) for b in range(8) if a != b and (a, b) not in gone
    ]
    for make, chunks in itertools.product((all_gather, all_reduce), (1, 6)):
        demand = make(list(range(8)), 12 * 10**6 // chunks, chunks)
        ideal = ideal_bound(network(8, links), demand)
        assert 0 < ideal.time <= lower_bound(network(8, links), demand, model).time


def test_bounds_are_computed_once_and_anew_after_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` and the report ask for the same bounds. A search that was ended does not pass for one without bounds."""
    net = grid(3, 3)
    demand = all_to_all(net.npus.tolist())
    calls = 0
    original = fluid.traffic_of

    def counted(*arguments):
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OutOfTime
        return original(*arguments)

    monkeypatch.setattr(fluid, "traffic_of", counted)
    with pytest.raises(OutOfTime):
        ideal.ideal_bound(net, demand)
    first = ideal.ideal_bound(net, demand)
    assert first.time > 0
    assert ideal.ideal_bound(net, demand) is first
    assert calls == 2
    assert ideal.ideal_bound(net, all_to_all(net.npus.tolist())).time == first.time
    assert lower_bound(net, demand, LinkModel.PIPELINED).time >= first.time
    assert calls == 3
