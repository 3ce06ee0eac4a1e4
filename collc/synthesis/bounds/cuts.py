"""Cuts of a network that are likely to be narrow, and shortest paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.network import Network

ALL_CUTS = 8
"""Devices up to which every cut is tried."""

PARTS = 1024
"""Components or switches beyond which only so many are tried."""

PLACES = 16
"""Places along an axis where it is cut."""


@dataclass(frozen=True, eq=False)
class Cut:
    """A set of devices, bool[devices], and what to call it."""

    name: str
    inside: BoolArray


def cuts_of(network: Network, cost: Int64Array) -> Iterator[Cut]:
    """Cuts to try. cost: int64[kinds], picoseconds of a chunk on links of a kind.

    Every set of devices gives a right bound; these are the ones that tend to be narrow: components of
    the cheaper links, halves along the axes of arrays, what hangs on a switch, and all of a small network.
    """
    used = np.flatnonzero(network.present)
    if tries_all(network):
        for bits in range(1, 1 << (len(used) - 1)):
            inside = np.zeros(network.device_count, np.bool_)
            inside[used[[k for k in range(len(used)) if bits >> k & 1]]] = True
            names = ", ".join(network.device_name(int(d)) for d in np.flatnonzero(inside))
            yield Cut("{" + names + "}", inside)
        return
    yield from _component_cuts(network, cost)
    yield from _axis_cuts(network)
    yield from _switch_cuts(network)


def tries_all(network: Network) -> bool:
    """Whether a network is so small that every cut is tried."""
    return 1 < int(network.present.sum()) <= ALL_CUTS


def _component_cuts(network: Network, cost: Int64Array) -> Iterator[Cut]:
    for price in np.unique(cost[network.kind])[1:].tolist():
        cheap = cost[network.kind] < price
        component = _components(network.device_count, network.source[cheap], network.target[cheap])
        numbers, sizes = np.unique(component[network.present], return_counts=True)
        for number in numbers[sizes > 1][:PARTS].tolist():
            inside = component == number
            if not inside[network.present].all():
                first = network.device_name(int(np.flatnonzero(inside)[0]))
                yield Cut(f"the {int(inside.sum())} devices round {first} that cheaper links join", inside)


def _components(count: int, source: Int32Array, target: Int32Array) -> Int32Array:
    """int32[devices]: the smallest device that links, either way, join to each."""
    label = np.arange(count, dtype=np.int32)
    while True:
        before = label.copy()
        np.minimum.at(label, source, label[target])
        np.minimum.at(label, target, label[source])
        label = label[label]
        if bool((label == before).all()):
            return label


def _axis_cuts(network: Network) -> Iterator[Cut]:
    for family in network.families:
        if family.first >= network.npu_count or not family.shape:
            continue
        rest = np.arange(family.count)
        index = np.empty((len(family.shape), family.count), np.int64)
        for axis in sorted(range(len(family.shape)), key=lambda a: -family.strides[a]):
            index[axis], rest = np.divmod(rest, family.strides[axis])
        for axis, size in enumerate(family.shape):
            places = range(1, size)
            if size > PLACES:
                places = sorted({1, size - 1, *(size * part // PLACES for part in range(1, PLACES))})
            for place in places:
                inside = np.zeros(network.device_count, np.bool_)
                inside[family.first : family.first + family.count] = index[axis] < place
                where = ", ".join(f"0..{place}" if a == axis else "*" for a in range(len(family.shape)))
                yield Cut(f"{family.name}[{where}]", _with_switches(network, inside))


def _with_switches(network: Network, inside: BoolArray) -> BoolArray:
    """The set with those switches that have more than half of their links into it."""
    if not network.switch_count:
        return inside
    linked = np.zeros(network.device_count, np.int64)
    np.add.at(linked, network.source, np.where(inside[network.target], 1, -1))
    np.add.at(linked, network.target, np.where(inside[network.source], 1, -1))
    found = inside.copy()
    found[network.npu_count :] = linked[network.npu_count :] > 0
    return found


def _switch_cuts(network: Network) -> Iterator[Cut]:
    for switch in range(network.npu_count, min(network.device_count, network.npu_count + PARTS)):
        inside = np.zeros(network.device_count, np.bool_)
        inside[network.target[network.source == switch]] = True
        inside[network.npu_count :] = False
        inside[switch] = True
        if int(inside.sum()) > 2 and not inside[: network.npu_count][network.present[: network.npu_count]].all():
            yield Cut(f"the NPUs on {network.device_name(switch)}", inside)


def hop_counts(network: Network) -> Int32Array:
    """int32[devices, devices]: links on a shortest path to the row from the column; 0 where there is none."""
    count = network.device_count
    offsets, order = network.in_links
    ends = np.flatnonzero(np.diff(offsets))
    reached = np.packbits(np.eye(count, dtype=np.bool_), axis=1)
    hops = np.zeros((count, count), np.int32)
    length = 0
    while True:
        spread = reached.copy()
        spread[ends] |= np.bitwise_or.reduceat(reached[network.source[order]], offsets[ends], axis=0)
        if bool((spread == reached).all()):
            return hops
        length += 1
        hops += length * np.unpackbits(spread & ~reached, axis=1, count=count).astype(np.int32)
        reached = spread


def distances(network: Network, cost: Int64Array, work: int) -> tuple[Int32Array, Int64Array]:
    """(sources int32, int64[sources, devices]): picoseconds of the shortest paths from some NPUs.

    All NPUs are sources, or as many as `work` link visits allow; 2**60 stands for no path.
    """
    npus = network.npus
    if not len(npus):
        return npus, np.zeros((0, network.device_count), np.int64)
    first, rounds = _spread(network, cost, npus[:1])
    room = max(1, work // max(1, rounds * network.link_count))
    if room >= len(npus):
        return npus, _spread(network, cost, npus)[0]
    reached = np.where(first[0, : network.npu_count] < 1 << 60, first[0, : network.npu_count], -1)
    far = np.array([int(reached.argmax())], np.int32)
    even = npus[np.linspace(0, len(npus) - 1, max(1, room - 1)).astype(np.int64)]
    sources = np.unique(np.concatenate([far, even[: room - 1]])).astype(np.int32)
    return sources, _spread(network, cost, sources)[0]


def _spread(network: Network, cost: Int64Array, sources: Int32Array) -> tuple[Int64Array, int]:
    """Shortest paths by relaxing all links until nothing changes (Bellman and Ford), and the rounds it took."""
    offsets, order = network.in_links
    ends = np.flatnonzero(np.diff(offsets))
    found = np.full((len(sources), network.device_count), 1 << 60, np.int64)
    found[np.arange(len(sources)), sources] = 0
    price = cost[network.kind[order]]
    rounds = 0
    while len(ends):
        rounds += 1
        along = np.minimum(found[:, network.source[order]] + price, 1 << 60)
        best = np.minimum(found[:, ends], np.minimum.reduceat(along, offsets[ends], axis=1))
        if bool((best == found[:, ends]).all()):
            break
        found[:, ends] = best
    return found, rounds
