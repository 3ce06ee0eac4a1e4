"""Ranges of sizes against all ways to divide them."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest

from collc.tuning.ranges import SizeRange, fewest_ranges


def partitions(count: int):
    """All ways to divide positions 0 .. count - 1 into consecutive parts."""
    for cuts in itertools.product([False, True], repeat=count - 1):
        ends = [at for at, cut in enumerate(cuts) if cut] + [count - 1]
        yield list(zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True))


def least(times, tolerance, count, starts, otherwise=None):
    """(sizes beyond the tolerance, ranges, sum of slowdowns) of the best division, by trying all.

    otherwise: what serves as a last candidate, which may begin anywhere, and than which the others must be faster.
    """
    if otherwise is not None:
        faster = [
            [t if t is not None and t < o else None for t, o in zip(row, otherwise, strict=True)] for row in times
        ]
        times = [*faster, otherwise]
    best = None
    for parts in partitions(count):
        beyond, total = 0, Fraction(0)
        for begin, end in parts:
            sums = []
            begins = not begin or starts is None or starts[begin]
            for row in times if begins else [otherwise] if otherwise else []:
                slow = [
                    Fraction(row[at], min(r[at] for r in times if r[at] is not None)) if row[at] else None
                    for at in range(begin, end + 1)
                ]
                if None not in slow:
                    sums.append((sum(ratio > 1 + tolerance for ratio in slow), sum(slow)))
            if not sums:
                break
            beyond, total = beyond + min(sums)[0], total + min(sums)[1]
        else:
            cost = (beyond, len(parts), total)
            best = min(best, cost) if best else cost
    return best


@pytest.mark.parametrize("seed", range(60))
def test_against_all_divisions(seed: int) -> None:
    rng = random.Random(seed)
    count, candidates = rng.randint(1, 7), rng.randint(1, 4)
    sizes = [1024 << at for at in range(count)]
    times = [[rng.choice([None, *range(90, 130)]) for _ in sizes] for _ in range(candidates)]
    times.append([rng.randint(95, 140) for _ in sizes])
    starts = [rng.random() < 0.7 for _ in sizes] if seed % 2 else None
    tolerance = Fraction(rng.choice([0, 5, 20]), 100)
    expected = least(times, tolerance, count, starts)
    if expected is None:
        with pytest.raises(ValueError, match="may begin"):
            fewest_ranges(sizes, times, tolerance, starts)
        return
    found = fewest_ranges(sizes, times, tolerance, starts)
    assert len(found) == expected[1]
    check(found, sizes)
    total = Fraction(0)
    for at, size in enumerate(sizes):
        if starts is not None:
            continue
        one = next(r for r in found if r.low <= size <= r.high)
        best = min(row[at] for row in times if row[at] is not None)
        time = times[one.candidate][at]
        assert time is not None
        assert time <= (1 + tolerance) * best
        total += Fraction(time, best)
    assert starts is not None or total == expected[2]


@pytest.mark.parametrize("seed", range(60))
def test_candidates_serve_only_where_they_are_faster(seed: int) -> None:
    """As many ranges as the best of all divisions has, with those of no candidate, and only faster candidates."""
    rng = random.Random(seed)
    count = rng.randint(1, 7)
    sizes = [1024 << at for at in range(count)]
    times = [[rng.choice([None, *range(90, 130)]) for _ in sizes] for _ in range(rng.randint(0, 3))]
    otherwise = [rng.randint(85, 140) for _ in sizes]
    starts = [rng.random() < 0.7 for _ in sizes] if seed % 2 else None
    tolerance = Fraction(rng.choice([0, 5, 20]), 100)
    expected = least(times, tolerance, count, starts, otherwise)
    if expected is None:
        with pytest.raises(ValueError, match="may begin"):
            fewest_ranges(sizes, times, tolerance, starts, otherwise)
        return
    found = fewest_ranges(sizes, times, tolerance, starts, otherwise)
    edges = [sizes[0], *(edge for one in found for edge in (one.low, one.high + 1)), sizes[-1] + 1]
    gaps = sum(low < high for low, high in zip(edges[::2], edges[1::2], strict=True))
    assert len(found) + gaps == expected[1]
    for one in found:
        for at, size in enumerate(sizes):
            if one.low <= size <= one.high:
                assert times[one.candidate][at] < otherwise[at]


def check(found: list[SizeRange], sizes: list[int]) -> None:
    """No gap and no overlap, from the first to the last size."""
    assert found[0].low == sizes[0]
    assert found[-1].high == sizes[-1]
    for before, after in itertools.pairwise(found):
        assert before.low <= before.high
        assert after.low == before.high + 1


def test_a_range_begins_where_its_candidate_becomes_faster() -> None:
    """a: 10 + s, b: 26 + s / 2 cross at 32, between 16 and 64: the first of 16 sizes from there is 34."""
    sizes = [1, 4, 16, 64, 256]
    a, b = [10 + s for s in sizes], [26 + s // 2 for s in sizes]
    found = fewest_ranges(sizes, [a, b], Fraction(0))
    assert [(r.low, r.high, r.candidate) for r in found] == [(1, 33, 0), (34, 256, 1)]


def test_sizes_that_nothing_serves() -> None:
    sizes = [1, 2, 4, 8]
    assert fewest_ranges(sizes, [[None] * 4], Fraction(0)) == []
    assert fewest_ranges(sizes, [], Fraction(0)) == []
    assert fewest_ranges(sizes, [[None, 5, 5, None]], Fraction(0)) == [SizeRange(2, 4, 0)]
    with pytest.raises(ValueError, match="middle"):
        fewest_ranges(sizes, [[5, None, 5, 5]], Fraction(0))
