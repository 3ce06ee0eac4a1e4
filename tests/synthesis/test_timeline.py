from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collc.synthesis.timeline import SlotTimeline, Timeline, interval_table, link_timelines
from collc.ten.schedule import Clock, Transfers

LAST = 24
INTERVAL = st.tuples(st.integers(0, LAST - 1), st.integers(1, 5)).map(lambda pair: (pair[0], pair[0] + pair[1]))
INTERVALS = st.lists(INTERVAL, max_size=8)


def occupied(intervals: list[tuple[int, int]], time: int) -> int:
    """How many intervals a time is in."""
    return sum(start <= time < end for start, end in intervals)


def is_free(intervals: list[tuple[int, int]], start: int, length: int) -> bool:
    return not any(occupied(intervals, time) for time in range(start, start + length))


def reserved(intervals: list[tuple[int, int]]) -> Timeline:
    timeline = Timeline()
    for start, end in intervals:
        timeline.reserve(start, end)
    return timeline


@given(INTERVALS)
def test_reserved_intervals_are_merged_where_they_meet(intervals: list[tuple[int, int]]) -> None:
    timeline = reserved(intervals)
    times = range(LAST + 6)
    changes = [t for t in times if bool(occupied(intervals, t)) != bool(t and occupied(intervals, t - 1))]
    assert list(zip(timeline.starts, timeline.ends, strict=True)) == list(zip(changes[::2], changes[1::2], strict=True))


@given(INTERVALS, st.integers(0, LAST), st.integers(1, 6))
def test_the_next_free_start_is_the_first(intervals: list[tuple[int, int]], time: int, length: int) -> None:
    first = next(t for t in range(time, 3 * LAST) if is_free(intervals, t, length))
    assert reserved(intervals).next_free(time, length) == first


@given(INTERVALS, st.integers(0, LAST), st.integers(0, 12), st.integers(1, 6))
def test_the_last_free_start_is_the_last(intervals: list[tuple[int, int]], time: int, more: int, length: int) -> None:
    timeline = reserved(intervals)
    first = timeline.next_free(time, length)
    last = max(t for t in range(first, first + more + 1) if is_free(intervals, t, length))
    assert timeline.last_free(first, first + more, length) == last


@given(INTERVALS, st.integers(1, 3), INTERVAL, st.integers(1, 4))
def test_a_buffer_is_full_where_all_slots_are_occupied(
    intervals: list[tuple[int, int]], size: int, asked: tuple[int, int], least: int
) -> None:
    timeline = SlotTimeline(size)
    for start, end in intervals:
        timeline.reserve(start, end)
    full = [t for t in range(*asked) if occupied(intervals, t) >= size]
    found = timeline.full_until(*asked, least)
    if not full:
        assert found == -1
        return
    free = (t for t in range(full[-1] + 1, 2 * LAST) if all(occupied(intervals, t + k) < size for k in range(least)))
    assert found == next(free)


def test_the_timelines_of_links_are_those_of_their_transfers() -> None:
    transfers = Transfers.of(
        np.array([0, 1, 2]), np.array([4, 2, 4]), np.array([7, 0, 1], np.int64)
    )  # in order of start: links 2, 4, 4
    busy, zeros = np.array([[3, 5, 2]]), np.zeros(5, np.int32)
    clock = Clock(busy, busy, np.array([2, 0, 1], np.int32), zeros)
    found = link_timelines(transfers, clock)
    assert {link: (t.starts, t.ends) for link, t in found.items()} == {4: ([1, 7], [6, 9]), 2: ([0], [3])}
    assert link_timelines(None, clock) == {}


def test_the_table_of_intervals_has_those_of_each_link_in_turn() -> None:
    first, starts, ends = interval_table({0: reserved([(4, 6), (1, 2)]), 2: reserved([(0, 9)])}, [2, 1, 0])
    assert (first.tolist(), starts.tolist(), ends.tolist()) == ([0, 1, 1, 3], [0, 1, 4], [9, 2, 6])
