"""Canonical positions of marked NPUs under the symmetries of a network.

Requests whose NPUs a symmetry takes to each other are one request if each is first moved to a position that depends on
its class alone. The indices along each axis are ordered by colours that are refined as for the isomorphism of graphs
(McKay and Piperno, Practical graph isomorphism, II, 2014): an index has the colour of the marked NPUs that have it, and
an NPU those of its indices. If several indices keep one colour and differ, the first of them gets a colour of its own.
No other choice is tried, so that a class may have several positions; none is ever that of two classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collc.graph.automorphisms import mix_bits
from collc.graph.symmetries import Symmetries
from collc.ten.arrays import Int32Array, Int64Array

Colours = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class _AxisMoves:
    """What moves do along one axis. run: int64[size], the first index of those with which each can be exchanged.
    step: of shifts, the size if there is none. flips: whether all indices can be reversed. alike: the first of the axes
    with which it can be exchanged.
    """

    run: Int64Array
    step: int
    flips: bool
    alike: int


def _axis_moves(symmetries: Symmetries) -> list[_AxisMoves]:
    assert symmetries.coordinates is not None
    axes: list[_AxisMoves] = []
    moves = [move for move, _ in symmetries.all]
    for axis, size in enumerate(symmetries.coordinates.sizes):
        run = np.arange(size)
        for kind, own, a, b in moves:
            if kind == "swap" and own == axis:
                run[b] = a
        step = min([size, *(by for kind, own, by, _ in moves if kind == "shift" and own == axis)])
        flips = any(kind == "flip" and own == axis for kind, own, _, _ in moves)
        alike = min([axis, *(own for kind, own, other, _ in moves if kind == "axes" and other == axis)])
        axes.append(_AxisMoves(run, step, flips, alike))
    return axes


def _number_colours(numbers: NDArray[np.integer]) -> Colours:
    return mix_bits(numbers.astype(np.uint64) + np.uint64(1))


class CanonicalPositions:
    """Finds canonical positions under the moves of a network that has some."""

    def __init__(self, symmetries: Symmetries) -> None:
        assert symmetries.coordinates is not None
        self._coordinates = symmetries.coordinates
        self._axes = _axis_moves(symmetries)

    def find(self, npus: Int32Array, colours: Colours) -> Int32Array:
        """int32[NPUs of the network]: where each NPU goes. npus, colours: those that are marked, and how."""
        search = _Search(self._axes, self._coordinates.index[:, npus], colours)
        order, tables = search.run(self._coordinates.sizes)
        index = np.stack([tables[axis][self._coordinates.index[axis]] for axis in order])
        return self._coordinates.npus_at(index.astype(np.int32)).astype(np.int32)


class _Search:
    """The search for one set of marked NPUs. index: int32[axes, marked]. colour: of each index, by axis."""

    def __init__(self, axes: list[_AxisMoves], index: Int32Array, marks: Colours) -> None:
        self._axes, self._index, self._marks = axes, index, marks
        self._axis_colour = _number_colours(np.array([axis.alike for axis in axes]))
        self._colour = [np.zeros(len(axis.run), np.uint64) for axis in axes]
        self._count = [np.bincount(own, minlength=len(axis.run)) for own, axis in zip(index, axes, strict=True)]

    def run(self, sizes: tuple[int, ...]) -> tuple[list[int], list[Int64Array]]:
        """(the axis that comes to each place, the new index of each index by axis)."""
        self._refine()
        order = self._order_axes()
        self._axis_colour[order] = _number_colours(np.arange(len(order)) + len(order))
        tables = [np.arange(size) for size in sizes]
        for axis in order:
            self._refine()
            self._distinguish(axis)
            arranged = self._arrange(axis)
            tables[axis][arranged] = np.arange(sizes[axis])
            self._colour[axis] = _number_colours(tables[axis])
        return order, tables

    def _order_axes(self) -> list[int]:
        """The axis at each place: of axes that are alike, those with the lowest colours first."""
        order = [*range(len(self._axes))]
        for alike in {axis.alike for axis in self._axes}:
            places = [k for k, axis in enumerate(self._axes) if axis.alike == alike]
            ranked = sorted(places, key=lambda k: np.sort(self._colour[k]).tolist())
            for place, axis in zip(places, ranked, strict=True):
                order[place] = axis
        return order

    def _points(self) -> Colours:
        """The colours of marked NPUs: their marks, and the colours of their indices."""
        total = mix_bits(self._marks)
        for axis, index in enumerate(self._index):
            total = total + mix_bits(self._colour[axis][index] + self._axis_colour[axis])
        return mix_bits(total)

    def _refine(self) -> None:
        """Give indices other colours as long as more of them differ."""
        classes = 0
        while (more := sum(len(np.unique(colour)) for colour in self._colour)) > classes:
            classes, points = more, self._points()
            for axis, index in enumerate(self._index):
                total = self._colour[axis].copy()
                np.add.at(total, index, points)
                self._colour[axis] = mix_bits(total)

    def _distinguish(self, axis: int) -> None:
        """Refine until indices along an axis with one colour have the same marked NPUs, if they can be exchanged."""
        run, index = self._axes[axis].run, self._index[axis]
        while True:
            own = np.zeros(len(run), np.uint64)
            others = _number_colours(self._places_without(axis))
            np.add.at(own, index, mix_bits(others + mix_bits(self._marks)))
            order = np.lexsort((np.arange(len(run)), self._colour[axis], run))
            same = (np.diff(self._colour[axis][order]) == 0) & (np.diff(run[order]) == 0)
            differ = np.flatnonzero(same & (np.diff(own[order]) != 0))
            if not len(differ):
                return
            first = int(order[differ[0]])
            self._colour[axis][first] = mix_bits(self._colour[axis][first : first + 1] + np.uint64(1))[0]
            self._refine()

    def _places_without(self, axis: int) -> Int64Array:
        """int64[marked]: numbers for the indices along all axes but one."""
        place = np.zeros(len(self._marks), np.int64)
        for other, index in enumerate(self._index):
            place = place if other == axis else place * len(self._axes[other].run) + index
        return place

    def _arrange(self, axis: int) -> Int64Array:
        """int64[size]: the old index that comes to each place, if possible those of most marked NPUs first."""
        moves, colour, count = self._axes[axis], self._colour[axis], self._count[axis]
        order = np.lexsort((colour, -count, moves.run))
        places = np.argsort(moves.run, kind="stable")
        arranged = np.empty_like(order)
        arranged[places] = order
        if moves.step == len(order) and not moves.flips:
            return arranged
        shifts = (np.arange(len(order)) + np.arange(0, len(order), moves.step)[:, None]) % len(order)
        choices = arranged[np.concatenate([shifts, shifts[:, ::-1]]) if moves.flips else shifts]
        for place in range(len(order)):
            keys = list(zip((-count[choices[:, place]]).tolist(), colour[choices[:, place]].tolist(), strict=True))
            least = min(keys)
            choices = choices[[key == least for key in keys]]
            if len(choices) == 1:
                break
        return choices[0]
