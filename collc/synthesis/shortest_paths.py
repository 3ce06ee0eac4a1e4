"""Chunks along shortest paths, one message after another: a schedule that takes little time to plan.

It is used when a time limit leaves no time for a better one. Each chunk follows the tree of shortest paths from its
holders, and NPUs forward what they have. A message crosses switches alone and without a pause, so the schedule is valid
on any switch: with any buffer, without multicast, and backwards for reductions. Messages are sent in rounds, in which
NPU i sends to NPU i + d, and start when all their links are free. Planning a transfer takes a few microseconds in plain
Python and a tenth of one in compiled code, for any demand.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.kernels.compiled import compiled, numbers, zeros
from collc.synthesis.conditions import Conditions, conditions_of
from collc.synthesis.radix_order import sorted_by
from collc.synthesis.task import Task
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.schedule import LATEST_KEY, RowSchedule, Schedule, Transfers

if TYPE_CHECKING:
    from collc.kernels.shortest_messages import LinkTable, RowTable

COMPILED: Final = 100_000
"""Chunks and devices that want one from which the kernels are compiled."""

ROOM: Final = 1 << 20
"""Hops between two calls of `stop`, where they are compiled."""

BATCH: Final = 4096
"""The same in plain Python; messages too."""


def along_shortest_paths(task: Task, stop: Callable[[], bool] = lambda: False) -> Schedule:
    """A schedule of copies on any network. Raises SourceError where no path leads to a device that wants a chunk, and
    NoSchedule where `stop` returns True before the end.
    """
    conditions = conditions_of(task)
    large = len(conditions.wanting) >= COMPILED
    links = _link_table(conditions, large)
    messages = _messages(conditions, links, large, stop)
    start = _sent(conditions, links, messages, large, stop)
    _check(stop)
    chunk = np.repeat(conditions.chunk[messages.row], np.diff(messages.first))
    link = messages.link
    del messages
    if large:
        start, link, chunk = _in_order(start, link, chunk, stop)
    return RowSchedule(task.model, Transfers.of(chunk, link, start))


def _in_order(
    start: Int64Array, link: Int32Array, chunk: Int32Array, stop: Callable[[], bool]
) -> tuple[Int64Array, Int32Array, Int32Array]:
    """Starts, links and chunks by start and link, in less time than `Transfers.of` needs to sort them, if possible."""
    unit = max(1, int(np.gcd.reduce(start)))
    links = int(link.max(initial=0)) + 1
    if int(start.max(initial=0)) // unit >= LATEST_KEY // links:
        return start, link, chunk
    keys = start // unit
    keys *= links
    keys += link
    keys, chunk = sorted_by(keys, chunk, partial(_check, stop))
    steps = keys // links
    keys -= steps * links
    steps *= unit
    return steps, keys.astype(np.int32), chunk


def _check(stop: Callable[[], bool]) -> None:
    if stop():
        raise NoSchedule(Diagnostic("S0201", "stopped before there was any schedule", hint="give it more time"))


def _link_table(conditions: Conditions, large: bool) -> LinkTable:
    from collc.kernels.shortest_messages import LinkTable

    network, clock = conditions.task.network, conditions.clock
    offsets = np.zeros(network.device_count + 1, np.int64)
    np.cumsum(np.bincount(network.source, minlength=network.device_count), out=offsets[1:])
    total = clock.total[network.kind].T.ravel()
    return LinkTable(
        npus=network.npu_count,
        offsets=numbers(offsets, large),
        out=numbers(np.argsort(network.source, kind="stable"), large),
        source=numbers(network.source.astype(np.int64), large),
        target=numbers(network.target.astype(np.int64), large),
        length=numbers(np.maximum(total, 1), large),
        busy=numbers(clock.busy[network.kind].T.ravel(), large),
        total=numbers(total, large),
    )


@dataclass(frozen=True, eq=False)
class _Messages:
    """All messages, from NPU to NPU, each once: see MessageTable."""

    level: Int32Array
    row: Int32Array
    gap: Int32Array
    tail: Int32Array
    first: Int64Array
    link: Int32Array
    slot: Int32Array
    ready: Int64Array

    def order(self, stop: Callable[[], bool] | None) -> NDArray[np.integer]:
        """The order in which they are sent: by level, distance in numbers, chunk and first link.

        stop: None: by NumPy, else by compiled code, which asks it.
        """
        row, level = self.row, self.level
        if stop is not None and bool(((row[1:] > row[:-1]) | ((row[1:] == row[:-1]) & (level[1:] > level[:-1]))).all()):
            keys = level * np.int64(int(self.gap.max(initial=0)) + 1) + self.gap  # chunks are in order already
            return sorted_by(keys, np.arange(len(keys), dtype=np.int32), partial(_check, stop))[1]
        link = self.link[self.first[:-1]]
        keys = (self.level, self.gap, self.row, link)
        widths = [int(key.max(initial=0)) + 1 for key in keys]
        if np.prod(np.array(widths, np.float64)) < 2**62:  # one number to sort by is several times faster than four
            number = np.zeros(len(link), np.int64)
            for key, width in zip(keys, widths, strict=True):
                number = number * width + key
            return np.argsort(number)
        return np.lexsort(keys[::-1])


def _messages(conditions: Conditions, links: LinkTable, large: bool, stop: Callable[[], bool]) -> _Messages:
    from collc.kernels.shortest_messages import MessageTable, PathWork, follow

    devices = conditions.task.network.device_count
    rows = _row_table(conditions, large)
    none = np.full(devices, -1)
    work = PathWork(
        into=numbers(none.copy(), large),
        distance=numbers(none.copy(), large),
        level=numbers(none.copy(), large),
        slot=numbers(none.copy(), large),
        path=zeros(devices, large),
        seen=zeros(devices, large),
        counters=numbers(np.array([-1, 0, 0, 0, 0]), large),
    )
    run = compiled(follow) if large else follow
    room = (ROOM if large else BATCH) + 2 * devices
    found = MessageTable(*(zeros(0, large, dtype) for dtype in _TYPES))
    at = 0
    while at < len(conditions):
        _check(stop)
        for column, used in zip(found, _used(work.counters), strict=True):
            _grow(column, used + room)
        following = run(links, rows, work, found, at, room)
        if following < 0:
            conditions.farthest(conditions.times_to(0))  # raises: no path leads there, whatever the size
        room = room * 2 if following == at else room
        at = following
    _grow(found.first, 1)
    columns = zip(found, _used(work.counters), _TYPES, strict=True)
    return _Messages(*(np.asarray(column[:used], cast("Any", dtype)) for column, used, dtype in columns))


def _row_table(conditions: Conditions, large: bool) -> RowTable:
    from collc.kernels.shortest_messages import RowTable

    tree = _trees(conditions)
    return RowTable(
        order=numbers(np.argsort(tree, kind="stable"), large),
        tree=numbers(tree, large),
        size=numbers(conditions.column.astype(np.int64), large),
        holder_offsets=numbers(conditions.holder_offsets, large),
        holders=numbers(conditions.holders.astype(np.int64), large),
        wanting_offsets=numbers(conditions.wanting_offsets, large),
        wanting=numbers(conditions.wanting.astype(np.int64), large),
        release=numbers(conditions.release, large),
    )


def _trees(conditions: Conditions) -> Int64Array:
    """int64[rows]: the number of the tree that a chunk follows, which depends on its holders and its size."""
    if len(conditions.holders) == len(conditions):
        return conditions.column * np.int64(conditions.task.network.device_count) + conditions.holders
    seen: dict[tuple[int, bytes], int] = {}
    sizes: list[int] = conditions.column.tolist()
    keys = ((size, conditions.row(row)[0].tobytes()) for row, size in enumerate(sizes))
    return np.array([seen.setdefault(key, len(seen)) for key in keys], np.int64)


_TYPES: Final = (np.int32, np.int32, np.int32, np.int32, np.int64, np.int32, np.int32, np.int64)
"""Of the columns of MessageTable."""


def _used(counters: Sequence[int]) -> tuple[int, ...]:
    """How many rows of each column of MessageTable are used."""
    _, messages, hops, slots, _ = counters
    return messages, messages, messages, messages, messages + 1, hops, hops, slots


def _grow(column: MutableSequence[int], size: int) -> None:
    """Add zeros up to a size; the system moves the pages of a large array, which no other one may view."""
    more = size - len(column)
    if isinstance(column, np.ndarray):
        if more > 0:
            column.resize(size, refcheck=False)
    else:
        column.extend([0] * more)


def _sent(
    conditions: Conditions, links: LinkTable, messages: _Messages, large: bool, stop: Callable[[], bool]
) -> Int64Array:
    """int64[hops]: when each link is entered. Messages are put behind what is there already."""
    from collc.kernels.shortest_messages import SendTable, SendWork, send

    task, clock = conditions.task, conditions.clock
    network = task.network
    begin = 0
    if task.reserved is not None and len(task.reserved):
        begin = int((task.reserved.start + clock.total_of(task.reserved)).max())
    buffers = np.zeros(network.device_count + 1, np.int64)
    np.cumsum(np.maximum(network.buffers, 0), out=buffers[network.npu_count + 1 :])
    base = conditions.column[messages.row] * np.int64(network.link_count)
    columns = (
        messages.order(stop if large else None),
        messages.tail,
        messages.first,
        base,
        messages.link,
        messages.slot,
    )
    table = SendTable(*(numbers(column, large) for column in columns))
    work = SendWork(
        numbers(np.full(network.link_count, begin), large),
        numbers(messages.ready, large),
        numbers(buffers, large),
        zeros(int(buffers[-1]), large),
        zeros(len(messages.link), large),
    )
    run, step = (compiled(send), ROOM) if large else (send, BATCH)
    for low in range(0, len(base), step):
        _check(stop)
        run(links, table, work, low, min(low + step, len(base)))
    return np.asarray(work.start, np.int64)
