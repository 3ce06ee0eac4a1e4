"""First come, first served in steps, for large networks in which all transfers take equal time.

Drives the kernel, and splits its work among threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from collc.base.memory import require_for_search
from collc.kernels.compiled import compile_kernel
from collc.synthesis.tacos.problem import CopyProblem
from collc.synthesis.tacos.tiles import SkewedTiles, skewed_tiles
from collc.ten.arrays import Int32Array, Int64Array, StepTable, UInt8Array

if TYPE_CHECKING:
    from collc.kernels.matching_steps import StepNetwork, StepProgress


def matched_steps(
    problem: CopyProblem,
    limit: int,
    least: int,
    threads: int = 1,
    go_on: Callable[[float], bool] = lambda _share: True,
) -> StepTable | None:
    """Plans all transfers; None if that takes more than `limit` steps, or `go_on` returns False.

    Every link takes what its source got first of what its target lacks. Chunks are numbered as in the demand. least:
    steps for which memory is allocated at first. threads: the result does not depend on it. go_on: called now and then
    with the share of the transfers that is planned.
    """
    from collc.kernels.matching_steps import fifo_tiles

    fifo: Any = compile_kernel(fifo_tiles)
    tiles = skewed_tiles(problem.network, threads)
    network, progress = _arrays(problem, tiles)
    table = empty_table(min(limit, least), problem.network.link_count, problem)
    left, steps = problem.missing_count, 0
    with ExitStack() as stack:
        widest = max(map(len, tiles.waves))
        pool = stack.enter_context(ThreadPoolExecutor(widest - 1)) if widest > 1 else None
        while left:
            more = min(tiles.depth, limit - steps)
            if not more or not go_on(1 - left / problem.missing_count):
                return None
            if steps + more > len(table):
                rows = min(limit, max(steps + more, len(table) + len(table) // 8))
                grown = empty_table(rows, table.shape[1], problem)
                grown[: len(table)] = table
                table = grown
            given = steps, more, table.reshape(-1)
            if pool is None:
                left -= fifo(network, progress, 0, tiles.waves[-1][-1][1], *given)
            else:
                for (low, high), *others in tiles.waves:
                    futures = [pool.submit(fifo, network, progress, a, b, *given) for a, b in others]
                    left -= fifo(network, progress, low, high, *given)
                    left -= sum(future.result() for future in futures)
            steps += more
    go_on(1.0)
    while steps and (table[steps - 1] == network.none).all():
        steps -= 1
    return table[:steps]


def empty_table(rows: int, columns: int, problem: CopyProblem) -> StepTable:
    """An uninitialised array of the smaller type that holds numbers of chunks in the demand, and one more for none."""
    small = int(problem.chunk.max(initial=0)) + 1 < np.iinfo(np.uint16).max
    return np.empty((rows, columns), np.uint16) if small else np.empty((rows, columns), np.uint32)


def _arrays(problem: CopyProblem, tiles: SkewedTiles) -> tuple[StepNetwork, StepProgress]:
    """What the kernel works on."""
    from collc.kernels.matching_steps import StepNetwork, StepProgress

    network, count, devices = problem.network, problem.count, problem.devices
    name = empty_table(1, count, problem)[0]
    require_for_search(devices * count * (4 * name.itemsize + 1) // 4, f"{count:,} chunks on {devices:,} devices")
    first, number = network.in_links
    device, chunk = problem.initial_copies
    back = _near_holders(problem, tiles)
    position = np.empty(count, np.int64)
    position[back] = np.arange(count)
    name[:] = problem.chunk[back]
    order = empty_table(devices, count, problem)
    closed = _not_wanted(problem, position)
    _mark(closed, device, position[chunk])
    length = np.zeros((tiles.depth + 1, devices), np.int32)
    length[0] = np.bincount(device, minlength=devices)
    begins = np.cumsum(length[0]) - length[0]
    order[device, np.arange(len(device)) - begins[device]] = position[chunk]
    return StepNetwork(
        first=first,
        source=network.source[number],
        number=number,
        name=name,
        begin=tiles.begin,
        device=tiles.device,
        depth=tiles.depth,
        width=closed.shape[1],
        none=int(np.iinfo(name.dtype).max),
    ), StepProgress(
        order=order.reshape(-1),
        length=length.reshape(-1),
        closed=closed.reshape(-1),
        cursor=np.zeros(network.link_count, np.int32),
    )


def _near_holders(problem: CopyProblem, tiles: SkewedTiles) -> Int64Array:
    """int64[K]: the chunks in an order in which those of near holders are together."""
    device, chunk = problem.initial_copies
    rank = np.empty(problem.devices, np.int64)
    rank[tiles.near] = np.arange(problem.devices)
    holder = np.zeros(problem.count, np.int64)
    holder[chunk[::-1]] = rank[device[::-1]]
    return np.lexsort((np.arange(problem.count), holder))


def _mark(sets: UInt8Array, row: Int32Array, chunk: Int64Array) -> None:
    """Adds chunks to the sets of some rows."""
    np.bitwise_or.at(sets, (row, chunk >> 3), np.left_shift(1, chunk & 7).astype(np.uint8))


def _not_wanted(problem: CopyProblem, position: Int64Array) -> UInt8Array:
    """uint8[devices, width]: the chunks that each device does not want, 8 a byte."""
    order = np.argsort(problem.want, kind="stable")
    sets, begins = np.unique(problem.want[order], return_index=True)
    wanted = np.zeros((problem.devices, -(-problem.count // 8)), np.uint8)
    for number, chunks in zip(sets.tolist(), np.split(order, begins[1:]), strict=True):
        mask = np.zeros((1, wanted.shape[1]), np.uint8)
        _mark(mask, np.zeros(len(chunks), np.int32), position[chunks])
        for device in problem.sets[number].tolist():
            wanted[device] |= mask[0]
    return np.bitwise_not(wanted, out=wanted)
