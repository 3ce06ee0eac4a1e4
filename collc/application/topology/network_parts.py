"""The parts, cost and power of the network between high-bandwidth domains: `collc design --network`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collc.base.diagnostics import Diagnostic, UsageError
from collc.design.clos import DOMAIN, NetworkParts, clos, rail_only

MOST_GPUS: Final = 10**9
"""More than any cluster has; the counts of larger ones would be numbers without a meaning."""

MOST_PORTS: Final = 4096
"""More than any switch has."""

COLUMNS: Final = ("network", "GPUs", "radix", "tiers", "switches", "transceivers", "cost", "power", "saved")
"""The columns of the table; `PricedNetwork.cells` is a row."""


@dataclass(frozen=True, slots=True)
class PricedNetwork:
    """A network with its parts, and those of a Clos network for the same GPUs."""

    network: str
    parts: NetworkParts
    whole: NetworkParts

    def as_json(self) -> dict[str, object]:
        """One element of "networks" in `design --network --json`. cost_saved, power_saved: shares of a Clos network."""
        parts, whole = self.parts, self.whole
        return {
            "network": self.network,
            "gpus": parts.gpus,
            "radix": parts.radix,
            "tiers": parts.tiers,
            "switches": parts.switches,
            "transceivers": parts.transceivers,
            "cost": parts.cost,
            "power_W": parts.power,
            "cost_saved": round(1 - parts.cost / whole.cost, 9),
            "power_saved": round(1 - parts.power / whole.power, 9),
        }

    def cells(self) -> tuple[str, ...]:
        """A row of the table, under `COLUMNS`."""
        parts, whole = self.parts, self.whole
        numbers = (parts.gpus, parts.radix, parts.tiers, parts.switches, parts.transceivers)
        saved = f"{1 - parts.cost / whole.cost:.2%} cost, {1 - parts.power / whole.power:.2%} power"
        return (
            self.network,
            *(f"{value:,}" for value in numbers),
            f"${parts.cost:,}",
            f"{parts.power / 1000:,.1f} kW",
            "-" if self.network == "clos" else saved,
        )


def priced_networks(kind: str, gpus: int | None, radix: int | None, domain: int | None) -> list[PricedNetwork]:
    """A Clos network and, where `kind` asks for it, the rail-only network for the same GPUs.

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
