"""The ring algorithms of the standard library in an order of the group that follows links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from collc.graph.cycles import cycle_through_all
from collc.ten.algorithm import AlgorithmSends
from collc.ten.arrays import Int32Array
from collc.ten.demand import Run
from collc.ten.network import Network

RINGS: Final = ("ring", "bidirectional_ring")
"""The algorithms in which every member sends to the next one, or also to the one before."""

_MEBIBYTE: Final = 2**20

MOST_MEMBERS: Final = 1_024
"""Members up to which a cycle is sought."""


def along_links(network: Network, run: Run, sends: AlgorithmSends, name: str, first_chunk: int = 0) -> AlgorithmSends:
    """The statements of a ring in the order of a cycle along links, or as they are if none is found.

    sends: between NPUs, of a standard collective. name: of `RINGS`. first_chunk: the number of the run's first chunk.
    """
    group: list[int] = run.group.tolist()
    assert run.standard is not None
    if any(kind.bandwidth is None or kind.latency is None for kind in network.kinds):
        return sends
    order = ring_order(network, group, name != RINGS[0], run.standard.root)
    if order is None or order == list(range(len(group))):
        return sends
    rank_of = np.zeros(network.device_count, np.int32)
    rank_of[run.group] = np.arange(len(group))
    ranks = replace(
        sends, chunk=sends.chunk - np.int32(first_chunk), source=rank_of[sends.source], target=rank_of[sends.target]
    )
    # What rank p did, rank order[p] does, for the blocks of these ranks.
    rank, table = np.array(order, np.int32), run.pattern.expand()
    blocks = run.standard.shape.indices
    index = table.index.copy()
    index[:, :blocks] = rank[index[:, :blocks]]
    number_of = {tuple(row): number for number, row in enumerate(table.index.tolist())}
    chunk: Int32Array = np.array([number_of[tuple(row)] for row in index.tolist()], np.int32)
    other = replace(ranks, chunk=chunk[ranks.chunk], source=rank[ranks.source], target=rank[ranks.target])
    return other.renumber(run.group, first_chunk)


def ring_order(network: Network, group: Sequence[int], both: bool, root: int = -1) -> list[int] | None:
    """Ranks in the order of a cycle along links, or over one switch each; None if none is found.

    both: along links in both directions. root: the rank that keeps its position; -1 for none.
    """
    if not 2 < len(group) <= MOST_MEMBERS:
        return None
    near = _neighbour_times(network, group)

    def cost(u: int, v: int) -> int | None:
        return near.get((u, v)) if not both or (v, u) in near else None

    cycle = cycle_through_all(cost, _coordinates(network, group))
    if cycle is None or root < 0:
        return cycle
    first = (cycle.index(root) - root) % len(cycle)
    return cycle[first:] + cycle[:first]


def _neighbour_times(network: Network, group: Sequence[int]) -> dict[tuple[int, int], int]:
    """By pair of ranks with a link from the first to the second, or a switch between them: picoseconds for 1 MiB."""
    rank_of = {npu: rank for rank, npu in enumerate(group)}
    taken: list[int] = (network.occupancy(np.array([_MEBIBYTE]))[:, 0] + network.latencies)[network.kind].tolist()
    into: dict[int, list[tuple[int, int]]] = {}
    out: dict[int, list[tuple[int, int]]] = {}
    near: dict[tuple[int, int], int] = {}

    def add(u: int, v: int, time: int) -> None:
        if u != v:
            near[u, v] = min(time, near.get((u, v), time))

    for source, target, time in zip(network.source.tolist(), network.target.tolist(), taken, strict=True):
        if source in rank_of and target in rank_of:
            add(rank_of[source], rank_of[target], time)
        elif source in rank_of and network.is_switch(target):
            into.setdefault(target, []).append((rank_of[source], time))
        elif target in rank_of and network.is_switch(source):
            out.setdefault(source, []).append((rank_of[target], time))
    for switch, senders in into.items():
        for u, first in senders:
            for v, second in out.get(switch, ()):
                add(u, v, first + second)
    return near


def _coordinates(network: Network, group: Sequence[int]) -> list[tuple[int, ...]]:
    """The indices of the members in the array of NPUs, each counted from 0 without gaps; () if they have none."""
    for family in network.families:
        last = family.first + family.count
        if family.shape and all(family.first <= npu < last for npu in group):
            numbers = np.array(group) - family.first
            columns = [
                np.unique(numbers // stride % size, return_inverse=True)[1]
                for size, stride in zip(family.shape, family.strides, strict=True)
            ]
            return [tuple(int(k) for k in row) for row in zip(*columns, strict=True)]
    return [()] * len(group)
