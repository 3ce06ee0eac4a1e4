"""The dimensions of networks that are no products, against products of the same networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from operator import mul

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.graph.coordinates import with_axes
from collc.ten.network import LinkKind, Network
from collc.ten.transform import product, remove_parts
from tests.support import DEFAULT, dragonfly, fully_connected, grid, hypercube, network, ring, switched

FACTORS = {"ring": ring, "fully_connected": fully_connected, "switched": switched, "line": grid}


def as_product(factors: Sequence[tuple[str, int]]) -> Network:
    name, size = factors[0]
    whole = FACTORS[name](size)
    for next_name, next_size in factors[1:]:
        whole = product(whole, FACTORS[next_name](next_size), "net", (name, next_name))
    return whole


def plain(whole: Network) -> Network:
    """The network as if it was no product."""
    return replace(whole, axes=(), link_axis=np.empty(0, np.int8))


factors = st.lists(st.tuples(st.sampled_from(list(FACTORS)), st.integers(4, 5)), min_size=1, max_size=3)


@settings(deadline=None, max_examples=20)
@given(factors)
def test_dimensions_of_a_product_are_found_again(chosen: list[tuple[str, int]]) -> None:
    whole = as_product(chosen)
    found = with_axes(plain(whole))
    assert [(axis.kind, axis.size) for axis in found.axes] == chosen
    if whole.axes:
        assert found.link_axis.tolist() == whole.link_axis.tolist()
        assert with_axes(whole).axes == whole.axes


@pytest.mark.parametrize(
    ("built", "kinds", "sizes"),
    [
        (grid(4, 3, 5, wrap=True), ["ring"] * 3, [5, 3, 4]),
        (grid(3, 4), ["line"] * 2, [4, 3]),
        (hypercube(4), ["ring"] * 4, [2] * 4),
        (ring(6, one_way=True), ["ring"], [6]),
        (fully_connected(3), ["ring"], [3]),
    ],
)
def test_links_join_neighbours_of_their_dimension(built: Network, kinds: list[str], sizes: list[int]) -> None:
    found = with_axes(built)
    assert [axis.kind for axis in found.axes] == kinds
    assert [axis.size for axis in found.axes] == sizes
    strides = list(accumulate(sizes, mul, initial=1))
    for source, target, axis in zip(
        built.source.tolist(), built.target.tolist(), found.link_axis.tolist(), strict=True
    ):
        own = [k for k, (low, high) in enumerate(pairwise(strides)) if source % high // low != target % high // low]
        assert own == [axis]


def test_the_name_of_the_template_counts_where_it_fits() -> None:
    assert with_axes(fully_connected(3), "fully_connected").axes[0].kind == "fully_connected"
    assert with_axes(fully_connected(4), "ring").axes[0].kind == "fully_connected"


def test_factors_of_users_are_known_by_their_structure() -> None:
    mixed = product(ring(4), switched(3), "net", ("ring", "mine"))
    assert [axis.kind for axis in with_axes(mixed).axes] == ["ring", "switched"]
    torus = product(grid(3, 3, wrap=True), ring(4), "net", ("torus2d", "ring"))
    assert [axis.kind for axis in with_axes(torus).axes] == ["torus2d", "ring"]


def rails(domains: int, size: int, spine: bool) -> Network:
    """A switch for each domain, one for each rail, and perhaps one that joins the rails."""
    count, links = domains * size, list[tuple[int, int, LinkKind]]()
    for npu in range(count):
        for switch in (count + npu // size, count + domains + npu % size):
            links += [(npu, switch, DEFAULT), (switch, npu, DEFAULT)]
    top = count + domains + size
    for rail in range(size if spine else 0):
        links += [(count + domains + rail, top, DEFAULT), (top, count + domains + rail, DEFAULT)]
    return network(count, links, switches=domains + size + spine, shape=(domains, size))


@pytest.mark.parametrize("spine", [False, True])
def test_rails_are_a_dimension(spine: bool) -> None:
    found = with_axes(rails(3, 4, spine))
    assert [(axis.kind, axis.size) for axis in found.axes] == [("switched", 4), ("switched", 3)]
    assert np.bincount(found.link_axis).tolist() == [24, 24 + (8 if spine else 0)]


@pytest.mark.parametrize(
    "unknown",
    [
        dragonfly(4, 4, DEFAULT, DEFAULT),
        remove_parts(grid(4, 4, wrap=True), [], np.array([0])),
        remove_parts(grid(4, 4, wrap=True), [5], np.array([], np.int64)),
        remove_parts(switched(4), [], np.array([0, 1])),
    ],
)
def test_other_networks_have_none(unknown: Network) -> None:
    assert with_axes(unknown) is unknown
