"""Canonical positions of marked NPUs: each is a symmetry, and members of a class have one position."""

from __future__ import annotations

import random

import numpy as np
import pytest

import collc
from collc.graph.automorphisms import Automorphisms
from collc.graph.canonical_sets import CanonicalPositions
from collc.graph.symmetries import find_symmetries

LINK = {"bandwidth": "50GiB/s", "latency": "0.5us"}
NETWORKS = {
    "cluster": (collc.Network.of("dgx_h100", 3), 0),
    "ring": (collc.Network.of("ring", 12, **LINK), 0),
    "torus": (collc.Network.torus(4, 4, **LINK), 4),
    "mesh": (collc.Network.mesh(3, 4, **LINK), 4),
}
"""With the number of classes of 20 that may have several positions, since not all choices are tried."""


@pytest.mark.parametrize("name", NETWORKS)
def test_members_of_a_class_have_one_position(name: str) -> None:
    declared, most = NETWORKS[name]
    network = declared.elaborate()
    symmetries = find_symmetries(network, lambda _npus: True)
    positions, automorphisms = CanonicalPositions(symmetries), Automorphisms(network)
    rng = random.Random(3)
    several = 0
    for _ in range(20):
        npus = np.array(rng.sample(range(network.npu_count), rng.randint(1, 6)), np.int32)
        colours = np.array([rng.choice([1, 1, 2]) for _ in npus], np.uint64)
        forms = set()
        for _ in range(4):
            devices = np.arange(network.device_count)
            for _ in range(6):
                devices = rng.choice(symmetries.all).devices[devices]
            moved = devices[npus].astype(np.int32)
            order = rng.sample(range(len(npus)), len(npus))
            position = positions.find(moved[order], colours[order])
            assert automorphisms.extend(position) is not None
            forms.add(tuple(sorted(zip(position[moved].tolist(), colours.tolist(), strict=True))))
        several += len(forms) > 1
    assert several <= most


def test_exchangeable_slices_that_differ_keep_what_joins_them() -> None:
    """Two NPUs on one rail of two nodes, and on two rails, are two classes, wherever they are."""
    network = collc.Network.of("dgx_h100", 3).elaborate()
    positions = CanonicalPositions(find_symmetries(network, lambda _npus: True))

    def form(*npus: int) -> tuple[int, ...]:
        chosen = np.array(npus, np.int32)
        return tuple(sorted(positions.find(chosen, np.ones(len(npus), np.uint64))[chosen].tolist()))

    assert {form(3, 11), form(7, 23), form(8, 16)} == {(0, 8)}
    assert {form(3, 12), form(7, 16), form(23, 8)} == {(0, 9)}
    assert {form(3, 5), form(16, 17)} == {(0, 1)}
