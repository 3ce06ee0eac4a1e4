"""Clos networks and rail-only networks: switches, transceivers, cost and power, and times of collectives.

Wang et al.: Rail-only: A Low-Cost High-Performance Network for Training LLMs with Trillion Parameters (2023): sections
III and V; prices and powers of 400 Gb/s parts as given there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.tables import Column

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
    """Parts of a network between the high-bandwidth domains. network: clos or rail_only. radix: ports of a switch."""

    network: str
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

    @property
    def cost_saved(self) -> float:
        """The share of the cost of a Clos network that it saves."""
        return 1 - self.cost / clos(self.gpus, self.radix).cost

    @property
    def power_saved(self) -> float:
        """The share of the power of a Clos network that it saves."""
        return 1 - self.power / clos(self.gpus, self.radix).power


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
    return _parts("clos", gpus, radix, clos_tiers(gpus, radix))


def rail_only(gpus: int, radix: int, domain: int = DOMAIN) -> NetworkParts:
    """A Clos network for each rail, which connects one GPU of each domain. Switches may serve several small rails.

    Raises ValueError if the GPUs do not fill the domains.
    """
    if domain < 1 or gpus % domain:
        raise ValueError(f"{gpus} GPUs do not fill domains of {domain}")
    return _parts("rail_only", gpus, radix, clos_tiers(gpus // domain, radix))


def _parts(network: str, gpus: int, radix: int, tiers: int) -> NetworkParts:
    return NetworkParts(network, gpus, radix, tiers, -(-(2 * tiers - 1) * gpus // radix), 2 * tiers * gpus)


MOST_GPUS: Final = 10**9
"""More than any cluster has; the counts of larger ones would be numbers without a meaning."""

MOST_PORTS: Final = 4096
"""More than any switch has."""


_SAVED: Final = "{0.cost_saved:.2%} cost, {0.power_saved:.2%} power"

COLUMNS: Final[Sequence[Column[NetworkParts]]] = (
    Column("network", "network", lambda parts: parts.network),
    Column("GPUs", "gpus", lambda parts: parts.gpus, "{:,}".format),
    Column("radix", "radix", lambda parts: parts.radix, "{:,}".format),
    Column("tiers", "tiers", lambda parts: parts.tiers, "{:,}".format),
    Column("switches", "switches", lambda parts: parts.switches, "{:,}".format),
    Column("transceivers", "transceivers", lambda parts: parts.transceivers, "{:,}".format),
    Column("cost", "cost", lambda parts: parts.cost, "${:,}".format),
    Column("power", "power_W", lambda parts: parts.power, lambda watts: f"{watts / 1000:,.1f} kW"),
    Column("", "cost_saved", lambda parts: round(parts.cost_saved, 9)),
    Column("", "power_saved", lambda parts: round(parts.power_saved, 9)),
    Column("saved", "", lambda parts: None if parts.network == "clos" else parts, _SAVED.format),
)
"""The columns of the table and of "networks" in `design --network --json`."""


def priced_networks(kind: str, gpus: int | None, radix: int | None, domain: int | None) -> list[NetworkParts]:
    """A Clos network and, if `kind` asks for it, the rail-only network for the same GPUs.

    None: 64 ports, domains of 256 GPUs. Raises UsageError U0119 for numbers that do not fit together, for more than
    MOST_GPUS or MOST_PORTS, and for domains of a Clos network, which has none.
    """
    if gpus is None:
        raise UsageError(Diagnostic("U0119", "the number of GPUs is missing", hint="add: --gpus 32768"))
    if domain is not None and kind != "rail_only":
        hint = "only a network for each rail depends on the domains: --network rail_only"
        raise UsageError(Diagnostic("U0119", f"'--domain' cannot be combined with --network {kind}", hint=hint))
    for option, value, most in (("--gpus", gpus, MOST_GPUS), ("--radix", radix or 64, MOST_PORTS)):
        if value > most:
            raise UsageError(Diagnostic("U0119", f"'{option}' is at most {most:,}, not {value:,}"))
    try:
        rails = [rail_only(gpus, radix or 64, domain or DOMAIN)] if kind == "rail_only" else []
        return [clos(gpus, radix or 64), *rails]
    except ValueError as error:
        raise UsageError(Diagnostic("U0119", str(error), hint="see --gpus, --radix and --domain")) from error
