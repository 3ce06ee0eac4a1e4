"""Networks made from other networks: switches unwound into direct links, parts removed, products."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.base.disjoint_sets import DisjointSets
from collc.ten.arrays import Int64Array
from collc.ten.limited import with_endpoints
from collc.ten.network import Axis, DeviceFamily, LinkKind, Network

Row = tuple[int, int, int, int]
"""A new link: source, target, kind, and the first link of the path that it stands for."""

MOST_PAIRS: Final = 1 << 20
"""Pairs of NPUs that are linked at most."""


def joined_switches(network: Network) -> list[list[int]]:
    """The switches, those that links between switches join together, each part in ascending order."""
    n = network.npu_count
    joined = DisjointSets[int]()
    for source, target in zip(network.source.tolist(), network.target.tolist(), strict=True):
        if source >= n and target >= n:
            joined.join(source, target)
    parts: dict[int, list[int]] = defaultdict(list)
    for switch in range(n, network.device_count):
        parts[joined.root(switch)].append(switch)
    return list(parts.values())


def links_over(network: Network, switches: Sequence[int], kinds: dict[LinkKind, int]) -> list[Row]:
    """A link for each pair of NPUs that switches join, in order of source and target.

    Its latency is the latency of the fastest path, of equal ones with the fewest links. If several are equal, the path
    is laid, from its target back, over the links that fewest of the paths so far share, counted against their
    bandwidth. The new link has the bandwidth of the narrowest link of its path; the new links that pass a link share it
    evenly. kinds: numbers of kinds, which grows. Raises ValueError for too many pairs.
    """
    paths = _SwitchPaths(network, switches)
    if len(paths.senders) * len(paths.receivers) > MOST_PAIRS:
        raise ValueError(f"{len(paths.senders)} x {len(paths.receivers)} pairs of NPUs are more than {MOST_PAIRS:,}")
    laid = [(source, npu, path) for source in paths.senders for npu, path in paths.lay(source)]
    latencies = [network.kinds[kind].latency for kind in paths.kind]
    overheads = [network.kinds[kind].overhead for kind in paths.kind]
    shares = [
        None if network.kinds[kind].bandwidth is None else users * weight
        for kind, users, weight in zip(paths.kind, paths.users, paths.weights, strict=True)
    ]
    rows: list[Row] = []
    numbers: dict[tuple[tuple[int | None, ...], tuple[int | None, ...], int], int] = {}
    for source, target, path in laid:
        overhead = sum(overheads[link] for link in path)
        key = tuple(latencies[link] for link in path), tuple(shares[link] for link in path), overhead
        number = numbers.get(key)
        if number is None:
            latency = None if None in key[0] else sum(filter(None, key[0]))
            bandwidth = None if None in key[1] else Fraction(paths.scale, max(filter(None, key[1])))
            kind = LinkKind(latency, bandwidth, overhead)
            number = numbers[key] = kinds.setdefault(kind, len(kinds))
        rows.append((source, target, number, path[-1]))
    return rows


class _SwitchPaths:
    """Paths over some switches.

    scale / weights[link] is the bandwidth of a link, all of them whole numbers. users: how many paths pass each link.
    """

    def __init__(self, network: Network, switches: Sequence[int]) -> None:
        n, inside = network.npu_count, set(switches)
        rates = [Fraction(kind.bandwidth or 1) for kind in network.kinds]
        self.scale: int = lcm(*(rate.numerator for rate in rates))
        self.kind: list[int] = network.kind.tolist()
        self.weights = [self.scale // rates[kind].numerator * rates[kind].denominator for kind in self.kind]
        self.users = [0] * network.link_count
        self._latency = [network.kinds[kind].latency or 0 for kind in self.kind]
        self._source: list[int] = network.source.tolist()
        self._target: list[int] = network.target.tolist()
        self._inside = inside
        self._into: dict[int, list[int]] = defaultdict(list)
        self._out: dict[int, list[int]] = defaultdict(list)
        for link, (a, b) in enumerate(zip(self._source, self._target, strict=True)):
            if (a in inside or b in inside) and (a < n or a in inside) and (b < n or b in inside):
                self._out[a].append(link)
                self._into[b].append(link)
        self.senders = sorted(device for device in self._out if device < n)
        self.receivers = sorted(device for device in self._into if device < n)
        self._known: dict[tuple[tuple[int, int], ...], tuple[dict[int, tuple[int, int]], dict[int, list[int]]]] = {}

    def lay(self, source: int) -> list[tuple[int, list[int]]]:
        """A path to each NPU that can be reached, as (NPU, links from there back); its links count one user more."""
        key = tuple((self._target[link], self._latency[link]) for link in self._out[source])
        if key not in self._known:  # senders with the same links to switches have these in common
            length = self._lengths(source)
            self._known[key] = length, self._last_links(length)
        length, before = self._known[key]
        first: dict[int, list[int]] = defaultdict(list)  # links of the source that are the first of a best path
        for link in self._out[source]:
            if length[self._target[link]] == (self._latency[link], 1):
                first[self._target[link]].append(link)
        users, weights = self.users, self.weights
        paths: list[tuple[int, list[int]]] = []
        for npu in self.receivers:
            if npu == source or npu not in length:
                continue
            path, device = list[int](), npu
            while device != source:
                best = first[device] + before[device] if device in first else before[device]
                link = (
                    best[0] if len(best) == 1 else min(best, key=lambda link: ((users[link] + 1) * weights[link], link))
                )
                users[link] += 1
                path.append(link)
                device = self._source[link]
            paths.append((npu, path))
        return paths

    def _last_links(self, length: dict[int, tuple[int, int]]) -> dict[int, list[int]]:
        """The last links of the best paths to each device that come from a switch."""
        return {
            device: [
                link
                for link in self._into[device]
                if self._source[link] in self._inside
                and length.get(self._source[link]) == (time - self._latency[link], hops - 1)
            ]
            for device, (time, hops) in length.items()
        }

    def _lengths(self, source: int) -> dict[int, tuple[int, int]]:
        """Latency and number of links of the best path to each device; paths pass switches only."""
        length: dict[int, tuple[int, int]] = {}
        queue = [(0, 0, source)]
        while queue:
            time, hops, device = heapq.heappop(queue)
            if device != source and ((time, hops) > length[device] or device not in self._inside):
                continue
            for link in self._out[device]:
                reached = (time + self._latency[link], hops + 1)
                other = self._target[link]
                if other not in length or reached < length[other]:
                    length[other] = reached
                    heapq.heappush(queue, (*reached, other))
        return length


def unwound(network: Network, degree: int = 1, *, joined: bool = False) -> Network:
    """The network with each switch replaced by direct links between its NPUs (TACOS, section IV-G).

    NPU i of a switch, counted by number, is linked to i + 1 .. i + degree, round the end, with the
    latency of both hops together and 1/degree of the lower of both bandwidths; parallel links are
    paired. Links between NPUs come first, as they were, then those of each switch in order of NPU and distance.
    joined: whether switches may be linked to switches. Each pair of NPUs that these join gets a direct link (see
    unwinding.links_over), whatever `degree` is. If there is no switch, the network itself is returned.
    Raises ValueError if else a switch is linked to a switch, an NPU only in one direction, or there are no more NPUs
    than `degree`.
    """
    if network.switch_count == 0:
        return network
    n = network.npu_count
    if not joined:
        _check_switches(network)
    direct = np.flatnonzero((network.source < n) & (network.target < n))
    kinds = {kind: row for row, kind in enumerate(network.kinds)}
    rows: list[Row] = []
    for part in joined_switches(network):
        alone = len(part) == 1
        rows += _ring_links(network, part[0], degree, kinds) if alone else links_over(network, part, kinds)
    new = np.array(rows, np.int64).reshape(-1, 4)
    origin = np.concatenate([direct, new[:, 3]])
    return replace(
        network,
        families=tuple(f for f in network.families if f.first < n),
        present=network.present[:n],
        buffers=np.empty(0, np.int64),
        multicast=np.empty(0, np.bool_),
        reduces=np.empty(0, np.bool_),
        source=np.concatenate([network.source[direct], new[:, 0]]).astype(np.int32),
        target=np.concatenate([network.target[direct], new[:, 1]]).astype(np.int32),
        kind=np.concatenate([network.kind[direct], new[:, 2]]).astype(np.int32),
        kinds=tuple(kinds),
        link_axis=network.link_axis[origin] if network.axes else network.link_axis,
        unwound=True,
        removed=network.removed[(network.removed < n).all(axis=1)],
    )


def _check_switches(network: Network) -> None:
    n = network.npu_count
    between = np.flatnonzero((network.source >= n) & (network.target >= n))
    if len(between):
        name = network.link_name(int(between[0]))
        raise ValueError(f"link {name} joins two switches, and only switches between NPUs can be unwound")


def links_behind(network: Network) -> Int64Array:
    """int64[links, 2]: the links that each link of `unwound(network)` stands for: twice itself if it is direct, else
    the one into a switch and the one out of it. Raises ValueError as `unwound`.
    """
    direct = np.flatnonzero((network.source < network.npu_count) & (network.target < network.npu_count))
    pairs = [pair for part in joined_switches(network) for pair in _ring(network, part[0], 1)]
    return np.concatenate([np.stack([direct, direct], axis=1), np.array(pairs, np.int64).reshape(-1, 2)])


def _ring_links(network: Network, switch: int, degree: int, kinds: dict[LinkKind, int]) -> list[Row]:
    """The links that replace a switch."""
    rows: list[Row] = []
    for up, down in _ring(network, switch, degree):
        kind = _series_kind(network.kinds[int(network.kind[up])], network.kinds[int(network.kind[down])], degree)
        ends = int(network.source[up]), int(network.target[down])
        rows.append((*ends, kinds.setdefault(kind, len(kinds)), up))
    return rows


def _ring(network: Network, switch: int, degree: int) -> list[tuple[int, int]]:
    """The links into a switch and out of it for which direct links stand."""
    into: dict[int, list[int]] = {}
    out: dict[int, list[int]] = {}
    offsets, links = network.in_links
    for link in links[offsets[switch] : offsets[switch + 1]].tolist():
        into.setdefault(int(network.source[link]), []).append(link)
    offsets, links = network.out_links
    for link in links[offsets[switch] : offsets[switch + 1]].tolist():
        out.setdefault(int(network.target[link]), []).append(link)
    single = sorted(into.keys() ^ out.keys())
    name = network.device_name(switch)
    if single:
        raise ValueError(f"{network.device_name(single[0])} is linked to {name} in one direction only")
    members = sorted(into)
    count = len(members)
    if not 1 <= degree < max(count, 2):
        raise ValueError(f"degree {degree} of {name}, which joins {count} NPUs: it must be 1 to {count - 1}")
    return [
        pair
        for i, source in enumerate(members if count > 1 else [])
        for distance in range(1, degree + 1)
        for pair in zip(into[source], out[members[(i + distance) % count]], strict=False)
    ]


def _series_kind(up: LinkKind, down: LinkKind, degree: int) -> LinkKind:
    latency = None if up.latency is None or down.latency is None else up.latency + down.latency
    if up.bandwidth is None or down.bandwidth is None:
        return LinkKind(latency, None, up.overhead + down.overhead)
    return LinkKind(latency, Fraction(min(up.bandwidth, down.bandwidth)) / degree, up.overhead + down.overhead)


def remove_parts(network: Network, devices: list[int], links: Int64Array) -> Network:
    """The network without some devices, their links and some other links (int64, numbers)."""
    present = network.present.copy()
    present[devices] = False
    keep = present[network.source] & present[network.target]
    keep[links] = False
    return replace(
        network,
        present=present,
        source=network.source[keep],
        target=network.target[keep],
        kind=network.kind[keep],
        link_axis=network.link_axis[keep] if len(network.link_axis) else network.link_axis,
        removed=np.concatenate([network.removed, np.stack([network.source, network.target], axis=1)[~keep]]),
    )


def product(left: Network, right: Network, name: str, kinds: tuple[str, str]) -> Network:
    """The Cartesian product: a copy of `left` for each NPU of `right` and the other way round.

    NPU i of left and j of right become NPU i + left.npu_count * j. The switches and links of the
    copies of left come first, for j = 0, 1, ..., then those of the copies of right, for i = 0, 1, ... kinds:
    what the factors are called in `axes` if they are no products. If both limit an NPU, the lower rates hold.
    """
    n, m = left.npu_count, right.npu_count
    known: dict[LinkKind, int] = {}
    parts = [
        _lines(left, np.arange(m, dtype=np.int64) * n, 1, n * m, known),
        _lines(right, np.arange(n, dtype=np.int64), n, n * m + m * left.switch_count, known),
    ]
    axes = [
        network.axes or (Axis(kind, network.npu_count),) for network, kind in zip((left, right), kinds, strict=True)
    ]
    axis = [
        _axis_of(left, 0, m),
        _axis_of(right, len(axes[0]), n),
    ]
    network = Network(
        name=name,
        npu_count=n * m,
        families=(
            _product_npus(left, right),
            *_switches(left, m, n * m, 1),
            *_switches(right, n, n * m + m * left.switch_count, len(axes[0]) + 1),
        ),
        present=np.ones(n * m + m * left.switch_count + n * right.switch_count, np.bool_),
        buffers=np.concatenate([np.tile(left.buffers, m), np.tile(right.buffers, n)]),
        multicast=np.concatenate([np.tile(left.multicast, m), np.tile(right.multicast, n)]),
        reduces=np.concatenate([np.tile(left.reduces, m), np.tile(right.reduces, n)]),
        source=np.concatenate([p[0] for p in parts]).astype(np.int32),
        target=np.concatenate([p[1] for p in parts]).astype(np.int32),
        kind=np.concatenate([p[2] for p in parts]).astype(np.int32),
        kinds=tuple(known),
        axes=(*axes[0], *axes[1]),
        link_axis=np.concatenate(axis).astype(np.int8),
        unwound=(left.unwound or right.unwound) and not left.switch_count + right.switch_count,
    )
    if not left.endpoint_kinds and not right.endpoint_kinds:
        return network
    pairs = [(i, j) for j in range(m) for i in range(n)]
    return with_endpoints(network, [left.endpoint_of(i).tighter(right.endpoint_of(j)) for i, j in pairs])


def _lines(
    network: Network, first: Int64Array, stride: int, switches: int, known: dict[LinkKind, int]
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Sources, targets and kinds of copies of a network's links.

    NPU i of copy k becomes first[k] + i * stride; switches are numbered from `switches`, copy after copy. known: the
    number of each kind of link, to which new ones are added.
    """
    copies = np.arange(len(first), dtype=np.int64)[:, None]
    ends: list[Int64Array] = []
    for end in (network.source.astype(np.int64), network.target.astype(np.int64)):
        position = np.where(
            end < network.npu_count,
            first[:, None] + end * stride,
            switches + copies * network.switch_count + end - network.npu_count,
        )
        ends.append(position.reshape(-1))
    rows = np.array([known.setdefault(kind, len(known)) for kind in network.kinds], np.int64)
    return ends[0], ends[1], np.tile(rows[network.kind], len(first))


def _axis_of(network: Network, first: int, copies: int) -> NDArray[np.int8]:
    own = network.link_axis if network.axes else np.zeros(network.link_count, np.int8)
    return np.tile(own + np.int8(first), copies)


def npu_grid(network: Network) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of a network's NPUs: of its only NPU array, else one index by number."""
    families = [f for f in network.families if f.first < network.npu_count]
    if len(families) == 1 and families[0].shape and "." not in families[0].name:
        return families[0].shape, families[0].strides
    return (network.npu_count,), (1,)


def _product_npus(left: Network, right: Network) -> DeviceFamily:
    (shape_a, strides_a), (shape_b, strides_b) = npu_grid(left), npu_grid(right)
    strides = (*strides_a, *(stride * left.npu_count for stride in strides_b))
    return DeviceFamily("npu", (*shape_a, *shape_b), 0, strides)


def _switches(network: Network, copies: int, first: int, dimension: int) -> list[DeviceFamily]:
    """The families of the copies of a factor's switches; dimension: the first one of the factor, from 1."""
    n, count = network.npu_count, network.switch_count
    families = [f for f in network.families if f.first >= n]
    label = f"dim{dimension}"
    if len(families) == 1:
        family = families[0]
        name = family.name if network.axes and dimension == 1 else f"{label}.{family.name}"
        return [DeviceFamily(name, (copies, *family.shape), first + family.first - n, (count, *family.strides))]
    return [
        DeviceFamily(f"{label}[{copy}].{f.name}", f.shape, first + copy * count + f.first - n, f.strides)
        for copy in range(copies)
        for f in families
    ]
