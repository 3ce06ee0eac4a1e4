"""Few ranges of sizes, each with one candidate, that together cover all sizes without gap or overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

Times = Sequence[int | None]
"""Picoseconds of a candidate for each size; None if it cannot serve the size."""


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Sizes from `low` to `high`, both included, and the candidate that serves them."""

    low: int
    high: int
    candidate: int


def fewest_ranges(
    sizes: Sequence[int],
    times: Sequence[Times],
    tolerance: Fraction,
    starts: Sequence[bool] | None = None,
    otherwise: Times | None = None,
) -> list[SizeRange]:
    """The fewest ranges in which every size takes at most (1 + tolerance) times the best candidate's time.

    sizes: ascending. times: of each candidate. starts: whether a range may begin at each size (all, if None). If they
    forbid ranges that keep the tolerance everywhere, these keep it at as many sizes as possible.
    otherwise: times without a candidate. Then candidates serve only sizes at which they are faster, and what is served
    without one is left out of the ranges, though it counts as a range and may begin anywhere.
    Of equally many ranges those with the least sum of slowdowns, then the candidates that come first. A range ends as
    soon as the candidate of the next one becomes faster, by interpolation between sizes. Sizes that no candidate serves
    end or begin no range: they are left out at both ends. Raises ValueError if such a size is between others, or if
    what serves a size may not begin.
    """
    alone = len(times)  # the number of what serves without a candidate
    times = times if otherwise is None else [*times, otherwise]
    served = [any(column[place] is not None for column in times) for place in range(len(sizes))]
    if True not in served:
        return []
    first, last = served.index(True), len(served) - 1 - served[::-1].index(True)
    if not all(served[first : last + 1]):
        raise ValueError("no candidate serves a size in the middle")
    segments = _segments(times, first, last, tolerance, starts, alone)
    bounds = [sizes[first]]
    for (_, end, before), (_, _, after) in pairwise(segments):
        bounds.append(first_size_of_later(sizes, times[before], times[after], end))
    highs = [*(bound - 1 for bound in bounds[1:]), sizes[last]]
    ranges = [SizeRange(low, high, segment[2]) for low, high, segment in zip(bounds, highs, segments, strict=True)]
    return [served for served in ranges if served.candidate != alone]


def _segments(
    times: Sequence[Times], first: int, last: int, tolerance: Fraction, starts: Sequence[bool] | None, alone: int
) -> list[tuple[int, int, int]]:
    """(first size, last size, candidate) of each range, by dynamic programming over the last size."""
    # for each size by candidate: whether its time is beyond the tolerance, and its time over the best one
    slowdown: list[dict[int, tuple[int, Fraction]]] = []
    for place in range(first, last + 1):
        known = {c: time for c, row in enumerate(times) if (time := row[place]) is not None}
        least = max(1, min(known.values()))
        limit = known.get(alone)
        slowdown.append(
            {
                c: (int(time > (1 + tolerance) * least), Fraction(time, least))
                for c, time in known.items()
                if c == alone or limit is None or time < limit
            }
        )
    best_to: list[tuple[tuple[int, int, Fraction], tuple[tuple[int, int, int], ...]] | None] = [
        ((0, 0, Fraction(0)), ())
    ]
    for end in range(last + 1 - first):
        best: tuple[tuple[int, int, Fraction], tuple[tuple[int, int, int], ...]] | None = None
        sums = dict(slowdown[end])
        for begin in range(end, -1, -1):
            if begin < end:
                sums = {
                    c: (beyond + slowdown[begin][c][0], total + slowdown[begin][c][1])
                    for c, (beyond, total) in sums.items()
                    if c in slowdown[begin]
                }
            before = best_to[begin]
            if not sums:
                break
            anywhere = starts is None or not begin or starts[first + begin]
            eligible = [c for c in sums if anywhere or c == alone]
            if before is None or not eligible:
                continue
            candidate = min(eligible, key=lambda c: (sums[c], c))
            (beyond, count, total), rows = before
            cost = (beyond + sums[candidate][0], count + 1, total + sums[candidate][1])
            option = (cost, (*rows, (first + begin, first + end, candidate)))
            if best is None or option < best:
                best = option
        best_to.append(best)
    if best_to[-1] is None:
        raise ValueError("no candidate that may begin serves a size")
    return list(best_to[-1][1])


def first_size_of_later(sizes: Sequence[int], before: Times, after: Times, end: int) -> int:
    """Where the later range begins: the first of 16 sizes after sizes[end] for which its candidate is not slower.

    At once if the earlier one does not serve the next size, and the later one does serve sizes[end].
    """
    low, high = sizes[end], sizes[end + 1]
    ends = (before[end], before[end + 1], after[end], after[end + 1])
    if any(time is None for time in ends):
        return low + 1 if before[end + 1] is None and after[end] is not None else high
    a0, a1, b0, b1 = (int(time or 0) for time in ends)
    step = max(1, (high - low) // 16)
    for size in range(low + step, high, step):
        share = Fraction(size - low, high - low)
        if b0 + (b1 - b0) * share <= a0 + (a1 - a0) * share:
            return size
    return high
