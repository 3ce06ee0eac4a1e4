"""The levels of a cluster: pods, the nodes of a pod, the GPUs of a node.

A level is a subgroup of the translations; what is near (over an NVSwitch) makes the smallest one. A chunk enters each
coset of a level once, over the shortest route, and spreads inside it by the moves of the levels below.
"""

from __future__ import annotations

import numpy as np

from collc.graph.distances import UNREACHABLE
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.translations import Translations


def levels_of(translations: Translations, distance: Int64Array) -> list[Int32Array] | None:
    """The moves of each level, int32 elements, the widest level first; None if a coset cannot be entered.

    Every element is the sum of one move (or 0) of each level, in exactly one manner. distance: int64[count],
    picoseconds of the route from 0 to each element, UNREACHABLE where there is none.
    """
    inside = np.zeros(translations.count, np.bool_)
    inside[0] = True
    label = np.arange(translations.count, dtype=np.int32)
    levels: list[Int32Array] = []
    for value in np.unique(distance[distance < UNREACHABLE]).tolist():
        wider, coarser = inside, label
        for element in np.flatnonzero((distance == value) & ~inside).tolist():
            if not wider[element]:
                wider, coarser = _generate_subgroup(translations, wider, coarser, element)
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


def _generate_subgroup(
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
    first = np.ones(len(order), np.bool_)
    first[1:] = label[order][1:] != label[order][:-1]
    nearest = order[first].astype(np.int32)
    return nearest if bool((distance[nearest] < UNREACHABLE).all()) else None
