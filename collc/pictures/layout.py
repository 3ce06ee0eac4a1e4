"""Where the devices of a network are in a picture: on a lattice, in a ring, in groups, or in tiers under switches."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from collc.graph.coordinates import declared_coordinates
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network

WIDTH: Final = 760.0
_MARGIN: Final = 34.0
_MOST_NPUS: Final = 1_100
"""NPUs up to which a network without switches is drawn whole."""

_MOST_BELOW_SWITCHES: Final = 128
"""NPUs up to which a network with switches is drawn whole; of a larger one, its first nodes are drawn."""


@dataclass(frozen=True, slots=True)
class Box:
    """A frame around the devices of a node or group, with its label."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass
class Layout:
    """at: (x, y) of the devices that are drawn. radius: of an NPU. cell: the distance of neighbours on a lattice, or
    the width of a group; longer lines bend round devices. 0: none bends. stubs: of lines that would lead through other
    devices, only the ends are drawn. boxes: frames of nodes. notes: what is not drawn.
    """

    radius: float
    width: float = WIDTH
    height: float = 0.0
    cell: float = 0.0
    stubs: bool = False
    at: dict[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    boxes: list[Box] = field(default_factory=list[Box])
    notes: list[str] = field(default_factory=list[str])

    def circle(self, devices: Sequence[int], x: float, y: float, radius: float) -> None:
        """Put devices on a circle, the first one at the top."""
        for k, device in enumerate(devices):
            angle = 2 * math.pi * k / max(1, len(devices))
            self.at[device] = (x + radius * math.sin(angle), y - radius * math.cos(angle))


def layout_of(network: Network) -> Layout:
    """The layout that suits the links of a network."""
    axes = axes_of(network)
    if network.has_switches:
        return _tiers(network, axes)
    if axes is not None and _is_lattice(network, axes):
        return _lattice(network, axes)
    npus = network.npus.tolist()
    if axes is not None and len(axes) > 1 and len(npus) <= _MOST_NPUS:
        return _groups(network, axes)
    found = Layout(radius=0)
    if len(npus) > _MOST_NPUS:
        found.notes.append(f"the first {_MOST_NPUS} of {len(npus)} NPUs are drawn")
        npus = npus[:_MOST_NPUS]
    _one_circle(found, npus)
    return found


def axes_of(network: Network) -> Int32Array | None:
    """int32[axes, npus]: indices of the NPUs, the axis along which their numbers are next to each other first."""
    coordinates = declared_coordinates(network)
    if coordinates is None:
        return None
    if len(coordinates.sizes) == 1 and _is_hypercube(network):
        return _hypercube_axes(network.npu_count)
    index = coordinates.index
    alone = index.sum(axis=0) == 1
    strides = [int(np.flatnonzero(alone & (row == 1))[0]) for row in index]
    return index[np.argsort(strides)]


def _is_hypercube(network: Network) -> bool:
    """Whether there are 2 ** d NPUs, d at least 3, and all links lead to numbers that differ in one bit."""
    count = network.npu_count
    if count < 8 or count & (count - 1) or network.has_switches or not network.link_count:
        return False
    changed = network.source ^ network.target
    return bool((changed & (changed - 1) == 0).all())


def _hypercube_axes(count: int) -> Int32Array:
    """int32[axes, npus]: the bits of the numbers for a cube, else pairs of bits in the order of a ring (Gray code)."""
    npus, bits = np.arange(count, dtype=np.int32), count.bit_length() - 1
    if bits == 3:
        return np.stack([npus >> bit & 1 for bit in range(3)])
    gray = np.array([0, 1, 3, 2], np.int32)
    rows = [gray[npus >> bit & 3] for bit in range(0, bits - 1, 2)]
    return np.stack([*rows, *([npus >> (bits - 1) & 1] if bits % 2 else [])])


def _one_circle(found: Layout, npus: Sequence[int]) -> None:
    radius = min(WIDTH / 2 - _MARGIN, max(110.0, len(npus) * 5.2))
    found.radius = min(15.0, max(2.0, 0.36 * 2 * math.pi * radius / max(1, len(npus))))
    found.circle(npus, WIDTH / 2, radius + _MARGIN, radius)
    found.height = 2 * (radius + _MARGIN)


# Lattices


def _is_lattice(network: Network, axes: Int32Array) -> bool:
    """Whether most links lead to the next NPU along one axis, or round its end."""
    if not network.link_count or len(axes[0]) > _MOST_NPUS:
        return False
    differs = axes[:, network.source] != axes[:, network.target]
    straight = differs.sum(axis=0) == 1
    step = np.abs(axes[:, network.source] - axes[:, network.target]).sum(axis=0)
    sizes = axes.max(axis=1) + 1
    size = (differs * sizes[:, None]).sum(axis=0)
    next_to = straight & ((step == 1) | (step == size - 1))
    return bool(next_to.mean() >= 0.75) or (len(axes) > 1 and bool(straight.mean() >= 0.9))


def _lattice(network: Network, axes: Int32Array) -> Layout:
    sizes: list[int] = (axes.max(axis=1) + 1).tolist()
    if len(sizes) == 1:
        return _ring_or_line(network, sizes[0])
    if len(sizes) == 3 and sizes[2] <= 4 and max(sizes) <= 8:
        return _stacked_planes(axes, sizes)
    columns, rows = _fold_axes(axes[::2], sizes[::2]), _fold_axes(axes[1::2], sizes[1::2])
    wide, high = float(columns.max()) + 1, float(rows.max()) + 1
    cell = min(84.0, (WIDTH - 2 * _MARGIN) / wide)
    found = Layout(radius=min(15.0, 0.3 * cell), cell=cell, height=cell * high + 2 * _MARGIN)
    found.stubs = max(sizes) > 8 or len(sizes) > 2
    left = (WIDTH - cell * wide) / 2
    for npu in range(network.npu_count):
        found.at[npu] = (left + (float(columns[npu]) + 0.5) * cell, _MARGIN + (float(rows[npu]) + 0.5) * cell)
    return found


def _fold_axes(axes: Int32Array, sizes: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """float64[npus]: positions along one direction of the picture, with gaps between the blocks of outer axes."""
    position, span = axes[0].astype(np.float64), float(sizes[0])
    for axis, size in zip(axes[1:], sizes[1:], strict=True):
        span += 0.6
        position += axis * span
        span *= size
    return position


def _ring_or_line(network: Network, size: int) -> Layout:
    """A circle if a link closes the ring; else a line, in rows that go to and fro."""
    npus = network.npus.tolist()
    found = Layout(radius=0)
    closed = bool((np.abs(network.source - network.target) == size - 1).any()) and size > 2
    if closed:
        _one_circle(found, npus)
        return found
    columns = min(size, 16)
    cell = min(84.0, (WIDTH - 2 * _MARGIN) / columns)
    found.radius, found.cell = min(15.0, 0.3 * cell), cell
    left = (WIDTH - cell * columns) / 2
    for npu in range(size):
        row, column = divmod(npu, columns)
        column = columns - 1 - column if row % 2 else column
        found.at[npu] = (left + (column + 0.5) * cell, _MARGIN + (row + 0.5) * cell)
    found.height = cell * -(-size // columns) + 2 * _MARGIN
    return found


def _stacked_planes(axes: Int32Array, sizes: Sequence[int]) -> Layout:
    """Planes of the third axis behind each other, each a little higher and further right."""
    across, down, deep = sizes
    cell = min(128.0, (WIDTH - 2 * _MARGIN) / (across + 0.75))
    step = 0.74 * cell / deep
    found = Layout(radius=min(11.0, 0.26 * step + 2), cell=cell, stubs=True)
    rise = 0.62 * step * (deep - 1)
    left = (WIDTH - cell * (across - 1) - step * (deep - 1)) / 2
    found.height = 2 * _MARGIN + 12 + cell * (down - 1) + rise
    for npu, (i, j, k) in enumerate(axes.T.tolist()):
        found.at[npu] = (left + i * cell + k * step, _MARGIN + 6 + rise + j * cell - k * 0.62 * step)
    return found


# Groups


def _groups(network: Network, axes: Int32Array) -> Layout:
    """The NPUs of a group on a small circle; the groups on a large one, or in rows."""
    members = _members(network, axes[-1])
    most = max(len(group) for group in members)
    radius = max(26.0, most * 6.0)
    found = Layout(radius=min(12.0, max(3.0, 0.36 * 2 * math.pi * radius / most)), cell=2 * radius)
    cell = 2 * radius + 3.4 * found.radius + 26
    if 2 < len(members) <= 9:
        large = max(cell / (2 * math.sin(math.pi / len(members))), 0.6 * cell)
        large = min(large, WIDTH / 2 - cell / 2)
        centers = [
            (WIDTH / 2 + large * math.sin(t), large + cell / 2 + 10 - large * math.cos(t))
            for t in (2 * math.pi * k / len(members) for k in range(len(members)))
        ]
        found.height = 2 * large + cell + 20
    else:
        columns = max(1, min(len(members), int(WIDTH / cell)))
        left = (WIDTH - columns * cell) / 2
        centers = [(left + (k % columns + 0.5) * cell, 10 + (k // columns + 0.5) * cell) for k in range(len(members))]
        found.height = 20 + cell * -(-len(members) // columns)
    for group, (x, y) in zip(members, centers, strict=True):
        found.circle(group, x, y, radius)
    return found


def _members(network: Network, outer: Int32Array) -> list[list[int]]:
    """The NPUs that are present, by their index along the outermost axis."""
    groups: list[list[int]] = [[] for _ in range(int(outer.max(initial=0)) + 1)]
    for npu in network.npus.tolist():
        groups[int(outer[npu])].append(npu)
    return [group for group in groups if group]


# Tiers


def _tiers(network: Network, axes: Int32Array | None) -> Layout:
    """Nodes in a row at the bottom, with the switches that serve one node inside, and other switches in tiers above."""
    whole = axes is None or len(axes) == 1
    nodes = [network.npus.tolist()] if whole or axes is None else _members(network, axes[-1])
    found = Layout(radius=0)
    nodes = _first_nodes(found, nodes, len(network.npus))
    drawn = {npu for node in nodes for npu in node}
    local = _local_switches(network, nodes) if len(nodes) > 1 else [list[int]() for _ in nodes]
    inside = drawn.union(*local)
    tiers = _tiers_above(network, drawn, inside)
    top = 30 + 62.0 * len(tiers)
    _place_nodes(found, network, nodes, local, top)
    for row, switches in enumerate(tiers):
        _spread(found, network, switches, 26 + 62.0 * (len(tiers) - 1 - row))
    return found


def _first_nodes(found: Layout, nodes: list[list[int]], count: int) -> list[list[int]]:
    """The nodes that are drawn; a note if some are not."""
    if count <= _MOST_BELOW_SWITCHES:
        return nodes
    shown = max(1, 64 // len(nodes[0]))
    if len(nodes) > 1 and shown < len(nodes):
        found.notes.append(f"the first {shown} of {len(nodes)} nodes are drawn")
        return nodes[:shown]
    found.notes.append(f"the first {_MOST_BELOW_SWITCHES} of {count} NPUs are drawn")
    return [nodes[0][:_MOST_BELOW_SWITCHES]]


def _local_switches(network: Network, nodes: Sequence[Sequence[int]]) -> list[list[int]]:
    """The switches that are linked to NPUs of one node only, by node."""
    node_of = {npu: k for k, node in enumerate(nodes) for npu in node}
    ends: dict[int, set[int]] = {}
    for source, target in zip(network.source.tolist(), network.target.tolist(), strict=True):
        for one, other in ((source, target), (target, source)):
            if one >= network.npu_count:
                ends.setdefault(one, set()).add(-1 if other >= network.npu_count else node_of.get(other, -1))
    found: list[list[int]] = [[] for _ in nodes]
    for switch in sorted(ends):
        if len(ends[switch]) == 1 and -1 not in ends[switch]:
            found[next(iter(ends[switch]))].append(switch)
    return found


def _tiers_above(network: Network, drawn: set[int], inside: set[int]) -> list[list[int]]:
    """The other switches by their distance from the NPUs that are drawn, the nearest first."""
    reached, tiers = set(drawn), list[list[int]]()
    pairs: list[list[int]] = np.stack([network.source, network.target], axis=1).tolist()
    while True:
        above = {b for a, b in pairs if a in reached and b >= network.npu_count} - reached - inside
        if not above:
            return tiers
        tiers.append(sorted(above))
        reached |= above


def _place_nodes(
    found: Layout, network: Network, nodes: Sequence[Sequence[int]], local: Sequence[Sequence[int]], top: float
) -> None:
    """Put the NPUs of each node into its box: on a circle if they are linked to each other, else in rows."""
    direct = bool(((network.source < network.npu_count) & (network.target < network.npu_count)).any())
    most = max(len(node) for node in nodes)
    rows, per_row = 1, len(nodes)
    if direct:
        while per_row > 1 and (WIDTH - 20) / per_row < 40 + 9 * most:
            per_row = -(-per_row // 2)
    else:
        rows = next((r for r in (1, 2, 4, 8) if (WIDTH - 20) / (len(nodes) * (-(-most // r) + 0.8)) >= 16), 8)
        while (WIDTH - 20) / (per_row * (-(-most // rows) + 0.8)) < 14 and per_row > 1:
            per_row = -(-per_row // 2)
    pitch = min((WIDTH - 20) / per_row, 380.0)
    columns = -(-most // rows)
    cell = min(40.0, pitch / (columns + 0.8))
    width = pitch - 8 if direct else cell * (columns + 0.4)
    circle = width / 2 - 30
    found.radius = min(12.0, 0.36 * (2 * math.pi * circle / most if direct else cell))
    switches = 34.0 if any(local) else 0.0
    high = (2 * circle + 44 if direct else cell * rows + 10) + switches + 16
    for k, (node, below) in enumerate(zip(nodes, local, strict=True)):
        lines, column = divmod(k, per_row)
        shown = min(per_row, len(nodes) - lines * per_row)
        x = (WIDTH - pitch * shown) / 2 + (column + 0.5) * pitch
        y = top + lines * (high + 14)
        if len(nodes) > 1:
            found.boxes.append(Box(x - width / 2, y, width, high, f"{k}"))
        if direct:
            found.circle(node, x, y + circle + 22, circle)
        for position, npu in enumerate(node):
            if not direct:
                row, at = divmod(position, columns)
                found.at[npu] = (x + (at + 0.5 - columns / 2) * cell, y + 6 + (row + 0.5) * cell)
        for position, switch in enumerate(below):
            found.at[switch] = (x + (position + 0.5 - len(below) / 2) * width / len(below), y + high - 34)
    found.height = top + (high + 14) * -(-len(nodes) // per_row) + 8


def _spread(found: Layout, network: Network, switches: Sequence[int], y: float) -> None:
    """Put the switches of a tier above the middle of what they are linked to; evenly if that is too close."""
    middles: list[tuple[float, int]] = []
    ends: dict[int, list[float]] = {switch: [] for switch in switches}
    for source, target in zip(network.source.tolist(), network.target.tolist(), strict=True):
        if target in ends and source in found.at:
            ends[target].append(found.at[source][0])
    middles = sorted((sum(xs) / len(xs) if xs else WIDTH / 2, switch) for switch, xs in ends.items())
    room = (WIDTH - 40) / len(middles)
    gaps = [b[0] - a[0] for a, b in pairwise(middles)]
    if min(gaps, default=WIDTH) >= min(room, 26):
        found.at |= {switch: (x, y) for x, switch in middles}
        return
    pitch = min(room, 90.0)
    left = WIDTH / 2 - pitch * (len(middles) - 1) / 2
    found.at |= {switch: (left + k * pitch, y) for k, switch in enumerate(switches)}


def node_label(name: str) -> str:
    """The name of a node, from that of one of its NPUs: `gpu[3, *]` for `gpu[3, 5]`, `node[3]` for `node[3].gpu[5]`."""
    return name.rpartition(".")[0] or re.sub(r"\[(\d+), .*\]", r"[\1, *]", name)


def node_numbers(network: Network) -> Int64Array | None:
    """int64[devices]: the outermost index of each NPU, -1 for switches; None if NPUs have one index only."""
    axes = axes_of(network)
    if axes is None or len(axes) < 2:
        return None
    found = np.full(network.device_count, -1, np.int64)
    found[: network.npu_count] = axes[-1]
    return found
