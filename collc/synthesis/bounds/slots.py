"""Bounds by the slots of switches: a chunk occupies a slot of the buffer while it leaves.

Without some switches a network falls into parts, and the data that a part lacks must leave one of these switches. At
most as many links of a switch are busy at once as it has slots. This bound counts all parts together, whereas a bound
for one set of devices counts only a share of the slots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.reachability import weakly_connected
from collc.synthesis.bounds.timing import LinkClass, LinkClasses, TransferTimes
from collc.synthesis.bounds.traffic import Traffic
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.network import Network

MOST_PARTS: Final = 1024
"""The most parts of more than one device that are looked at."""

SINGLE_SWITCHES: Final = 16
"""The most switches with few slots of which each is also looked at alone."""


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
    if len(limited) <= SINGLE_SWITCHES:
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
    if len(labels) < 2 or len(large) > MOST_PARTS:
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
