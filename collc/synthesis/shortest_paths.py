"""Chunks along shortest paths, one message after another: the schedule for those who have no time for a better one.

Each chunk follows the tree of shortest paths from its holders. An NPU passes on what it has; through switches, every
message goes on its own and without a pause, so that it holds on any switch: whatever its buffer, without multicast, and
backwards for reductions. Messages are sent in rounds, in which NPU i sends to NPU i + d, and start when all their links
are free. A transfer takes a few microseconds of plain Python and a tenth of one compiled, whatever the demand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.kernels.compiled import compiled, numbers, zeros
from collc.synthesis.conditions import Conditions, conditions_of
from collc.synthesis.task import Task
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.schedule import RowSchedule, Schedule, Transfers

if TYPE_CHECKING:
    from collc.kernels.shortest_messages import LinkTable, MessageTable, RowTable

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
    return RowSchedule(task.model, Transfers.of(chunk, messages.link, start))


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

    def order(self) -> Int64Array:
        """The order in which they are sent: by level, distance in numbers, chunk and first link."""
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
    from collc.kernels.shortest_messages import PathWork, follow

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
    parts: list[_Messages] = []
    at = base = 0
    found = _room(room, large)
    while at < len(conditions) or not parts:
        _check(stop)
        work.counters[1], work.counters[2], work.counters[3] = 0, 0, 0
        following = run(links, rows, work, found, at, room)
        if following < 0:
            conditions.farthest(conditions.times_to(0))  # raises: no path leads there, whatever the size
        if following == at < len(conditions):
            room *= 2
            found = _room(room, large)
            continue
        parts.append(_part(found, work.counters, base))
        at, base = following, base + work.counters[3]
    return _joined(parts)


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


def _room(room: int, large: bool) -> MessageTable:
    from collc.kernels.shortest_messages import MessageTable

    return MessageTable(
        level=zeros(room, large, np.int32),
        row=zeros(room, large, np.int32),
        gap=zeros(room, large, np.int32),
        tail=zeros(room, large, np.int32),
        first=zeros(room + 1, large),
        link=zeros(room, large, np.int32),
        slot=zeros(room, large, np.int32),
        ready=zeros(room, large),
    )


def _part(found: MessageTable, counters: Sequence[int], base: int) -> _Messages:
    """What was found in one call. base: slots of the calls before."""
    _, messages, hops, slots, _ = counters
    return _Messages(
        level=np.array(found.level[:messages], np.int32),
        row=np.array(found.row[:messages], np.int32),
        gap=np.array(found.gap[:messages], np.int32),
        tail=np.array(found.tail[:messages], np.int32) + np.int32(base),
        first=np.array(found.first[: messages + 1], np.int64),
        link=np.array(found.link[:hops], np.int32),
        slot=np.array(found.slot[:hops], np.int32) + np.int32(base),
        ready=np.array(found.ready[:slots], np.int64),
    )


def _joined(parts: list[_Messages]) -> _Messages:
    first = [np.zeros(1, np.int64)]
    for part in parts:
        first.append(first[-1][-1] + part.first[1:])
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("level", "row", "gap", "tail", "link", "slot", "ready")
    }
    return _Messages(first=np.concatenate(first), **joined)


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
    columns = (messages.order(), messages.tail, messages.first, base, messages.link, messages.slot)
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
