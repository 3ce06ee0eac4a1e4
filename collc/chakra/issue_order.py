"""The order in which ASTRA-sim issues nodes of one rank that are free at one moment.

Its feeder keeps the nodes of a rank in a hash map of C++, the nodes that wait for a node in a hash set, and the
nodes that are free in another one. It puts the free nodes in order of iteration of the map into the set at the
beginning, and later those that a node frees in order of iteration of its own set; then it issues all that are in the
set in its order. Ids are their own hashes, so that all of this depends on ids and their order in the file only. The
model is the library of GCC, libstdc++ (`task_events.BUCKETS`).
"""

from __future__ import annotations

import numpy as np

from collc.chakra.schema import NodeType
from collc.chakra.traces import Traces
from collc.kernels.task_events import BUCKETS, COMPUTE, MESSAGE
from collc.simulation.tasks import DONE, Edges, Issue
from collc.ten.arrays import Int32Array, Int64Array


def iteration_order(group: Int64Array, ids: Int64Array) -> Int64Array:
    """int64[n]: the elements of sets in order of iteration, one set after the other.

    group: int64[n], ascending, the set of each element, in order of insertion. ids: int64[n], different in each set.
    """
    order, last = np.arange(len(ids)), np.flatnonzero(np.append(np.diff(group), 1)[: len(group)])
    first = np.append(0, last[:-1] + 1)[: len(last)]
    count = last + 1 - first
    row_of = np.repeat(np.arange(len(first)), count)
    place = np.arange(len(ids)) - first[row_of]
    before = 0
    for buckets in BUCKETS:
        inside = np.flatnonzero((place < buckets) & (count > before)[row_of])
        if not len(inside):
            break
        listed = order[inside]
        bucket = row_of[inside] * buckets + ids[listed] % buckets
        by_bucket = np.argsort(bucket, kind="stable")
        new = np.append(True, np.diff(bucket[by_bucket]) != 0)
        oldest = np.empty(len(inside), np.int64)  # the element that is longest in the bucket of each
        oldest[by_bucket] = by_bucket[new][np.cumsum(new) - 1]
        order[inside] = listed[np.lexsort((-place[inside], -oldest, row_of[inside]))]
        before = buckets
    return order


def issue_rules(traces: Traces, sends: Int32Array, receives: Int32Array) -> tuple[Issue, Edges]:
    """What the simulator needs to issue nodes as ASTRA-sim does, and the dependencies in the order in which it does.

    sends, receives: int32[messages], as from `matched_messages`.
    """
    sender = np.full(len(traces), COMPUTE, np.int32)
    sender[sends], sender[receives] = MESSAGE, sends
    rank: Int64Array = np.repeat(np.arange(traces.ranks), np.diff(traces.first))
    free = np.bincount(traces.after, minlength=len(traces)) == 0
    free_counts = np.bincount(rank[free], minlength=traces.ranks)
    most = max(int(np.bincount(traces.before, minlength=1).max()), int(free_counts.max()))
    rules = Issue(
        id=traces.id,
        rank=rank,
        sender=sender,
        first=_first_nodes(traces, rank, free).astype(np.int32),
        sizes=np.searchsorted(BUCKETS, free_counts),
        most_buckets=BUCKETS[int(np.searchsorted(BUCKETS, most))],
    )
    return rules, _followers(traces)


def _first_nodes(traces: Traces, rank: Int64Array, free: Int64Array) -> Int64Array:
    """int64: the nodes that are free at the beginning, rank by rank."""
    order = np.lexsort((traces.place, rank))
    active = np.bincount(rank[free & (traces.kind != NodeType.RECV)], minlength=traces.ranks) > 1
    matters = active[rank[order]]  # a receive does nothing when it is issued
    nodes, rest = order[matters], order[~matters]
    if len(nodes):
        nodes = _as_met(traces, nodes)
        nodes = nodes[iteration_order(rank[nodes], traces.id[nodes])]
        nodes = nodes[free[nodes]]
        nodes = nodes[iteration_order(rank[nodes], traces.id[nodes])]
    first = np.concatenate([nodes, rest[free[rest]]])
    return first[np.argsort(rank[first], kind="stable")]


def _as_met(traces: Traces, nodes: Int64Array) -> Int64Array:
    """The nodes of ranks in the order in which the feeder meets them: one that others wait for with the first of them,
    if it comes later in the file. nodes: in the order of the file, rank by rank.
    """
    early = np.flatnonzero(traces.place[traces.before] > traces.place[traces.after])
    if not len(early):
        return nodes
    mine = np.flatnonzero(np.isin(traces.after, traces.after[early]))
    mine = mine[np.argsort(traces.after[mine], kind="stable")]
    mine = mine[iteration_order(traces.after[mine].astype(np.int64), traces.id[traces.before[mine]])]
    position = np.empty(len(traces), np.int64)
    position[nodes] = np.arange(len(nodes)) * (len(mine) + 1)
    known = np.zeros(len(traces), np.bool_)
    known[nodes] = True
    mine = mine[known[traces.after[mine]]]
    met = position[traces.after[mine]] + 1 + np.arange(len(mine))
    np.minimum.at(position, traces.before[mine], met)
    return nodes[np.argsort(position[nodes], kind="stable")]


def _followers(traces: Traces) -> Edges:
    """The dependencies, those of one node in the order in which it frees the nodes that wait for it, the last one first
    (the simulator takes edges from behind).
    """
    order = np.lexsort((traces.place[traces.after], traces.before))
    before = traces.before[order]
    several = np.flatnonzero(np.bincount(before, minlength=len(traces))[before] > 1)
    listed = order[several]
    listed = listed[iteration_order(traces.before[listed].astype(np.int64), traces.id[traces.after[listed]])]
    order[several] = listed
    return Edges.all_of(traces.before[order][::-1], traces.after[order][::-1], DONE)
