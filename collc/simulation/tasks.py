"""What is simulated: messages and local work that wait for one another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from collc.kernels.task_events import DONE, SENT, START
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network

__all__ = ["DONE", "SENT", "START", "Edges", "Routes", "TaskGraph"]


@dataclass(frozen=True, eq=False)
class Routes:
    """Paths through a network: route r is links[offsets[r]:offsets[r + 1]], int32, link numbers in order."""

    offsets: Int64Array
    links: Int32Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @staticmethod
    def of(paths: list[tuple[int, ...]]) -> Routes:
        """Make routes from lists of links."""
        offsets = np.zeros(len(paths) + 1, np.int64)
        np.cumsum([len(path) for path in paths], out=offsets[1:])
        return Routes(offsets, np.array([link for path in paths for link in path], np.int32))

    @staticmethod
    def single_links(network: Network) -> Routes:
        """For each link of a network, the route of that link only."""
        count = network.link_count
        return Routes(np.arange(count + 1, dtype=np.int64), np.arange(count, dtype=np.int32))

    def of_tasks(self, route: Int32Array) -> tuple[Int64Array, Int32Array]:
        """(offsets int64[tasks + 1], links int32[hops]) of tasks with these routes, -1 for none."""
        lengths = np.append(np.diff(self.offsets), 0)[route]
        offsets = np.zeros(len(route) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        begin = np.append(self.offsets[:-1], 0)[route]
        return offsets, self.links[np.arange(offsets[-1]) + np.repeat(begin - offsets[:-1], lengths)]


@dataclass(frozen=True, eq=False)
class Edges:
    """Who waits for whom: task after[e] waits until phase[e] (START, SENT or DONE) of task before[e].

    before, after: int32[edges]. phase: int8[edges]. Followers of one phase come in the order of the edges.
    """

    before: Int32Array
    after: Int32Array
    phase: np.ndarray[tuple[int, ...], np.dtype[np.int8]]

    @staticmethod
    def of(rows: list[tuple[int, int, int]]) -> Edges:
        """Make edges from rows of (before, after, phase)."""
        # From one row after another, numpy makes an array five times as fast as from a list of them.
        table = np.fromiter(chain.from_iterable(rows), np.int32, 3 * len(rows)).reshape(len(rows), 3)
        return Edges(table[:, 0], table[:, 1], table[:, 2].astype(np.int8))

    @staticmethod
    def join(parts: list[Edges]) -> Edges:
        """All edges of all parts, in order."""
        return Edges(
            np.concatenate([part.before for part in parts]),
            np.concatenate([part.after for part in parts]),
            np.concatenate([part.phase for part in parts]),
        )

    @staticmethod
    def all_of(before: Int32Array, after: Int32Array, phase: int) -> Edges:
        """Edges of one phase."""
        return Edges(before, after, np.full(len(before), phase, np.int8))


@dataclass(frozen=True, eq=False)
class Issue:
    """How ASTRA-sim issues the nodes of traces (`task_events`).

    id: int64[n]. rank: int64[n]. sender: int32[n], the message of a receive, or COMPUTE or MESSAGE. first: int32, the
    nodes that are issued at the beginning, in order. sizes: int64[ranks], how many buckets the set of free nodes of
    each rank has then, a number of BUCKETS. most_buckets: of any set.
    """

    id: Int64Array
    rank: Int64Array
    sender: Int32Array
    first: Int32Array
    sizes: Int64Array
    most_buckets: int


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """n tasks. A task is a message, or local work.

    size: int64[n], bytes of a message. route: int32[n], rows of `routes`; -1 for local work. duration: int64[n], how
    long local work takes, in the unit of the timing. source, target: int32[n], the devices at both ends of a message;
    for local work its device, twice.
    order, hop_order: int64[n], each at least 0: of what happens at the same time, tasks start and messages go on in
    ascending order of these; None: in order of the number of the task.
    any_lane: whether a message takes whichever of equal parallel links is free first, in place of that of its route.
    issue: of traces in ASTRA-sim, how it issues nodes; None: in order of the edges of the node that frees them.
    """

    size: Int64Array
    route: Int32Array
    duration: Int64Array
    source: Int32Array
    target: Int32Array
    routes: Routes
    edges: Edges
    order: Int64Array | None = None
    hop_order: Int64Array | None = None
    any_lane: bool = False
    issue: Issue | None = None

    def __len__(self) -> int:
        return len(self.size)
