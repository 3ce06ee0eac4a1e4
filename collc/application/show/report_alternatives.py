"""What a report compares a schedule with: textbook algorithms on the same network, and how they use its links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collc.application.settings import Progress
from collc.base.diagnostics import SourceError
from collc.base.units import format_time
from collc.pictures.schedule_pictures import SPANS
from collc.ten.module import Module
from collc.ten.network import Network

MOST_NPUS: Final = 64
"""NPUs up to which alternatives are simulated: 3 s of CPU time; All-Reduce over 128 takes 11 s."""

Curve = tuple[str, int, Sequence[float]]
"""Name, picoseconds, and the share of links in use in each of `SPANS` equal parts of the time."""


@dataclass(frozen=True, slots=True)
class Alternatives:
    """curves: of those that run on the network. rows: name, time, time relative to the schedule, and remark of each.

    remark: why there is nothing to compare with, "" where there is.
    """

    curves: tuple[Curve, ...] = ()
    rows: tuple[tuple[str, str, str, str], ...] = ()
    remark: str = ""


def alternatives_of(module: Module, network: Network, time: int, progress: Progress) -> Alternatives:
    """The alternatives to a schedule that takes `time` picoseconds.

    network: that of the module, where its schedule has no direct links in the place of switches.
    """
    from collc.application.compare.alternatives import simulated_alternatives

    if len(network.npus) > MOST_NPUS:
        remark = f"Alternatives are simulated for up to {MOST_NPUS} NPUs here; 'collc compare' takes more."
        return Alternatives(remark=remark)
    curves: list[Curve] = []
    rows: list[tuple[int, tuple[str, str, str, str]]] = []
    try:
        for name, found in simulated_alternatives(module, network, progress):
            if isinstance(found, str):
                rows.append((2**63, (name, "-", "-", found)))
                continue
            curves.append((name, found.time_ps, found.utilisation(SPANS).tolist()))
            ratio = f"{found.time_ps / time:.2f} x" if time else "-"
            rows.append((found.time_ps, (name, format_time(found.time_ps), ratio, "")))
    except SourceError as error:
        return Alternatives(remark=f"There are no alternatives: {error.diagnostics[0].message}.")
    return Alternatives(tuple(curves), tuple(row for _, row in sorted(rows, key=lambda row: row[0])))
