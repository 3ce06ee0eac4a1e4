"""Ways from device to device without an NPU between: direct links, and shortest paths through switches."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.routing import FAR
from collc.synthesis.task import Task
from collc.ten.network import Network
from collc.ten.schedule import Clock

Ahead = list[list[tuple[int, int, int]]]
"""For each device its (link, target, cost) rows."""

PATHS = 8
"""Equally short paths through switches that are kept for a pair of devices."""

MOST = 200_000
"""Lanes up to which they are all told."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """Lanes, by number.

    source, target: devices; a source is an NPU, or a switch that may pass a chunk on again. links: of each, in order.
    hosts: the switches that are sources. single: switches into which a chunk may come only
    once: backwards in time they add up what they hold of it.
    start, busy: by size and lane, when after the first link each link is entered, and how long it is taken.
    total: by size and lane, picoseconds until arrival.
    """

    source: list[int]
    target: list[int]
    links: list[tuple[int, ...]]
    hosts: frozenset[int]
    single: frozenset[int]
    start: list[list[tuple[int, ...]]]
    busy: list[list[tuple[int, ...]]]
    total: list[list[int]]

    @cached_property
    def slowest(self) -> list[int]:
        """For each lane, how long the largest chunk takes its slowest link."""
        return [max(times) for times in self.busy[-1]]


def lanes_of(task: Task, clock: Clock) -> Lanes:
    """The lanes of a task. Raises NoSchedule where there are too many."""
    network = task.network
    cost: list[int] = np.maximum(1, clock.total[network.kind, clock.total.shape[1] - 1]).tolist()
    ahead: Ahead = [[] for _ in range(network.device_count)]
    ends: list[int] = network.target.tolist()
    starts: list[int] = network.source.tolist()
    for link, device in enumerate(starts):
        ahead[device].append((link, ends[link], cost[link]))
    hosts = _hosts(task)
    source: list[int] = []
    links: list[tuple[int, ...]] = []
    for device in [*network.npus.tolist(), *sorted(hosts)]:
        for path in _paths(network, ahead, device):
            source.append(device)
            links.append(path)
        if len(links) > MOST:
            message = f"{network.name} has more than {MOST} ways from NPU to NPU"
            raise NoSchedule(Diagnostic("S0308", message, hint="'synthesize pccl()' serves every demand"))
    adding = network.multicast if task.inverted else np.zeros(network.switch_count, np.bool_)
    single = frozenset((np.flatnonzero(adding) + network.npu_count).tolist())
    return Lanes(source, [ends[path[-1]] for path in links], links, hosts, single, *_times(network, clock, links))


def _hosts(task: Task) -> frozenset[int]:
    """The switches that may pass what came once on more than once, and have room to keep it."""
    network = task.network
    if task.relays:
        return frozenset()
    free = network.present[network.npu_count :] & (network.buffers < 0)
    if task.inverted:
        free = free & network.multicast
    return frozenset((np.flatnonzero(free) + network.npu_count).tolist())


def _times(
    network: Network, clock: Clock, links: list[tuple[int, ...]]
) -> tuple[list[list[tuple[int, ...]]], list[list[tuple[int, ...]]], list[list[int]]]:
    starts: list[list[tuple[int, ...]]] = []
    busies: list[list[tuple[int, ...]]] = []
    totals: list[list[int]] = []
    for size in range(clock.total.shape[1]):
        busy: list[int] = np.maximum(1, clock.busy[network.kind, size]).tolist()
        total: list[int] = clock.total[network.kind, size].tolist()
        start_rows: list[tuple[int, ...]] = []
        total_rows: list[int] = []
        for path in links:
            time = 0
            row: list[int] = []
            for link in path:
                row.append(time)
                time += total[link]
            start_rows.append(tuple(row))
            total_rows.append(time)
        starts.append(start_rows)
        busies.append([tuple(busy[link] for link in path) for path in links])
        totals.append(total_rows)
    return starts, busies, totals


def _paths(network: Network, ahead: Ahead, source: int) -> Iterator[tuple[int, ...]]:
    """All links from a device to NPUs, and the shortest paths through switches to each NPU."""
    npus = network.npu_count
    for link, target, _ in ahead[source]:
        if target < npus:
            yield (link,)
    before = _shortest(ahead, source, npus)
    for target in sorted(before):
        if target < npus and target != source:
            found = _backward(before, source, target)
            turn = (source + target) % len(found)
            yield from (found[turn:] + found[:turn])[:PATHS]


def _shortest(ahead: Ahead, source: int, npus: int) -> dict[int, list[tuple[int, int]]]:
    """For each device that is reached through switches only, the last (link, device) of shortest paths there."""
    best = {source: 0}
    before: dict[int, list[tuple[int, int]]] = {}
    heap = [(0, source)]
    while heap:
        cost, device = heapq.heappop(heap)
        if cost > best[device]:
            continue
        for link, target, price in ahead[device]:
            if target == source or (device == source and target < npus):
                continue
            there, known = cost + price, best.get(target, FAR)
            if there < known:
                best[target], before[target] = there, [(link, device)]
                if target >= npus:
                    heapq.heappush(heap, (there, target))
            elif there == known:
                before[target].append((link, device))
    return before


def _backward(before: dict[int, list[tuple[int, int]]], source: int, device: int) -> list[tuple[int, ...]]:
    """Paths from the source to a device, depth first from its end."""
    found: list[tuple[int, ...]] = []
    open_: list[tuple[int, tuple[int, ...]]] = [(device, ())]
    while open_ and len(found) < 4 * PATHS:
        device, tail = open_.pop()
        if device == source:
            found.append(tail)
            continue
        open_ += [(previous, (link, *tail)) for link, previous in reversed(before[device])]
    return found
