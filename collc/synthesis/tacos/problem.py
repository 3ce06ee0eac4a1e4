"""The problem that link-chunk matching solves: which device wants which chunk, over which links.

A chunk is wanted by the NPUs of its postcondition and, if links between these do not connect them all, by relays on
short paths from a holder to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.graph.digraph import Digraph
from collc.graph.paths import Edge, nearest_path
from collc.graph.reachability import reached
from collc.synthesis.task import Task
from collc.synthesis.timeline import Timeline, link_timelines
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import HolderSets
from collc.ten.network import Network
from collc.ten.schedule import LinkModel


@dataclass(frozen=True, eq=False)
class CopyProblem:
    """Chunks to copy over direct links. K chunks, numbered 0 .. K - 1 here.

    chunk: int32[K], their numbers in the demand. pre, want: int32[K], rows of `sets`: who holds a chunk at the start,
    and who must get it (holders may be among them).
    busy, total: int64[kinds, sizes], picoseconds that a transfer keeps its link busy, and until the chunk has arrived.
    size_of: int32[K], columns of these. release: int64[K], picoseconds before which holders do not have the chunk.
    reserved: by link, when it is busy with what is planned already.
    """

    network: Network
    model: LinkModel
    chunk: Int32Array
    pre: Int32Array
    want: Int32Array
    sets: HolderSets
    busy: Int64Array
    total: Int64Array
    size_of: Int32Array
    release: Int64Array
    reserved: dict[int, Timeline]

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.chunk)

    @property
    def devices(self) -> int:
        """Devices of the network, removed ones included."""
        return self.network.device_count

    @cached_property
    def uniform(self) -> bool:
        """Whether all transfers take equal time, no link is reserved and all holders have their chunks at once."""
        kinds = np.unique(self.network.kind)
        total, busy = self.total[kinds], self.busy[kinds]
        same = total.size > 0 and bool((total == total.flat[0]).all() and (busy == total.flat[0]).all())
        return same and not self.reserved and not self.release.any()

    @cached_property
    def step(self) -> int:
        """Picoseconds of each transfer if the problem is uniform."""
        return int(self.total[self.network.kind[0], 0])

    @cached_property
    def missing(self) -> int:
        """How many chunks the devices must get, summed over all devices; at least one transfer each."""
        sizes = self.sizes_missing
        return int(sum(sizes))

    @cached_property
    def sizes_missing(self) -> list[int]:
        """For each chunk, how many devices want it and do not hold it."""
        known: dict[tuple[int, int], int] = {}
        found: list[int] = []
        for pair in zip(self.pre.tolist(), self.want.tolist(), strict=True):
            if pair not in known:
                pre, want = self.sets[pair[0]], self.sets[pair[1]]
                known[pair] = len(want) - _common(pre, want)
            found.append(known[pair])
        return found

    @cached_property
    def held(self) -> tuple[Int32Array, Int32Array]:
        """Who holds what at the start: (device, chunk), ascending."""
        sizes = self.sets.sizes[self.pre]
        chunk = np.repeat(np.arange(self.count, dtype=np.int32), sizes)
        first = np.repeat(self.sets.offsets[self.pre] - (np.cumsum(sizes) - sizes), sizes)
        device = self.sets.members[first + np.arange(len(chunk))]
        order = np.lexsort((chunk, device))
        return device[order], chunk[order]

    def sources(self) -> list[list[tuple[int, int]]]:
        """For each device its incoming links as (link, source)."""
        found: list[list[tuple[int, int]]] = [[] for _ in range(self.devices)]
        starts: list[int] = self.network.source.tolist()
        ends: list[int] = self.network.target.tolist()
        for link, target in enumerate(ends):
            found[target].append((link, starts[link]))
        return found

    def bits(self) -> tuple[list[int], list[int]]:
        """For each device the chunks that it holds, and those that it still wants, as bit sets."""
        have = [0] * self.devices
        want = [0] * self.devices
        for row, columns in ((have, self.pre), (want, self.want)):
            masks: dict[int, int] = {}
            for chunk, number in enumerate(columns.tolist()):
                masks[number] = masks.get(number, 0) | 1 << chunk
            for number, mask in masks.items():
                for device in self.sets[number].tolist():
                    row[device] |= mask
        return have, [w & ~h for w, h in zip(want, have, strict=True)]


def copy_problem(task: Task) -> CopyProblem:
    """The problem of a task, with the relays that it needs.

    Raises SourceError if a postcondition cannot be reached or the network has switches.
    """
    network = task.network
    _need_direct_links(network)
    table = task.demand.chunks
    chunk = task.chunks.astype(np.int32)
    sizes, size_of = np.unique(table.size[chunk], return_inverse=True)
    occupancy = network.occupancy(sizes)
    total = occupancy + network.latencies[:, None]
    pre, want, sets = _wanted(task, chunk)
    release = np.zeros(len(chunk), np.int64) if task.release is None else task.release[chunk]
    return CopyProblem(
        network=network,
        model=task.model,
        chunk=chunk,
        pre=pre,
        want=want,
        sets=sets,
        busy=task.model.busy(occupancy, total),
        total=total,
        size_of=size_of.astype(np.int32).reshape(-1),
        release=release,
        reserved=_reserved(task),
    )


def _need_direct_links(network: Network) -> None:
    """Raises SourceError if the network has links to or from switches."""
    ends = max(int(network.source.max(initial=-1)), int(network.target.max(initial=-1)))
    if ends >= network.npu_count:
        raise SourceError(
            Diagnostic(
                "S0301",
                f"tacos matches chunks to direct links, and {network.name} has switches",
                hint="write 'on unwound(...)' to replace the switches by direct links, or 'synthesize pccl()'",
            )
        )


def _reserved(task: Task) -> dict[int, Timeline]:
    """By link, when it is busy with transfers that are planned already."""
    rows = task.reserved
    if rows is None or not len(rows):
        return {}
    table, network = task.demand.chunks, task.network
    sizes, size_of = np.unique(table.size[rows.chunk], return_inverse=True)
    busy = network.occupancy(sizes)
    if task.model is LinkModel.STORE:
        busy = busy + network.latencies[:, None]
    return link_timelines(rows, busy[network.kind[rows.link], size_of.reshape(-1)])


def _wanted(task: Task, chunk: Int32Array) -> tuple[Int32Array, Int32Array, HolderSets]:
    """`pre`, `want` and `sets` of a CopyProblem: the postconditions, with the relays that they need."""
    table, network = task.demand.chunks, task.network
    relays = _Relays(network)
    parts: list[Int32Array] = [table.sets.members]
    offsets: list[int] = [int(table.sets.offsets[-1])]
    known: dict[tuple[int, int], int] = {}
    connected: dict[int, bool] = {}
    want = table.post[chunk].copy()
    pre = table.pre[chunk]
    for row, pair in enumerate(zip(pre.tolist(), want.tolist(), strict=True)):
        number = known.get(pair)
        if number is None:
            number = pair[1]
            post = table.sets[number]
            if number not in connected:
                connected[number] = relays.connected(post)
            holders = table.sets[pair[0]]
            if not (connected[number] and _common(holders, post)):
                wanted = relays.wanted(holders.tolist(), post.tolist())
                if len(wanted) > len(post):
                    number = len(table.sets) + len(parts) - 1
                    parts.append(np.array(wanted, np.int32))
                    offsets.append(offsets[-1] + len(wanted))
            known[pair] = number
        want[row] = number
    sets = table.sets
    if len(parts) > 1:
        grown = np.concatenate([sets.offsets, np.array(offsets[1:], np.int64)])
        sets = HolderSets(grown, np.concatenate(parts))
    return pre, want, sets


class _Relays:
    """Finds the devices that must pass a chunk on though they do not want it."""

    def __init__(self, network: Network) -> None:
        self._network, self._graph = network, Digraph.of(network)
        self._loads: dict[int, int] = {}

    def connected(self, members: Int32Array) -> bool:
        """Whether every member reaches every other one over links between members."""
        if not len(members):
            return False
        inside = np.zeros(self._network.device_count, np.bool_)
        inside[members] = True
        graph = self._graph.with_edges(inside[self._graph.source] & inside[self._graph.target])
        start = members[:1].tolist()
        return all(bool(reached(each, start)[members].all()) for each in (graph, graph.reverse()))

    def wanted(self, pre: list[int], post: list[int]) -> list[int]:
        """The devices of the postcondition and the relays on cheap paths to them, ascending. Raises SourceError S0103
        if no path leads to an NPU that wants a chunk.

        The nearest missing device is added to the tree of all holders, one after another (the Steiner tree heuristic of
        Takahashi and Matsuyama); devices that relay much already count as farther.
        """
        tree, missing = set(pre), set(post) - set(pre)
        grown: set[int] = set()
        while missing:
            path = nearest_path(self._edges, tree, missing)
            if path is None:
                name = self._network.shown_name(min(missing))
                hint = "add links, or take it out of the group"
                raise SourceError(Diagnostic("S0103", f"no path of links leads to {name}", hint=hint))
            tree.update(path)
            grown.update(path)
            missing.difference_update(path)
        for device in grown - set(post):
            self._load(device)
        return sorted(grown | set(post))

    def _edges(self, device: int) -> list[Edge]:
        return self._priced[device]

    def _load(self, device: int) -> None:
        """Count a chunk that a device relays: each link into it is longer by a 16th for every one."""
        load = self._loads[device] = self._loads.get(device, 0) + 1
        for source, at in self._into[device]:
            target, cost, link = self._ahead[source][at]
            self._priced[source][at] = target, cost + cost * load // 16, link

    @cached_property
    def _priced(self) -> list[list[Edge]]:
        """`_ahead` with the costs that relayed chunks add."""
        return [edges.copy() for edges in self._ahead]

    @cached_property
    def _into(self) -> list[list[tuple[int, int]]]:
        """For each device where its links are in `_ahead`: (source, position)."""
        found: list[list[tuple[int, int]]] = [[] for _ in self._ahead]
        for source, edges in enumerate(self._ahead):
            for at, (target, _, _) in enumerate(edges):
                found[target].append((source, at))
        return found

    @cached_property
    def _ahead(self) -> list[list[Edge]]:
        """For each device its links as (target, cost, link)."""
        network = self._network
        cost = network.occupancy(np.array([1 << 20], np.int64))[:, 0] + network.latencies
        found: list[list[Edge]] = [[] for _ in range(network.device_count)]
        sources: list[int] = network.source.tolist()
        columns = zip(sources, network.target.tolist(), cost[network.kind].tolist(), strict=True)
        for link, (source, target, price) in enumerate(columns):
            found[source].append((target, price, link))
        return found


def _common(some: Int32Array, others: Int32Array) -> int:
    """How many devices two sets share."""
    if len(some) > len(others):
        some, others = others, some
    if not len(some):
        return 0
    at = np.searchsorted(others, some)
    return int(np.count_nonzero(others[np.minimum(at, len(others) - 1)] == some))
