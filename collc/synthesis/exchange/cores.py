"""Cores: NPUs that hold the partials of a chunk between them and exchange them, until each has the whole sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import hop_counts
from collc.ten.arrays import Int32Array
from collc.ten.network import Network

MOST_CORES: Final = 4096
"""Cores of one kind that are looked at, at most."""


@dataclass(frozen=True, slots=True)
class Core:
    """NPUs that exchange partials.

    members: NPUs, ascending. rounds: for each round the cliques in which every NPU sends every other one what it holds.
    radius: links from the members to the NPU of the group that is farthest from them.
    """

    members: tuple[int, ...]
    rounds: tuple[tuple[tuple[int, ...], ...], ...] = ()
    radius: int = 0

    def messages(self, number: int) -> Iterator[tuple[int, int]]:
        """(source, target) of all messages of a round."""
        for clique in self.rounds[number]:
            yield from permutations(clique, 2)


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


def core_kinds(network: Network, group: Int32Array) -> Iterator[CoreKind]:
    """The cores among the NPUs of a group: single NPUs, linked pairs, cliques, and squares without diagonals."""
    hops = hop_counts(Digraph.of(network))[np.ix_(group, group)]
    column = {npu: number for number, npu in enumerate(group.tolist())}
    for kind in _kinds(neighbours(network, group)):
        yield CoreKind(kind.name, tuple(_with_radius(core, hops, column) for core in kind.cores))


def _with_radius(core: Core, hops: Int32Array, column: Mapping[int, int]) -> Core:
    nearest = hops[:, [column[npu] for npu in core.members]].min(axis=1)
    return replace(core, radius=int(nearest.max()))


def _kinds(near: dict[int, set[int]]) -> Iterator[CoreKind]:
    members = sorted(near)
    yield CoreKind("vertex", tuple(Core((npu,)) for npu in members))
    edges = [(u, v) for u in members for v in sorted(near[u]) if u < v][:MOST_CORES]
    if edges:
        yield CoreKind("edge", tuple(Core(edge, ((edge,),)) for edge in edges))
    by_size: dict[int, list[tuple[int, ...]]] = {}
    for clique in sorted(set(_cliques(near, edges))):
        by_size.setdefault(len(clique), []).append(clique)
    for size in sorted(by_size):
        yield CoreKind(f"clique of {size}", tuple(Core(clique, ((clique,),)) for clique in by_size[size]))
    squares = tuple(_squares(near))
    if squares:
        yield CoreKind("square", squares)


def neighbours(network: Network, group: Iterable[int]) -> dict[int, set[int]]:
    """For each NPU of a group, those that links join with it in both directions."""
    members = {int(npu) for npu in group}
    links = set(zip(network.source.tolist(), network.target.tolist(), strict=True))
    near: dict[int, set[int]] = {npu: set() for npu in members}
    for u, v in links:
        if u != v and u in members and v in members and (v, u) in links:
            near[u].add(v)
    return near


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


def _squares(near: dict[int, set[int]]) -> Iterator[Core]:
    """Cycles of four without diagonals, in both orders of their two rounds; at most MOST_CORES."""
    found = 0
    for a in sorted(near):
        for b, d in combinations(sorted(npu for npu in near[a] if npu > a), 2):
            if d in near[b]:
                continue
            for c in sorted(near[b] & near[d] - near[a]):
                if c <= a:
                    continue
                one, other = (_pairs((a, b), (c, d)), _pairs((a, d), (b, c)))
                members = tuple(sorted((a, b, c, d)))
                yield Core(members, (one, other))
                yield Core(members, (other, one))
                found += 2
                if found >= MOST_CORES:
                    return


def _pairs(*pairs: tuple[int, int]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(sorted(pair)) for pair in pairs)
