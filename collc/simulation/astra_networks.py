"""The networks of one dimension that ASTRA-sim's analytical backends know."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from collc.ten.network import DeviceFamily, LinkKind, Network


def link_count(shape: str, npus: int) -> int:
    """The links of a network, without making it."""
    return npus * (npus - 1) if shape == "FullyConnected" else 2 * npus


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
