"""ASTRA-sim's network file as a product of topologies of the standard library, one for each dimension."""

from __future__ import annotations

from math import prod
from typing import Final

from collc.base.diagnostics import SourceFile
from collc.base.units import decimal
from collc.machines.kinds import ImportKind
from collc.machines.reading import ImportOptions, check_devices
from collc.simulation.astra_file import read_astra_file

_SHAPES: Final = {"Ring": "ring", "FullyConnected": "fully_connected", "Switch": "switched"}


def read_astra(source: SourceFile, _options: ImportOptions) -> str:
    """The expression of the network in the language, as `ring(4, ...) * switched(2, ...)`.

    Bandwidths are GiB/s and latencies nanoseconds, as ASTRA-sim counts. Raises SourceError as `read_astra_file`, and
    X0603 for too many NPUs.
    """
    dimensions = read_astra_file(source)
    check_devices(prod(dimension.npus for dimension in dimensions))
    return " * ".join(
        f"{_SHAPES[dimension.shape]}({dimension.npus}, bandwidth: {decimal(dimension.bandwidth, 12)}GiB/s,"
        f" latency: {decimal(dimension.latency, 12)}ns)"
        for dimension in dimensions
    )


KINDS: Final = (
    ImportKind(
        "astra",
        "network",
        read_astra,
        file="ASTRA-sim's network.yml",
        contains="everything",
        text=r"^[ \t]*+npus_count[ \t]*+:",
    ),
)
