"""Warnings about networks that the formulas and prices of designs fit only in part."""

from __future__ import annotations

from typing import Final

from collc.base.diagnostics import Diagnostic
from collc.graph.network_axes import KINDS
from collc.source.program import DesignRequest

MODELLED: Final = ("ring", "fully_connected", "switched")
"""The kinds of dimensions that LIBRA has formulas and prices for."""

_LIKE_A_RING: Final = "timed and priced like a ring, as if all links of an NPU were always busy"


def dimension_warnings(request: DesignRequest) -> tuple[Diagnostic, ...]:
    """Warnings E0923 about dimensions that are none of MODELLED, or have several switches between two NPUs."""
    network = request.network
    texts: list[tuple[str, str]] = []
    if not network.axes:
        text = f"the dimensions of '{network.name}' are not known: it is designed as one of {len(network.npus):,} NPUs"
        hint = "products of rings, fully_connected and switched networks have dimensions; so have meshes and tori"
        texts.append((f"{text}, {'priced like one switch' if network.has_switches else _LIKE_A_RING}", hint))
    for number, axis in enumerate(network.axes):
        if axis.kind not in MODELLED:
            text = f"dimension {number} of '{network.name}' is a {axis.kind} of {axis.size:,} NPUs, {_LIKE_A_RING}"
            known = axis.kind in KINDS
            texts.append(
                (text, "" if known else "write the factor as a product too: ring(4) * ring(4) for torus2d(4, 4)")
            )
    if bool(((network.source >= network.npu_count) & (network.target >= network.npu_count)).any()):
        text = f"links between switches of '{network.name}' have no price: a dimension costs what one switch does"
        texts.append((text, ""))
    return tuple(Diagnostic("E0923", text, request.network_span, hint=hint, warning=True) for text, hint in texts)
