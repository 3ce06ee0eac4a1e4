"""Bounds of All-Reduces by flows against packings of pairs of trees, which schedules can follow, and by hand."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from collc.passes.registry import Invert, PassContext, Synthesize
from collc.synthesis.bounds import ideal_bound
from collc.synthesis.bounds.fluid import Fluid
from collc.synthesis.bounds.reduce_flows import reduce_flow_bounds
from collc.synthesis.bounds.traffic import traffic_of
from collc.ten.demand import Demand
from collc.ten.endpoint import Endpoint
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.verification import verify_schedule
from tests.support import all_gather, all_reduce, grid, network, ring

GB = 10**9
SECOND = 10**12


def rate(gigabytes: int) -> LinkKind:
    return LinkKind(0, Fraction(gigabytes * GB))


def best(net: Network, demand: Demand) -> int:
    return max(
        (bound.time for bound in reduce_flow_bounds(Fluid.of(net, *traffic_of(demand, None)), demand)), default=0
    )


def trees_to(root: int, nodes: list[int], paths: dict[tuple[int, int], tuple[int, ...]]) -> list[list[int]]:
    """The links of each tree of messages that leads from all nodes to one; paths: links from NPU to NPU."""
    others = [node for node in nodes if node != root]
    found = []
    for parents in itertools.product(nodes, repeat=len(others)):
        up = dict(zip(others, parents, strict=True))
        if all(pair in paths for pair in up.items()) and all(leads(node, root, up) for node in others):
            found.append([link for pair in up.items() for link in paths[pair]])
    return found


def leads(node: int, root: int, up: dict[int, int]) -> bool:
    for _ in up:
        node = up.get(node, root)
    return node == root


def packing_time(net: Network, nodes: list[int]) -> float:
    """Seconds a GB of the best mix of pairs of trees, to a root and from it; each gets a part of the buffer."""
    hops = [(a, b) for a, b in zip(net.source.tolist(), net.target.tolist(), strict=True)]
    paths = {hop: (link,) for link, hop in enumerate(hops)}
    for (first, (a, s)), (second, (t, b)) in itertools.product(enumerate(hops), repeat=2):
        if s == t >= net.npu_count and a != b:
            paths[a, b] = (first, second)
    back = {(b, a): links for (a, b), links in paths.items()}
    pairs = [
        np.bincount(up + down, minlength=len(hops))
        for root in nodes
        for up, down in itertools.product(trees_to(root, nodes, paths), trees_to(root, nodes, back))
    ]
    width = np.array([float(net.kinds[kind].bandwidth) / GB for kind in net.kind.tolist()])
    table = np.column_stack([*np.unique(pairs, axis=0), -width])
    cost = np.eye(1, table.shape[1], table.shape[1] - 1)[0]
    shares = np.append(np.ones(table.shape[1] - 1), 0)[None, :]
    return float(linprog(cost, table, np.zeros(len(width)), shares, [1], method="highs").fun)


def random_case(seed: int) -> tuple[Network, float]:
    """Three or four NPUs on a switch with unequal links, or joined directly, and the time of the packing."""
    chance = random.Random(seed)
    count = chance.randrange(3, 5)
    star = [(npu, count) for npu in range(count)] + [(count, npu) for npu in range(count)]
    cycle = [(npu, (npu + 1) % count) for npu in range(count)]
    more = [tuple(chance.sample(range(count), 2)) for _ in range(count)]
    pairs = star if seed % 2 else sorted({*cycle, *more})
    net = network(count, [(a, b, rate(chance.choice([1, 1, 2, 3, 5]))) for a, b in pairs], seed % 2)
    return net, packing_time(net, list(range(count)))


@pytest.mark.parametrize("seeds", [(0, 1, 2, 3, 29, 48, 134, 172), pytest.param(range(300), marks=pytest.mark.slow)])
def test_the_ideal_is_that_of_the_best_pairs_of_trees(seeds: Sequence[int]) -> None:
    raised = 0
    for seed in seeds:
        net, seconds = random_case(seed)
        demand = all_reduce(list(range(net.npu_count)), GB)
        time = ideal_bound(net, demand).time
        assert time <= seconds * net.npu_count * SECOND + 1, seed
        assert net.has_switches or time >= (1 - 1e-5) * seconds * net.npu_count * SECOND, seed
        raised += time == best(net, demand)
    assert raised > 2


def test_switches_send_what_they_store_several_times() -> None:
    """Three NPUs send 1 GB/s each, and each byte needs four messages, of which the switch makes one: 3 s, not 4."""
    links = [(npu, 3, rate(1)) for npu in range(3)] + [(3, 0, rate(4)), (3, 1, rate(4)), (3, 2, rate(5))]
    net, demand = network(3, links, 1), all_reduce([0, 1, 2], GB // 4, chunks=4)
    context = PassContext()
    module = Invert().run(Synthesize("swarm").run(Module("m", net, demand), context), context)
    assert verify_schedule(module).ok
    assert best(net, demand) <= ideal_bound(net, demand).time <= module.collective_time() < 3.5 * SECOND


def test_nothing_is_claimed_of_switches_that_add_or_copy() -> None:
    links = [(npu, 3, rate(1 + npu)) for npu in range(3)] + [(3, npu, rate(1)) for npu in range(3)]
    net = network(3, links, 1)
    demand = all_reduce([0, 1, 2], GB)
    assert best(net, demand)
    for name in ("reduces", "multicast"):
        assert not best(replace(net, **{name: np.ones(1, np.bool_)}), demand)
    assert not best(net, all_gather([0, 1, 2], GB))
    assert not best(ring(4), all_reduce([0, 1, 2, 3], GB))


def test_limits_of_npus_count() -> None:
    """On a line of three, the NPU in the middle sends the sum twice: 2 x 3 GB at 1 GB/s."""
    line = grid(1, 3, kind=rate(5))
    limited = replace(line, endpoint=np.zeros(3, np.int32), endpoint_kinds=(Endpoint(inject=Fraction(GB)),))
    assert best(limited, all_reduce([0, 1, 2], GB)) == pytest.approx(6 * SECOND, rel=1e-5)
