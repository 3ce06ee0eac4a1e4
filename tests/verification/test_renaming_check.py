"""The check of renamings refuses all that are wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collc.ten.parts import Part
from collc.verification.renaming_check import is_automorphism, keeps_demand, wrong_renaming
from tests.support import all_gather, all_reduce, broadcast, grid, ring, switched


def test_shifts_of_a_ring_are_automorphisms_and_exchanges_are_not() -> None:
    network = ring(5)
    shift = (np.arange(5, dtype=np.int32) + 1) % 5
    assert is_automorphism(network, shift)
    assert not is_automorphism(network, np.array([1, 0, 2, 3, 4], np.int32))
    assert not is_automorphism(network, np.zeros(5, np.int32))
    one_way = ring(5, one_way=True)
    assert not is_automorphism(one_way, np.arange(5, dtype=np.int32)[::-1])


def test_properties_of_devices_and_links_count() -> None:
    network = switched(4)
    moved = np.array([1, 0, 2, 3, 4], np.int32)
    assert is_automorphism(network, moved)
    present = network.present.copy()
    present[0] = False
    assert not is_automorphism(replace(network, present=present), moved)
    assert not is_automorphism(network, np.array([4, 1, 2, 3, 0], np.int32))
    limits = np.array([0, 1, 1, 1], np.int32)
    assert not is_automorphism(replace(network, endpoint=limits), moved)
    kind = network.kind.copy()
    kind[0] = 1
    assert not is_automorphism(replace(network, kind=kind, kinds=network.kinds * 2), moved)
    torus = grid(3, 3, wrap=True)
    swapped = np.arange(9, dtype=np.int32).reshape(3, 3).T.reshape(-1)
    assert is_automorphism(torus, swapped)


def test_runs_go_to_runs_with_the_same_arguments() -> None:
    shift = np.array([1, 2, 3, 0], np.int32)
    assert keeps_demand(all_gather([0, 1, 2, 3]), shift)
    assert keeps_demand(all_reduce([3, 1, 2, 0]), shift)
    assert not keeps_demand(all_gather([0, 1]), shift)
    assert not keeps_demand(broadcast([0, 1, 2, 3], root=0), shift)
    assert keeps_demand(broadcast([0, 1, 2, 3], root=0), np.array([0, 2, 1, 3], np.int32))


def test_a_renaming_that_leads_elsewhere_is_found() -> None:
    parts = [Part(f"p{k}", (), tuple(sorted([(k, (k + 1) % 4), ((k + 1) % 4, k)]))) for k in range(4)]
    parts.append(Part("n", (0,)))
    shift = np.array([1, 2, 3, 0], np.int32)
    singles, first = np.arange(5)[:, None], np.array([0, 0, 0, 0, 4])
    words = [[], [shift], [shift, shift], [shift] * 3, []]
    assert wrong_renaming(parts, singles, first, words) == -1
    assert wrong_renaming(parts, singles, first, [*words[:2], [shift], *words[3:]]) == 2
    assert wrong_renaming(parts, singles, np.array([0, 0, 0, 0, 0]), words) == 4
    pairs = np.array([[0, 1], [1, 2], [0, 2]])
    assert wrong_renaming(parts, pairs, np.zeros(3, np.int64), [[], [shift], [shift]]) == 2
