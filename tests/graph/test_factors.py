"""Cartesian factors: of products they are the factors, whatever the numbers of the vertices."""

from __future__ import annotations

import random

import pytest

from collc.synthesis.exchange.cores import cartesian_factors, components, neighbours
from collc.ten.network import Network
from tests.support import dgx1, fully_connected, grid, hypercube, ring


def shuffled(net: Network, seed: int) -> dict[int, set[int]]:
    names = list(range(net.npu_count))
    random.Random(seed).shuffle(names)
    near = neighbours(net, net.npus)
    return {names[v]: {names[a] for a in ends} for v, ends in near.items()}


@pytest.mark.parametrize(
    ("net", "sizes"),
    [
        (ring(5), [5]),
        (ring(4), [2, 2]),
        (fully_connected(6), [6]),
        (grid(3, 4), [3, 4]),
        (grid(3, 5, wrap=True), [3, 5]),
        (grid(4, 4, wrap=True), [2, 2, 2, 2]),
        (grid(5, 6, 2, wrap=True), [2, 5, 6]),
        (hypercube(4), [2, 2, 2, 2]),
        (dgx1(), [2, 4]),
        (ring(4, one_way=True), []),
    ],
)
def test_the_factors_of_products(net: Network, sizes: list[int]) -> None:
    for seed in range(3):
        near = shuffled(net, seed)
        factors = cartesian_factors(near)
        lines = [components([factor]) for factor in factors]
        assert sorted({len(line) for line in found}.pop() for found in lines) == sizes
        assert all(len({len(line) for line in found}) == 1 for found in lines)
        if factors:
            assert components(factors) == [tuple(range(net.npu_count))]
            assert {v: set().union(*(factor[v] for factor in factors)) for v in near} == near
