"""Matching in steps, where all transfers take equal time: plain Python, for small networks.

In each step every link takes at most one chunk. The matching of a step falls apart by destination,
since a link has one: each destination shares out among its incoming links the chunks that it wants
and their sources hold (TACOS, algorithm 2, there by random greedy over all links).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from collc.synthesis.conditions import members_of
from collc.synthesis.tacos.problem import CopyProblem

Row = list[int]
"""A chunk number, or -1, for each link."""

Choose = Callable[[list[int], list[int]], list[int]]
"""From the wanted chunks that each incoming link could bring (bit sets) and the masks by rarity, the
bit that each link takes, or 0."""


def fifo_steps(problem: CopyProblem, limit: int) -> list[Row] | None:
    """Each link takes the chunk that its source got first of those its target lacks.

    A cursor per link skips for ever what the target has. None where `limit` steps do not do.
    """
    have, need = problem.bits()
    count = problem.count
    order = [[c for c in range(count) if bits >> c & 1] for bits in have]
    closed = [bytearray(0 if bits >> c & 1 else 1 for c in range(count)) for bits in need]
    cursor = [0] * problem.network.link_count
    ends = [(v, links) for v, links in enumerate(problem.sources()) if links and need[v]]
    left = problem.missing
    rows: list[Row] = []
    while left:
        if len(rows) == limit:
            return None
        row = [-1] * len(cursor)
        news: list[tuple[int, int]] = []
        for v, links in ends:
            shut = closed[v]
            for link, u in links:
                queue = order[u]
                place = cursor[link]
                last = len(queue)
                while place < last and shut[queue[place]]:
                    place += 1
                if place < last:
                    chunk = queue[place]
                    row[link] = chunk
                    shut[chunk] = 1
                    news.append((v, chunk))
                    place += 1
                cursor[link] = place
        for v, chunk in news:
            order[v].append(chunk)
        left -= len(news)
        rows.append(row)
    return rows


def chosen_steps(problem: CopyProblem, choose: Choose, rng: random.Random | None, limit: int) -> list[Row] | None:
    """The matching of each step and destination by `choose`.

    rng: renumbers the chunks, and so breaks ties otherwise. None where `limit` steps do not do.
    """
    names = list(range(problem.count))
    if rng:
        rng.shuffle(names)
    have, need = (_renumbered(bits, names) for bits in problem.bits())
    spread = [0] * problem.count
    for bits in have:
        for chunk in members_of(bits):
            spread[chunk] += 1
    rare = [0] * (problem.devices + 1)
    for chunk, holders in enumerate(spread):
        rare[holders] |= 1 << chunk
    back = [0] * problem.count
    for old, new in enumerate(names):
        back[new] = old
    ends = [(v, [k for k, _ in links], [u for _, u in links]) for v, links in enumerate(problem.sources()) if links]
    left = problem.missing
    rows: list[Row] = []
    while left:
        if len(rows) == limit:
            return None
        row = [-1] * problem.network.link_count
        news: list[tuple[int, int]] = []
        kinds = [mask for mask in rare if mask]
        for v, links, sources in ends:
            lacks = need[v]
            if not lacks:
                continue
            for link, bit in zip(links, choose([have[u] & lacks for u in sources], kinds), strict=True):
                if bit:
                    row[link] = back[bit.bit_length() - 1]
                    news.append((v, bit))
        for v, bit in news:
            have[v] |= bit
            need[v] ^= bit
            chunk = bit.bit_length() - 1
            rare[spread[chunk]] ^= bit
            spread[chunk] += 1
            rare[spread[chunk]] |= bit
        left -= len(news)
        rows.append(row)
    return rows


def fewest_alternatives(candidates: list[int], rare: list[int]) -> list[int]:
    """Chunks that the fewest of the links could bring go first; ties go to the rarest."""
    links = len(candidates)
    at_least = [0] * (links + 1)
    for held in candidates:
        for level in range(links, 1, -1):
            at_least[level] |= at_least[level - 1] & held
        at_least[1] |= held
    chosen = [0] * links
    taken = 0
    idle = links
    for level in range(1, links + 1):
        exact = at_least[level] & ~at_least[level + 1] if level < links else at_least[level]
        if not exact:
            continue
        for link, held in enumerate(candidates):
            if not chosen[link]:
                free = held & exact & ~taken
                if free:
                    bit = _first(free, rare)
                    chosen[link] = bit
                    taken |= bit
                    idle -= 1
        if not idle:
            return chosen
    for link, held in enumerate(candidates):
        if held and not chosen[link]:
            _augment(link, candidates, chosen, rare, set())
    return chosen


def rarest_matching(candidates: list[int], rare: list[int]) -> list[int]:
    """A maximum matching of chunks and links that takes the rarest chunks it can.

    Chunks that can be matched at once form a matroid, so taking them greedily is best.
    """
    chosen = [0] * len(candidates)
    open_links = [link for link, held in enumerate(candidates) if held]
    reach = 0
    for held in candidates:
        reach |= held
    for kind in rare:
        pool = kind & reach
        while pool and open_links:
            bit = pool & -pool
            pool ^= bit
            taken = _place(bit, candidates, chosen, set())
            if taken >= 0:
                open_links = [link for link in open_links if not chosen[link]]
        if not open_links:
            break
    return chosen


def _first(mask: int, rare: list[int]) -> int:
    """The lowest bit of the rarest kind in a mask."""
    for kind in rare:
        found = mask & kind
        if found:
            return found & -found
    return mask & -mask


def _augment(link: int, candidates: list[int], chosen: list[int], rare: list[int], seen: set[int]) -> bool:
    """Gives an idle link a chunk, moving others to other chunks where that makes room."""
    seen.add(link)
    free = candidates[link]
    for bit in chosen:
        free &= ~bit
    if free:
        chosen[link] = _first(free, rare)
        return True
    for other, bit in enumerate(chosen):
        if other not in seen and candidates[link] & bit and _augment(other, candidates, chosen, rare, seen):
            chosen[link] = bit
            return True
    return False


def _place(bit: int, candidates: list[int], chosen: list[int], seen: set[int]) -> int:
    """Matches one more chunk, moving matched ones to other links; the link that it took, or -1."""
    for link, held in enumerate(candidates):
        if held & bit and link not in seen:
            seen.add(link)
            if not chosen[link] or _place(chosen[link], candidates, chosen, seen) >= 0:
                chosen[link] = bit
                return link
    return -1


def _renumbered(sets: list[int], names: list[int]) -> list[int]:
    if all(old == new for old, new in enumerate(names)):
        return sets
    return [sum(1 << names[chunk] for chunk in members_of(bits)) for bits in sets]
