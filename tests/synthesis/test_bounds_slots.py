"""Bounds by the slots of switches: never above the optimum by brute force, equal to it if slots decide."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.synthesis.bounds import ideal_bound, lower_bound
from collc.ten.demand import Op
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from tests.support import all_gather, all_to_all, demand_of, network, reduce_scatter

STEP = LinkKind(0, Fraction(10**9))
"""1,000 bytes take a microsecond."""

MOST_WORK = 3_000
"""Followers of states."""


def least_steps(
    npus: int,
    slots: list[int],
    links: list[tuple[int, int]],
    pre: list[list[int]],
    post: list[list[int]],
    most: int = MOST_WORK,
) -> int | None:
    """The fewest unit steps of copies over switches without multicast, by breadth-first search; None if that takes
    too much work. What leaves a switch may stay in its slot too."""
    held = tuple(frozenset(c for c, holders in enumerate(pre) if npu in holders) for npu in range(npus))
    goal = [(npu, c) for c, wanting in enumerate(post) for npu in wanting]
    states = {(held, tuple(() for _ in slots))}
    work = 0
    for steps in range(14):
        if any(all(c in at[npu] for npu, c in goal) for at, _ in states):
            return steps
        grown = set()
        for after in (after for state in states for after in followers(npus, slots, links, state)):
            grown.add(after)
            work += 1
            if work > most:
                return None
        states = grown
    return None


def followers(npus, slots, links, state):
    held, stored = state
    groups: dict[int, list[tuple[int, int]]] = {}  # links that the slots of one switch limit together
    for a, b in links:
        groups.setdefault(max(a, b) * 2 + (b > a), []).append((a, b))
    options = []
    for number, group in groups.items():
        most = slots[number // 2 - npus] if number // 2 >= npus else len(group)
        fits = [[None, *useful(held[a] if a < npus else set(stored[a - npus]), b, npus, held)] for a, b in group]
        options.append([moves for moves in itertools.product(*fits) if len(group) - moves.count(None) <= most])
    ordered = [link for group in groups.values() for link in group]
    for chosen in itertools.product(*options):
        moves = [move for part in chosen for move in part]
        at, left, coming = [set(h) for h in held], [Counter() for _ in slots], [Counter() for _ in slots]
        for (a, b), chunk in zip(ordered, moves, strict=True):
            if chunk is not None and a >= npus:
                left[a - npus][chunk] += 1
            if chunk is not None and b >= npus:
                coming[b - npus][chunk] += 1
            elif chunk is not None:
                at[b].add(chunk)
        if any(left[s] - Counter(stored[s]) for s in range(len(slots))):
            continue  # one link at a time reads a slot
        rest = [choices(Counter(stored[s]), left[s], coming[s], slots[s]) for s in range(len(slots))]
        for after in itertools.product(*rest):
            yield tuple(map(frozenset, at)), after


def useful(here, b, npus, held):
    return [chunk for chunk in here if b >= npus or chunk not in held[b]]


def choices(stored, left, coming, slots):
    """What a switch may hold next: what has left is dropped or kept, and all fits."""
    kept = list((stored - left).elements()) + list(coming.elements())
    again = list(left.elements())
    found = {tuple(sorted([*kept, *some])) for n in range(len(again) + 1) for some in itertools.combinations(again, n)}
    return [one for one in found if len(one) <= slots]


@st.composite
def with_few_slots(draw: st.DrawFn):
    """Two to four NPUs on one or two switches, perhaps a link beside them, and up to three chunks."""
    npus, switches = draw(st.sampled_from([(2, 1), (3, 1), (3, 2), (4, 1)]))
    links: set[tuple[int, int]] = set()
    for npu in range(npus):
        for switch in draw(st.sampled_from([(0,), (switches - 1,), tuple(range(switches))])):
            links |= {(npu, npus + switch), (npus + switch, npu)}
    if draw(st.booleans()):
        links.add((0, 1))
    if switches == 2 and draw(st.booleans()):
        links |= {(npus, npus + 1), (npus + 1, npus)}
    slots = draw(st.lists(st.integers(1, 2), min_size=switches, max_size=switches))
    ends = st.lists(st.integers(0, npus - 1), min_size=1, max_size=2, unique=True)
    chunks = draw(st.integers(1, 3 if npus < 4 else 2))
    return npus, slots, sorted(links), [draw(ends) for _ in range(chunks)], [draw(ends) for _ in range(chunks)]


def limited(npus: int, slots: list[int], links: list[tuple[int, int]], kind: LinkKind = STEP) -> Network:
    net = network(npus, [(a, b, kind) for a, b in links], len(slots))
    return replace(net, buffers=np.array(slots, np.int64))


@settings(max_examples=12, deadline=None)
@given(with_few_slots())
def test_never_above_the_least_steps_of_copies_and_their_inverse(problem) -> None:
    npus, slots, links, pre, post = problem
    best = least_steps(npus, slots, links, pre, post)
    if best is not None:
        demand = demand_of([(1000, a, b, Op.COPY) for a, b in zip(pre, post, strict=True)])
        for model in LinkModel:
            assert lower_bound(limited(npus, slots, links), demand, model).time <= best * 10**6


def star(npus: int) -> list[tuple[int, int]]:
    return [link for npu in range(npus) for link in ((npu, npus), (npus, npu))]


@pytest.mark.parametrize("slots", [1, 2])
def test_it_is_the_optimum_of_a_switch_with_few_slots(slots: int) -> None:
    """Each of four chunks, or of two that two NPUs want, takes a slot for a step, after a step on the way in."""
    pairs = [([0], [1]), ([0], [2]), ([1], [2]), ([2], [0])]
    copies = [([0], [0, 1, 2]), ([1], [0, 1, 2])]
    for rows in (pairs, copies):
        best = least_steps(3, [slots], star(3), [a for a, _ in rows], [b for _, b in rows], 40_000)
        assert best == 1 + 4 // slots
        demand = demand_of([(1000, a, b, Op.COPY) for a, b in rows])
        bound = lower_bound(limited(3, [slots], star(3)), demand, LinkModel.STORE)
        assert bound.time == best * 10**6


def two_levels(nodes: int, size: int, slots: int) -> Network:
    """Nodes of NPUs on a fast switch each, and a slow switch for each place in a node; all with `slots` slots."""
    count, fast, slow = nodes * size, LinkKind(0, Fraction(10**10)), STEP
    links: list[tuple[int, int, LinkKind]] = []
    for npu in range(count):
        for switch, kind in ((count + npu // size, fast), (count + nodes + npu % size, slow)):
            links += [(npu, switch, kind), (switch, npu, kind)]
    net = network(count, links, nodes + size)
    return replace(net, buffers=np.full(nodes + size, slots))


@pytest.mark.parametrize("model", LinkModel)
def test_all_that_passes_between_nodes_takes_slots_of_the_slow_switches(model: LinkModel) -> None:
    """Eight nodes of two NPUs: 7/8 of all bytes pass two switches, of which two links each may be busy. Each set of
    devices alone has enough links: that bound is a quarter of it."""
    net, group = two_levels(8, 2, 2), list(range(16))
    for make, crossing in ((all_to_all, 16 * 14), (all_gather, 8 * 14), (reduce_scatter, 8 * 14)):
        demand = make(group, 1000)
        at_once = 2 * 2
        ideal = ideal_bound(net, demand, model)
        assert (ideal.time, ideal.name) == (crossing * 10**6 // at_once, "the buffer of switch[8] and 1 more switch")
        late = lower_bound(net, demand, model).time - ideal.time
        assert 10**5 <= late <= 2 * 10**6  # until the first chunk is there, and the last has got on


def test_latencies_take_slots_where_links_store() -> None:
    """Of six chunks, each takes a slot for 2 us; with one slot that is 12 us, after 2 us."""
    net = limited(3, [1], star(3), LinkKind(10**6, Fraction(10**9)))
    demand = all_to_all([0, 1, 2], 1000)
    assert lower_bound(net, demand, LinkModel.STORE).time == 14 * 10**6
    assert lower_bound(net, demand, LinkModel.PIPELINED).time == 9 * 10**6


def test_slots_bind_no_more_than_what_reads_them() -> None:
    """A switch that copies sends all three NPUs a chunk from one slot; one that adds up needs one slot for a sum."""
    net = limited(4, [1], star(4))
    copied = lower_bound(replace(net, multicast=np.array([True])), all_gather([0, 1, 2, 3], 1000), LinkModel.STORE)
    assert copied.time == 5 * 10**6
    assert lower_bound(net, all_gather([0, 1, 2, 3], 1000), LinkModel.STORE).time == 13 * 10**6
    summed = lower_bound(replace(net, reduces=np.array([True])), reduce_scatter([0, 1, 2, 3], 1000), LinkModel.STORE)
    assert summed.time == 4 * 10**6
    assert lower_bound(net, reduce_scatter([0, 1, 2, 3], 1000), LinkModel.STORE).time == 13 * 10**6
