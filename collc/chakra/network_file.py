"""The network of ASTRA-sim's network file, as its simulator connects the NPUs."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from pathlib import Path

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.reading import read_text
from collc.simulation.astra_file import MAX_BYTES, read_astra_file
from collc.ten.network import MOST_LINKS, DeviceFamily, LinkKind, Network
from collc.ten.transform import product


def read_network(path: Path) -> Network:
    """The network of a file. Raises SourceError X0508, X0509 with the line of what is wrong, and as `read_text`."""
    dimensions = read_astra_file(read_text(path, limit=MAX_BYTES))
    npus = prod(dimension.npus for dimension in dimensions)
    name = " x ".join(f"{dimension.shape} of {dimension.npus}" for dimension in dimensions)
    links = npus * sum(d.npus - 1 if d.shape == "FullyConnected" else 2 for d in dimensions)
    if links > MOST_LINKS:
        message = f"{name} NPUs has {links} links, more than {MOST_LINKS}"
        raise SourceError(Diagnostic("X0508", message, dimensions[0].span))
    networks = [astra_network(d.shape, d.npus, astra_kind(float(d.bandwidth), float(d.latency))) for d in dimensions]
    network, *others = networks
    for other in others:
        network = product(network, other, f"{network.name} x {other.name}", ("", ""))
    return network


def astra_network(shape: str, npus: int, kind: LinkKind) -> Network:
    """A network whose shortest routes (`routing.shortest_routes`) are those of ASTRA-sim.

    shape: of `astra_file.SHAPES`. npus: at least 2. A switch is the device after the NPUs.
    """
    ids = np.arange(npus)
    if shape == "Ring":
        source, target = np.concatenate([ids, ids]), np.concatenate([(ids + 1) % npus, (ids - 1) % npus])
        source, target = (source[:2], target[:2]) if npus == 2 else (source, target)
    elif shape == "FullyConnected":
        source, target = np.divmod(np.arange(npus * (npus - 1)), npus - 1)
        target = target + (target >= source)
    else:
        source, target = np.concatenate([ids, np.full(npus, npus)]), np.concatenate([np.full(npus, npus), ids])
    switches = int(shape == "Switch")
    families = [DeviceFamily("npu", (npus,), 0, (1,)), DeviceFamily("switch", (), npus, ())]
    return Network(
        name=f"{shape}({npus})",
        npu_count=npus,
        families=tuple(families[: 1 + switches]),
        present=np.ones(npus + switches, np.bool_),
        buffers=np.full(switches, -1, np.int64),
        multicast=np.zeros(switches, np.bool_),
        reduces=np.zeros(switches, np.bool_),
        source=source.astype(np.int32),
        target=target.astype(np.int32),
        kind=np.zeros(len(source), np.int32),
        kinds=(kind,),
    )


def astra_kind(gibibytes_per_second: float, latency_ns: float) -> LinkKind:
    """A link of a network file: its bandwidth is in GiB/s (the file calls it GB/s), its latency in nanoseconds.

    Raises OverflowError and ValueError if a number is not finite.
    """
    return LinkKind(round(Fraction(latency_ns) * 1000), Fraction(gibibytes_per_second) * 2**30)
