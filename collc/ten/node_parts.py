"""The nodes of a network: parts that fast links join, and slower ones part."""

from __future__ import annotations

from fractions import Fraction

from collc.base.disjoint_sets import DisjointSets
from collc.ten.network import Network


def nodes_of(network: Network) -> list[list[int]]:
    """The NPUs of each node, if all nodes have as many; else all NPUs as one."""
    parts = parts_of(network)
    return parts if len({len(part) for part in parts}) == 1 else [network.npus.tolist()]


def parts_of(network: Network) -> list[list[int]]:
    """The NPUs that stay together when the slowest class of links is taken away; all NPUs if that parts all of them."""
    rates = [kind.bandwidth or Fraction(0) for kind in network.kinds]
    kinds: list[int] = network.kind.tolist()
    used = sorted({rates[row] for row in kinds})
    joined = DisjointSets[int]()
    for source, target, row in zip(
        network.source.tolist(), network.target.tolist(), network.kind.tolist(), strict=True
    ):
        if len(used) > 1 and rates[row] > used[0]:
            joined.join(target, source)
    parts: dict[int, list[int]] = {}
    npus: list[int] = network.npus.tolist()
    for npu in npus:
        parts.setdefault(joined.root(npu), []).append(npu)
    return list(parts.values()) if len(parts) < len(npus) else [npus]
