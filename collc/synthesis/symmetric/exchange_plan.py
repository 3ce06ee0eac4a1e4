"""An All-to-All by translations: each block of the representative takes a shortest route, also over other NPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.graph.distances import UNREACHABLE
from collc.synthesis.symmetric.class_timetable import ClassTimetable
from collc.synthesis.symmetric.routes import ClassTimes, Routes
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network
from collc.ten.translations import Translations


@dataclass(frozen=True, eq=False)
class ExchangePlan:
    """routes: int32[targets, hops], links to the elements 1, 2, ..., -1 after the end. starts: int64[parts, targets,
    hops], picoseconds.
    """

    routes: Int32Array
    starts: Int64Array


def plan_exchange(network: Network, translations: Translations, times: ClassTimes, parts: int) -> ExchangePlan | None:
    """The plan; None if no route leads to some NPU."""
    npus = translations.orbits[0]
    routes = Routes(network, translations, times, int(npus[0]), through=True)
    if bool((routes.distance[npus] >= UNREACHABLE).any()):
        return None
    hops = routes.to(npus[1:], parts)
    table = ClassTimetable(translations, times)
    starts, _ = table.append(np.tile(hops, (parts, 1)), np.zeros(parts * len(hops), np.int64))
    return ExchangePlan(hops, starts.reshape(parts, *hops.shape))
