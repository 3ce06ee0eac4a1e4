"""Matching in steps by bipartite matchings: plain Python, for small networks where all transfers take equal time.

In each step every link takes at most one chunk. A link has one target, so the matching of a step falls apart by
target: the incoming links of each device share out the chunks that it wants and their sources hold (TACOS, algorithm
2, which chooses at random over all links instead).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from collc.graph.matching import extend_matching, first_by_class
from collc.synthesis.conditions import members_of
from collc.synthesis.tacos.problem import CopyProblem

StepRow = list[int]
"""A chunk number, or -1, for each link."""

Choose = Callable[[list[int], list[int]], list[int]]
"""From the wanted chunks that each incoming link could bring, and from the chunks by how many devices have them, the
fewest first (all bit sets): the bit of the chunk that each link takes, or 0."""


def matched_rows(problem: CopyProblem, choose: Choose, rng: random.Random | None, limit: int) -> list[StepRow] | None:
    """Plans all transfers, matching chunks to the links of each device in each step by `choose`.

    rng: renumbers the chunks, and so breaks ties otherwise. None if it takes more than `limit` steps.
    """
    names = list(range(problem.count))
    if rng:
        rng.shuffle(names)
    have, need = (_renumbered(bits, names) for bits in problem.bits())
    spread = [0] * problem.count
    for bits in have:
        for chunk in members_of(bits):
            spread[chunk] += 1
    by_spread = [0] * (problem.devices + 1)
    for chunk, holders in enumerate(spread):
        by_spread[holders] |= 1 << chunk
    back = [0] * problem.count
    for old, new in enumerate(names):
        back[new] = old
    ends = [(v, [k for k, _ in links], [u for _, u in links]) for v, links in enumerate(problem.sources()) if links]
    left = problem.missing
    rows: list[StepRow] = []
    while left:
        if len(rows) == limit:
            return None
        row = [-1] * problem.network.link_count
        news: list[tuple[int, int]] = []
        classes = [mask for mask in by_spread if mask]
        for v, links, sources in ends:
            lacks = need[v]
            if not lacks:
                continue
            for link, bit in zip(links, choose([have[u] & lacks for u in sources], classes), strict=True):
                if bit:
                    row[link] = back[bit.bit_length() - 1]
                    news.append((v, bit))
        for v, bit in news:
            have[v] |= bit
            need[v] ^= bit
            chunk = bit.bit_length() - 1
            by_spread[spread[chunk]] ^= bit
            spread[chunk] += 1
            by_spread[spread[chunk]] |= bit
        left -= len(news)
        rows.append(row)
    return rows


def fewest_alternatives(candidates: list[int], by_spread: list[int]) -> list[int]:
    """A maximum matching in which chunks that the fewest of the links could bring go first, of these the rarest."""
    links = len(candidates)
    at_least = [0] * (links + 1)
    for held in candidates:
        for count in range(links, 1, -1):
            at_least[count] |= at_least[count - 1] & held
        at_least[1] |= held
    chosen = [0] * links
    taken = 0
    idle = links
    for count in range(1, links + 1):
        exact = at_least[count] & ~at_least[count + 1] if count < links else at_least[count]
        if not exact:
            continue
        for link, held in enumerate(candidates):
            if not chosen[link]:
                free = held & exact & ~taken
                if free:
                    bit = first_by_class(free, by_spread)
                    chosen[link] = bit
                    taken |= bit
                    idle -= 1
        if not idle:
            return chosen
    extend_matching(candidates, chosen, by_spread)
    return chosen


def _renumbered(sets: list[int], names: list[int]) -> list[int]:
    if all(old == new for old, new in enumerate(names)):
        return sets
    return [sum(1 << names[chunk] for chunk in members_of(bits)) for bits in sets]
