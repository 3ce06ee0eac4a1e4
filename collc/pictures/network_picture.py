"""A picture of a network: its devices and links, coloured by kind of link or by the bytes that each link carries."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from collc.base.units import format_time, shown_rate
from collc.base.wording import plural
from collc.pictures.charts import Axis, bytes_label, color_bar, legend, rate_label
from collc.pictures.layout import Box, Layout, layout_of, node_label
from collc.pictures.picture import (
    MOST_MARKS,
    SERIES,
    WIDTH,
    Picture,
    join_lines,
    level_of,
    mark,
    number,
    rect,
    shorten,
    stroke,
    text,
    text_width,
)
from collc.ten.arrays import Int64Array
from collc.ten.network import LinkKind, Network
from collc.ten.parts import Part


@dataclass(frozen=True, slots=True)
class _Line:
    """Links that are drawn as one line: all of one kind between two devices, or in one direction."""

    source: int
    target: int
    kind: int
    links: list[int]
    both: bool


@dataclass(frozen=True, slots=True)
class PartGroup:
    """Parts of a network that get a colour. name: in the legend. words: what tooltips of the parts say of them."""

    name: str
    parts: Sequence[Part]
    words: str


def network_picture(
    network: Network, load: Int64Array | None = None, title: str = "", groups: Sequence[PartGroup] = ()
) -> Picture:
    """The devices and links of a network.

    load: int64[links], bytes that each link carries; then each direction is a line of its own with a colour for its
    bytes. groups: parts with a colour of their own, in place of colours for kinds of links; of several that contain a
    device or a link, the first counts. Of large networks only a part is drawn; the picture says so.
    """
    layout = layout_of(network)
    lines = [line for line in _lines(network, load is not None) if {line.source, line.target} <= layout.points.keys()]
    removed = _removed_lines(network, layout)
    if groups:
        names, top = legend((_group_symbol(k), group.name) for k, group in enumerate(groups))
    elif load is None:
        names, top = _kind_legend(network, lines, removed)
    else:
        names, top = [*color_bar(float(load.max(initial=0)), Axis("bytes per link", text=bytes_label))], 30.0
        if layout.radius >= 4:
            words = "each direction is drawn to its left" + ("; dotted red: removed" if removed else "")
            names.append(text(WIDTH - 14, 24, words, "muted small end"))
    layout.move_down(top)
    colored = _ColoredParts(groups, layout.boxes)
    shapes = _Shapes(network, layout, load, colored)
    body = [*names, *(_frame_of_node(network, box, colored) for box in layout.boxes), *shapes.lines(lines)]
    body += [*shapes.removed_lines(removed), *shapes.devices()]
    height = layout.height
    for note in layout.notes:
        height += 18
        body.append(text(WIDTH / 2, height - 8, note, "muted small mid"))
    switches = int(network.present[network.npu_count :].sum())
    counts = f"{plural(len(network.npus), 'NPU')}, {switches} switches, {plural(network.link_count, 'link')}"
    return Picture(WIDTH, height, join_lines(body), title or network.name, counts)


def _group_symbol(group: int) -> Callable[[float, float], str]:
    return lambda x, y: stroke(f"M{number(x)} {number(y - 4)}h26", group, 3)


class _ColoredParts:
    """The group of each frame by its NPUs, of each device, and of each pair of devices with links."""

    def __init__(self, groups: Sequence[PartGroup], boxes: Sequence[Box] = ()) -> None:
        frames = {frozenset(box.npus) for box in boxes}
        self.words = [group.words for group in groups]
        self.frames: dict[frozenset[int], int] = {}
        self.devices: dict[int, int] = {}
        self.links: dict[tuple[int, int], int] = {}
        for k, group in enumerate(groups):
            for part in group.parts:
                framed = next((npus for npus in frames if len(part.devices) > 1 and npus <= {*part.devices}), None)
                if framed is not None:
                    self.frames.setdefault(framed, k)
                else:
                    self.devices = {**dict.fromkeys(part.devices, k), **self.devices}
                self.links = {**dict.fromkeys(part.links, k), **self.links}

    def of_line(self, line: _Line) -> int:
        """The group of a line, -1 for none."""
        back = self.links.get((line.target, line.source), -1) if line.both else -1
        return self.links.get((line.source, line.target), back)

    def about(self, group: int) -> str:
        """What a tooltip says of a part; group: -1 for none."""
        return "" if group < 0 else f"; {self.words[group]}"

    def outline(self, device: int, shape: str) -> str:
        """The shape of a device again, in the colour of its group. shape: an element whose first attribute is class."""
        group = self.devices.get(device, -1)
        look = f'class="s{min(group, SERIES - 1)}" stroke-width="3"'
        return "" if group < 0 else re.sub('class="[^"]*"', look, shape, count=1)


@dataclass(frozen=True, slots=True)
class DrawnNetwork:
    """The places of devices and links in a picture.

    layout: of the devices. lines: (source, target, path) of each direction, the path as in SVG, empty if an end is not
    drawn. removed: the paths of removed links.
    """

    layout: Layout
    lines: list[tuple[int, int, str]]
    removed: list[str]


def drawn_network(network: Network) -> DrawnNetwork:
    """The places of devices and of links in each direction, as `network_picture` draws them with a load."""
    layout = layout_of(network)
    shapes = _Shapes(network, layout, np.zeros(network.link_count, np.int64), _ColoredParts(()))
    lines = _lines(network, directed=True)
    drawn = [line for line in lines if {line.source, line.target} <= layout.points.keys()]
    path_of = {(line.source, line.target): path for line, path in zip(drawn, shapes.paths(drawn), strict=True)}
    rows = [(line.source, line.target, path_of.get((line.source, line.target), "")) for line in lines]
    return DrawnNetwork(layout, rows, shapes.removed_paths(_removed_lines(network, layout)))


def _removed_lines(network: Network, layout: Layout) -> list[_Line]:
    pairs = sorted({(min(pair), max(pair)) for pair in network.removed.tolist()})
    return [_Line(*pair, 0, [], both=True) for pair in pairs if layout.points.keys() >= {*pair}]


def _lines(network: Network, directed: bool) -> list[_Line]:
    """The lines: one for all links of one kind between two devices, or, `directed`, one for each direction."""
    links_of: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    sources, targets, kinds = network.source.tolist(), network.target.tolist(), network.kind.tolist()
    for link, (source, target, kind) in enumerate(zip(sources, targets, kinds, strict=True)):
        ends = (source, target) if directed else (min(source, target), max(source, target))
        links_of[*ends, -1 if directed else kind].append(link)
    return [
        _Line(sources[links[0]], targets[links[0]], kinds[links[0]], links, len({sources[link] for link in links}) > 1)
        for links in links_of.values()
    ]


def kind_label(kind: LinkKind) -> str:
    """Bandwidth and latency of a kind of link: `50GiB/s, 0.5us`."""
    rate = "any bandwidth"
    if kind.bandwidth is not None:
        rate = min(shown_rate(kind.bandwidth), rate_label(float(kind.bandwidth)), key=len)
    return rate if kind.latency is None else f"{rate}, {format_time(kind.latency)}"


def _kinds_by_rate(network: Network) -> dict[int, int]:
    """The position of each kind of link among those that are used, the fastest first."""
    used: list[int] = sorted(set(network.kind.tolist()))
    used.sort(key=lambda kind: (-(network.kinds[kind].bandwidth or 0), network.kinds[kind].latency or 0))
    return {kind: position for position, kind in enumerate(used)}


def _kind_legend(network: Network, lines: list[_Line], removed: list[_Line]) -> tuple[list[str], float]:
    """The kinds of links that are drawn."""
    position = _kinds_by_rate(network)
    kinds = sorted({line.kind for line in lines}, key=lambda kind: position[kind])
    if not kinds:
        return [], 0

    def symbol(kind: int) -> Callable[[float, float], str]:
        width = _width(network, kind)
        return lambda x, y: stroke(f"M{number(x)} {number(y - 4)}h26", position[kind], width)

    def removed_symbol(x: float, y: float) -> str:
        return _removed_stroke(f"M{number(x)} {number(y - 4)}h26")

    entries = [(symbol(kind), kind_label(network.kinds[kind])) for kind in kinds[:SERIES]]
    entries += [(removed_symbol, "removed")] if removed else []
    parts, bottom = legend(entries)
    if len(kinds) > SERIES:
        parts.append(text(14, bottom + 10, f"and {len(kinds) - SERIES} slower kinds of links", "muted small"))
        bottom += 18
    return parts, bottom


def _removed_stroke(path: str) -> str:
    return f'<path class="failed" stroke-width="2" d="{path}"/>'


def _width(network: Network, kind: int) -> float:
    """The width of a line: 1 for the slowest links, up to 3.5 for the fastest."""
    rates = [float(link_kind.bandwidth) for link_kind in network.kinds if link_kind.bandwidth]
    own = network.kinds[kind].bandwidth
    if own is None or min(rates) == max(rates):
        return 1.4
    return 1 + 2.5 * math.log(float(own) / min(rates)) / math.log(max(rates) / min(rates))


def _frame_of_node(network: Network, box: Box, colored: _ColoredParts) -> str:
    """The frame of a node with its label: `gpu[3, *]`, or the name of the copy, `node[3]`."""
    label = node_label(network.device_name(box.npus[0]))
    host = network.real_name(box.npus[0]).rpartition("/")[0]
    labels = [f"{label} ({host})", host] if host else [label]
    labels.append("".join(re.findall(r"\[\d+", labels[-1])[:1])[1:] or labels[-1])
    shown = next((words for words in labels if text_width(words, 10.5) <= box.width - 4), labels[-1])
    frame = rect(box.x, box.y, box.width, box.height, "box", ' rx="8"')
    label_y = box.y + box.height - 6
    group = colored.frames.get(frozenset(box.npus), -1)
    if group >= 0:
        outline = rect(box.x, box.y, box.width, box.height, f"s{min(group, SERIES - 1)}", ' rx="8" stroke-width="2.5"')
        frame = mark(f"{labels[0]}{colored.about(group)}", frame + outline)
    return frame + text(box.x + box.width / 2, label_y, shorten(shown, box.width - 4, 10.5), "muted small mid")


@dataclass
class _Shapes:
    """The devices and lines of a network as elements."""

    network: Network
    layout: Layout
    load: Int64Array | None
    colored: _ColoredParts

    def lines(self, lines: list[_Line]) -> Iterator[str]:
        """All lines; if there are many, those that look alike as one shape without tooltips."""
        load = self.load
        position = _kinds_by_rate(self.network)
        # Lines between groups that cross can be told apart if they are thin.
        most_wide = 1.0 if self.layout.cell else min(1.0, max(0.2, 100 / max(1, len(lines))))
        paths = self.paths(lines)
        alike: dict[int, list[str]] = defaultdict(list)
        most = 0 if load is None else int(load.max(initial=0))
        carried = [0 if load is None else int(load[line.links].sum()) for line in lines]
        for k in sorted(range(len(lines)), key=carried.__getitem__):  # so that the brightest are on top
            line = lines[k]
            path = paths[k]
            group = self.colored.of_line(line)
            look = position[line.kind] if load is None else level_of(carried[k], most)
            look = group if self.colored.words else look
            if len(lines) > MOST_MARKS:
                alike[look].append(path)
            else:
                target = f'<path class="hit" d="{path}"/>'
                ends = " -> ".join(self.network.shown_name(device) for device in (line.source, line.target))
                lanes = f" ({len(line.links)} links)" if len(line.links) > 1 + line.both else ""
                kind = kind_label(self.network.kinds[line.kind])
                words = f"{ends}{' and back' if line.both else ''}{lanes}: {kind}"
                words += self.colored.about(group) if load is None else f"; carries {bytes_label(carried[k])}"
                yield mark(words, self._draw(path, look, line.kind, most_wide) + target)
        for look in sorted(alike):
            kind = next((kind for kind, place in position.items() if place == look), 0)
            yield self._draw("".join(alike[look]), look, kind, most_wide)

    def paths(self, lines: list[_Line]) -> list[str]:
        """The path of each line, as in SVG."""
        points = self.layout.points
        return self._paths(
            lines, min((math.dist(points[line.source], points[line.target]) for line in lines), default=0.0)
        )

    def removed_paths(self, lines: list[_Line]) -> list[str]:
        """The path of each link that was removed, as in SVG."""
        return self._paths(lines, self.layout.cell)

    def _paths(self, lines: list[_Line], shortest: float) -> list[str]:
        devices = np.array(list(self.layout.points.values()))
        return [self._path(line, bends=self._must_bend(line, devices, shortest)) for line in lines]

    def removed_lines(self, lines: list[_Line]) -> Iterator[str]:
        """The links that were removed, such as those that failed."""
        for line, path in zip(lines, self.removed_paths(lines), strict=True):
            ends = " - ".join(self.network.shown_name(device) for device in (line.source, line.target))
            yield mark(f"{ends}: removed", _removed_stroke(path))

    def _draw(self, path: str, look: int, kind: int, most_wide: float) -> str:
        """A line, or several that look alike. most_wide: the part of its width that a line with a load has."""
        if self.colored.words:
            return stroke(path, look, 2) if look >= 0 else f'<path class="wire" d="{path}"/>'
        if self.load is None:
            return stroke(path, look, _width(self.network, kind) * min(1.0, self.layout.radius / 6 + 0.3))
        wide = (1.2 + look / 6) * min(1, self.layout.radius / 7, (self.layout.cell or 60) / 60)
        width = max(min(wide, 0.6), wide * most_wide)  # so that its colour can be seen
        return f'<path class="g{look}" stroke-width="{number(width)}" d="{path}"/>'

    def _must_bend(self, line: _Line, devices: NDArray[np.float64], shortest: float) -> bool:
        """Whether a line would lead through another device. shortest: the length of the shortest line."""
        (ax, ay), (bx, by) = self.layout.points[line.source], self.layout.points[line.target]
        length = math.hypot(bx - ax, by - ay)
        if not self.layout.cell or length <= 1.05 * shortest:
            return False
        along = ((devices[:, 0] - ax) * (bx - ax) + (devices[:, 1] - ay) * (by - ay)) / length**2
        off = np.abs((devices[:, 0] - ax) * (by - ay) - (devices[:, 1] - ay) * (bx - ax)) / length
        return bool(((along > 0.02) & (along < 0.98) & (off < self.layout.radius + 1)).any())

    def _path(self, line: _Line, *, bends: bool) -> str:
        (ax, ay), (bx, by) = self.layout.points[line.source], self.layout.points[line.target]
        length = math.hypot(bx - ax, by - ay) or 1.0
        side_x, side_y = (by - ay) / length, -(bx - ax) / length  # to the left of the direction
        shift = min(2.4, self.layout.radius / 4) if self.load is not None else 0.0
        ax, ay, bx, by = ax + side_x * shift, ay + side_y * shift, bx + side_x * shift, by + side_y * shift
        begin = f"M{number(ax)} {number(ay)}"
        if not bends:
            return f"{begin}L{number(bx)} {number(by)}"
        if self.layout.stubs:
            reach = (self.layout.radius + 0.16 * self.layout.cell + 3) / length
            x, y = (bx - ax) * reach, (by - ay) * reach
            return (
                f"{begin}L{number(ax - x)} {number(ay - y)}M{number(bx)} {number(by)}L{number(bx + x)} {number(by + y)}"
            )
        bulge = min(0.62 * self.layout.cell, 0.3 * length)
        x, y = (ax + bx) / 2 + side_x * bulge, (ay + by) / 2 + side_y * bulge
        return f"{begin}Q{number(x)} {number(y)} {number(bx)} {number(by)}"

    def devices(self) -> Iterator[str]:
        """All devices, with labels if they fit."""
        tiers: dict[float, list[int]] = defaultdict(list)
        for device, (x, y) in self.layout.points.items():
            if device < self.network.npu_count:
                yield self._npu(device, x, y)
            else:
                tiers[y].append(device)
        for y, switches in tiers.items():
            yield from self._tier(switches, y)

    def _npu(self, device: int, x: float, y: float) -> str:
        radius = self.layout.radius
        present = bool(self.network.present[device])
        rank = int(np.searchsorted(self.network.npus, device))
        about = f"{self.network.shown_name(device)}, " + (f"rank {rank}" if present else "removed")
        if self.load is not None and present:
            sent = int(self.load[self.network.source == device].sum())
            received = int(self.load[self.network.target == device].sum())
            about += f": sends {bytes_label(sent)}, receives {bytes_label(received)}"
        about += self.colored.about(self.colored.devices.get(device, -1))
        look = "npu" if present else "gone"
        shapes = f'<circle class="{look}" cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"/>'
        shapes += self.colored.outline(device, shapes)
        size = 10.5 if radius >= 12 else 9.0
        if present and text_width(str(len(self.network.npus) - 1), size) <= 1.9 * radius:
            shapes += text(x, y + 0.36 * size, str(rank), "mid small" if size > 9 else "mid tiny")
        return mark(about, shapes)

    def _tier(self, switches: list[int], y: float) -> Iterator[str]:
        """The switches at one height: with names if there is room, else those of the first and last beside them."""
        xs = sorted(self.layout.points[switch][0] for switch in switches)
        room = min((b - a for a, b in pairwise(xs)), default=160.0)
        names = {switch: self.network.shown_name(switch) for switch in switches}
        named = max(text_width(name, 10.5) for name in names.values()) + 14 <= room
        for switch in switches:
            x = self.layout.points[switch][0]
            half = (text_width(names[switch], 10.5) + 10) / 2 if named else min(9.0, 0.4 * room)
            ports = int((self.network.source == switch).sum())
            about = f"{names[switch]}, a switch with {plural(ports, 'link')}"
            about += self.colored.about(self.colored.devices.get(switch, -1))
            shapes = rect(x - half, y - 10, 2 * half, 20, "switch", ' rx="4"')
            shapes += self.colored.outline(switch, shapes)
            yield mark(about, shapes + (text(x, y + 4, names[switch], "small mid") if named else ""))
        if not named and not any(box.y < y < box.y + box.height for box in self.layout.boxes):
            label = f"{names[switches[0]]} to {names[switches[-1]]}"
            if text_width(label, 10.5) + 30 < xs[0]:
                yield text(xs[0] - 18, y + 4, label, "muted small end")
            else:
                yield text((xs[0] + xs[-1]) / 2, y - 14, label, "over muted small mid")
