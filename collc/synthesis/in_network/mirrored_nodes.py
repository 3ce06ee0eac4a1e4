"""All-Reduce of small buffers on two nodes whose switches reduce: partials are swapped between the nodes first.

Each NPU swaps its contribution with the NPU at its position in the other node. Then the switches of both nodes add up
the same sum and send it to all: one crossing between the nodes, where a reduction among representatives and what leads
to them and back takes two more. Every NPU sends its whole buffer to the other node, so this is for small buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collc.ten.network import Network

Row = tuple[int, int, int, bool]
"""Chunk, link, start in picoseconds, whether the transfer carries a partial."""


@dataclass(frozen=True, slots=True)
class MirroredNodes:
    """Two nodes of as many NPUs. swaps: for each pair of NPUs, the links from the one in the first node to the other,
    and back. ups, downs: for each node, the links between its NPUs and a switch that reduces.
    """

    swaps: tuple[tuple[list[int], list[int]], ...]
    ups: tuple[list[int], list[int]]
    downs: tuple[list[int], list[int]]

    def transfers(
        self, chunks: Sequence[int], size: Sequence[int], busy: list[list[int]], total: list[list[int]]
    ) -> list[Row] | None:
        """All transfers, chunk by chunk, each as early as its link is free; None if swaps do not overlap in time,
        so that the second partial would have the first one in it.

        size: by chunk, the number of its size. busy, total: by link and size, picoseconds.
        """
        rows: list[Row] = []
        free: dict[int, int] = {}

        def sent(chunk: int, link: int, ready: int, partial: bool) -> tuple[int, int]:
            start = max(ready, free.get(link, 0))
            free[link] = start + busy[link][size[chunk]]
            rows.append((chunk, link, start, partial))
            return start, start + total[link][size[chunk]]

        for chunk in chunks:
            ready = [[0] * len(self.swaps), [0] * len(self.swaps)]
            for pair, paths in enumerate(self.swaps):
                starts: list[int] = []
                for there, path in enumerate(paths, start=1):
                    hops = [sent(chunk, path[0], 0, True)]
                    hops += [sent(chunk, link, hops[0][1], True) for link in path[1:]]
                    starts.append(hops[0][0])
                    ready[there % 2][pair] = hops[-1][1]
                if starts[0] >= ready[0][pair] or starts[1] >= ready[1][pair]:
                    return None
            for node, (ups, downs) in enumerate(zip(self.ups, self.downs, strict=True)):
                at = max(sent(chunk, link, when, True)[1] for link, when in zip(ups, ready[node], strict=True))
                for link in downs:
                    sent(chunk, link, at, False)
        return rows


def swaps_of(network: Network, nodes: tuple[Sequence[int], Sequence[int]]) -> list[tuple[list[int], list[int]]] | None:
    """For each pair of NPUs at one position the links from the one to the other, and back; None if one has neither
    direct links nor a switch of its own between them that copies and has room for all.
    """
    link_of = {pair: k for k, pair in enumerate(zip(network.source.tolist(), network.target.tolist(), strict=True))}
    plain = network.npu_count + np.flatnonzero(~network.reduces & (network.buffers < 0))
    used: set[int] = set()
    found: list[tuple[list[int], list[int]]] = []
    for a, b in zip(*nodes, strict=True):
        if (a, b) in link_of and (b, a) in link_of:
            found.append(([link_of[a, b]], [link_of[b, a]]))
            continue
        pairs = ((a, b), (b, a))
        able = (
            switch
            for switch in plain.tolist()
            if switch not in used and all((x, switch) in link_of and (switch, y) in link_of for x, y in pairs)
        )
        switch = next(able, -1)
        if switch < 0:
            return None
        used.add(switch)
        there, back = ([link_of[x, switch], link_of[switch, y]] for x, y in pairs)
        found.append((there, back))
    return found
