"""Clos networks and rail-only networks: switches, transceivers, cost and power, and times of collectives.

Wang et al.: Rail-only: A Low-Cost High-Performance Network for Training LLMs with Trillion Parameters (2023): sections
III and V; prices and powers of 400 Gb/s parts as given there.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

TRANSCEIVER_COST: Final = 199
TRANSCEIVER_POWER: Final = 9
"""Dollars and watts of a transceiver."""

PORT_COST: Final = 694
PORT_POWER: Final = 18
"""Dollars and watts of a switch port."""

DOMAIN: Final = 256
"""GPUs in a high-bandwidth domain, and so rails, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class NetworkParts:
    """The parts of a network between the high-bandwidth domains. radix: ports of a switch."""

    gpus: int
    radix: int
    tiers: int
    switches: int
    transceivers: int

    @property
    def cost(self) -> int:
        """Dollars."""
        return self.switches * self.radix * PORT_COST + self.transceivers * TRANSCEIVER_COST

    @property
    def power(self) -> int:
        """Watts."""
        return self.switches * self.radix * PORT_POWER + self.transceivers * TRANSCEIVER_POWER


def clos_tiers(endpoints: int, radix: int) -> int:
    """The fewest tiers of switches that connect that many endpoints at full bisection bandwidth: 2 (k / 2)^t >= n.

    Raises ValueError for a radix below 4 or that is odd.
    """
    if radix < 4 or radix % 2:
        raise ValueError("the radix of a switch must be even, and at least 4")
    tiers = 1
    while 2 * (radix // 2) ** tiers < endpoints:
        tiers += 1
    return tiers


def clos(gpus: int, radix: int) -> NetworkParts:
    """One Clos network for all GPUs, as in a rail-optimized cluster: (2 t - 1) n / k switches, 2 t n transceivers."""
    return _parts(gpus, radix, clos_tiers(gpus, radix))


def rail_only(gpus: int, radix: int, domain: int = DOMAIN) -> NetworkParts:
    """A Clos network for each rail, which connects one GPU of each domain. Switches may serve several small rails.

    Raises ValueError where the GPUs do not fill the domains.
    """
    if domain < 1 or gpus % domain:
        raise ValueError(f"{gpus} GPUs do not fill domains of {domain}")
    return _parts(gpus, radix, clos_tiers(gpus // domain, radix))


def _parts(gpus: int, radix: int, tiers: int) -> NetworkParts:
    return NetworkParts(gpus, radix, tiers, -(-(2 * tiers - 1) * gpus // radix), 2 * tiers * gpus)


@dataclass(frozen=True, slots=True)
class Domains:
    """`count` domains of `size` GPUs each. fast, slow: bandwidths of a GPU in its domain and in its rail."""

    count: int
    size: int
    fast: Fraction
    slow: Fraction

    def all_gather_time(self, total: int) -> Fraction:
        """The time of an All-Gather of `total` bytes over the rails and then in the domains, in seconds (1)."""
        x, y = self.size, self.count
        return Fraction((y - 1) * total, x * y) / self.slow + Fraction((x - 1) * total, x) / self.fast

    def all_to_all_time(self, per_pair: int, *, rail_only: bool) -> Fraction:
        """The time of an All-to-All of that many bytes for each pair, in seconds.

        With rails that are connected, the two kinds of traffic share nothing (2). In a rail-only network all traffic
        between domains crosses the fast switches too, on its way to another rail, in a phase of its own (3).
        """
        x, y, size = self.size, self.count, per_pair
        if rail_only:
            return y * (x - 1) * size / self.fast + x * (y - 1) * size / self.slow
        return max((x - 1) * size / self.fast, x * (y - 1) * size / self.slow)
