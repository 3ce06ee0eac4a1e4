"""Shortest paths: three ways of finding them agree."""

import numpy as np
import pytest

from collc.synthesis import routing
from collc.synthesis.routing import FAR, Router, distances
from tests.support import dgx1, grid, network, switched


@pytest.mark.parametrize("net", [grid(3, 4), dgx1(), switched(5), network(4, [(0, 1), (1, 2), (3, 0)])])
def test_distances_agree(monkeypatch: pytest.MonkeyPatch, net):
    weight = np.random.default_rng(1).integers(1, 50, net.link_count)
    targets = net.npus
    swept = distances(net, weight, targets)
    router = Router(net, weight)
    assert swept.tolist() == [router.distances(v) for v in targets.tolist()]
    monkeypatch.setattr(routing, "_KERNEL_WORK", 0)
    assert np.array_equal(distances(net, weight, targets), swept)
    even = np.full(net.link_count, 7)
    hops = distances(net, even, targets)
    monkeypatch.undo()
    assert np.array_equal(distances(net, even, targets), hops)


def test_no_way():
    net = network(3, [(0, 1)])
    router = Router(net, np.ones(1, np.int64))
    assert router.path(0, 2) is None
    assert router.distances(2)[0] == FAR
    assert router.path(2, 2) == [2]
