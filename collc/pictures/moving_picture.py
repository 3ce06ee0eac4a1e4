"""The data of a picture that moves: where devices and links are, and when each link carries what."""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collc.base.units import format_time, shown_bytes
from collc.pictures.device_groups import device_groups
from collc.pictures.layout import MOST_BELOW_SWITCHES
from collc.pictures.link_use import LinkUse
from collc.pictures.network_picture import DrawnNetwork, drawn_network
from collc.pictures.picture import MOST_MARKS, SERIES, WIDTH
from collc.ten.arrays import Int64Array
from collc.ten.network import Network

_PARTS: Final = WIDTH // 5
"""Equal parts of the time in which the use of lines is shown if transfers are too many. Their numbers fit in bytes."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A picture that moves.

    name: of the schedule or algorithm. words: what it shows, for those who do not see it. network, data: JSON for the
    page, of the network and of its use. lists_rows: whether each row of the link use is in the data, so that the data
    has the words for marks with the number of a row. notes: what is left out.
    """

    name: str
    words: str
    network: str
    data: str
    lists_rows: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Stage:
    """What is drawn of a network.

    network: the devices that are drawn. of: int64[devices], the drawn device, or -1. line_of: int64[links], the drawn
    line, or -1 for links inside a group. notes: what is drawn as one.
    """

    network: Network
    drawn: DrawnNetwork
    of: Int64Array
    line_of: Int64Array
    notes: tuple[str, ...] = ()

    @property
    def links(self) -> Int64Array:
        """int64[lines]: how many links are drawn as each line."""
        return np.bincount(self.line_of[self.line_of >= 0], minlength=len(self.drawn.lines))


def _are_listed(count: int) -> bool:
    """Whether a page has each of a number of rows: at most 320 kB."""
    return count <= 16 * MOST_MARKS


def _are_drawn(network: Network) -> bool:
    """Whether a picture has each line of a network: one that moves is drawn in about 20 ms."""
    return network.link_count <= 4 * MOST_MARKS


def clip_of(use: LinkUse, name: str, *, named: bool = True) -> Clip:
    """The moving picture of what links carry. name: of the algorithm. named: whether the page names what moves."""
    stage = _stage_of(use.network)
    layout, notes = stage.drawn.layout, [*stage.notes]
    lists_rows = _are_listed(len(use)) and not notes
    rows = _listed_rows(use, stage.line_of, named) if lists_rows else _joined_rows(use, stage)
    if not lists_rows:
        notes.append(f"{len(use):,} transfers are drawn as the use of links in {_PARTS} parts of the time")
    network = {
        "height": round(layout.height, 1),
        "radius": round(layout.radius, 2),
        "thick": 1 if layout.cell else min(1.0, max(0.25, round(400 / max(1, len(stage.drawn.lines)), 2))),
        "npus": stage.network.npu_count,
        "gone": np.flatnonzero(~stage.network.present).tolist(),
        "devices": [
            [stage.network.shown_name(device), *(round(value, 1) for value in layout.points.get(device, ()))]
            for device in range(stage.network.device_count)
        ],
        "boxes": [[round(value, 1) for value in (box.x, box.y, box.width, box.height)] for box in layout.boxes],
        "lines": stage.drawn.lines,
        "links": stage.links.tolist(),
        "removed": stage.drawn.removed,
    }
    data = {"name": name, "time": use.time, **rows}
    words = f"{len(use):,} transfers on {use.network.name} within {format_time(use.time)}"
    words += f"; a chain of {len(rows['critical'])} of them ends last" if rows["critical"] else ""
    return Clip(name, words, _json(network), _json(data), lists_rows, tuple(notes))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _stage_of(network: Network) -> _Stage:
    """The whole network if its picture has all devices and few lines, else groups of devices, as many as fit."""
    of, shown, notes, most = np.arange(network.device_count), network, (), MOST_BELOW_SWITCHES
    drawn = drawn_network(network) if _are_drawn(network) else None
    while drawn is None or drawn.layout.notes:
        groups = device_groups(network, most, 2 * most)
        of, shown = groups.of, groups.network_of(network)
        drawn = drawn_network(shown) if _are_drawn(shown) or most == 1 else None
        notes = (
            f"each circle is a group of NPUs, such as {groups.labels[0]}, a line is as wide as its links are used",
        )
        most //= 2
    lines = np.array([line[:2] for line in drawn.lines], np.int64).reshape(-1, 2) @ [shown.device_count, 1]
    ends = of[network.source] * shown.device_count + of[network.target]
    order = np.argsort(lines)
    inside = of[network.source] == of[network.target]
    line_of = np.where(inside, -1, order[np.searchsorted(lines, ends, sorter=order) % max(1, len(lines))])
    return _Stage(shown, drawn, of, line_of, notes)


def _listed_rows(use: LinkUse, line_of: Int64Array, named: bool) -> dict[str, Any]:
    """Each row as it is. begin: the first, then differences. kinds: (busy, delay, words for the size and for what the
    receiver does). item: what moves, or if it is not named, its colour.
    """
    unit = max(1, int(np.gcd.reduce(np.concatenate([use.begin, use.free, use.arrive]), initial=0)))
    unit = max(unit, -(-use.time // (2**32 - 1)))
    columns = [use.free - use.begin, use.arrive - use.begin, use.size, use.reduce, use.kept]
    columns = np.stack(columns if named else columns[:2], axis=1)
    kinds, first, kind = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    item = use.item if named else use.owner % SERIES
    count = int(item.max(initial=-1)) + 1
    owner = np.zeros(count, np.int64)
    owner[item] = use.owner % SERIES
    return {
        "unit": unit,
        "item": _pack(item),
        "line": _pack(line_of[use.link]),
        "begin": _pack(np.diff(use.begin // unit, prepend=0)),
        "kind": _pack(kind.reshape(-1)),
        "kinds": [
            [busy // unit, delay // unit, *((shown_bytes(rest[0]), use.effect(row)) if rest else ())]
            for (busy, delay, *rest), row in zip(kinds.tolist(), first.tolist(), strict=True)
        ],
        "items": [use.item_name(number) for number in range(count)] if named else None,
        "owner": _pack(owner),
        "held": _holders_of(use, count) if named else None,
        "critical": critical_path(use),
    }


def _holders_of(use: LinkUse, count: int) -> list[Any] | None:
    """How many NPUs hold each item at the start, and these NPUs; None if that is not known, or if they are many."""
    if use.holders is None:
        return None
    holders = [use.holders(item) for item in range(count)]
    sizes = [len(npus) for npus in holders]
    if not _are_listed(sum(sizes)):
        return None
    return [_pack(np.array(sizes, np.int64)), _pack(np.concatenate(holders))]


def _joined_rows(use: LinkUse, stage: _Stage) -> dict[str, Any]:
    """The use of each line in equal parts of the time.

    Rows are parts that follow one another with the same level. kinds: (length, length, share of the links of the line
    that is in use, in fourths and rounded up; one link is in use or not). carried, busy: of each line, transfers, and
    percent of the time and links that they take. arrived: of each device, the parts at which sixteenths of what it
    receives have arrived.
    """
    unit = use.time // _PARTS + 1
    outside = np.flatnonzero(stage.line_of[use.link] >= 0)
    line = stage.line_of[use.link[outside]]
    count = len(stage.drawn.lines)
    used = np.zeros((count, _PARTS + 1), np.int64)  # until the end of each part, as what begins less what is free again
    slope = np.zeros((count, _PARTS + 1), np.int64)
    for times, sign in ((use.begin[outside], 1), (use.free[outside], -1)):
        part = np.minimum(times // unit, _PARTS)
        np.add.at(used, (line, part), sign * ((part + 1) * unit - times))
        np.add.at(slope, (line, part), sign)
    ramp = np.zeros_like(slope)
    np.cumsum(slope[:, :-1], axis=1, out=ramp[:, 1:])
    busy = (used + ramp * unit)[:, :_PARTS]
    links = stage.links
    levels = np.minimum(links, 4)[:, None]
    level = np.minimum(-(-busy * levels // np.maximum(1, links * unit)[:, None]), levels)
    changes = np.diff(level, axis=1, prepend=0, append=0) != 0
    rows, edge = np.nonzero(changes)
    begin, end = edge[:-1], edge[1:]
    kept = (rows[:-1] == rows[1:]) & (level[rows[:-1], np.minimum(begin, _PARTS - 1)] > 0)
    rows, begin, end = rows[:-1][kept], begin[kept], end[kept]
    order = np.argsort(begin, kind="stable")
    shares = 4 * level[rows, begin] // levels[rows, 0]
    kinds, kind = np.unique(np.stack([end - begin, shares], axis=1)[order], axis=0, return_inverse=True)
    target = stage.of[use.network.target[use.link]]
    received = np.bincount(target, minlength=stage.network.device_count)
    by_arrival = np.lexsort([use.arrive, target])
    nth = -(-np.arange(1, 17) * received[:, None] // 16) - 1
    places = np.maximum(0, nth + (np.cumsum(received) - received)[:, None])
    arrived = (np.append(use.arrive[by_arrival], 0) // unit)[places]
    return {
        "unit": unit,
        "line": _pack(rows[order]),
        "begin": _pack(np.diff(begin[order], prepend=0)),
        "kind": _pack(kind.reshape(-1)),
        "kinds": [[length, length, share] for length, share in kinds.tolist()],
        "carried": _pack(np.bincount(line, minlength=count)),
        "busy": _pack(100 * busy.sum(axis=1) // np.maximum(1, links * max(1, use.time))),
        "received": _pack(received),
        "arrived": _pack(arrived.reshape(-1)),
        "critical": [],
    }


def _pack(column: NDArray[Any]) -> list[Any]:
    """[bytes of a number, base64 of little-endian numbers]: uint8, uint16 or uint32, as the largest one needs."""
    most = int(column.max(initial=0))
    width = 1 if most < 1 << 8 else 2 if most < 1 << 16 else 4
    return [width, base64.b64encode(column.astype(f"<u{width}").tobytes()).decode("ascii")]


def critical_path(use: LinkUse) -> list[int]:
    """The rows of a chain that ends last, in order: each begins when what it waits for arrives, or its link is free.

    If nothing ends exactly then, the last one that ended before goes on the chain: the row could have begun earlier.
    """
    if not len(use):
        return []
    network = use.network
    arrivals: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    freed: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row, (item, link) in enumerate(zip(use.item.tolist(), use.link.tolist(), strict=True)):
        arrivals[item, int(network.target[link])].append((int(use.arrive[row]), row))
        freed[link].append((int(use.free[row]), row))
    for ends in (*arrivals.values(), *freed.values()):
        ends.sort()
    path = [int(np.argmax(use.arrive))]
    while True:
        row = path[-1]
        link, begin = int(use.link[row]), int(use.begin[row])
        before = [
            ends[place - 1]
            for ends in (arrivals[int(use.item[row]), int(network.source[link])], freed[link])
            if (place := bisect_right(ends, (begin, len(use))))
        ]
        before = [(end, other) for end, other in before if int(use.begin[other]) < begin]
        if not before:
            return path[::-1]
        path.append(max(before, key=lambda pair: pair[0])[1])
