"""Matching in steps for large networks: drives the kernels, and splits their work among threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from collc.synthesis.matching import CopyProblem

THREADED = 2000
"""Devices from which threads pay."""

Grid = NDArray[np.uint16] | NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class _State:
    """The arrays that collc.kernels.matching_grid works on."""

    first: NDArray[np.int32]
    source: NDArray[np.int32]
    number: NDArray[np.int32]
    order: Grid
    length: NDArray[np.int32]
    grown: NDArray[np.int32]
    closed: NDArray[np.uint8]
    have: NDArray[np.uint8]
    cursor: NDArray[np.int32]

    @staticmethod
    def of(problem: CopyProblem) -> _State:
        network, count, devices = problem.network, problem.count, problem.devices
        first, number = network.in_links
        have = np.zeros((devices, -(-count // 8)), np.uint8)
        closed = np.full_like(have, 255)
        length = np.zeros(devices, np.int32)
        order = blank_grid(devices, count, count)
        for column, bits in ((problem.want, closed), (problem.pre, have)):
            for members, chunks in _by_set(problem, column):
                mask = np.packbits(np.bincount(chunks, minlength=count).astype(np.bool_), bitorder="little")
                for device in members.tolist():
                    if bits is closed:
                        bits[device] &= ~mask
                    else:
                        bits[device] |= mask
        for members, chunks in _by_set(problem, problem.pre):
            for device in members.tolist():
                order[device, length[device] : length[device] + len(chunks)] = chunks
                length[device] += len(chunks)
        for device in np.flatnonzero(length > 1).tolist():
            order[device, : length[device]].sort()
        closed |= have
        cursor = np.zeros(network.link_count, np.int32)
        return _State(first, network.source[number], number, order, length, length.copy(), closed, have, cursor)


def blank_grid(rows: int, columns: int, count: int) -> Grid:
    """An empty array of the smaller type that numbers `count` chunks and has a value left for none."""
    if count < np.iinfo(np.uint16).max:
        return np.empty((rows, columns), np.uint16)
    return np.empty((rows, columns), np.uint32)


def grid_steps(
    problem: CopyProblem, limit: int, least: int, window: int, threads: int, stop: Callable[[], bool]
) -> Grid | None:
    """The chunk (as the problem numbers them) that each link takes in each step.

    window: 0 for the FIFO rule, else how many chunks the rule of fewest alternatives looks at.
    least: the steps that memory is first taken for. None where `limit` steps do not do, or `stop` says so.
    The result does not depend on the number of threads.
    """
    from collc.kernels import matching_grid as kernels

    s = _State.of(problem)
    none = int(np.iinfo(s.order.dtype).max)
    links, highest = problem.network.link_count, int(problem.chunk.max(initial=0)) + 1
    grid = blank_grid(min(limit, least), links, highest)
    row = blank_grid(1, links, problem.count)[0]

    def step(part: tuple[int, int]) -> int:
        low, high = part
        if not window:
            return kernels.fifo_step(
                low, high, s.first, s.source, s.number, s.order, s.length, s.grown, s.closed, s.cursor, row, none
            )
        return kernels.fewest_step(
            low, high, s.first, s.source, s.number, s.order, s.length, s.grown, s.closed, s.have, window, s.cursor,
            row, none,
        )  # fmt: skip

    ranges = _ranges(s.first, threads if problem.devices >= THREADED else 1)
    left, steps = problem.missing, 0
    numbers = np.append(problem.chunk, np.iinfo(grid.dtype).max).astype(grid.dtype)
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(len(ranges))) if len(ranges) > 1 else None
        while left:
            if steps == limit or stop():
                return None
            if steps == len(grid):
                grid = _longer(grid, limit, highest)
            left -= sum(pool.map(step, ranges) if pool else map(step, ranges))
            if window:
                kernels.settle(0, problem.devices, s.order, s.length, s.grown, s.have)
            else:
                s.length[:] = s.grown
            np.take(numbers, row, mode="clip", out=grid[steps])
            steps += 1
    return grid[:steps]


def _by_set(problem: CopyProblem, column: NDArray[np.int32]) -> list[tuple[NDArray[np.int32], NDArray[np.int64]]]:
    """The chunks that have the same set in a column, with its members."""
    order = np.argsort(column, kind="stable")
    ordered = column[order]
    bounds = np.flatnonzero(np.diff(ordered, prepend=-1, append=-1)) if len(order) else np.zeros(1, np.int64)
    pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    return [(problem.sets[int(ordered[low])], order[low:high]) for low, high in pairs]


def _ranges(first: NDArray[np.int32], threads: int) -> list[tuple[int, int]]:
    """Devices in ranges with about equally many incoming links."""
    places = np.searchsorted(first, np.linspace(0, int(first[-1]), max(1, threads) + 1)[1:-1]).tolist()
    ends = [0, *places, len(first) - 1]
    return [(low, high) for low, high in pairwise(ends) if high > low]


def _longer(grid: Grid, limit: int, highest: int) -> Grid:
    grown = blank_grid(min(limit, len(grid) + max(16, len(grid) // 8)), grid.shape[1], highest)
    grown[: len(grid)] = grid
    return grown
