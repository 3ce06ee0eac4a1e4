"""The network of ASTRA-sim's network file, as its simulator connects the NPUs."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.reading import read_text
from collc.simulation.astra_file import MAX_BYTES, read_astra_file
from collc.simulation.astra_networks import astra_kind, astra_network, link_count
from collc.ten.network import Network
from collc.ten.transform import product

MAX_LINKS: Final = 10_000_000


def read_network(path: Path) -> Network:
    """The network of a file. Raises SourceError X0508, X0509 with the line of what is wrong, and as `read_text`."""
    dimensions = read_astra_file(read_text(path, limit=MAX_BYTES))
    npus = prod(dimension.npus for dimension in dimensions)
    name = " x ".join(f"{dimension.shape} of {dimension.npus}" for dimension in dimensions)
    links = sum(link_count(d.shape, d.npus) * (npus // d.npus) for d in dimensions)
    if links > MAX_LINKS:
        message = f"{name} NPUs has {links} links, more than {MAX_LINKS}"
        raise SourceError(Diagnostic("X0508", message, dimensions[0].span))
    networks = [astra_network(d.shape, d.npus, astra_kind(float(d.bandwidth), float(d.latency))) for d in dimensions]
    network, *others = networks
    for other in others:
        network = product(network, other, f"{network.name} x {other.name}", ("", ""))
    return network
