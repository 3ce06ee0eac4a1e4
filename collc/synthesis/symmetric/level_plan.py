"""Plans on the levels of a cluster: pods, the nodes of a pod, the GPUs of a node.

A level is a subgroup of the translations; what is near (over an NVSwitch) makes the smallest one. In an All-Gather a
chunk enters each coset of a level once, over the shortest route, and spreads inside it by the moves of the levels
below. In an All-to-All each block takes a shortest route, also over other NPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.graph.distances import UNREACHABLE
from collc.synthesis.symmetric.class_timetable import ClassTimes, ClassTimetable, Routes
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.factored_schedule import Translations
from collc.ten.network import Network


@dataclass(frozen=True, eq=False)
class LevelPlan:
    """What is sent on one level: each holder sends each chunk by each move.

    holders, moves: int32, elements. routes: int32[parts, moves, holders, hops], links of the route of each message as
    it would be from element 0, -1 after its end; a move may have several. starts: int64, alike, picoseconds.
    arrivals: int64[parts, moves, holders].
    """

    holders: Int32Array
    moves: Int32Array
    routes: Int32Array
    starts: Int64Array
    arrivals: Int64Array

    @staticmethod
    def empty(parts: int) -> LevelPlan:
        """The plan of a level without moves."""
        nothing = np.empty((parts, 0, 1, 1), np.int64)
        return LevelPlan(
            np.zeros(1, np.int32), np.empty(0, np.int32), nothing.astype(np.int32), nothing, nothing[..., 0]
        )


@dataclass(frozen=True, eq=False)
class ExchangePlan:
    """routes: int32[parts, targets, hops], links to the elements 1, 2, ..., -1 after the end. starts: int64, alike,
    picoseconds.
    """

    routes: Int32Array
    starts: Int64Array


def plan_levels(
    network: Network,
    translations: Translations,
    times: ClassTimes,
    table: ClassTimetable,
    release: Int64Array,
) -> list[LevelPlan] | None:
    """The plans of an All-Gather on all levels, the widest first; None if a level cannot be entered.

    release: int64[parts], picoseconds from which the representative holds its chunks.
    """
    npus, parts = translations.orbits[0], len(release)
    routes = Routes(network, translations, times, through=False)
    levels = levels_of(translations, routes.distance[npus])
    if levels is None:
        return None
    holders, ready = np.zeros(1, np.int32), release[:, None]
    plans: list[LevelPlan] = []
    for moves in levels:
        shape = parts, len(moves), len(holders)
        hops = routes.to(np.tile(npus[moves], parts * len(holders)))  # what a holder sends at once, one after another
        hops = hops.reshape(parts, len(holders), len(moves), -1).swapaxes(1, 2).reshape(len(hops), -1)
        starts, arrivals = table.append(hops, np.broadcast_to(ready[:, None], shape).reshape(-1))
        arrivals = arrivals.reshape(shape)
        plans.append(LevelPlan(holders, moves, hops.reshape(*shape, -1), starts.reshape(*shape, -1), arrivals))
        ready = np.concatenate([ready, arrivals.reshape(parts, -1)], axis=1)
        holders = np.concatenate([holders, sums(translations, moves, holders).reshape(-1)])
    return plans


def plan_exchange(network: Network, translations: Translations, times: ClassTimes, parts: int) -> ExchangePlan | None:
    """The plan of an All-to-All; None if no route leads to some NPU."""
    npus = translations.orbits[0]
    routes = Routes(network, translations, times, through=True)
    if bool((routes.distance[npus] >= UNREACHABLE).any()):
        return None
    hops = routes.to(np.tile(npus[1:], parts))
    starts, _ = ClassTimetable(translations, times).append(hops, np.zeros(len(hops), np.int64))
    shape = parts, len(npus) - 1, hops.shape[1]
    return ExchangePlan(hops.reshape(shape), starts.reshape(shape))


def sums(translations: Translations, left: Int32Array, right: Int32Array) -> Int32Array:
    """int32[left, right]: each element of one list plus each of the other."""
    return translations.sum(np.repeat(left, len(right)), np.tile(right, len(left))).reshape(len(left), len(right))


def levels_of(translations: Translations, distance: Int64Array) -> list[Int32Array] | None:
    """The moves of each level, int32 elements, the widest level first; None if a coset cannot be entered.

    Every element is the sum of one move (or 0) of each level, in exactly one manner. distance: int64[count],
    picoseconds of the route from 0 to each element, UNREACHABLE if there is none.
    """
    inside = np.zeros(translations.count, np.bool_)
    inside[0] = True
    label = np.arange(translations.count, dtype=np.int32)
    levels: list[Int32Array] = []
    for value in np.unique(distance[distance < UNREACHABLE]).tolist():
        wider, coarser = inside, label
        for element in np.flatnonzero((distance == value) & ~inside).tolist():
            if not wider[element]:
                wider, coarser = generate_subgroup(translations, wider, coarser, element)
        if wider is inside:
            continue
        moves = _nearest_elements(label, distance, wider & ~inside)
        if moves is None:
            return None
        levels.append(moves)
        inside, label = wider, coarser
        if bool(inside.all()):
            return levels[::-1]
    return None


def generate_subgroup(
    translations: Translations, inside: BoolArray, label: Int32Array, element: int
) -> tuple[BoolArray, Int32Array]:
    """The subgroup that another element generates with a subgroup, and the lowest element of each of its cosets."""
    power = element
    while True:
        moved = translations.sums(power)
        wider = inside.copy()
        wider[moved[inside]] = True
        if bool((wider == inside).all()):
            return inside, label
        label = np.minimum(label, label[moved])
        inside, power = wider, int(moved[power])


def _nearest_elements(label: Int32Array, distance: Int64Array, among: BoolArray) -> Int32Array | None:
    """The nearest element of each coset, by number of the coset; None if one has no route."""
    elements = np.flatnonzero(among)
    order = elements[np.lexsort((elements, distance[elements], label[elements]))]
    nearest = order[np.unique(label[order], return_index=True)[1]].astype(np.int32)
    return nearest if bool((distance[nearest] < UNREACHABLE).all()) else None
