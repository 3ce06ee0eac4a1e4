"""The places of devices in the picture of a network: on a lattice, in a ring, in groups, or in tiers under switches."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.graph.coordinates import declared_coordinates
from collc.pictures.picture import MOST_MARKS, WIDTH, text_width
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network

_MARGIN: Final = 34.0
MOST_BELOW_SWITCHES: Final = 128
"""NPUs up to which a network with switches is drawn whole; of a larger one, its first nodes are drawn."""


@dataclass(frozen=True, slots=True)
class Box:
    """A frame around the devices of a node. npus: those inside."""

    x: float
    y: float
    width: float
    height: float
    npus: Sequence[int]


@dataclass
class Layout:
    """points: (x, y) of the devices that are drawn. radius: of an NPU. cell: the distance of neighbours on a lattice,
    or the width of a group; longer lines bend round devices. 0: none bends. stubs: of lines that would lead through
    other devices, only the ends are drawn. boxes: frames of nodes. notes: what is not drawn.
    """

    radius: float = 0.0
    height: float = 0.0
    cell: float = 0.0
    stubs: bool = False
    points: dict[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    boxes: list[Box] = field(default_factory=list[Box])
    notes: list[str] = field(default_factory=list[str])

    def move_down(self, distance: float) -> None:
        """Make room above all."""
        self.height += distance
        self.points = {device: (x, y + distance) for device, (x, y) in self.points.items()}
        self.boxes = [replace(box, y=box.y + distance) for box in self.boxes]

    def place_on_circle(self, devices: Sequence[int], x: float, y: float, radius: float) -> None:
        """Put devices on a circle, the first one at the top."""
        self.points.update(zip(devices, _circle_points(len(devices), x, y, radius), strict=True))


def _circle_points(count: int, x: float, y: float, radius: float) -> list[tuple[float, float]]:
    angles = (2 * math.pi * k / count for k in range(count))
    return [(x + radius * math.sin(angle), y - radius * math.cos(angle)) for angle in angles]


def layout_of(network: Network) -> Layout:
    """The layout that suits the links of a network."""
    axes, npus = axes_of(network), network.npus.tolist()
    if network.has_switches:
        return _tiers(network, axes)
    if axes is not None and len(npus) <= MOST_MARKS:
        if _is_lattice(network, axes):
            return _lattice(axes)
        if len(axes) > 1:
            return _groups(_npus_by_node(network, axes))
    layout = Layout()
    if len(npus) > MOST_MARKS:
        layout.notes.append(f"the first {MOST_MARKS} of {len(npus)} NPUs are drawn")
        npus = npus[:MOST_MARKS]
    radius = min(WIDTH / 2 - _MARGIN, max(110.0, len(npus) * 5.2))
    layout.radius = min(15.0, max(2.0, 0.36 * 2 * math.pi * radius / max(1, len(npus))))
    layout.place_on_circle(npus, WIDTH / 2, radius + _MARGIN, radius)
    layout.height = 2 * (radius + _MARGIN)
    return layout


def axes_of(network: Network) -> Int32Array | None:
    """int32[axes, npus]: indices of the NPUs, the axis along which their numbers are next to each other first."""
    coordinates = declared_coordinates(network)
    if coordinates is None:
        return None
    strides = (coordinates.index > 0).argmax(axis=1)
    return coordinates.index[np.argsort(strides)]


def _npus_by_node(network: Network, axes: Int32Array) -> list[list[int]]:
    """The NPUs that are present, by their index along the outermost axis."""
    nodes: list[list[int]] = [[] for _ in range(int(axes[-1].max(initial=0)) + 1)]
    for npu in network.npus.tolist():
        nodes[int(axes[-1, npu])].append(npu)
    return [node for node in nodes if node]


def _is_lattice(network: Network, axes: Int32Array) -> bool:
    """Whether most links lead to the next NPU along one axis, or round its end if there are several axes."""
    if not network.link_count:
        return False
    distance = np.abs(axes[:, network.source] - axes[:, network.target])
    straight = (distance > 0).sum(axis=0) == 1
    step, ends = distance.sum(axis=0), ((distance > 0) * axes.max(axis=1)[:, None]).sum(axis=0)
    closed = step == ends
    if len(axes) == 1 and bool((closed & (step > 1)).any()):
        return False
    next_to = straight & ((step == 1) | closed)
    return bool(next_to.mean() >= 0.75) or (len(axes) > 1 and bool(straight.mean() >= 0.9))


def _lattice(axes: Int32Array) -> Layout:
    """Rows and columns; three short axes as planes behind each other, each a little higher and further right."""
    sizes: list[int] = (axes.max(axis=1) + 1).tolist()
    largest, most_radius, radius = 84.0, 15.0, 0.3
    if len(sizes) == 3 and sizes[2] <= 4 and max(sizes) <= 8:
        step = 0.74 / sizes[2]
        columns, rows = axes[0] + step * axes[2], axes[1] + 0.62 * step * (sizes[2] - 1 - axes[2])
        largest, most_radius, radius = 128.0, 11.0, 0.3 * step
    elif len(sizes) == 1:  # a line goes to and fro
        rows = axes[0] // 16
        columns = 7.5 + (axes[0] % 16 - 7.5) * (1 - 2 * (rows % 2))
    else:
        columns, rows = _fold_axes(axes[::2], sizes[::2]), _fold_axes(axes[1::2], sizes[1::2])
    wide, high = float(columns.max()) + 1, float(rows.max()) + 1
    cell = min(largest, (WIDTH - 2 * _MARGIN) / wide)
    stubs = len(sizes) > 2 or (len(sizes) == 2 and max(sizes) > 8)
    layout = Layout(min(most_radius, radius * cell), cell * high + 2 * _MARGIN, cell, stubs)
    xs, ys = (WIDTH - cell * wide) / 2 + (columns + 0.5) * cell, _MARGIN + (rows + 0.5) * cell
    layout.points.update(enumerate(zip(xs.tolist(), ys.tolist(), strict=True)))
    return layout


def _fold_axes(axes: Int32Array, sizes: Sequence[int]) -> NDArray[np.float64]:
    """float64[npus]: positions along one direction of the picture, with gaps between the blocks of outer axes."""
    position, span = axes[0].astype(np.float64), float(sizes[0])
    for axis, size in zip(axes[1:], sizes[1:], strict=True):
        span += 0.6
        position += axis * span
        span *= size
    return position


def _groups(groups: Sequence[Sequence[int]]) -> Layout:
    """The NPUs of a group on a small circle; the groups on a large one, or in rows."""
    count, most = len(groups), max(map(len, groups))
    radius = max(26.0, most * 6.0)
    layout = Layout(min(12.0, max(3.0, 0.36 * 2 * math.pi * radius / most)), cell=2 * radius)
    pitch = 2 * radius + 3.4 * layout.radius + 26
    if 2 < count <= 9:
        large = min(max(pitch / (2 * math.sin(math.pi / count)), 0.6 * pitch), WIDTH / 2 - pitch / 2)
        centers = _circle_points(count, WIDTH / 2, large + pitch / 2 + 10, large)
        layout.height = 2 * large + pitch + 20
    else:
        columns = max(1, min(count, int(WIDTH / pitch)))
        left = (WIDTH - columns * pitch) / 2
        centers = [(left + (k % columns + 0.5) * pitch, 10 + (k // columns + 0.5) * pitch) for k in range(count)]
        layout.height = 20 + pitch * -(-count // columns)
    for group, (x, y) in zip(groups, centers, strict=True):
        layout.place_on_circle(group, x, y, radius)
    return layout


def _tiers(network: Network, axes: Int32Array | None) -> Layout:
    """Nodes in a row at the bottom, with the switches that serve one node inside, and other switches in tiers above."""
    nodes = [network.npus.tolist()] if axes is None or len(axes) == 1 else _npus_by_node(network, axes)
    layout, npu_count = Layout(), network.npu_count
    count = len(network.npus)
    shown = max(1, MOST_BELOW_SWITCHES // len(nodes[0]))
    if count > MOST_BELOW_SWITCHES and len(nodes) > 1 and shown < len(nodes):
        layout.notes.append(f"the first {shown} of {len(nodes)} nodes are drawn")
        nodes = nodes[:shown]
    elif count > MOST_BELOW_SWITCHES:
        layout.notes.append(f"the first {MOST_BELOW_SWITCHES} of {count} NPUs are drawn")
        nodes = [nodes[0][:MOST_BELOW_SWITCHES]]
    neighbours: dict[int, set[int]] = defaultdict(set)
    for source, target in zip(network.source.tolist(), network.target.tolist(), strict=True):
        neighbours[source].add(target)
        neighbours[target].add(source)
    node_of = {npu: k for k, node in enumerate(nodes) for npu in node}
    local: list[list[int]] = [[] for _ in nodes]
    for switch in range(npu_count, network.device_count) if len(nodes) > 1 else ():
        served = {node_of.get(device, -1) for device in neighbours[switch]}
        if len(served) == 1 and -1 not in served:
            local[served.pop()].append(switch)
    reached, tier = {*node_of, *(switch for of_node in local for switch in of_node)}, set(node_of)
    tiers: list[list[int]] = []
    while tier := {above for device in tier for above in neighbours[device] if above >= npu_count} - reached:
        tiers.append(sorted(tier))
        reached |= tier
    direct = bool(((network.source < npu_count) & (network.target < npu_count)).any())
    _place_nodes(layout, nodes, local, 30 + 62.0 * len(tiers), direct=direct)
    for row, switches in enumerate(tiers):
        _spread(layout, network, neighbours, switches, 26 + 62.0 * (len(tiers) - 1 - row))
    return layout


def _place_nodes(
    layout: Layout, nodes: Sequence[Sequence[int]], local: Sequence[Sequence[int]], top: float, *, direct: bool
) -> None:
    """Put the NPUs of each node into its box: on a circle if they are linked to each other (`direct`), else in rows."""
    most, per_row, room = max(map(len, nodes)), len(nodes), WIDTH - 20
    rows = next((r for r in (1, 2, 4) if room / (len(nodes) * (-(-most // r) + 0.8)) >= 16), 8)
    columns = -(-most // rows)
    needed = 40 + 9 * most if direct else 14 * (columns + 0.8)
    while per_row > 1 and room / per_row < needed:
        per_row = -(-per_row // 2)
    pitch = min(room / per_row, 380.0) if direct else room / per_row
    cell = min(40.0, pitch / (columns + 0.8))
    width = pitch - 8 if direct else cell * (columns + 0.4)
    circle = width / 2 - 30
    layout.radius = min(12.0, 0.36 * (2 * math.pi * circle / most if direct else cell))
    high = (2 * circle + 44 if direct else cell * rows + 10) + (34.0 if any(local) else 0.0) + 16
    for k, (node, switches) in enumerate(zip(nodes, local, strict=True)):
        line, column = divmod(k, per_row)
        x = WIDTH / 2 + (column + 0.5 - min(per_row, len(nodes) - line * per_row) / 2) * pitch
        y = top + line * (high + 14)
        if len(nodes) > 1:
            layout.boxes.append(Box(x - width / 2, y, width, high, node))
        if direct:
            layout.place_on_circle(node, x, y + circle + 22, circle)
        else:
            for place, npu in enumerate(node):
                row, column = divmod(place, columns)
                layout.points[npu] = (x + (column + 0.5 - columns / 2) * cell, y + 6 + (row + 0.5) * cell)
        for place, switch in enumerate(switches):
            layout.points[switch] = (x + ((place + 0.5) / len(switches) - 0.5) * width, y + high - 34)
    layout.height = top + (high + 14) * -(-len(nodes) // per_row) + 8


def _spread(
    layout: Layout, network: Network, neighbours: Mapping[int, set[int]], switches: Sequence[int], y: float
) -> None:
    """Put the switches of a tier above the middle of what they are linked to; evenly if their names have no room."""
    below = {switch: [layout.points[d][0] for d in neighbours[switch] if d in layout.points] for switch in switches}
    middles = sorted((sum(xs) / len(xs), switch) for switch, xs in below.items())
    room = WIDTH / len(middles)
    needed = max(text_width(network.shown_name(switch), 10.5) for switch in switches) + 14
    if min((b - a for (a, _), (b, _) in pairwise(middles)), default=WIDTH) < min(room, needed):
        middles = [((k + 0.5) * room, switch) for k, switch in enumerate(switches)]
    layout.points |= {switch: (x, y) for x, switch in middles}


def node_label(name: str) -> str:
    """The name of a node, from that of one of its NPUs: `gpu[3, *]` for `gpu[3, 5]`, `node[3]` for `node[3].gpu[5]`."""
    return name.rpartition(".")[0] or re.sub(r"\[(\d+), .*\]", r"[\1, *]", name)


def node_numbers(network: Network) -> Int64Array | None:
    """int64[npus]: the outermost index of each NPU; None if NPUs have one index only."""
    axes = axes_of(network)
    return None if axes is None or len(axes) < 2 else axes[-1].astype(np.int64)
