"""The data of a picture that moves: where devices and links are, and when each link carries what."""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collc.base.units import format_time, shown_bytes
from collc.pictures.link_use import LinkUse
from collc.pictures.network_picture import drawn_network
from collc.pictures.picture import MOST_MARKS, SERIES, WIDTH
from collc.ten.arrays import BoolArray, Int64Array


@dataclass(frozen=True, slots=True)
class Clip:
    """A picture that moves.

    name: of the algorithm. words: what it shows, for those who do not see it. data: JSON for the page. lists_rows:
    whether each row of the link use is in the data, so that the data has the words for marks with the number of a row.
    notes: what is left out.
    """

    name: str
    words: str
    data: str
    lists_rows: bool
    notes: tuple[str, ...] = ()


def _are_listed(count: int) -> bool:
    """Whether a page has each of a number of rows: at most 320 kB."""
    return count <= 16 * MOST_MARKS


def clip_of(use: LinkUse, name: str, *, named: bool = True) -> Clip:
    """The moving picture of what links carry. name: of the algorithm. named: whether the page names what moves."""
    network, drawn = use.network, drawn_network(use.network)
    layout, notes = drawn.layout, [*drawn.layout.notes]
    line_of = np.zeros(network.link_count, np.int64)
    for number, (_, _, links, _) in enumerate(drawn.lines):
        line_of[links] = number
    lists_rows = _are_listed(len(use))
    rows = _listed_rows(use, line_of, named) if lists_rows else _joined_rows(use, line_of)
    if not lists_rows:
        notes.append(f"of {len(use):,} transfers, those of a link that touch are drawn as one")
    devices = [
        [network.shown_name(device), *(round(value, 1) for value in layout.points.get(device, ()))]
        for device in range(network.device_count)
    ]
    data = {
        "name": name,
        "time": use.time,
        "height": round(layout.height, 1),
        "radius": round(layout.radius, 2),
        "npus": network.npu_count,
        "gone": np.flatnonzero(~network.present).tolist(),
        "devices": devices,
        "boxes": [[round(value, 1) for value in (box.x, box.y, box.width, box.height)] for box in layout.boxes],
        "lines": [[source, target, path] for source, target, _, path in drawn.lines],
        "removed": drawn.removed,
        **rows,
    }
    words = f"{len(use):,} transfers on {network.name} within {format_time(use.time)}"
    words += f"; a chain of {len(rows['critical'])} of them ends last" if rows["critical"] else ""
    return Clip(name, words, json.dumps(data, separators=(",", ":")), lists_rows, tuple(notes))


def _listed_rows(use: LinkUse, line_of: Int64Array, named: bool) -> dict[str, Any]:
    """Each row as it is. kinds: (busy, delay, words for the size and for what the receiver does)."""
    unit = max(1, int(np.gcd.reduce(np.concatenate([use.begin, use.free, use.arrive]), initial=0)))
    unit = max(unit, -(-use.time // (2**32 - 1)))
    columns = np.stack([use.free - use.begin, use.arrive - use.begin, use.size, use.reduce, use.kept], axis=1)
    kinds, first, kind = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    count = int(use.item.max(initial=-1)) + 1
    owner = np.zeros(count, np.int64)
    owner[use.item] = use.owner % SERIES
    return {
        "unit": unit,
        "item": _pack(use.item),
        "line": _pack(line_of[use.link]),
        "begin": _pack(use.begin // unit),
        "kind": _pack(kind.reshape(-1)),
        "kinds": [
            [busy // unit, delay // unit, shown_bytes(size), use.effect(row)]
            for (busy, delay, size, *_), row in zip(kinds.tolist(), first.tolist(), strict=True)
        ],
        "whole": True,
        "items": [use.item_name(item) for item in range(count)] if named else None,
        "owner": _pack(owner),
        "held": _holders_of(use, count) if named else None,
        "critical": critical_path(use),
    }


def _holders_of(use: LinkUse, count: int) -> list[Any] | None:
    """The items and the NPUs that hold them at the start; None if that is not known, or if they are many."""
    if use.holders is None:
        return None
    holders = [use.holders(item) for item in range(count)]
    sizes = [len(npus) for npus in holders]
    if not _are_listed(sum(sizes)):
        return None
    return [_pack(np.repeat(np.arange(count), sizes)), _pack(np.concatenate(holders))]


def _joined_rows(use: LinkUse, line_of: Int64Array) -> dict[str, Any]:
    """Rows of a line that touch as one, in units of the time of a pixel."""
    spans = np.zeros((int(line_of.max(initial=0)) + 1, WIDTH + 1), np.int64)
    unit = max(1, -(-use.time // WIDTH))
    first, last = use.begin // unit, np.maximum(use.begin // unit + 1, use.free // unit)
    np.add.at(spans, (line_of[use.link], first), 1)
    np.add.at(spans, (line_of[use.link], np.minimum(last, WIDTH)), -1)
    busy: BoolArray = np.cumsum(spans, axis=1) > 0
    edges = np.diff(busy.astype(np.int8), axis=1, prepend=0, append=0)
    line, begin = np.nonzero(edges > 0)
    _, end = np.nonzero(edges < 0)
    order = np.argsort(begin, kind="stable")
    lengths, kind = np.unique((end - begin)[order], return_inverse=True)
    return {
        "unit": unit,
        "item": _pack(np.zeros(len(order), np.int64)),
        "line": _pack(line[order]),
        "begin": _pack(begin[order]),
        "kind": _pack(kind),
        "kinds": [[length, length, "", ""] for length in lengths.tolist()],
        "whole": False,
        "items": None,
        "owner": _pack(np.zeros(1, np.int64)),
        "held": None,
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
