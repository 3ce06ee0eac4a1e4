"""All chunks over one NPU: along the tree of shortest paths to it, and then along the tree of shortest paths from it.

This schedule is for demands that are too large for a search from every NPU. Each chunk has a time slot in which no
other chunk uses the links that it takes, so nothing queues. A slot is as long as the slowest link of the trees is busy,
and all times are computed as arrays. An All-Gather over n NPUs with one chunk each takes n slots plus twice the depth
of the trees. If all NPUs have one incoming link, no schedule takes less than n - 1 slots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to
from collc.synthesis.conditions import Conditions
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network
from collc.ten.schedule import RowSchedule, Schedule, Transfers

SEARCH_NS, MESSAGE_NS = 1_000, 4_000
"""Nanoseconds that plain Python takes for a link in a search for paths, and for a message along one, measured."""

MOST_NS = 1_500_000_000
"""Time of searches and messages from which chunks take the trees of one NPU: the grace after a limit is 2 s."""

FEW = 2
"""Devices that want a chunk, on average, up to which chunks go their own ways: one tree would be far slower."""


def serves(conditions: Conditions) -> bool:
    """Whether paths from every NPU would take too long, and one tree may be used: there are no switches, and nothing is
    reserved.
    """
    task, wanted = conditions.task, len(conditions.wanting)
    shared = wanted > FEW * max(1, len(conditions))
    if task.network.has_switches or not shared or (task.reserved is not None and len(task.reserved)):
        return False
    searches = len(np.unique(conditions.holders[conditions.holder_offsets[:-1]]))
    return searches * task.network.link_count * SEARCH_NS + wanted * MESSAGE_NS > MOST_NS


@dataclass(frozen=True, eq=False)
class _Tree:
    """Shortest paths to one NPU. link: int32[devices], the first link of each device's path. away: int64[devices],
    picoseconds of the path.
    """

    link: Int32Array
    away: Int64Array

    @staticmethod
    def towards(network: Network, root: int, length: Int64Array) -> _Tree:
        """The tree to `root`. length: int64[links], picoseconds, 1 or more."""
        away = distances_to(Digraph.of(network), length, np.array([root], np.int32))[0]
        tight = np.flatnonzero(
            (away[network.source] < UNREACHABLE) & (away[network.source] == away[network.target] + length)
        )
        link = np.full(network.device_count, -1, np.int32)
        link[network.source[tight[::-1]]] = tight[::-1]
        return _Tree(link, away)


def along_one_tree(conditions: Conditions) -> Schedule | None:
    """A schedule of copies; None where not all that hold or want a chunk have paths to and from one NPU."""
    task, clock = conditions.task, conditions.clock
    network = task.network
    length: Int64Array = np.maximum(1, clock.total[network.kind].max(axis=1))
    root = int(conditions.holders[0])
    up, down = _Tree.towards(network, root, length), _Tree.towards(network.reversed(), root, length)
    if bool((up.away[conditions.holders] >= UNREACHABLE).any() | (down.away[conditions.wanting] >= UNREACHABLE).any()):
        return None
    devices = network.device_count
    climbing = _climbing(conditions, up, network)
    falling = _falling(conditions, down, network)
    has = np.concatenate([_pairs(conditions.holder_offsets, conditions.holders, devices), climbing])
    entered = network.target[up.link[climbing % devices]]
    falling = np.setdiff1d(falling, np.concatenate([has, climbing // devices * devices + entered]))
    links = np.concatenate([up.link[climbing % devices], down.link[falling % devices]])
    rows = np.concatenate([climbing, falling]) // devices
    turn = int(up.away[climbing % devices].max(initial=0))
    parents = network.source[down.link[falling % devices]]
    offset = np.concatenate([turn - up.away[climbing % devices], turn + down.away[parents]])
    period = int(clock.busy[network.kind[links]].max(initial=1))
    if len(np.intersect1d(links[: len(climbing)], links[len(climbing) :])):  # of directed rings, say
        offset[len(climbing) :] += len(conditions) * period
    start = int(conditions.release.max(initial=0)) + rows * period + offset
    return RowSchedule(task.model, Transfers.of(conditions.chunk[rows], links.astype(np.int32), start))


def _pairs(offsets: Int64Array, members: Int32Array, devices: int) -> Int64Array:
    """int64: row * devices + device of each member of a row."""
    rows = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))
    return rows * devices + members


def _climbing(conditions: Conditions, up: _Tree, network: Network) -> Int64Array:
    """Row * devices + device of the devices that send a chunk up: from the holder that is nearest to the root on."""
    devices = network.device_count
    pairs = _pairs(conditions.holder_offsets, conditions.holders, devices)
    rows = pairs // devices
    order = np.lexsort((conditions.holders, up.away[conditions.holders], rows))
    first = np.unique(rows[order], return_index=True)[1]
    at = pairs[order][first]
    found: list[Int64Array] = []
    while True:
        at = at[up.away[at % devices] > 0]
        if not len(at):
            return np.concatenate(found) if found else at
        found.append(at)
        at = at // devices * devices + network.target[up.link[at % devices]]


def _falling(conditions: Conditions, down: _Tree, network: Network) -> Int64Array:
    """Row * devices + device of the devices to which a chunk comes down: those that want it, and all before them."""
    devices = network.device_count
    known = at = np.sort(_pairs(conditions.wanting_offsets, conditions.wanting, devices))
    while True:
        at = at[down.away[at % devices] > 0]
        at = np.unique(at // devices * devices + network.source[down.link[at % devices]])
        at = at[down.away[at % devices] > 0]
        at = np.setdiff1d(at, known, assume_unique=True)
        if not len(at):
            return known[down.away[known % devices] > 0]
        known = np.union1d(known, at)
