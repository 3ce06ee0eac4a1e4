"""The channels of NCCL: what its own search finds, what a channel must be, and whether rings exist at all."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collc.ten.network import LinkKind, Network
from collc.tuning.nccl_search import Channel, channels_of, on_rails
from collc.tuning.nccl_shapes import nccl_times
from collc.tuning.protocols import ProtocolCost
from tests.support import DGX1_LANES, network, ring

NVLINK, NIC, HALF = (LinkKind(350_000, Fraction(rate * 10**9)) for rate in (450, 50, 25))


def cluster(gpus: tuple[tuple[int, ...], ...], nics: tuple[dict[int, LinkKind], ...]) -> Network:
    """Nodes of GPUs on an NVSwitch, with the NICs of some GPUs on rails, and a spine. gpus: of each node, of eight."""
    count = sum(map(len, gpus))
    links: list[tuple[int, int, LinkKind]] = []
    spine = count + len(gpus) + 8
    first = 0
    for node, (present, rates) in enumerate(zip(gpus, nics, strict=True)):
        for place, gpu in enumerate(present):
            links += both(first + place, count + node, NVLINK)
            if gpu in rates:
                links += both(first + place, count + len(gpus) + gpu, rates[gpu])
        first += len(present)
    for rail in range(8):
        links += both(count + len(gpus) + rail, spine, LinkKind(300_000, Fraction(200 * 10**9)))
    return network(count, links, switches=len(gpus) + 9)


def both(a: int, b: int, kind: LinkKind) -> list[tuple[int, int, LinkKind]]:
    return [(a, b, kind), (b, a, kind)]


WHOLE = tuple(range(8))
ALL = dict.fromkeys(WHOLE, NIC)


def without(*gone: int) -> dict[int, LinkKind]:
    return {gpu: NIC for gpu in WHOLE if gpu not in gone}


@pytest.mark.parametrize(
    ("gpus", "nics", "found"),
    [
        (WHOLE, ALL, [(0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4), (6, 7), (7, 6)]),
        ((0, 1, 2, 4, 5, 6, 7), without(3), [(g, g) for g in (0, 1, 2, 4, 5, 6, 7)]),
        (WHOLE, without(5), [(g, g) for g in (0, 1, 2, 3, 4, 6, 7)]),
        (WHOLE, {0: NIC}, [(0, 0)]),
    ],
)
def test_rings_are_those_of_nccl(
    gpus: tuple[int, ...], nics: dict[int, LinkKind], found: list[tuple[int, int]]
) -> None:
    """NICs in and out by which NCCL's own search (compiled from 5067397c) goes in such an H100 node, and its trees."""
    two = cluster((gpus, gpus), (nics, nics))
    rows = channels_of(two, rings=True)
    assert [tuple(gpus[nic[0]] for nic in (row[0].enter, row[0].leave) if nic) for row in rows] == found
    chains = channels_of(two, rings=False)
    heads = [gpus.index(gpu) for gpu in sorted(nics)]
    assert [row[0].order for row in chains] == [(*range(k, len(gpus)), *range(k)) for k in heads]


@pytest.mark.parametrize(
    ("nics", "carried"),
    [(without(1, 5), 6.0), (dict.fromkeys((0, 2, 4, 6), NIC), 4.0), (ALL | {5: HALF}, 7.5)],
)
def test_channels_carry_what_those_of_nccl_carry(nics: dict[int, LinkKind], carried: float) -> None:
    """In multiples of a NIC: 6 x 48, 8 x 24 and 15 x 24 GB/s of NCCL's search, whose NICs have 48."""
    rows = channels_of(cluster((WHOLE, WHOLE), (nics, nics)), rings=True)
    uses = Counter(row[0].enter for row in rows)
    assert len(rows) / max(uses.values()) == carried
    assert {nic[0]: n for nic, n in uses.items() if nic}.keys() == nics.keys()


def test_channels_use_the_lanes_that_those_of_nccl_use() -> None:
    """NCCL's search finds 6 rings on a DGX-1, 2 on a ring of four, and on four all-connected GPUs uses all links."""
    lane = LinkKind(700_000, Fraction(25 * 10**9))
    lanes = [(a, b, lane) for a, row in enumerate(DGX1_LANES) for b, n in enumerate(row) for _ in range(n)]
    assert len(channels_of(network(8, lanes), rings=True)) == 6
    assert [row[0].order for row in channels_of(ring(4), rings=True)] == [(0, 1, 2, 3), (0, 3, 2, 1)]
    full = network(4, [(a, b) for a in range(4) for b in range(4) if a != b])
    uses = Counter(pair for row in channels_of(full, rings=True) for pair in ring_of(row[0]))
    assert set(uses.values()) == {2}
    assert len(uses) == 12


def ring_of(channel: Channel) -> list[tuple[int, int]]:
    return list(pairwise((*channel.order, channel.order[0])))


def test_a_pod_that_lost_a_gpu_and_a_nic() -> None:
    """Seven rings over seven rails of 50 GB/s, not one ring over one (41.6 ms for 1 GiB)."""
    lost = (0, 1, 2, 4, 5, 6, 7)
    pod = cluster((WHOLE, lost, WHOLE, WHOLE), (ALL, without(3), without(5), ALL))
    rows = channels_of(pod, rings=True)
    assert len(rows) == 7
    (time,) = nccl_times(pod, "all_reduce", "ring", [2**30], [ProtocolCost("Simple", Fraction(1), 0)])
    least = 2 * 30 / 31 * 2**30 / (7 * 50e9) * 1e12
    assert least < (time or 0) < 1.06 * least


def test_crossing_channels_stay_on_their_rails() -> None:
    rows = on_rails(channels_of(cluster((WHOLE,) * 4, (ALL,) * 4), rings=True))
    for parts in rows:
        for part, following in zip(parts, [*parts[1:], parts[0]], strict=True):
            assert part.leave is not None
            assert following.enter is not None
            assert part.leave[1] == following.enter[1]


@st.composite
def small_networks(draw: st.DrawFn) -> Network:
    count = draw(st.integers(2, 6))
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    return network(count, draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True)))


@given(small_networks())
def test_rings_are_found_if_there_are_any(net: Network) -> None:
    """Against all permutations; each ring goes through each NPU once, and no link carries more than it can."""
    links = set(zip(net.source.tolist(), net.target.tolist(), strict=True))
    orders = [(0, *rest) for rest in permutations(range(1, net.npu_count))]
    exists = any(set(ring_of(Channel(order))) <= links for order in orders)
    rows = channels_of(net, rings=True)
    assert all(sorted(row[0].order) == list(range(net.npu_count)) for row in rows)
    uses = Counter(pair for row in rows for pair in ring_of(row[0]))
    assert (set(uses) <= links) == exists
    if exists:
        least = min(sum(source == npu for source, _ in links) for npu in range(net.npu_count))
        assert len(rows) / max(uses.values()) <= least
