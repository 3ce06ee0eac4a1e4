"""The dimensions of a network, and what one GB/s of bandwidth costs in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from collc.ten.network import Axis, Network
from collc.ten.training import TIERS, PartCosts


@dataclass(frozen=True, slots=True)
class NetworkDimension:
    """One dimension of a network.

    kind: the template of the factor ("ring", ...). size: NPUs along it. tier: one of `training.TIERS`. switched:
    whether its links lead to switches. reduces: whether these reduce. unit_cost: dollars for one GB/s of all NPUs.
    """

    kind: str
    size: int
    tier: str
    switched: bool
    reduces: bool
    unit_cost: Fraction


def dimensions_of(
    network: Network, kind: str, tiers: Sequence[str], prices: Mapping[str, PartCosts]
) -> tuple[NetworkDimension, ...]:
    """The dimensions of a network, which are its `axes`; one without has a single dimension, of `kind`.

    prices: of the parts of each tier. tiers: the tier of each dimension, () for the defaults: the last dimension is
    inter_pod, the one before inter_node, and so on; more than four begin with several inter_chiplet ones.
    """
    axes = network.axes or (Axis(kind, len(network.npus)),)
    tiers = tiers or default_tiers(len(axes))
    found: list[NetworkDimension] = []
    for number, (axis, tier) in enumerate(zip(axes, tiers, strict=True)):
        own = network.link_axis == number if network.axes else np.ones(network.link_count, bool)
        switches = network.target[own & (network.target >= network.npu_count)] - network.npu_count
        switched = bool(len(switches))
        reduces = switched and bool(network.reduces[switches].all())
        parts = prices[tier]
        price = parts.link + (parts.switch + parts.nic if switched else 0)
        found.append(NetworkDimension(axis.kind, axis.size, tier, switched, reduces, price * len(network.npus)))
    return tuple(found)


def default_tiers(count: int) -> tuple[str, ...]:
    """The tiers of `count` dimensions if a design names none."""
    return (TIERS[0],) * (count - len(TIERS)) + TIERS[max(0, len(TIERS) - count) :]
