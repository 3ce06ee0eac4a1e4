"""TPUs are ordered by the coordinates of their chips, which must be those of the program."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from collc.spmd.slices import order_of


def program(z: int, y: int, x: int, *links: tuple[int, int]) -> SimpleNamespace:
    names = [f"chip[{k}, {j}, {i}]" for k, j, i in product(range(z), range(y), range(x))]
    key = np.array([(a, b, 0) for a, b in links]).reshape(-1, 3)
    return SimpleNamespace(name="sum", npus=tuple(names), connections=SimpleNamespace(key=key))


def chips(x: int, y: int, z: int, *, cores: int = 1, begin: int = 0) -> list[SimpleNamespace]:
    places = product(range(begin, begin + x), range(y), range(z), range(cores))
    return [SimpleNamespace(coords=place[:3], core_on_chip=place[3]) for place in places]


def test_the_last_index_is_x():
    order = order_of(program(2, 4, 3, (0, 1), (0, 2), (0, 3), (0, 9), (0, 12)), chips(3, 4, 2))
    assert [device.coords for device in order[:4]] == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 0)]
    assert order[-1].coords == (2, 3, 1)


def test_a_part_of_a_slice_in_which_a_dimension_has_one_chip():
    order = order_of(program(1, 2, 4), chips(4, 2, 1, begin=8))
    assert [device.coords[0] for device in order] == [8, 9, 10, 11] * 2


def test_two_cores_on_a_chip_are_the_last_index():
    order = order_of(program(2, 2, 2), chips(2, 2, 1, cores=2))
    assert [(*device.coords, device.core_on_chip) for device in order[:3]] == [(0, 0, 0, 0), (0, 0, 0, 1), (1, 0, 0, 0)]


@pytest.mark.parametrize("devices", [chips(2, 4, 1), chips(8, 1, 1), chips(2, 2, 1, cores=2)])
def test_another_grid(devices):
    with pytest.raises(ValueError, match=r"the TPUs are a grid of .*, the NPUs of sum one of 2 x 4"):
        order_of(program(1, 2, 4), devices)


def test_npus_without_indices():
    named = program(1, 1, 2)
    named.npus = ("first", "second")
    with pytest.raises(ValueError, match=r"the TPUs are a grid of 2, the NPUs of sum one of 1$"):
        order_of(named, chips(2, 1, 1))


@pytest.mark.parametrize("link", [(0, 5), (0, 2)])
def test_a_message_that_is_no_hop(link):
    order_of(program(1, 2, 5, (0, 4)), chips(5, 2, 1))
    with pytest.raises(ValueError, match=r"sum sends over chip\[0, 0, 0\] -> chip.*no neighbours"):
        order_of(program(1, 2, 4, link), chips(4, 2, 1))


def test_other_devices_keep_their_order():
    devices = [object(), object()]
    assert order_of(program(1, 1, 2), devices) == devices
