"""Timetables of classes of links: the kernel against brute force, and what moves to which NPU."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.graph.translations import find_translations
from collc.kernels.compiled import compile_kernel, numbers, zeros
from collc.kernels.first_gaps import first_gaps
from collc.synthesis.symmetric.class_timetable import ClassTimes, ClassTimetable
from collc.ten.schedule import LinkModel
from tests.support import network, switched
from tests.synthesis.clusters import NIC, both

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 5)), max_size=8)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=10), st.integers(1, 6), INTERVALS)
@settings(max_examples=80, deadline=None)
def test_gaps_are_the_first_that_fit(ready: list[int], taken: int, wanted: list[tuple[int, int]]) -> None:
    ready.sort()
    busy = set[int]()
    reserved: list[tuple[int, int]] = []
    for begin, length in sorted(wanted):
        if not busy & set(range(begin, begin + length)):
            busy |= set(range(begin, begin + length))
            reserved.append((begin, begin + length))
    columns = np.array(reserved, np.int64).reshape(-1, 2).T.copy()
    found: list[list[int]] = []
    for compile_it in (False, True):
        start = zeros(len(ready), compile_it)
        kernel = compile_kernel(first_gaps) if compile_it else first_gaps
        since = numbers(np.array(ready, np.int64), compile_it)
        kernel(since, taken, *(numbers(column.copy(), compile_it) for column in columns), start)
        found.append([int(at) for at in start])
    expected: list[int] = []
    free = 0
    for since in ready:
        at = max(since, free)
        while busy & set(range(at, at + taken)):
            at += 1
        expected.append(at)
        free = at + taken
    assert found == [expected, expected]


def test_what_would_wait_in_a_switch_leaves_later() -> None:
    """Two GPUs on each of two switches that one link joins: its class takes two turns for each transfer."""
    ends = [link for n in range(4) for link in both(n, 4 + n // 2, NIC)]
    net = network(4, [*ends, *both(4, 5, NIC)], switches=2, shape=(2, 2))
    group = find_translations(net)
    assert group is not None
    times = ClassTimes.of(net, group, LinkModel.STORE, 50_000)
    up, across, down = (
        int(np.flatnonzero((net.source == a) & (net.target == b))[0]) for a, b in ((0, 4), (4, 5), (5, 2))
    )
    length = int(times.taken[up])
    assert [int(times.taken[across]), int(times.window[across]), int(times.turn[across])] == [
        2 * length,
        2 * length,
        length,
    ]
    table = ClassTimetable(group, times)
    starts, arrivals = table.append(np.array([[up, across, down]] * 3, np.int32), np.zeros(3, np.int64))
    assert (starts // length).tolist() == [[0, 1, 3], [2, 3, 5], [4, 5, 7]]
    assert (arrivals // length).tolist() == [4, 6, 8]
    local = np.array([[up, int(np.flatnonzero((net.source == 4) & (net.target == 1))[0])]] * 2, np.int32)
    starts, arrivals = table.append(local, np.zeros(2, np.int64))
    assert (starts // length).tolist() == [[1, 2], [3, 4]]  # the gaps between
    assert (arrivals // length).tolist() == [3, 5]


def test_a_class_that_comes_twice_on_a_route_is_served_hop_by_hop() -> None:
    net = switched(3)
    group = find_translations(net)
    assert group is not None
    times = ClassTimes.of(net, group, LinkModel.STORE, 50_000)
    up, down = 0, 1
    table = ClassTimetable(group, times)
    starts, arrivals = table.append(np.array([[up, down, up, down]] * 2, np.int32), np.zeros(2, np.int64))
    length = int(times.taken[up])
    assert (starts // length).tolist() == [[0, 1, 2, 3], [1, 2, 3, 4]]
    assert (arrivals // length).tolist() == [4, 5]
