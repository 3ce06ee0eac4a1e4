"""Clos networks and rail-only networks: switches, transceivers, cost and power, and times of collectives.

Wang et al.: Rail-only: A Low-Cost High-Performance Network for Training LLMs with Trillion Parameters (2023): sections
III and V; prices and powers of 400 Gb/s parts as given there.
"""

from __future__ import annotations

from dataclasses import dataclass
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

    Raises ValueError if the GPUs do not fill the domains.
    """
    if domain < 1 or gpus % domain:
        raise ValueError(f"{gpus} GPUs do not fill domains of {domain}")
    return _parts(gpus, radix, clos_tiers(gpus // domain, radix))


def _parts(gpus: int, radix: int, tiers: int) -> NetworkParts:
    return NetworkParts(gpus, radix, tiers, -(-(2 * tiers - 1) * gpus // radix), 2 * tiers * gpus)
