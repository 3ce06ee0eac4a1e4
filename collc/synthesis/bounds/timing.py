"""How soon a set of links can deliver some chunks, if each link counts only while it can carry useful ones.

A chunk occupies a slot of the buffer of a switch while it leaves. Without some switches a network falls into parts, and
the data that a part lacks must leave one of these switches. At most as many links of a switch are busy at once as it
has slots. This bound counts all parts together, whereas a bound for one set of devices counts only a share of the
slots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from collc.graph.digraph import Digraph, weakly_connected
from collc.graph.distances import UNREACHABLE, distances_from, two_nearest
from collc.synthesis.bounds.traffic import Traffic
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, unique_rows
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

MOST_CUTS: Final = 1024
"""The most sets of one kind that are tried as cuts, parts of a network, or NPUs of which the worst partition is sought;
a bound on time."""

FEW_SETS: Final = 16
"""The most sets of kinds that overlap (single NPUs, positions along an axis, single switches); a bound on time."""

DETAILED_DEVICES: Final = 2048
"""Devices up to which hops between all devices, and delays before and behind links, count in bounds."""


class LinkClass(NamedTuple):
    """Links of one kind with equal lags, and their number.

    A lag is the time, in picoseconds, during which a link cannot carry a useful chunk: at the beginning, before any
    chunk can be at its source, and at the end, while the last chunk gets on from its target. long_lag: the
    lag of transfers that count for several NPUs (see `Delays`).
    """

    kind: int
    lag: int
    long_lag: int
    number: int


@dataclass(frozen=True, eq=False)
class TransferTimes:
    """Times by kind of link and chunk size.

    busy, total: int64[kinds, sizes], picoseconds that a transfer occupies its link, and until it has arrived; sizes are
    ascending.
    """

    busy: Int64Array
    total: Int64Array

    @staticmethod
    def of(network: Network, sizes: Int64Array, model: LinkModel) -> TransferTimes:
        """The times on a network. Raises ValueError if links have no bandwidth or latency."""
        occupancy = network.occupancy(sizes)
        total = occupancy + network.latencies[:, None]
        return TransferTimes(np.maximum(1, model.busy(occupancy, total)), total)

    def delivery(self, links: list[LinkClass], counts: list[int], known: int = 0) -> int:
        """A time before which some links cannot have delivered counts[s] chunks of each size s.

        For each size, all chunks that are at least as large count as chunks of that size. known: earlier times are not
        of interest; it is returned in their place.
        """
        best, larger = known, 0
        for size in range(len(counts) - 1, -1, -1):
            larger += counts[size]
            if counts[size]:
                best = self.delivery_of(links, size, larger, known=best)
        return best

    def delivery_of(self, links: list[LinkClass], size: int, chunks: int, copies: int = 1, known: int = 0) -> int:
        """The earliest time at which some links can have delivered `chunks` chunks of one size; `known` if they never
        can, or if that is not earlier.

        copies: how often a chunk must be delivered that does not arrive within the long lags.
        """
        rows = [
            (int(self.busy[kind, size]), int(self.total[kind, size]), lag, long_lag, count)
            for kind, lag, long_lag, count in links
            if lag < UNREACHABLE
        ]
        if not rows:
            return known
        if copies == 1 and len(rows) == 1:
            busy, total, lag, _, count = rows[0]
            return max(known, lag + total + (-(-chunks // count) - 1) * busy)
        low, high = known, min(lag + total + busy * chunks * copies for busy, total, lag, _, _ in rows)
        middle = known  # most sets of links are not the narrowest one
        while low < high:
            deliveries = early = 0
            for busy, total, lag, long_lag, count in rows:
                deliveries += count * max(0, (middle - lag - total + busy) // busy)
                early += count * max(0, (middle - long_lag - total + busy) // busy)
            early = min(chunks, early)
            if early + (chunks - early) * copies <= deliveries:
                high = middle
            else:
                low = middle + 1
            middle = (low + high) // 2
        return low


@dataclass(frozen=True, eq=False)
class Delays:
    """When chunks can be at each device, and how long before the end they must leave it: heads and tails, as in
    scheduling theory. Each int64[devices], picoseconds; UNREACHABLE where no path leads.

    head: the distance from the nearest NPU that holds something at the start.
    sum_head: the head of a sum of contributions of two NPUs, which some device on the path must have added up.
    tail: the distance to the nearest NPU that wants something.
    fork_tail: the distance to the second nearest of them, for a chunk that two NPUs want.
    """

    head: Int64Array
    sum_head: Int64Array
    tail: Int64Array
    fork_tail: Int64Array

    @staticmethod
    def without_lags(network: Network) -> Delays:
        """No delay at any device."""
        zero = np.zeros(network.device_count, np.int64)
        return Delays(zero, zero, zero, zero)

    @staticmethod
    def of(network: Network, cost: Int64Array, traffic: list[Traffic]) -> Delays:
        """cost: int64[kinds], picoseconds of the smallest chunk. In a large network, delays are not computed."""
        if network.device_count > DETAILED_DEVICES:
            return Delays.without_lags(network)
        ends = [part.holders_and_wanting() for part in traffic]
        holders, wanting = (np.unique(np.concatenate(column)) for column in zip(*ends, strict=True))
        graph, length = Digraph.of(network), cost[network.kind]
        head, second_head = two_nearest(graph, length, holders)
        tail, fork_tail = two_nearest(graph.reverse(), length, wanting)
        adds = np.ones(network.device_count, np.bool_)
        adds[network.npu_count :] = network.reduces
        sum_head = distances_from(graph, length, np.where(adds, second_head, UNREACHABLE))
        return Delays(head, sum_head, tail, fork_tail)

    def link_classes(self, network: Network, summed: bool = False, forked: bool = False) -> LinkClasses:
        """The classes of links; long lags are those of chunks that are summed before, or fork behind, or both."""
        source, target = network.source, network.target
        lag = self.head[source] + self.tail[target]
        long_lag = (self.sum_head if summed else self.head)[source] + (self.fork_tail if forked else self.tail)[target]
        columns = [network.kind, np.minimum(lag, UNREACHABLE), np.minimum(long_lag, UNREACHABLE)]
        found, number = unique_rows(columns)
        keys: list[list[int]] = found.tolist()
        return LinkClasses([(kind, lag, long_lag) for kind, lag, long_lag in keys], number)


@dataclass(frozen=True, eq=False)
class LinkClasses:
    """keys: (kind, lag, long lag) of each class. number: int64[links], the class of each link."""

    keys: list[tuple[int, int, int]]
    number: Int64Array

    def of(self, links: BoolArray) -> list[LinkClass]:
        """The classes of some links, bool[links]."""
        counts: list[int] = np.bincount(self.number[links], minlength=len(self.keys)).tolist()
        return [LinkClass(*key, count) for key, count in zip(self.keys, counts, strict=True) if count]


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of a network with switches between them.

    label: int64[devices], the part of each device, -1 for the switches. entering, leaving: int64[sizes], chunks of each
    size that must come into the parts, and go out of them, counted once for each part.
    """

    name: str
    label: Int64Array
    entering: Int64Array
    leaving: Int64Array


def links_between(network: Network, label: Int64Array, backward: bool) -> BoolArray:
    """bool[links]: the links into sets of devices from elsewhere; backward: out of them.

    label: int64[devices], the set of each device, -1 for none.
    """
    source, target = label[network.source], label[network.target]
    return (source != target) & ((source if backward else target) >= 0)


def slots_for_each(network: Network, backward: bool) -> BoolArray:
    """bool[switches]: those with few slots in which a chunk takes a slot for each set of devices that it enters;
    backward: that it leaves.

    One slot serves several sets at once if a switch adds up, or sends on several links.
    """
    return (network.buffers >= 0) & ~network.reduces & (~network.multicast | backward)


def parts_of(network: Network, traffic: list[Traffic]) -> Iterator[Parts]:
    """All NPUs one by one, and the parts into which the network falls without some switches with few slots."""
    each = np.full(network.device_count, -1, np.int64)
    each[network.npus] = network.npus
    limited = network.npu_count + np.flatnonzero(network.buffers >= 0)
    labels = [(limited, each), *((some, _components(network, some)) for some in _switch_sets(network, limited))]
    seen: set[bytes] = set()
    for switches, label in labels:
        if label.tobytes() in seen or not len(switches):
            continue
        seen.add(label.tobytes())
        counts = _counts(traffic, label)
        if counts is not None:
            yield Parts(f"the buffer of {_list_switches(network, switches)}", label, *counts)


def slot_classes(
    network: Network, classes: LinkClasses, times: TransferTimes, parts: Parts, backward: bool
) -> list[LinkClass] | None:
    """The links that cross, if those of a switch are no more than its slots; None if slots limit no switch.

    Links of a switch with more of them count as its slots, each as the fastest link out of the switch. What goes into a
    switch counts when it leaves.
    """
    crossing, found = links_between(network, parts.label, backward), list[LinkClass]()
    for switch in np.flatnonzero(slots_for_each(network, backward)).tolist():
        device, slots = network.npu_count + switch, int(network.buffers[switch])
        mine = np.flatnonzero(crossing & ((network.target if backward else network.source) == device))
        out = np.flatnonzero(network.source == device)
        kind = _fastest(times, np.unique(network.kind[out]))
        if kind is None or len(mine) <= slots:
            continue
        if backward and np.any(times.busy[network.kind[mine]] > times.busy[kind]):
            continue  # slow links into the switch may limit it more
        crossing[mine] = False
        numbers: list[int] = classes.number[out].tolist()
        lag = min(classes.keys[number][1] for number in numbers)
        found.append(LinkClass(kind, lag, lag, slots))
    return [*classes.of(crossing), *found] if found else None


def _fastest(times: TransferTimes, kinds: Int32Array) -> int | None:
    """The kind of link that takes the least time for chunks of every size, if there is one."""
    for kind in kinds.tolist():
        if (times.busy[kinds] >= times.busy[kind]).all() and (times.total[kinds] >= times.total[kind]).all():
            return int(kind)
    return None


def _switch_sets(network: Network, limited: Int64Array) -> Iterator[Int64Array]:
    """Sets of switches with few slots: all, those with equal rules and kinds of links, and, if there are few, each."""
    yield limited
    classes: dict[tuple[object, ...], list[int]] = {}
    for device in limited.tolist():
        switch = device - network.npu_count
        kinds = np.unique(network.kind[(network.source == device) | (network.target == device)])
        rules = (int(network.buffers[switch]), bool(network.multicast[switch]), bool(network.reduces[switch]))
        classes.setdefault((*rules, *kinds.tolist()), []).append(device)
    for members in classes.values():
        yield np.array(members, np.int64)
    if len(limited) <= FEW_SETS:
        for device in limited.tolist():
            yield np.array([device], np.int64)


def _components(network: Network, switches: Int64Array) -> Int64Array:
    """int64[devices]: the parts into which a network falls without some switches; -1 for these."""
    kept = np.ones(network.device_count, np.bool_)
    kept[switches] = False
    graph = Digraph.of(network).with_edges(kept[network.source] & kept[network.target])
    return np.where(kept, weakly_connected(graph), -1).astype(np.int64)


def _counts(traffic: list[Traffic], label: Int64Array) -> tuple[Int64Array, Int64Array] | None:
    """(entering, leaving) of Parts; None if there are too many parts, or only one."""
    labels, sizes = np.unique(label[label >= 0], return_counts=True)
    large = labels[sizes > 1].tolist()
    if len(labels) < 2 or len(large) > MOST_CUTS:
        return None
    alone = np.isin(label, labels[sizes == 1])
    entering, leaving = (
        sum(
            (_of_npus(part.sent_chunks() if back else part.received_chunks(), alone) for part in traffic),
            start=np.int64(0),
        )
        for back in (False, True)
    )
    for number in large:
        inside = label == number
        entering = entering + sum(part.chunks_into(inside).counts for part in traffic)
        leaving = leaving + sum(part.chunks_into(~inside).counts for part in traffic)
    return np.asarray(entering), np.asarray(leaving)


def _of_npus(counts: Int64Array, alone: BoolArray) -> Int64Array:
    """int64[sizes]: the sum over some NPUs. counts: int64[sizes, NPUs]."""
    return counts[:, alone[: counts.shape[1]]].sum(axis=1)


def _list_switches(network: Network, switches: Int64Array) -> str:
    name = network.shown_name(int(switches[0]))
    more = len(switches) - 1
    return name if not more else f"{name} and {more} more switch{'es' if more > 1 else ''}"
