"""The share of its bandwidth to others that each node loses with a part, and what formulas of others make of it.

A ring, as of NCCL, passes all data through each node, so that the node with the least left sets the pace. R2CCL (Wang
et al., arXiv 2512.25059) leaves that node out of a share of the sums of an All-Reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from collc.application.fallbacks.long_run import State
from collc.pictures.device_groups import switch_homes
from collc.pictures.layout import node_numbers
from collc.ten.arrays import Int64Array
from collc.ten.network import Network
from collc.ten.parts import Part, links_of

Shares = Mapping[str, Mapping[int, float]]
"""For each part by name, the share of its bandwidth to others that each node loses."""


def lost_shares(network: Network, parts: Sequence[Part]) -> Shares:
    """What each node loses with each part. A node is the NPUs of one outermost index, in a network without switches one
    NPU.
    """
    node = _node_of(network)
    leaving = (node[network.source] >= 0) & (node[network.source] != node[network.target])
    rate_of = np.array([float(kind.bandwidth or 1) for kind in network.kinds])
    rate = np.where(leaving, rate_of[network.kind], 0.0)
    source = np.maximum(node[network.source], 0)
    count = int(node.max(initial=0)) + 1
    whole = np.bincount(source, rate, count)
    shares: dict[str, dict[int, float]] = {}
    for part in parts:
        cut = links_of(network, part)
        lost = np.bincount(source[cut], rate[cut], count)
        shares[part.name] = {int(k): float(lost[k] / whole[k]) for k in np.flatnonzero(lost)}
    return shares


def _node_of(network: Network) -> Int64Array:
    """int64[devices]: the node of each NPU, and of each switch all of whose links lead to NPUs of one; -1: none."""
    numbers = node_numbers(network) if network.has_switches else None
    return switch_homes(network, np.arange(network.npu_count, dtype=np.int64) if numbers is None else numbers)


def ring_state(shares: Shares, lost: Mapping[str, int]) -> Callable[[frozenset[str]], State | None]:
    """How a ring goes on: 1 / (1 - X) times slower, if a node lost the share X. lost: the NPUs of each part."""
    return lambda failed: _state(shares, lost, failed, lambda left: 1 / left)


def split_state(shares: Shares, lost: Mapping[str, int]) -> Callable[[frozenset[str]], State | None]:
    """How R2CCL's All-Reduce goes on: max(2, 1 / (1 - X)) / 2 times slower, which is none up to one half."""
    return lambda failed: _state(shares, lost, failed, lambda left: max(2.0, 1 / left) / 2)


def _state(
    shares: Shares, lost: Mapping[str, int], failed: frozenset[str], slowdown: Callable[[float], float]
) -> State | None:
    """None if GPUs are lost, or a node has no bandwidth left."""
    if any(lost[part] for part in failed):
        return None
    total: dict[int, float] = {}
    for part in failed:
        for node, share in shares[part].items():
            total[node] = total.get(node, 0.0) + share
    left = 1 - max(total.values(), default=0.0)
    return State(slowdown(left), 0) if left > 1e-9 else None
