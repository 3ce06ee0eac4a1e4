"""Translations of networks: every generator is an automorphism, and the groups are as large as they should be."""

from __future__ import annotations

from dataclasses import replace
from gc import collect
from itertools import product
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.graph.translations import find_translations
from collc.ten.endpoint import Endpoint
from collc.ten.factored_schedule import Translations
from collc.ten.network import Network
from collc.ten.transform import remove_parts
from tests.support import dgx1, fully_connected, grid, hypercube, network, ring, switched
from tests.synthesis.clusters import NIC, NVLINK, both, fat_tree, pods, rails, shuffled

TRANSITIVE = [
    switched(6),
    rails(2, 8),
    rails(8, 8, spine=True),
    rails(3, 4),
    pods(3, 4, 2),
    pods(2, 4, 4, spines=2, oversubscribed=2),
    fat_tree(4),
    fat_tree(6),
]
DIRECT = [ring(5), ring(6, one_way=True), grid(3, 4, wrap=True), hypercube(3), fully_connected(5)]


def found(net: Network) -> Translations:
    group = find_translations(net)
    assert group is not None
    return group


def links_of(net: Network, devices: np.ndarray) -> list[tuple[int, ...]]:
    """All links with their ends moved, as a multiset."""
    return sorted(zip(devices[net.source].tolist(), devices[net.target].tolist(), net.kind.tolist(), strict=True))


def check(net: Network, group: Translations) -> None:
    """What the class promises, element by element, by the slowest means."""
    here = np.arange(net.device_count)
    seen: set[bytes] = set()
    for index in product(*(range(size) for size in group.sizes)):
        device, link = here, np.arange(net.link_count)
        for axis, times in enumerate(index):
            for _ in range(times):
                device, link = group.device[axis][device], group.link[axis][link]
        element = sum(i * stride for i, stride in zip(index, group.strides, strict=True))
        assert links_of(net, device) == links_of(net, here)
        assert np.array_equal(net.source[link], device[net.source])
        assert np.array_equal(net.target[link], device[net.target])
        assert np.array_equal(net.kind[link], net.kind)
        assert sorted(device[: net.npu_count].tolist()) == list(range(net.npu_count))
        assert element == 0 or not (device == here)[: net.npu_count].any()
        seen.add(device[: net.npu_count].tobytes())
        for at in range(net.device_count):
            assert group.device_images(at)[element] == device[at]
        for at in range(net.link_count):
            assert group.link_images(at)[element] == link[at]
    assert len(seen) == group.count
    assert sorted(group.orbits.ravel().tolist()) == list(range(net.npu_count))


@pytest.mark.parametrize("net", TRANSITIVE + DIRECT, ids=lambda net: net.name)
def test_networks_with_equal_npus_have_one_orbit(net: Network) -> None:
    group = found(net)
    assert group.count == net.npu_count
    check(net, group)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("net", TRANSITIVE, ids=lambda net: net.name)
@pytest.mark.parametrize("seed", range(2))
def test_device_numbers_do_not_matter(net: Network, seed: int) -> None:
    other = shuffled(net, seed)
    group = found(other)
    assert group.count == net.npu_count
    check(other, group)


def test_translations_are_sought_once_and_kept_no_longer_than_their_network() -> None:
    net = ring(5)
    assert find_translations(net) is find_translations(net)
    kept = ref(net)
    del net
    collect()
    assert kept() is None


def test_unlike_npus_make_orbits() -> None:
    nodes = [(4 * n + a, 4 * n + a + 1, NVLINK) for n in range(3) for a in range(3)]
    nodes += [(b, a, kind) for a, b, kind in nodes]
    net = network(12, [*nodes, *(link for n in range(12) for link in both(n, 12, NIC))], switches=1, shape=(3, 4))
    group = found(net)
    assert (group.count, len(group.orbits)) == (6, 2)  # three nodes, and each line has a reflection
    check(net, group)
    assert (found(dgx1()).count, len(found(dgx1()).orbits)) == (4, 2)


def test_unlike_links_leave_fewer_translations() -> None:
    net = rails(4, 4)
    kind = net.kind.copy()
    kind[net.source == 3] = 1 - kind[net.source == 3]
    broken = find_translations(replace(net, kind=kind))
    assert broken is None or broken.count < 16
    limits = np.zeros(16, np.int32)
    limits[:4] = 1
    limited = replace(net, endpoint=limits, endpoint_kinds=(Endpoint(), Endpoint(inject=NIC.bandwidth)))
    assert found(limited).count == 4  # the GPUs of a node
    buffers = net.buffers.copy()
    buffers[4] = 3  # of a rail switch
    assert found(replace(net, buffers=buffers)).count == 4  # the nodes


def test_networks_without_symmetry_have_no_translations() -> None:
    assert find_translations(network(3, [(0, 1), (1, 2), (2, 0), (0, 2)])) is None
    assert find_translations(remove_parts(rails(4, 4), [3], np.empty(0, np.int64))) is None
    assert find_translations(network(1, [])) is None


@given(st.integers(2, 4), st.integers(2, 4), st.integers(1, 3), st.integers(1, 2), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_shuffled_pods(count: int, nodes: int, size: int, spines: int, seed: int) -> None:
    net = shuffled(pods(count, nodes, size, spines), seed)
    group = found(net)
    assert group.count == net.npu_count
    assert set(group.link_class[group.link[0]] - group.link_class) == {0}
    for link in range(0, net.link_count, 7):
        images = group.link_images(link)
        assert len(set(images.tolist())) * int(group.link_share[link]) == group.count
        pairs = set(zip(images.tolist(), group.phases(link).tolist(), strict=True))
        assert len(pairs) == group.count


@pytest.mark.parametrize("net", [fat_tree(4), fat_tree(6), pods(2, 4, 2, spines=4)], ids=lambda net: net.name)
def test_parallel_switches_are_used_in_turns(net: Network) -> None:
    """No two translations of a transfer meet on a link; with other numbers of the switches they do."""
    group = found(net)
    assert set(group.link_share.tolist()) == {1}
    check(net, group)
    assert set(found(shuffled(net, 0)).link_share.tolist()) != {1}


def test_elements_are_added() -> None:
    group = found(pods(2, 3, 4))
    for element in range(0, group.count, 5):
        sums = group.sums(element)
        assert sums[group.negative(element)] == 0
        assert np.array_equal(group.device_images(0)[sums], group.device_images(int(group.orbits[0, element])))
        assert np.array_equal(group.difference(sums, element), np.arange(group.count))
