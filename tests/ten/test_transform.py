"""Networks made of networks, against links worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import pytest

from collc.ten.network import Axis, DeviceFamily, LinkKind, Network
from collc.ten.transform import npu_grid, product, remove_parts, unwound
from tests.cpu_time import at_most
from tests.support import fully_connected, grid, network, ring, switched

Kind = tuple[int | None, Fraction | int | None]


def links(net: Network) -> list[tuple[int, int, Kind]]:
    """Source, target, and (latency, bandwidth) of each link."""
    kinds = [(kind.latency, kind.bandwidth) for kind in net.kinds]
    ends = zip(net.source.tolist(), net.target.tolist(), net.kind.tolist(), strict=True)
    return [(source, target, kinds[kind]) for source, target, kind in ends]


def kind(latency: int | None, bandwidth: int | None) -> LinkKind:
    return LinkKind(latency, None if bandwidth is None else Fraction(bandwidth))


def test_no_removed_link_of_an_unwound_network_ends_at_a_switch() -> None:
    lines = [(0, 1), *((npu, 3) for npu in range(3)), *((3, npu) for npu in range(3))]
    assert unwound(remove_parts(network(3, lines, switches=1), [], [0, 1, 4])).removed.tolist() == [[0, 1]]


def test_each_npu_is_linked_to_the_next_ones() -> None:
    net = unwound(switched(4, kind(5, 60)), 2)
    expected = [(i, (i + d) % 4, (10, 30)) for i in range(4) for d in (1, 2)]
    assert links(net) == expected
    assert net.unwound
    assert net.switch_count == 0
    assert (len(net.present), [family.name for family in net.families]) == (4, ["npu"])
    assert (len(net.buffers), len(net.multicast), len(net.reduces), len(net.link_axis)) == (0, 0, 0, 0)
    assert len(unwound(switched(4, kind(5, 60)), 3).source) == 12


def test_latencies_add_up_and_the_lower_bandwidth_counts() -> None:
    up, down = kind(3, 100), kind(4, 40)
    net = network(2, [(0, 2, up), (2, 0, down), (1, 2, down), (2, 1, up)], switches=1)
    assert links(unwound(net)) == [(0, 1, (6, 100)), (1, 0, (8, 40))]
    assert links(unwound(replace(net, source=net.target, target=net.source))) == [(0, 1, (8, 40)), (1, 0, (6, 100))]


def test_parallel_links_are_paired_as_far_as_both_ends_have_them() -> None:
    a, b, c = kind(1, 10), kind(2, 20), kind(3, 30)
    net = network(2, [(0, 2, a), (0, 2, b), (2, 0, c), (1, 2, c), (2, 1, b), (2, 1, c), (2, 1, a)], switches=1)
    assert links(unwound(net)) == [(0, 1, (3, 10)), (0, 1, (5, 20)), (1, 0, (6, 30))]


def test_unknown_times_stay_unknown() -> None:
    lines = [(0, 2, kind(None, 10)), (2, 0, kind(1, None)), (1, 2, kind(1, 10)), (2, 1, kind(1, 10))]
    assert links(unwound(network(2, lines, switches=1))) == [(0, 1, (None, 10)), (1, 0, (2, None))]
    lines = [(0, 2, kind(1, None)), (2, 0, kind(None, 10)), (1, 2, kind(1, 10)), (2, 1, kind(1, 10))]
    assert links(unwound(network(2, lines, switches=1))) == [(0, 1, (2, None)), (1, 0, (None, 10))]


def test_direct_links_come_first_then_those_of_each_switch() -> None:
    plain, fast = kind(1, 10), kind(1, 99)
    lines = [(0, 3, plain), (3, 0, plain), (1, 3, plain), (3, 1, plain), (0, 1, fast)]
    lines += [(1, 4, fast), (4, 1, fast), (2, 4, fast), (4, 2, fast), (2, 0, plain)]
    net = unwound(network(3, lines, switches=2))
    expected = [(0, 1, (1, 99)), (2, 0, (1, 10)), (0, 1, (2, 10)), (1, 0, (2, 10)), (1, 2, (2, 99)), (2, 1, (2, 99))]
    assert links(net) == expected


def test_a_network_without_switches_is_returned() -> None:
    net = ring(3)
    assert unwound(net, 7) is net


def test_a_switch_with_one_npu_leaves_nothing() -> None:
    assert links(unwound(network(1, [(0, 1), (1, 0)], switches=1))) == []


def test_a_switch_of_two_has_one_degree() -> None:
    with pytest.raises(ValueError, match="degree 2 of"):
        unwound(switched(2), 2)


@pytest.mark.parametrize("degree", [0, 3, 4])
def test_degrees_that_are_not_there(degree: int) -> None:
    with pytest.raises(ValueError, match=rf"degree {degree} of switch\[0\], which joins 3 NPUs: it must be 1 to 2"):
        unwound(switched(3), degree)


def test_switches_that_cannot_be_unwound_are_refused() -> None:
    two = [(0, 2), (2, 0), (1, 3), (3, 1)]
    for more, name in (([(2, 3), (3, 2)], r"\[0\] -> switch\[1\]"), ([(3, 2), (2, 3)], r"\[1\] -> switch\[0\]")):
        with pytest.raises(ValueError, match=rf"link switch{name} joins two switches"):
            unwound(network(2, [*two, *more], switches=2))
        with pytest.raises(ValueError, match=rf"link switch{name} joins two switches"):
            unwound(network(2, [*two, more[0]], switches=2))
    for lines in ([(0, 2), (2, 0), (1, 2)], [(0, 2), (2, 0), (2, 1)]):
        with pytest.raises(ValueError, match=r"npu\[1\] is linked to switch\[0\] in one direction only"):
            unwound(network(2, lines, switches=1))


def test_axes_of_the_links_into_a_switch_stay() -> None:
    net = product(ring(2), switched(2, kind(5, 60)), "p", ("ring", "switch"))
    found = unwound(net)
    assert found.link_axis.tolist() == [0] * 4 + [1] * 4
    assert links(found)[4:] == [(0, 2, (10, 60)), (2, 0, (10, 60)), (1, 3, (10, 60)), (3, 1, (10, 60))]


def test_without() -> None:
    net = remove_parts(ring(4, kind(1, 10)), [2], np.array([0]))
    assert links(net) == [(1, 0, (1, 10)), (3, 0, (1, 10)), (0, 3, (1, 10))]
    assert net.present.tolist() == [True, True, False, True]
    assert net.npus.tolist() == [0, 1, 3]
    both = remove_parts(product(ring(2), ring(2), "p", ("ring", "ring")), [0], np.array([], np.int64))
    assert len(both.link_axis) == both.link_count


def test_product_of_two_rings() -> None:
    left, right = ring(2, kind(1, 10)), ring(3, kind(2, 20), one_way=True)
    net = product(left, right, "p", ("ring", "loop"))
    expected = [(i + 2 * j, 1 - i + 2 * j, (1, 10)) for j in range(3) for i in (0, 1)] * (left.link_count // 2)
    expected += [(i + 2 * j, i + 2 * ((j + 1) % 3), (2, 20)) for i in (0, 1) for j in range(3)]
    assert sorted(links(net)) == sorted(expected)
    assert [row[2] for row in links(net)] == [(1, 10)] * 6 + [(2, 20)] * 6
    assert net.axes == (Axis("ring", 2), Axis("loop", 3))
    assert net.families == (DeviceFamily("npu", (2, 3), 0, (1, 2)),)
    assert (net.name, net.npu_count, net.unwound) == ("p", 6, False)
    assert net.link_axis.tolist() == [0] * (left.link_count * 3) + [1] * (right.link_count * 2)


def test_product_of_a_product_counts_its_axes() -> None:
    first = product(ring(2), ring(3), "p", ("a", "b"))
    assert product(first, ring(2), "q", ("x", "c")).axes == (Axis("a", 2), Axis("b", 3), Axis("c", 2))
    assert set(product(first, ring(2), "q", ("x", "c")).link_axis.tolist()) == {0, 1, 2}
    assert product(ring(2), first, "q", ("c", "x")).axes == (Axis("c", 2), Axis("a", 2), Axis("b", 3))
    assert set(product(ring(2), first, "q", ("c", "x")).link_axis.tolist()) == {0, 1, 2}


def test_switches_of_a_product() -> None:
    left = replace(switched(2, buffer=3), multicast=np.array([True]))
    right = replace(switched(3, buffer=5), reduces=np.array([True]))
    net = product(left, right, "p", ("s", "s"))
    assert (net.npu_count, net.switch_count) == (6, 3 + 2)
    assert net.buffers.tolist() == [3, 3, 3, 5, 5]
    assert net.multicast.tolist() == [True] * 3 + [False] * 2
    assert net.reduces.tolist() == [False] * 3 + [True] * 2
    assert [net.device_name(device) for device in range(6, 11)] == [
        "dim1.switch[0, 0]", "dim1.switch[1, 0]", "dim1.switch[2, 0]", "dim2.switch[0, 0]", "dim2.switch[1, 0]"
    ]  # fmt: skip
    ends = [(source, target) for source, target, _ in links(net)]
    assert {pair for pair in ends if 6 in pair} == {(0, 6), (6, 0), (1, 6), (6, 1)}
    assert {pair for pair in ends if 8 in pair} == {(4, 8), (8, 4), (5, 8), (8, 5)}
    assert {pair for pair in ends if 9 in pair} == {(0, 9), (9, 0), (2, 9), (9, 2), (4, 9), (9, 4)}
    assert {pair for pair in ends if 10 in pair} == {(1, 10), (10, 1), (3, 10), (10, 3), (5, 10), (10, 5)}


def test_names_of_switches_in_a_third_dimension() -> None:
    net = product(product(switched(2), ring(2), "p", ("s", "r")), switched(2), "q", ("x", "s"))
    names = [net.device_name(device) for device in range(net.npu_count, net.device_count)]
    assert len(set(names)) == net.switch_count == 2 * 2 + 4
    assert names[0].startswith("dim1.switch[0")
    assert names[-1].startswith("dim3.switch[3")


def test_switches_of_several_families() -> None:
    two = replace(
        network(2, [(0, 2), (2, 0), (1, 3), (3, 1)], switches=2),
        families=(DeviceFamily("npu", (2,), 0, (1,)), DeviceFamily("a", (), 2, ()), DeviceFamily("b", (), 3, ())),
    )
    net = product(two, ring(2), "p", ("s", "r"))
    names = [net.device_name(device) for device in range(net.npu_count, net.device_count)]
    assert names == ["dim1[0].a", "dim1[0].b", "dim1[1].a", "dim1[1].b"]


def test_equal_kinds_of_both_factors_are_one() -> None:
    assert len(product(ring(2), fully_connected(3), "p", ("a", "b")).kinds) == 1


def test_shape_of_the_npus() -> None:
    assert npu_grid(grid(2, 3)) == ((2, 3), (3, 1))
    two = replace(ring(4), families=(DeviceFamily("a", (2,), 0, (1,)), DeviceFamily("b", (2,), 2, (1,))))
    assert npu_grid(two) == ((4,), (1,))
    dotted = replace(ring(4), families=(DeviceFamily("a.b", (2, 2), 0, (2, 1)),))
    assert npu_grid(dotted) == ((4,), (1,))
    single = replace(ring(1), families=(DeviceFamily("a", (), 0, ()),))
    assert npu_grid(single) == ((1,), (1,))
    with_switch = network(4, [(0, 4), (4, 0)], switches=1, shape=(2, 2))
    assert npu_grid(with_switch) == ((2, 2), (2, 1))


def test_switches_of_a_factor_that_is_a_product() -> None:
    net = product(ring(2), product(switched(2), ring(2), "p", ("s", "r")), "q", ("r", "x"))
    names = [net.device_name(device) for device in range(net.npu_count, net.device_count)]
    assert names[0].startswith("dim2.dim1.switch[0")
    assert len(set(names)) == net.switch_count == 4


def test_copies_of_two_switches() -> None:
    two = network(2, [(0, 2), (2, 0), (1, 3), (3, 1)], switches=2)
    net = product(two, ring(3, one_way=True), "p", ("s", "r"))
    ends = {(source, target) for source, target, _ in links(net) if source >= 6}
    assert ends == {(6 + 2 * copy + switch, 2 * copy + switch) for copy in range(3) for switch in range(2)}


def test_a_product_of_something_unwound_is_unwound() -> None:
    once, never = unwound(switched(3)), ring(2)
    for left, right, expected in ((once, never, True), (never, once, True), (once, once, True), (never, never, False)):
        assert product(left, right, "p", ("a", "b")).unwound is expected


def two_leaves() -> Network:
    """NPUs 0 and 1 on switch 4, 2 and 3 on switch 5, the switches joined."""
    near, up = kind(1, 120), kind(7, 40)
    lines = [(npu, 4 + npu // 2, near) for npu in range(4)]
    lines += [(b, a, k) for a, b, k in lines] + [(4, 5, up), (5, 4, up)]
    return network(4, lines, switches=2)


def test_pairs_on_switches_that_are_joined_share_the_bottleneck_of_their_path() -> None:
    net = unwound(two_leaves(), joined=True)
    assert net.unwound
    assert net.switch_count == 0
    # three links leave and enter each NPU, four pass each way between the switches
    inside = [(a, a ^ 1, (2, 40)) for a in range(4)]
    across = [(a, b, (9, 10)) for a in range(4) for b in range(4) if a // 2 != b // 2]
    assert sorted(links(net)) == sorted([*inside, *across])


def test_paths_of_equal_latency_are_shared_evenly() -> None:
    near, up = kind(1, 120), kind(7, 40)
    lines = [(npu, 4 + npu // 2, near) for npu in range(4)] + [(4 + leaf, 6 + s, up) for leaf in (0, 1) for s in (0, 1)]
    net = network(4, lines + [(b, a, k) for a, b, k in lines], switches=4)
    found = links(unwound(net, joined=True))
    # two of the four pairs that cross take each spine
    assert {link[2] for link in found if link[0] // 2 != link[1] // 2} == {(16, 20)}


@pytest.mark.parametrize("seed", range(12))
def test_joined_switches_of_random_networks(seed: int) -> None:
    """Against NetworkX: a link for each pair, with the latency of the shortest path over switches; none too fast."""
    random = Random(seed)
    npus, switches = random.randint(2, 5), random.randint(2, 5)
    ends = [(a, b) for a in range(npus + switches) for b in range(npus, npus + switches) if a != b]
    chosen = [pair for pair in ends if random.random() < 0.5]
    chosen += [(npu, npus + npu % switches) for npu in range(npus)]
    chosen += [(npus + s, npus + (s + 1) % switches) for s in range(switches)]
    lines = [(a, b, kind(random.randint(0, 3), random.randint(1, 9))) for a, b in chosen]
    net = network(npus, lines + [(b, a, k) for a, b, k in lines], switches=switches)
    found = links(unwound(net, joined=True))
    graph = nx.DiGraph()
    for link in range(net.link_count):
        latency = net.kinds[net.kind[link]].latency
        a, b = int(net.source[link]), int(net.target[link])
        # an NPU is left from one vertex and entered at another, so that no path passes it
        ends_of = (a if a >= npus else ("out", a), b if b >= npus else ("in", b))
        if not graph.has_edge(*ends_of) or graph.edges[ends_of]["weight"] > latency:
            graph.add_edge(*ends_of, weight=latency)
    pairs = [(a, b) for a in range(npus) for b in range(npus) if a != b]
    assert sorted((a, b) for a, b, _ in found) == pairs
    for a, b, (latency, _) in found:
        assert latency == nx.dijkstra_path_length(graph, ("out", a), ("in", b))
    for npu in range(npus):
        for end, column in ((0, net.source), (1, net.target)):
            room = sum(net.kinds[net.kind[link]].bandwidth for link in np.flatnonzero(column == npu))
            assert sum(link[2][1] for link in found if link[end] == npu) <= room


def test_a_large_leaf_spine_is_unwound_in_linear_time() -> None:
    """A path for each of 65,280 pairs, whose uplinks are shared evenly; 1,048,576 pairs take 3 s of processor time."""
    lines: list[tuple[int, int, Any]] = []
    for npu in range(256):
        lines += [(npu, 256 + npu // 16, kind(1, 10)), (256 + npu // 16, npu, kind(1, 10))]
    for leaf in range(16):
        lines += [(256 + leaf, 272 + spine, kind(1, 80)) for spine in range(4)]
        lines += [(272 + spine, 256 + leaf, kind(1, 80)) for spine in range(4)]
    with at_most(2):
        net = unwound(network(256, lines, switches=20), joined=True)
    found = {(net.kinds[row].latency, net.kinds[row].bandwidth) for row in set(net.kind.tolist())}
    # each link of an NPU carries 255 paths, each uplink 16 senders x 240 receivers / 4 = 960 of eight times the rate
    assert found == {(2, Fraction(10, 255)), (4, Fraction(10, 255))}
    assert net.link_count == 256 * 255


def test_too_many_pairs_are_refused() -> None:
    lines: list[tuple[int, int, Any]] = [(1100, 1101, kind(1, 1)), (1101, 1100, kind(1, 1))]
    for npu in range(1100):
        lines += [(npu, 1100 + npu % 2, kind(1, 1)), (1100 + npu % 2, npu, kind(1, 1))]
    with pytest.raises(ValueError, match="1100 x 1100 pairs of NPUs are more than 1,048,576"):
        unwound(network(1100, lines, switches=2), joined=True)


def _reference(net: Network) -> list[tuple[int, int, Kind]]:
    """What `links_over` says, written again with dictionaries and fractions, for switches that are all joined."""
    n, users = net.npu_count, [0] * net.link_count
    ends = list(zip(net.source.tolist(), net.target.tolist(), strict=True))
    parts = [net.kinds[row] for row in net.kind.tolist()]
    used = [link for link, (a, b) in enumerate(ends) if a >= n or b >= n]
    found: list[tuple[int, int, list[int]]] = []
    for source in sorted({ends[link][0] for link in used} & set(range(n))):
        length = {source: (0, 0)}
        for _ in range(net.device_count):
            for link in used:
                a, b = ends[link]
                if a in length and (a == source or a >= n):
                    reached = (length[a][0] + (parts[link].latency or 0), length[a][1] + 1)
                    length[b] = min(length.get(b, reached), reached)
        for target in sorted({ends[link][1] for link in used} & set(range(n)) & length.keys() - {source}):
            path: list[int] = []
            at = target
            while at != source:
                before = (length[at][0], length[at][1])
                best = [
                    link
                    for link in used
                    if ends[link][1] == at
                    and (ends[link][0] == source or ends[link][0] >= n)
                    and length.get(ends[link][0]) == (before[0] - (parts[link].latency or 0), before[1] - 1)
                ]
                link = min(best, key=lambda one: (Fraction(users[one] + 1) / (parts[one].bandwidth or 1), one))
                users[link] += 1
                path.append(link)
                at = ends[link][0]
            found.append((source, target, path))
    rows: list[tuple[int, int, Kind]] = []
    for source, target, path in found:
        latencies, rates = [parts[link].latency for link in path], [parts[link].bandwidth for link in path]
        shares = [None if rate is None else rate / users[link] for rate, link in zip(rates, path, strict=True)]
        latency = None if None in latencies else sum(one for one in latencies if one is not None)
        rows.append((source, target, (latency, None if None in shares else min(s for s in shares if s is not None))))
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_paths_over_joined_switches_against_a_second_program(seed: int) -> None:
    chance = Random(seed)
    npus, switches = chance.randint(1, 5), chance.randint(2, 5)
    lines: list[tuple[int, int, Any]] = [
        (npus + k + d, npus + k + 1 - d, kind(1, 10)) for k in range(switches - 1) for d in range(2)
    ]
    for _ in range(chance.randint(4, 40)):
        a, b = chance.randrange(npus + switches), chance.randrange(npus + switches)
        if a != b and max(a, b) >= npus:
            lines.append((a, b, kind(chance.choice([0, 1, 2, 3, None]), chance.choice([None, 10, 25, 40]))))
    net = network(npus, lines, switches=switches)
    assert links(unwound(net, joined=True)) == _reference(net)
