"""An All-Gather level by level: what the representative sends enters each pod once, then each node, then all GPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.synthesis.symmetric.class_timetable import ClassTimetable
from collc.synthesis.symmetric.levels import levels_of
from collc.synthesis.symmetric.routes import ClassTimes, Routes
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network
from collc.ten.translations import Translations


@dataclass(frozen=True, eq=False)
class LevelPlan:
    """What is sent on one level: each holder sends each chunk by each move.

    holders, moves: int32, elements. routes: int32[moves, hops], links of the route of each move from element 0, -1
    after its end. starts: int64[parts, moves, holders, hops], picoseconds. arrivals: int64[parts, moves, holders].
    """

    holders: Int32Array
    moves: Int32Array
    routes: Int32Array
    starts: Int64Array
    arrivals: Int64Array


def plan_levels(
    network: Network,
    translations: Translations,
    times: ClassTimes,
    table: ClassTimetable,
    release: Int64Array,
) -> list[LevelPlan] | None:
    """The plans of all levels, the widest first; None if a level cannot be entered.

    release: int64[parts], picoseconds from which the representative holds its chunks.
    """
    npus, parts = translations.orbits[0], len(release)
    routes = Routes(network, translations, times, int(npus[0]), through=False)
    levels = levels_of(translations, routes.distance[npus])
    if levels is None:
        return None
    holders, ready = np.zeros(1, np.int32), release[:, None]
    plans: list[LevelPlan] = []
    for moves in levels:
        hops = routes.to(npus[moves], len(holders) * parts)
        shape = parts, len(moves), len(holders)
        each = np.broadcast_to(hops[None, :, None], (*shape, hops.shape[1])).reshape(-1, hops.shape[1])
        starts, arrivals = table.append(each, np.broadcast_to(ready[:, None], shape).reshape(-1))
        arrivals = arrivals.reshape(shape)
        plans.append(LevelPlan(holders, moves, hops, starts.reshape(*shape, hops.shape[1]), arrivals))
        ready = np.concatenate([ready, arrivals.reshape(parts, -1)], axis=1)
        holders = np.concatenate([holders, sums(translations, moves, holders).reshape(-1)])
    return plans


def sums(translations: Translations, left: Int32Array, right: Int32Array) -> Int32Array:
    """int32[left, right]: each element of one list plus each of the other."""
    shape = len(left), len(right)
    one, other = np.broadcast_to(left[:, None], shape).reshape(-1), np.broadcast_to(right, shape).reshape(-1)
    return translations.sum(one, other).reshape(shape)
