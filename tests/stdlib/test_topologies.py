"""The networks of the standard library against those built in Python, and against known numbers."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from collc.graph.digraph import Digraph
from collc.graph.distances import hop_counts
from collc.ten.network import LinkKind, Network
from tests import support
from tests.reference.evaluator import Topology, evaluate

GB = 10**9
KIND = LinkKind(500_000, Fraction(50 * GB))
LOCAL = LinkKind(500_000, Fraction(400 * GB))
ALL_ALIKE = "bandwidth: 50GB/s, latency: 0.5us"


def elaborated(expression: str) -> Topology:
    """A topology of the library as the naive evaluator builds it."""
    text = f"import std.topologies import std.clusters topology t = {expression} schedule s on t {{ }}"
    return evaluate(text).schedules()[0].topology


def links(topology: Topology) -> Counter[tuple[int, int, int | None, Fraction | None]]:
    return Counter((k.source.number, k.target.number, k.latency, k.bandwidth) for k in topology.links)


def expected(network: Network) -> Counter[tuple[int, int, int | None, Fraction | None]]:
    kinds = [network.kinds[k] for k in network.kind.tolist()]
    rows = zip(network.source.tolist(), network.target.tolist(), kinds, strict=True)
    return Counter((a, b, kind.latency, kind.bandwidth) for a, b, kind in rows)


SAME = {
    **{f"ring({n}, {ALL_ALIKE})": support.ring(n, KIND) for n in (2, 3, 4, 9)},
    f"ring(5, {ALL_ALIKE}, one_way: true)": support.ring(5, KIND, one_way=True),
    f"ring(2, {ALL_ALIKE}, one_way: true)": support.ring(2, KIND, one_way=True),
    **{f"line({n}, {ALL_ALIKE})": support.grid(n, kind=KIND) for n in (1, 2, 5)},
    **{f"fully_connected({n}, {ALL_ALIKE})": support.fully_connected(n, KIND) for n in (1, 2, 5)},
    **{f"switched({n}, {ALL_ALIKE})": support.switched(n, KIND) for n in (1, 2, 5)},
    **{f"mesh2d({x}, {y}, {ALL_ALIKE})": support.grid(y, x, kind=KIND) for x, y in ((3, 3), (4, 2), (1, 5), (5, 1))},
    **{
        f"torus2d({x}, {y}, {ALL_ALIKE})": support.grid(y, x, kind=KIND, wrap=True)
        for x, y in ((3, 3), (4, 2), (2, 2), (1, 3), (3, 5))
    },
    **{f"mesh3d({x}, {y}, {z}, {ALL_ALIKE})": support.grid(z, y, x, kind=KIND) for x, y, z in ((3, 3, 3), (2, 3, 4))},
    **{
        f"torus3d({x}, {y}, {z}, {ALL_ALIKE})": support.grid(z, y, x, kind=KIND, wrap=True)
        for x, y, z in ((3, 3, 3), (2, 3, 4), (4, 2, 1))
    },
    **{f"hypercube({d}, {ALL_ALIKE})": support.hypercube(d, KIND) for d in (0, 1, 2, 3, 4)},
    "dgx1()": support.dgx1(),
    **{
        f"dragonfly({g}, {n}, local: 400GB/s, global: 50GB/s, latency: 0.5us)": support.dragonfly(g, n, LOCAL, KIND)
        for g, n in ((5, 4), (3, 2), (6, 2), (1, 3), (4, 1))
    },
}


@pytest.mark.parametrize("expression", SAME)
def test_same_as_built_in_python(expression: str) -> None:
    topology, network = elaborated(expression), SAME[expression]
    assert len(topology.npus) == network.npu_count
    assert len(topology.switches) == network.switch_count
    assert links(topology) == expected(network)


COUNTS = {
    "ring(8)": (8, 0, 16),
    "ring(1)": (1, 0, 0),
    "mesh2d(20, 20)": (400, 0, 1520),
    "torus2d(20, 20)": (400, 0, 1600),
    "mesh3d(8, 8, 8)": (512, 0, 2688),
    "torus3d(4, 4, 4)": (64, 0, 384),
    "fat_tree(4)": (16, 20, 96),
    "fat_tree(8)": (128, 80, 768),
    "leaf_spine(4, 8, 2)": (32, 6, 80),
    "rail_only(4, 8)": (32, 12, 128),
    "rail_optimized(4, 8)": (32, 13, 144),
    "rail_optimized(4, 8, spines: 2)": (32, 14, 160),
    "dgx1()": (8, 0, 48),
    "dgx_a100()": (8, 1, 16),
    "dgx_a100(4)": (32, 13, 144),
    "dgx_h100(2)": (16, 11, 80),
    "dgx_h100(2, nvswitches: 4)": (16, 17, 176),
    "gb200_nvl72()": (72, 1, 144),
    "mi300x_node()": (8, 0, 56),
    "tpu_v4_slice(4, 4, 4)": (64, 0, 384),
    "tpu_v4_slice(2, 2, 4)": (16, 0, 56),
    "tpu_v4_twisted_slice(4)": (128, 0, 768),
    "tpu_v4_twisted_slice(2, doubled: 2)": (32, 0, 192),
    "tpu_v5p_slice(4, 4, 8)": (128, 0, 768),
}


@pytest.mark.parametrize("expression", COUNTS)
def test_numbers_of_devices_and_links(expression: str) -> None:
    topology = elaborated(expression)
    assert (len(topology.npus), len(topology.switches), len(topology.links)) == COUNTS[expression]


@pytest.mark.parametrize(
    ("twisted", "sizes"),
    [("2", (4, 2, 2)), ("4", (8, 4, 4)), ("2, doubled: 2", (4, 4, 2)), ("4, doubled: 2", (8, 8, 4))],
)
def test_twisted_tori_are_alike_everywhere_and_closer_than_tori(twisted: str, sizes: tuple[int, ...]) -> None:
    topology = elaborated(f"tpu_v4_twisted_slice({twisted})")
    number = {npu: place for place, npu in enumerate(topology.npus)}
    ends = [(number[link.source], number[link.target]) for link in topology.links]
    graph = Digraph(len(number), *(np.array(column, np.int32) for column in zip(*ends, strict=True)))
    (hops,) = set(hop_counts(graph).sum(axis=0).tolist())
    assert hops < hop_counts(Digraph.of(support.grid(*sizes, wrap=True)))[0].sum()


@pytest.mark.slow
def test_the_large_mesh_of_the_reference() -> None:
    topology = elaborated("mesh2d(200, 200)")
    assert (len(topology.npus), len(topology.links)) == (40_000, 159_200)


@pytest.mark.parametrize(
    ("expression", "each_way"),
    [
        ("dgx1()", 150),  # six links of 25 GB/s
        ("dgx_a100()", 300),
        ("dgx_a100(2)", 325),  # and a NIC of 25 GB/s
        ("dgx_h100(2)", 500),  # 450 + 50
        ("dgx_h100(2, nvswitches: 4)", 500),
        ("gb200_nvl72()", 900),
        ("mi300x_node()", 448),  # seven links of 64 GB/s
        ("tpu_v4_slice(4, 4, 4)", 300),  # six links of 50 GB/s
        ("tpu_v5p_slice(4, 4, 4)", 600),
    ],
)
def test_bandwidth_of_a_machine(expression: str, each_way: int) -> None:
    """The bytes that one NPU can send, or receive, per second are those of the vendor."""
    topology = elaborated(expression)
    for npu in topology.npus:
        out = sum((k.bandwidth or 0 for k in topology.links if k.source is npu), Fraction(0))
        into = sum((k.bandwidth or 0 for k in topology.links if k.target is npu), Fraction(0))
        assert out == into == each_way * GB


@pytest.mark.parametrize("expression", ["fat_tree(4)", "fat_tree(6)"])
def test_fat_tree_switches_use_their_ports(expression: str) -> None:
    topology = elaborated(expression)
    radix = 4 if "4" in expression else 6
    for switch in topology.switches:
        assert sum(k.source is switch for k in topology.links) == radix


def test_dragonfly_distributes_its_global_links() -> None:
    """Groups (a, b), a < b, in order, each taking the next member of both, counted with a counter for each group."""
    topology = elaborated("dragonfly(7, 4)")
    used = [0] * 7
    wanted = []
    for a in range(7):
        for b in range(a + 1, 7):
            wanted.append((4 * a + used[a] % 4, 4 * b + used[b] % 4))
            used[a] += 1
            used[b] += 1
    found = [(k.source.number, k.target.number) for k in topology.links if k.source.number // 4 < k.target.number // 4]
    assert found == wanted


def test_rails_join_the_same_rank_of_all_domains() -> None:
    topology = elaborated("rail_only(3, 4, local: 300GB/s, rail: 25GB/s, local_latency: 350ns, rail_latency: 850ns)")
    for k in topology.links:
        if k.source.kind == "npu" and k.target.label.startswith("rails"):
            assert k.target.label == f"rails[{k.source.number % 4}]"
            assert (k.bandwidth, k.latency) == (25 * GB, 850_000)
        elif k.source.kind == "npu":
            assert k.target.label == f"domain[{k.source.number // 4}]"
            assert (k.bandwidth, k.latency) == (300 * GB, 350_000)


def test_rail_optimized_has_full_bisection_above_the_rails() -> None:
    topology = elaborated(
        "rail_optimized(6, 4, local: 300GB/s, rail: 25GB/s, local_latency: 350ns, rail_latency: 850ns, spines: 2)"
    )
    for rail in (s for s in topology.switches if s.label.startswith("rails")):
        down = sum(
            (k.bandwidth or 0 for k in topology.links if k.source is rail and k.target.kind == "npu"), Fraction(0)
        )
        up = sum(
            (k.bandwidth or 0 for k in topology.links if k.source is rail and k.target.kind == "switch"), Fraction(0)
        )
        assert up == down == 150 * GB


def test_tpu_slices_wrap_only_as_whole_cubes() -> None:
    """Two chips at the ends of a line are neighbours in a torus of cubes, and not in a smaller slice."""
    small, cube = elaborated("tpu_v4_slice(4, 4, 2)"), elaborated("tpu_v4_slice(4, 4, 4)")
    assert (0, 3) not in {(k.source.number, k.target.number) for k in small.links}
    assert (0, 3) in {(k.source.number, k.target.number) for k in cube.links}
    assert (0, 48) in {(k.source.number, k.target.number) for k in cube.links}


def test_shape_alone_has_no_rates() -> None:
    assert all(k.bandwidth is None and k.latency is None for k in elaborated("ring(4)").links)
