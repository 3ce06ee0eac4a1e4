"""Pictures of a schedule: the time-expanded network, a Gantt chart of links, bytes per link, utilisation over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.base.units import format_time, shown_bytes
from collc.graph.digraph import Digraph
from collc.graph.distances import hops_from
from collc.pictures.charts import (
    PAD,
    Axis,
    Range,
    Series,
    box_symbol,
    bytes_label,
    heat_map,
    legend,
    line_chart,
    percent_label,
    range_of,
    time_label,
)
from collc.pictures.device_groups import device_groups, switch_homes
from collc.pictures.layout import node_numbers
from collc.pictures.link_use import LinkUse
from collc.pictures.picture import (
    MOST_MARKS,
    SERIES,
    WIDTH,
    Picture,
    join_lines,
    line,
    mark,
    number,
    rect,
    shorten,
    text,
    text_width,
)
from collc.ten.arrays import Int64Array
from collc.ten.network import Network

MOST_ROWS: Final = 40
"""Devices or links in one picture."""

MOST_CELLS: Final = 96
"""Devices in the heat map; of more, the bytes between nodes or between blocks of NPUs are shown."""

SPANS: Final = 60
"""Equal parts of the time over which utilisation is a mean."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """Rows of a picture over time. left: of the plot. top, pitch: of the rows."""

    times: Range
    top: float
    pitch: float
    rows: int

    def y(self, row: float) -> float:
        """The middle of a row."""
        return self.top + (row + 0.5) * self.pitch

    @property
    def bottom(self) -> float:
        """Where the rows end."""
        return self.top + self.rows * self.pitch


def _frame(labels: Sequence[str], time: int, colors: tuple[list[str], float]) -> tuple[_Frame, list[str]]:
    """The frame of a picture and its elements: the legend, names of the rows, and an axis of the time below them.

    colors: see _colors.
    """
    legend_parts, top = colors
    widest = min(max((text_width(label, 10.5) for label in labels), default=0), 190)
    left = PAD + widest + 10
    times = range_of(Axis("time", text=time_label), [0, max(time, 1)], left, WIDTH - 26, from_zero=False)
    pitch = max(15.0, min(30.0, 560 / max(1, len(labels))))
    frame = _Frame(times, top, pitch, len(labels))
    parts = legend_parts + [
        text(left - 8, frame.y(row) + 4, shorten(label, widest + 0.5, 10.5), "small end")
        for row, label in enumerate(labels)
    ]
    for tick in times.ticks(7):
        column = times.at(tick)
        parts.append(line(column, top, column, frame.bottom + 4, "grid"))
        parts.append(text(column, frame.bottom + 18, time_label(tick), "mid small"))
    parts.append(line(left, frame.bottom, WIDTH - 26, frame.bottom, "axis", f' data-until="{time}"'))
    return frame, parts


def _colors(use: LinkUse, rows: Int64Array, sums: str) -> tuple[list[str], float]:
    """The legend of the colours, and where it ends: which NPU each stands for, if they are few.

    sums: how what is added is drawn.
    """
    owners = sorted(set(use.owner[rows].tolist()))
    about = f"colour: the NPU {use.owners}" + (f" ({SERIES} colours repeat)" if len(owners) > SERIES else "")
    added = f"; {sums}: is added" if bool(use.reduce[rows].any()) else ""
    network = use.network
    entries = [
        (box_symbol(owner), network.shown_name(owner) if 0 <= owner < network.device_count else str(owner))
        for owner in (owners if len(owners) <= SERIES else ())
    ]
    return legend([*entries, (lambda _x, _y: "", about + added)])


def ten_picture(use: LinkUse, title: str = "Time-expanded network", most: int = MOST_MARKS) -> Picture:
    """Time against devices: a line for each transfer, from its source when it starts to its target when it arrives.

    Of a large network the first devices are drawn, of a long schedule the first transfers among them, `most` of them.
    """
    network = use.network
    devices = np.flatnonzero(network.present)
    if len(devices) > MOST_ROWS:
        hops = hops_from(Digraph.of(network), int(devices[0]))[devices]
        nearest = np.argsort(np.where(hops < 0, network.device_count, hops), kind="stable")[:MOST_ROWS]
        devices = np.sort(devices[nearest])
    devices = _by_node(network, devices)
    inside = np.isin(network.source[use.link], devices) & np.isin(network.target[use.link], devices)
    rows = np.flatnonzero(inside)[:most]
    present = int(network.present.sum())
    notes = [f"the {len(devices)} of {present} devices nearest to the first NPU"] if len(devices) < present else []
    notes += [f"{len(rows)} of {len(use)} transfers"] if len(rows) < len(use) else []
    time = int(use.arrive[rows].max(initial=0)) if notes else use.time
    labels = [network.device_name(device) for device in devices.tolist()]
    frame, parts = _frame(labels, time, _colors(use, rows, "dashed"))
    row_of = {device: row for row, device in enumerate(devices.tolist())}
    parts += [line(frame.times.begin, frame.y(row), WIDTH - 26, frame.y(row), "grid") for row in range(len(labels))]
    width = max(0.5, min(1.3, 500 / max(1, len(rows))))
    for row in rows.tolist():
        link, color = int(use.link[row]), int(use.owner[row]) % SERIES
        x1, y1 = frame.times.at(int(use.begin[row])), frame.y(row_of[int(network.source[link])])
        x2, y2 = frame.times.at(int(use.arrive[row])), frame.y(row_of[int(network.target[link])])
        dashes = ' stroke-dasharray="4 2"' if use.reduce[row] else ""
        stroke = line(x1, y1, x2, y2, f"s{color}", f' stroke-width="{number(width)}"{dashes}')
        dot = f'<circle class="f{color}" cx="{number(x2)}" cy="{number(y2)}" r="{number(1.4 + 0.77 * width)}"/>'
        parts.append(mark(_tip(use, row), stroke + dot, row))
    return _finish(frame, parts, notes, title, use)


def _by_node(network: Network, devices: Int64Array) -> Int64Array:
    """Devices in order of their numbers, but switches that are linked to NPUs of one node only after these."""
    nodes = node_numbers(network)
    if nodes is None:
        return devices
    homes = switch_homes(network, nodes)
    return devices[np.argsort(np.where(homes < 0, len(homes), homes)[devices], kind="stable")]


def _tip(use: LinkUse, row: int) -> str:
    link = use.network.shown_link(int(use.link[row]))
    begin, arrive = format_time(int(use.begin[row])), format_time(int(use.arrive[row]))
    return f"{use.name(row)}, {shown_bytes(int(use.size[row]))}{use.effect(row)}: {link}, {begin} to {arrive}"


def gantt_picture(use: LinkUse, title: str = "Links over time", most: int = MOST_MARKS) -> Picture:
    """A row for each link with a bar while it is occupied; of many links, those that are busy longest.

    most: bars of which each is drawn; if that leaves few links, bars that touch are one.
    """
    network = use.network
    used = np.flatnonzero(use.busy_per_link > 0)
    busiest = used[np.argsort(-use.busy_per_link[used], kind="stable")][:MOST_ROWS]
    fit = int((np.cumsum(np.bincount(use.link, minlength=network.link_count)[busiest]) <= most).sum())
    busiest = np.sort(busiest[: fit if 4 * fit >= MOST_ROWS else MOST_ROWS])
    rows = np.flatnonzero(np.isin(use.link, busiest))
    notes: list[str] = []
    if len(busiest) < len(used):
        notes.append(f"the {len(busiest)} of {len(used)} used links that are busy longest")
    labels = [network.link_name(link) for link in busiest.tolist()]
    few = len(rows) <= most
    colors = _colors(use, rows, "pale") if few else legend([])
    frame, parts = _frame(labels, use.time, colors)
    position = {link: row for row, link in enumerate(busiest.tolist())}
    if few:
        parts += (_bar(use, row, frame, position[int(use.link[row])]) for row in rows.tolist())
    else:
        notes.append(f"bars of the same link that touch are drawn as one: {len(rows)} transfers")
        for link in busiest.tolist():
            parts += _blocks(use, rows[use.link[rows] == link], frame, position[link])
    return _finish(frame, parts, notes, title, use)


def _bar(use: LinkUse, row: int, frame: _Frame, at: int) -> str:
    x, end = frame.times.at(int(use.begin[row])), frame.times.at(int(use.free[row]))
    high = frame.pitch - 4
    width = max(end - x - 0.6, 0.8)
    hatch = ' fill-opacity="0.62"' if use.reduce[row] else ""
    shapes = rect(x, frame.y(at) - high / 2, width, high, f"f{int(use.owner[row]) % SERIES}", f' rx="1.5"{hatch}')
    label = use.name(row).partition(":")[2]
    if label and text_width(label, 9) + 4 <= width and high >= 9:
        shapes += text(x + width / 2, frame.y(at) + 3, label, "over tiny mid")
    return mark(_tip(use, row), shapes, row)


def _blocks(use: LinkUse, rows: Int64Array, frame: _Frame, at: int) -> Iterator[str]:
    """Bars less than half a pixel apart as one."""
    gap = int(0.5 * (frame.times.high - frame.times.low) / (frame.times.end - frame.times.begin)) + 1
    first = 0
    begins, ends = use.begin[rows], use.free[rows]
    breaks = [*np.flatnonzero(begins[1:] > ends[:-1] + gap).tolist(), len(rows) - 1]
    for last in breaks:
        x, end = frame.times.at(int(begins[first])), frame.times.at(int(ends[last]))
        high = frame.pitch - 4
        span = f"{format_time(int(begins[first]))} to {format_time(int(ends[last]))}"
        tip = f"{use.network.shown_link(int(use.link[rows[first]]))}: {last - first + 1} transfers, {span}"
        shape = rect(x, frame.y(at) - high / 2, max(end - x, 0.8), high, "f0")
        yield mark(tip, shape)
        first = last + 1


def _finish(frame: _Frame, parts: list[str], notes: Sequence[str], title: str, use: LinkUse) -> Picture:
    """The picture with its notes below the axis."""
    height = frame.bottom + 30
    if notes:
        height += 16
        parts.append(text(WIDTH / 2, height - 8, "; ".join(notes), "muted small mid"))
    description = f"{len(use)} transfers on {use.network.name}, {format_time(use.time)}"
    return Picture(WIDTH, height, join_lines(parts), title, description)


def load_map(use: LinkUse, title: str = "Bytes per link") -> Picture:
    """The bytes from each device to each other one over direct links; of many devices, between nodes or blocks."""
    network = use.network
    present = np.flatnonzero(network.present)
    whole = len(present) <= MOST_CELLS
    if whole:
        labels = [network.device_name(device) for device in present.tolist()]
        group = np.zeros(network.device_count, np.int64)
        group[present] = np.arange(len(present))
    else:
        groups = device_groups(network, MOST_CELLS, MOST_CELLS)
        labels, group = groups.labels, groups.of
    sums = np.zeros((len(labels), len(labels)), np.int64)
    linked = np.zeros((len(labels), len(labels)), np.bool_)
    ends = (group[network.source], group[network.target])
    np.add.at(sums, ends, use.bytes_per_link)
    linked[ends] = True
    values = [
        [float(value) if is_linked else None for value, is_linked in zip(row, mask, strict=True)]
        for row, mask in zip(sums.tolist(), linked.tolist(), strict=True)
    ]
    return heat_map(
        labels,
        labels,
        values,
        title=title,
        value=Axis("bytes", text=bytes_label),
        row_title="sender" if whole else "senders (sums)",
        column_title="receiver" if whole else "receivers (sums)",
        description=f"bytes over the links of {network.name}",
    )


def utilisation_chart(
    curves: Sequence[tuple[str, int, Sequence[float]]],
    title: str = "Links in use",
    until: float = float("inf"),
    most: int = MOST_MARKS,
) -> Picture:
    """The mean share of links in use over time.

    curves: name, time in picoseconds, share in each of equal parts; the first is the one that is compared with the
    others. until: picoseconds at which the chart ends. most: markers.
    """
    cut = any(time > until for _, time, _ in curves)
    series = [
        Series(
            name,
            [
                (min(time * k / len(shares), until), share)
                for k, share in enumerate([*shares, shares[-1]])
                if time * (k - 1) < until * len(shares)
            ],
            steps=True,
            width=1.6 if number else 3.2,
        )
        for number, (name, time, shares) in enumerate(curves)
        if len(shares)
    ]
    return line_chart(
        series,
        title=title,
        x=Axis("time (some go on after its end)" if cut else "time", text=time_label),
        y=Axis("share of links in use", text=percent_label),
        description="mean share of all links that is occupied",
        most=most,
    )
