"""Cores: NPUs that hold the partials of a chunk between them and exchange them, until each has the whole sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import hop_counts
from collc.graph.factors import cartesian_factors, components
from collc.synthesis.exchange.line_rounds import PartialMessage, Rounds, is_odd_ring, line_rounds
from collc.ten.arrays import Int32Array
from collc.ten.network import Network

MOST_CORES: Final = 4096
"""Cores of one kind that are looked at, at most."""

MOST_PAIRS: Final = 200_000
"""Pairs of links that meet up to which factors and cliques are looked for."""


@dataclass(frozen=True, slots=True)
class Core:
    """NPUs that exchange partials.

    members: NPUs, ascending. radius: links from the members to the NPU of the group that is farthest from them.
    """

    members: tuple[int, ...]
    rounds: Rounds = ()
    radius: int = 0

    @property
    def relays(self) -> bool:
        """Whether an NPU sends on a partial that it keeps apart."""
        return any(message.came_from >= 0 for message in chain.from_iterable(self.rounds))


@dataclass(frozen=True, slots=True)
class CoreKind:
    """Cores with equally many members and rounds."""

    name: str
    cores: tuple[Core, ...]

    @property
    def size(self) -> int:
        """Members of each core."""
        return len(self.cores[0].members)

    @property
    def rounds(self) -> int:
        """Rounds of each core."""
        return len(self.cores[0].rounds)

    def messages(self, chunks: int) -> int:
        """Messages for some chunks in all: to the cores, in them, and back to the NPUs that cores of this kind span."""
        spanned = len({npu for core in self.cores for npu in core.members})
        inside = min(sum(map(len, core.rounds)) for core in self.cores)
        return chunks * (2 * (spanned - self.size) + inside)


def core_kinds(network: Network, group: Int32Array) -> Iterator[CoreKind]:
    """The cores among the NPUs of a group: single NPUs, linked pairs, cliques, and lines along the Cartesian
    factors of the network, from one factor to all of them.
    """
    hops = hop_counts(Digraph.of(network))[np.ix_(group, group)]
    column = {npu: number for number, npu in enumerate(group.tolist())}
    near = neighbours(network, group)
    pairs = sum(len(ends) ** 2 for ends in near.values())
    for kind in chain(_small_kinds(near, pairs <= MOST_PAIRS), _factor_kinds(near) if pairs <= MOST_PAIRS else ()):
        columns = ([column[npu] for npu in core.members] for core in kind.cores)
        radii = (int(hops[:, members].min(axis=1).max()) for members in columns)
        cores = (replace(core, radius=radius) for core, radius in zip(kind.cores, radii, strict=True))
        yield CoreKind(kind.name, tuple(cores))


def neighbours(network: Network, group: Iterable[int]) -> dict[int, set[int]]:
    """For each NPU of a group, those that links join with it in both directions."""
    members = {int(npu) for npu in group}
    links = set(zip(network.source.tolist(), network.target.tolist(), strict=True))
    near: dict[int, set[int]] = {npu: set() for npu in members}
    for u, v in links:
        if u != v and u in members and v in members and (v, u) in links:
            near[u].add(v)
    return near


def _small_kinds(near: dict[int, set[int]], cliques: bool) -> Iterator[CoreKind]:
    """Single NPUs, linked pairs, and, if asked for, cliques."""
    members = sorted(near)
    yield CoreKind("vertex", tuple(Core((npu,)) for npu in members))
    edges = [(u, v) for u in members for v in sorted(near[u]) if u < v][:MOST_CORES]
    if edges:
        yield CoreKind("edge", tuple(Core((u, v), ((PartialMessage(u, v), PartialMessage(v, u)),)) for u, v in edges))
    if not cliques:
        return
    by_size: dict[int, list[tuple[int, ...]]] = {}
    for clique in sorted(set(_cliques(near, edges))):
        by_size.setdefault(len(clique), []).append(clique)
    for size in sorted(by_size):
        one_shot = (Core(clique, line_rounds(clique, _neighbours_within(near, clique))[0]) for clique in by_size[size])
        yield CoreKind(f"clique of {size}", tuple(one_shot))


def _neighbours_within(near: Mapping[int, set[int]], members: Iterable[int]) -> dict[int, set[int]]:
    """The neighbours of some NPUs among themselves."""
    chosen = set(members)
    return {npu: near[npu] & chosen for npu in chosen}


def _cliques(near: dict[int, set[int]], edges: list[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """For each edge a maximal clique of three or more with it, which takes NPUs in ascending order."""
    for u, v in edges:
        clique, common = {u, v}, near[u] & near[v]
        while common:
            taken = min(common)
            clique.add(taken)
            common &= near[taken]
        if len(clique) > 2:
            yield tuple(sorted(clique))


def _factor_kinds(near: dict[int, set[int]]) -> Iterator[CoreKind]:
    """Cores that span one, two, ... factors, which they exchange along one after the other, in any rotation."""
    factors = cartesian_factors(near)
    cores: dict[tuple[int, int], list[Core]] = {}
    for span in range(1, len(factors) + 1):
        for first in range(len(factors)):
            chosen = [factors[(first + number) % len(factors)] for number in range(span)]
            for members in components(chosen):
                for core in _spanning_cores(members, chosen):
                    cores.setdefault((len(members), len(core.rounds)), []).append(core)
    for size, rounds in sorted(cores):
        if size > 2:
            yield CoreKind(f"line of {size} in {rounds}", tuple(cores[size, rounds][:MOST_CORES]))


def _spanning_cores(members: tuple[int, ...], factors: list[dict[int, set[int]]]) -> Iterator[Core]:
    """The cores of some members that exchange along factors, one after the other, if that gives the sum. An odd ring
    has two kinds of rounds: with odd rings among the factors, first the cores of one kind, then the cores of the other.
    """
    inner = [_neighbours_within(factor, members) for factor in factors]
    yield from _cores_along(members, inner, in_turns=False)
    if any(is_odd_ring(line, near) for near in inner for line in components([near])):
        yield from _cores_along(members, inner, in_turns=True)


def _cores_along(members: tuple[int, ...], factors: list[dict[int, set[int]]], *, in_turns: bool) -> Iterator[Core]:
    """The cores of all vertices of some graphs. in_turns: see line_rounds."""
    choices: list[list[Rounds]] = []
    for inner in factors:
        lines = [line_rounds(line, _neighbours_within(inner, line), in_turns=in_turns) for line in components([inner])]
        if not all(lines):
            return
        count = max(map(len, lines))
        choices.append([_side_by_side([line[turn % len(line)] for line in lines]) for turn in range(count)])
    for turn in range(max(map(len, choices))):
        core = Core(members, tuple(chain.from_iterable(rounds[turn % len(rounds)] for rounds in choices)))
        if _gives_sum(core):
            yield core


def _side_by_side(lines: list[Rounds]) -> Rounds:
    """The rounds of several lines at the same time, none if all lines are single NPUs."""
    rounds = (tuple(chain.from_iterable(messages)) for messages in zip_longest(*lines, fillvalue=()))
    return tuple(messages for messages in rounds if messages)


def _gives_sum(core: Core) -> bool:
    """Whether every member ends with the partials of all, each once."""
    held = {npu: 1 << number for number, npu in enumerate(core.members)}
    kept: dict[tuple[int, int], int] = {}
    for messages in core.rounds:
        carried = [held[m.source] if m.came_from < 0 else kept.get((m.came_from, m.source), 0) for m in messages]
        for message, partial in zip(messages, carried, strict=True):
            if not partial or (held[message.target] & partial and not message.kept):
                return False
            held[message.target] |= 0 if message.kept else partial
            kept[message.source, message.target] = partial
    return all(partial == (1 << len(core.members)) - 1 for partial in held.values())
