"""Switch paths: direct links, and shortest paths from device to device with only switches between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.graph.digraph import Digraph, strongly_connected
from collc.graph.paths import Edge, last_edges, shortest_path_tree
from collc.synthesis.task import Task
from collc.ten.arrays import distinct
from collc.ten.limited import Ports
from collc.ten.network import Network
from collc.ten.schedule import Clock

OutgoingLinks = list[list[Edge]]
"""For each device the links that leave it: (target, picoseconds, link)."""

PATHS_PER_PAIR = 8
"""Paths of equal length that are kept for a pair of devices."""

MAX_PATHS = 200_000
"""Switch paths of a network; one with more is refused."""


@dataclass(frozen=True, eq=False)
class SwitchPaths:
    """The switch paths of a network, numbered from 0.

    Per path: `source` is an NPU, or a switch of `repeaters`; `target` is an NPU; `links` are its links in order, and
    before and after them, as if these were links, the ports of its source and target if they have any (`Ports`).

    ends: by link, its target; by port, which follow the links, its NPU.
    repeaters: switches that may send a chunk on more than once after it has arrived once.
    summing: switches into which a chunk may come only once. Backwards in time, these add up what they send on.
    start, busy: by size and path; for each link, the picoseconds from the start of the first link until the chunk
    enters this one, and how long this one is busy. total: by size and path, picoseconds until arrival.
    """

    ends: list[int]
    source: list[int]
    target: list[int]
    links: list[tuple[int, ...]]
    repeaters: frozenset[int]
    summing: frozenset[int]
    start: list[list[tuple[int, ...]]]
    busy: list[list[tuple[int, ...]]]
    total: list[list[int]]

    @cached_property
    def slowest(self) -> list[int]:
        """For each path, the picoseconds that the largest chunk keeps its slowest link busy."""
        return [max(times) for times in self.busy[-1]]


def switch_paths_of(task: Task, clock: Clock) -> SwitchPaths:
    """The switch paths that a task may use. Raises NoSchedule if there are more than MAX_PATHS."""
    network = task.network
    if has_many_paths(network):
        raise _too_many_paths(network)
    cost: list[int] = np.maximum(1, clock.total[network.kind, clock.total.shape[1] - 1]).tolist()
    outgoing: OutgoingLinks = [[] for _ in range(network.device_count)]
    ends: list[int] = network.target.tolist()
    starts: list[int] = network.source.tolist()
    for link, device in enumerate(starts):
        outgoing[device].append((ends[link], cost[link], link))
    repeaters = repeaters_of(task)
    source: list[int] = []
    links: list[tuple[int, ...]] = []
    for device in [*network.npus.tolist(), *sorted(repeaters)]:
        for path in _paths_from(network, outgoing, device):
            source.append(device)
            links.append(path)
        if len(links) > MAX_PATHS:
            raise _too_many_paths(network)
    summing = network.multicast if task.inverted else np.zeros(network.switch_count, np.bool_)
    summing_switches = frozenset((np.flatnonzero(summing) + network.npu_count).tolist())
    targets = [ends[path[-1]] for path in links]
    paths = SwitchPaths(ends, source, targets, links, repeaters, summing_switches, *_times(network, clock, links))
    return _with_ports(paths, task)


def _with_ports(paths: SwitchPaths, task: Task) -> SwitchPaths:
    """The paths with the ports at both ends; see `SwitchPaths`."""
    count = len(paths.ends)
    # Backwards in time, what an NPU sends arrives.
    ports = Ports.of(task.network.reverse() if task.inverted else task.network)
    if not len(ports):
        return paths
    out, into = (ports.into, ports.out) if task.inverted else (ports.out, ports.into)
    ends = [(int(out[source]), int(into[target])) for source, target in zip(paths.source, paths.target, strict=True)]

    def between_ports(path: int, at_source: int, values: tuple[int, ...], at_target: int) -> tuple[int, ...]:
        first, last = ends[path]
        return (*([at_source] * (first >= 0)), *values, *([at_target] * (last >= 0)))

    links = [between_ports(k, count + ends[k][0], over, count + ends[k][1]) for k, over in enumerate(paths.links)]
    start, busy = list[list[tuple[int, ...]]](), list[list[tuple[int, ...]]]()
    for size, times in enumerate(ports.occupancy(np.unique(task.demand.chunks.size)).T.tolist()):
        taken: list[int] = times
        of_paths = list(enumerate(zip(paths.start[size], paths.busy[size], paths.total[size], strict=True)))
        start.append(
            [between_ports(k, 0, offsets, max(0, total - taken[ends[k][1]])) for k, (offsets, _, total) in of_paths]
        )
        busy.append([between_ports(k, taken[ends[k][0]], each, taken[ends[k][1]]) for k, (_, each, _) in of_paths])
    return replace(paths, ends=[*paths.ends, *ports.devices], links=links, start=start, busy=busy)


def _too_many_paths(network: Network) -> NoSchedule:
    message = f"{network.name} has more than {MAX_PATHS} paths over switches from NPU to NPU"
    return NoSchedule(Diagnostic("S0308", message, hint="use 'synthesize pccl()', which supports every demand"))


def has_many_paths(network: Network) -> bool:
    """Whether more than MAX_PATHS pairs of NPUs are joined by switches that all reach one another."""
    npus, devices, source, target = network.npu_count, network.device_count, network.source, network.target
    if npus**2 <= MAX_PATHS:
        return False
    between = (source >= npus) & (target >= npus)
    part = strongly_connected(Digraph(devices, source[between], target[between])).astype(np.int64)
    into, out = (source < npus) & (target >= npus), (source >= npus) & (target < npus)
    ends = part[target[into]] * devices + source[into], part[source[out]] * devices + target[out]
    sending, receiving = (np.bincount(distinct(pairs) // devices, minlength=devices) for pairs in ends)
    return int((sending * receiving).max()) - npus > MAX_PATHS


def repeaters_of(task: Task) -> frozenset[int]:
    """The switches that may send one arrival on more than once and have a buffer without limit to keep it in."""
    network = task.network
    if task.relays:
        return frozenset()
    able = network.present[network.npu_count :] & (network.buffers < 0)
    if task.inverted:
        able = able & network.multicast
    return frozenset((np.flatnonzero(able) + network.npu_count).tolist())


def _times(
    network: Network, clock: Clock, links: list[tuple[int, ...]]
) -> tuple[list[list[tuple[int, ...]]], list[list[tuple[int, ...]]], list[list[int]]]:
    """`start`, `busy` and `total` of SwitchPaths."""
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


def _paths_from(network: Network, outgoing: OutgoingLinks, source: int) -> Iterator[tuple[int, ...]]:
    """The links of each path from a device: direct links to NPUs, then shortest paths over switches to each NPU.

    Pairs of devices begin with another one of their equally short paths, so that their loads spread.
    """
    npus = network.npu_count
    for target, _, link in outgoing[source]:
        if target < npus:
            yield (link,)
    last_hops = _last_hops(outgoing, source, npus)
    for target in sorted(last_hops):
        if target < npus and target != source:
            paths = _paths_between(last_hops, source, target)
            turn = (source + target) % len(paths)
            yield from (paths[turn:] + paths[:turn])[:PATHS_PER_PAIR]


def _last_hops(outgoing: OutgoingLinks, source: int, npus: int) -> dict[int, list[tuple[int, int]]]:
    """For each device within reach over switches alone, (device, link) of the last hop of each shortest path to it.

    Direct links from the source to NPUs do not count.
    """
    to_switches = [edge for edge in outgoing[source] if edge[0] >= npus]

    def edges(device: int) -> list[Edge]:
        if device == source:
            return to_switches
        return outgoing[device] if device >= npus else []

    return last_edges(edges, shortest_path_tree(edges, {source: 0}).distance)


def _paths_between(last_hops: dict[int, list[tuple[int, int]]], source: int, device: int) -> list[tuple[int, ...]]:
    """The links of paths from the source to a device, depth first from their end; at most 4 * PATHS_PER_PAIR."""
    paths: list[tuple[int, ...]] = []
    open_: list[tuple[int, tuple[int, ...]]] = [(device, ())]
    while open_ and len(paths) < 4 * PATHS_PER_PAIR:
        device, tail = open_.pop()
        if device == source:
            paths.append(tail)
            continue
        open_ += [(previous, (link, *tail)) for previous, link in reversed(last_hops[device])]
    return paths
