"""Matching in steps for large networks: drives the kernels, and splits their work among threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from collc.synthesis.tacos.problem import CopyProblem
from collc.synthesis.tacos.sweeps import Sweep, sweep_of
from collc.ten.arrays import Int32Array, Int64Array, UInt8Array

if TYPE_CHECKING:
    from collc.kernels.matching_grid import State, Wires

Grid = NDArray[np.uint16] | NDArray[np.uint32]


def grid_steps(
    problem: CopyProblem, limit: int, least: int, window: int, threads: int, go_on: Callable[[float], bool]
) -> Grid | None:
    """The chunk (as the demand numbers them) that each link takes in each step.

    window: 0 for the FIFO rule, else how many chunks the rule of fewest alternatives looks at.
    least: the steps that memory is first taken for. go_on: is told now and then which share is planned, and answers
    whether to go on. None where `limit` steps do not do, or that says no.
    The result does not depend on the number of threads.
    """
    from collc.kernels import matching_grid as kernels

    sweep = sweep_of(problem.network, threads)
    wires, state = _arrays(problem, sweep, window)
    grid = blank_grid(min(limit, least), problem.network.link_count, int(wires.name.max(initial=0)) + 1)
    none = int(np.iinfo(grid.dtype).max)
    left, steps = problem.missing, 0
    with ExitStack() as stack:
        widest = max(map(len, sweep.waves))
        pool = stack.enter_context(ThreadPoolExecutor(widest - 1)) if widest > 1 and not window else None
        while left:
            more = min(sweep.depth, limit - steps)
            if not more or not go_on(1 - left / problem.missing):
                return None
            if steps + more > len(grid):
                grid = _longer(grid, steps + more, limit)
            done = (steps, more, grid, none)
            if window:
                left -= kernels.fewest_steps(wires, state, *done)
            elif pool is None:
                left -= kernels.fifo_tiles(wires, state, 0, sweep.waves[-1][-1][1], *done)
            else:
                for (low, high), *others in sweep.waves:
                    futures = [pool.submit(kernels.fifo_tiles, wires, state, a, b, *done) for a, b in others]
                    left -= kernels.fifo_tiles(wires, state, low, high, *done)
                    left -= sum(future.result() for future in futures)
            steps += more
    while steps and (grid[steps - 1] == none).all():
        steps -= 1
    return grid[:steps]


def blank_grid(rows: int, columns: int, count: int) -> Grid:
    """An empty array of the smaller type that numbers `count` chunks and has a value left for none."""
    if count < np.iinfo(np.uint16).max:
        return np.empty((rows, columns), np.uint16)
    return np.empty((rows, columns), np.uint32)


def _longer(grid: Grid, rows: int, limit: int) -> Grid:
    more = min(limit, max(rows, len(grid) + len(grid) // 8))
    grown = np.empty_like(grid, shape=(more, grid.shape[1]))
    grown[: len(grid)] = grid
    return grown


def _arrays(problem: CopyProblem, sweep: Sweep, window: int) -> tuple[Wires, State]:
    """What the kernels work on."""
    from collc.kernels.matching_grid import State, Wires

    network, count, devices = problem.network, problem.count, problem.devices
    first, number = network.in_links
    device, chunk = problem.held
    rank = np.empty(devices, np.int64)
    rank[sweep.near] = np.arange(devices)
    holder = np.zeros(count, np.int64)
    holder[chunk[::-1]] = rank[device[::-1]]
    back = np.lexsort((np.arange(count), holder))
    place = np.empty(count, np.int64)
    place[back] = np.arange(count)
    highest = int(problem.chunk.max(initial=0)) + 1
    name, order = blank_grid(1, count, highest)[0], blank_grid(devices, count, highest)
    name[:] = problem.chunk[back]
    have = np.zeros((devices, -(-count // 8)), np.uint8)
    _mark(have, device, place[chunk])
    closed = have.copy() if window else have
    _close(problem, place, closed)
    length = np.zeros((sweep.depth + 1, devices), np.int32)
    length[0] = np.bincount(device, minlength=devices)
    opens = np.cumsum(length[0]) - length[0]
    order[device, np.arange(len(device)) - opens[device]] = place[chunk]
    wires = Wires(first, network.source[number], number, name, sweep.begin, sweep.device)
    looked = blank_grid(network.link_count, window, highest)
    cursor, seen = np.zeros((2, network.link_count), np.int32)
    return wires, State(order, length, closed, have, cursor, looked, seen)


def _mark(bits: UInt8Array, row: Int32Array, chunk: Int64Array) -> None:
    np.bitwise_or.at(bits, (row, chunk >> 3), np.left_shift(1, chunk & 7).astype(np.uint8))


def _close(problem: CopyProblem, place: Int64Array, closed: UInt8Array) -> None:
    """Sets the bits of all chunks that a device does not want."""
    order = np.argsort(problem.want, kind="stable")
    numbers, opens = np.unique(problem.want[order], return_index=True)
    wanted = np.zeros_like(closed)
    for number, chunks in zip(numbers.tolist(), np.split(order, opens[1:]), strict=True):
        mask = np.zeros((1, closed.shape[1]), np.uint8)
        _mark(mask, np.zeros(len(chunks), np.int32), place[chunks])
        for device in problem.sets[number].tolist():
            wanted[device] |= mask[0]
    np.bitwise_or(closed, np.invert(wanted, out=wanted), out=closed)
