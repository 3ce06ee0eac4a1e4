"""The parts, cost and power of the network between high-bandwidth domains: `collc design --network`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.tables import Column
from collc.design.clos import DOMAIN, NetworkParts, clos, rail_only

MOST_GPUS: Final = 10**9
"""More than any cluster has; the counts of larger ones would be numbers without a meaning."""

MOST_PORTS: Final = 4096
"""More than any switch has."""


@dataclass(frozen=True, slots=True)
class PricedNetwork:
    """A network with its parts, and the parts of a Clos network for the same GPUs."""

    network: str
    parts: NetworkParts
    whole: NetworkParts

    @property
    def cost_saved(self) -> float:
        """The share of the cost of a Clos network that it saves."""
        return 1 - self.parts.cost / self.whole.cost

    @property
    def power_saved(self) -> float:
        """The share of the power of a Clos network that it saves."""
        return 1 - self.parts.power / self.whole.power

    def saved_in_words(self) -> str | None:
        """Both shares; None for a Clos network itself."""
        return None if self.network == "clos" else f"{self.cost_saved:.2%} cost, {self.power_saved:.2%} power"


COLUMNS: Final[Sequence[Column[PricedNetwork]]] = (
    Column("network", "network", lambda priced: priced.network),
    Column("GPUs", "gpus", lambda priced: priced.parts.gpus, "{:,}".format),
    Column("radix", "radix", lambda priced: priced.parts.radix, "{:,}".format),
    Column("tiers", "tiers", lambda priced: priced.parts.tiers, "{:,}".format),
    Column("switches", "switches", lambda priced: priced.parts.switches, "{:,}".format),
    Column("transceivers", "transceivers", lambda priced: priced.parts.transceivers, "{:,}".format),
    Column("cost", "cost", lambda priced: priced.parts.cost, "${:,}".format),
    Column("power", "power_W", lambda priced: priced.parts.power, lambda watts: f"{watts / 1000:,.1f} kW"),
    Column("", "cost_saved", lambda priced: round(priced.cost_saved, 9)),
    Column("", "power_saved", lambda priced: round(priced.power_saved, 9)),
    Column("saved", "", lambda priced: priced.saved_in_words()),
)
"""The columns of the table and of "networks" in `design --network --json`."""


def priced_networks(kind: str, gpus: int | None, radix: int | None, domain: int | None) -> list[PricedNetwork]:
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
        whole = clos(gpus, radix or 64)
        found = [PricedNetwork("clos", whole, whole)]
        if kind == "rail_only":
            found.append(PricedNetwork(kind, rail_only(gpus, radix or 64, domain or DOMAIN), whole))
    except ValueError as error:
        raise UsageError(Diagnostic("U0119", str(error), hint="see --gpus, --radix and --domain")) from error
    return found
