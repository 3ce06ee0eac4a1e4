"""Matching in steps: drives the kernels, which in large networks split their work among threads."""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from collc.base.memory import require_for_search
from collc.kernels.compiled import compiled, numbers, zeros
from collc.synthesis.tacos.problem import CopyProblem
from collc.synthesis.tacos.tiles import SkewedTiles, all_in_one_tile, skewed_tiles
from collc.ten.arrays import Int32Array, Int64Array, StepTable, UInt8Array

if TYPE_CHECKING:
    from collc.kernels.matching_steps import StepNetwork, StepProgress


@dataclass(frozen=True, slots=True)
class StepRule:
    """Which chunk a link takes.

    window: 0: the one that its source got first of those that its target lacks (FIFO). Else, of the first
    `window` such chunks, the one that the fewest incoming links of the target could bring.
    """

    window: int = 0


def matched_steps(
    problem: CopyProblem,
    rule: StepRule,
    limit: int,
    least: int,
    compile_it: bool,
    threads: int = 1,
    go_on: Callable[[float], bool] = lambda _share: True,
) -> StepTable | None:
    """Plans all transfers; None if that takes more than `limit` steps, or `go_on` returns False.

    Chunks are numbered as in the demand. least: steps for which memory is allocated at first. compile_it: run compiled
    kernels; the result is the same. threads: of compiled kernels, at most; the result does not depend on it. go_on:
    called now and then with the share of the transfers that is planned.
    """
    network = problem.network
    tiles = skewed_tiles(network, threads) if compile_it else all_in_one_tile(network, max(1, least))
    arrays, progress = _arrays(problem, tiles, rule, compile_it)
    table = _Table(problem, min(limit, least), arrays.none, compile_it)
    left, steps = problem.missing, 0
    with ExitStack() as stack:
        widest = max(map(len, tiles.waves))
        pool = stack.enter_context(ThreadPoolExecutor(widest - 1)) if widest > 1 and not rule.window else None
        while left:
            more = min(tiles.depth, limit - steps)
            if not more or not go_on(1 - left / problem.missing):
                return None
            table.grow(steps + more, limit)
            left -= _do_steps(arrays, progress, tiles, rule, (steps, more, table.flat), pool, compile_it)
            steps += more
    return table.filled(steps)


def _do_steps(
    network: StepNetwork,
    progress: StepProgress,
    tiles: SkewedTiles,
    rule: StepRule,
    steps: tuple[int, int, MutableSequence[int]],
    pool: ThreadPoolExecutor | None,
    compile_it: bool,
) -> int:
    """Does some steps of all devices: (the first, how many, the table). Returns how many chunks links take in them."""
    from collc.kernels.matching_steps import fewest_steps, fifo_tiles

    if compile_it:
        fewest_steps, fifo_tiles = compiled(fewest_steps), compiled(fifo_tiles)
    if rule.window:
        return fewest_steps(network, progress, *steps)
    if pool is None:
        return fifo_tiles(network, progress, 0, tiles.waves[-1][-1][1], *steps)
    taken = 0
    for (low, high), *others in tiles.waves:
        futures = [pool.submit(fifo_tiles, network, progress, a, b, *steps) for a, b in others]
        taken += fifo_tiles(network, progress, low, high, *steps)
        taken += sum(future.result() for future in futures)
    return taken


class _Table:
    """A step-by-link table that grows; for plain Python a list."""

    def __init__(self, problem: CopyProblem, rows: int, none: int, compile_it: bool) -> None:
        self._links, self._none, self._large = problem.network.link_count, none, compile_it
        self._array = empty_table(rows if compile_it else 0, self._links, _highest(problem))
        self._list: list[int] = []

    @property
    def flat(self) -> MutableSequence[int]:
        """The table as the kernels take it."""
        return numbers(self._array.reshape(-1), compile_it=True) if self._large else self._list

    def grow(self, rows: int, limit: int) -> None:
        """Makes room for `rows` rows; `limit`: the most that there will be."""
        if not self._large:
            self._list += [self._none] * (rows * self._links - len(self._list))
        elif rows > len(self._array):
            more = min(limit, max(rows, len(self._array) + len(self._array) // 8))
            grown = np.empty_like(self._array, shape=(more, self._links))
            grown[: len(self._array)] = self._array
            self._array = grown

    def filled(self, steps: int) -> StepTable:
        """The first `steps` steps, without those at the end in which no link takes a chunk."""
        table = self._array
        if not self._large:
            table = np.empty_like(self._array, shape=(len(self._list) // self._links, self._links))
            table.reshape(-1)[:] = self._list
        while steps and (table[steps - 1] == self._none).all():
            steps -= 1
        return table[:steps]


def empty_table(rows: int, columns: int, highest: int) -> StepTable:
    """An uninitialised array of the smaller type that holds chunk numbers up to `highest` and one more for none."""
    if highest + 1 < np.iinfo(np.uint16).max:
        return np.empty((rows, columns), np.uint16)
    return np.empty((rows, columns), np.uint32)


def _highest(problem: CopyProblem) -> int:
    """The highest number of a chunk in the demand."""
    return int(problem.chunk.max(initial=0))


def _arrays(
    problem: CopyProblem, tiles: SkewedTiles, rule: StepRule, compile_it: bool
) -> tuple[StepNetwork, StepProgress]:
    """What the kernels work on."""
    from collc.kernels.matching_steps import StepNetwork, StepProgress

    network, count, devices, links = problem.network, problem.count, problem.devices, problem.network.link_count
    highest = _highest(problem)
    cell = empty_table(0, 0, highest).itemsize
    require_for_search(devices * count * cell + devices * count // 4, f"{count:,} chunks on {devices:,} devices")
    first, number = network.in_links
    device, chunk = problem.held
    back = _near_holders(problem, tiles)
    position = np.empty(count, np.int64)
    position[back] = np.arange(count)
    name, order = empty_table(1, count, highest)[0], empty_table(devices, count, highest)
    name[:] = problem.chunk[back]
    shift = 3 if compile_it else 0
    width = (count + (1 << shift) - 1) >> shift
    have = np.zeros((devices, width), np.uint8)
    _mark(have, device, position[chunk], shift)
    closed = have.copy() if rule.window else have
    _close(problem, position, closed, shift)
    length = np.zeros((tiles.depth + 1, devices), np.int32)
    length[0] = np.bincount(device, minlength=devices)
    begins = np.cumsum(length[0]) - length[0]
    order[device, np.arange(len(device)) - begins[device]] = position[chunk]

    def flat(values: Int32Array | Int64Array | StepTable | UInt8Array) -> MutableSequence[int]:
        return numbers(values.reshape(-1), compile_it)

    return StepNetwork(
        first=flat(first),
        source=flat(network.source[number]),
        number=flat(number),
        name=flat(name),
        begin=flat(tiles.begin),
        device=flat(tiles.device),
        depth=tiles.depth,
        shift=shift,
        mask=(1 << shift) - 1,
        width=width,
        none=int(np.iinfo(name.dtype).max),
    ), StepProgress(
        order=flat(order),
        length=flat(length),
        closed=flat(closed),
        cursor=zeros(links, compile_it, np.int32),
        have=flat(have),
        window=flat(empty_table(links, rule.window, highest)),
        seen=zeros(links, compile_it, np.int32),
    )


def _near_holders(problem: CopyProblem, tiles: SkewedTiles) -> Int64Array:
    """int64[K]: the chunks in an order in which those of near holders are together."""
    device, chunk = problem.held
    rank = np.empty(problem.devices, np.int64)
    rank[tiles.near] = np.arange(problem.devices)
    holder = np.zeros(problem.count, np.int64)
    holder[chunk[::-1]] = rank[device[::-1]]
    return np.lexsort((np.arange(problem.count), holder))


def _mark(sets: UInt8Array, row: Int32Array, chunk: Int64Array, shift: int) -> None:
    """Adds chunks to the sets of some rows."""
    np.bitwise_or.at(sets, (row, chunk >> shift), np.left_shift(1, chunk & ((1 << shift) - 1)).astype(np.uint8))


def _close(problem: CopyProblem, position: Int64Array, closed: UInt8Array, shift: int) -> None:
    """Adds all chunks that a device does not want."""
    order = np.argsort(problem.want, kind="stable")
    sets, begins = np.unique(problem.want[order], return_index=True)
    wanted = np.zeros_like(closed)
    for number, chunks in zip(sets.tolist(), np.split(order, begins[1:]), strict=True):
        mask = np.zeros((1, closed.shape[1]), np.uint8)
        _mark(mask, np.zeros(len(chunks), np.int32), position[chunks], shift)
        for device in problem.sets[number].tolist():
            wanted[device] |= mask[0]
    everything = np.uint8((1 << (1 << shift)) - 1)
    np.bitwise_or(closed, np.bitwise_xor(wanted, everything, out=wanted), out=closed)
