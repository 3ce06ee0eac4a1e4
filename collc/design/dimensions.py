"""The dimensions of a network, and what one GB/s of bandwidth costs in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from collc.ten.network import Axis, Network
from collc.ten.training import TIERS, PartCosts

COSTS: Final[Mapping[str, PartCosts]] = {
    "inter_chiplet": PartCosts(link=Fraction(2)),
    "inter_package": PartCosts(link=Fraction(4), switch=Fraction(13)),
    "inter_node": PartCosts(link=Fraction(4), switch=Fraction(13)),
    "inter_pod": PartCosts(link=Fraction(78, 10), switch=Fraction(18), nic=Fraction(316, 10)),
}
"""Dollars per GB/s of the parts of each tier (LIBRA, ISPASS 2024, table I; the lowest published prices)."""


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
    network: Network, kind: str, tiers: Sequence[str], costs: Mapping[str, PartCosts] = COSTS
) -> tuple[NetworkDimension, ...]:
    """The dimensions of a network; one that is no product has a single one, of `kind`.

    tiers: the tier of each dimension, () for the defaults: the last dimension is inter_pod, the one before inter_node,
    and so on; more than four begin with several inter_chiplet ones.
    """
    axes = network.axes or (Axis(kind, network.npu_count),)
    tiers = tiers or default_tiers(len(axes))
    found: list[NetworkDimension] = []
    for number, (axis, tier) in enumerate(zip(axes, tiers, strict=True)):
        own = network.link_axis == number if network.axes else np.ones(network.link_count, bool)
        switches = network.target[own & (network.target >= network.npu_count)] - network.npu_count
        switched = bool(len(switches))
        reduces = switched and bool(network.reduces[switches].all())
        parts = costs[tier]
        price = parts.link + (parts.switch + parts.nic if switched else 0)
        found.append(NetworkDimension(axis.kind, axis.size, tier, switched, reduces, price * network.npu_count))
    return tuple(found)


def default_tiers(count: int) -> tuple[str, ...]:
    """The tiers of `count` dimensions where a design names none."""
    return (TIERS[0],) * (count - len(TIERS)) + TIERS[max(0, len(TIERS) - count) :]
