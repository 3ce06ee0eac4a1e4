"""What NCCL's protocols cost, beside the bandwidth and latency of links.

LL sends a flag of 4 bytes with every 4 bytes of data, LL128 one of 8 bytes with every 120, and Simple none, but a
message of Simple waits for a fence and a flag of its own. Defaults of the start-up cost: the latency of a ring step
over NVLink in NCCL's own model (`hwLat` in src/graph/tuning.cc: LL 0.6 us, LL128 1.9 us, Simple 3.4 us), less that of
LL, for which the latency of the topology stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from collc.base.units import Dimension, format_time, quantity_in
from collc.ten.network import Network


@dataclass(frozen=True, slots=True)
class ProtocolCost:
    """A protocol's cost. share: of the bandwidth that carries data. startup: picoseconds of each message, once."""

    name: str
    share: Fraction
    startup: int

    def as_json(self) -> dict[str, object]:
        """Its entry in `tuning.json`."""
        return {"share_of_bandwidth": float(self.share), "startup_ps": self.startup}

    def __str__(self) -> str:
        return f"{self.name}={self.share}:{format_time(self.startup)}"


DEFAULT_COSTS: Final = {
    "Simple": ProtocolCost("Simple", Fraction(1), 2_800_000),
    "LL": ProtocolCost("LL", Fraction(1, 2), 0),
    "LL128": ProtocolCost("LL128", Fraction(120, 128), 1_300_000),
}

SOURCE: Final = "NCCL, src/graph/tuning.cc: hwLat of a ring step over NVLink, less that of LL"


def cost_of(text: str) -> ProtocolCost:
    """The cost that a text such as `LL128=120/128:1.3us` gives. Raises ValueError if it gives none."""
    match = re.fullmatch(r"(\w+)=(\d+(?:\.\d+)?|\d+/0*[1-9]\d*):(.+)", text)
    startup = None if match is None else quantity_in(match[3], Dimension.TIME)
    if match is None or match[1] not in DEFAULT_COSTS or startup is None or not 0 < Fraction(match[2]) <= 1:
        raise ValueError(text)
    return ProtocolCost(match[1], Fraction(match[2]), int(startup))


def of_plans(cost: ProtocolCost) -> ProtocolCost:
    """The cost of a protocol for plans of MSCCL++, whose packets (LL) already have twice the bytes of their payload."""
    return replace(cost, share=min(Fraction(1), 2 * cost.share)) if cost.name == "LL" else cost


def with_protocol(network: Network, cost: ProtocolCost) -> Network:
    """The network as messages of a protocol see it: links carry a share of their bandwidth, and a link that leaves an
    NPU takes the start-up cost longer.
    """
    kinds = [
        replace(
            kind,
            latency=None if kind.latency is None else kind.latency + startup,
            bandwidth=None if kind.bandwidth is None else kind.bandwidth * cost.share,
        )
        for startup in (0, cost.startup)
        for kind in network.kinds
    ]
    leaves = network.source < network.npu_count
    kind = network.kind + np.where(leaves, len(network.kinds), 0).astype(network.kind.dtype)
    return replace(network, kind=kind, kinds=tuple(kinds))
