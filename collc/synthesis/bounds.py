"""Lower bounds on the time of a demand: what no schedule can beat."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from collc.synthesis.task import Task
from collc.ten.demand import ChunkTable, Demand, Op
from collc.ten.module import Bound
from collc.ten.network import Network
from collc.ten.schedule import LinkModel


def lower_bound(network: Network, demand: Demand, model: LinkModel) -> Bound:
    """The largest bound found, with its name."""
    return _bound(network, demand.chunks, np.arange(len(demand.chunks)), model)


def task_bound(task: Task) -> Bound:
    """The bound of the chunks of a task, all of them copied."""
    return _bound(task.network, task.demand.chunks, task.chunks, task.model)


def _bound(
    network: Network, table: ChunkTable, chunks: NDArray[np.int64] | NDArray[np.int32], model: LinkModel
) -> Bound:
    best = Bound(0, "nothing moves")
    need = np.zeros(network.device_count, np.int64)
    low = int(table.size[chunks].min(initial=1 << 62))
    if low == 1 << 62:
        return best
    for c in chunks.tolist():
        pre, post = table.sets[int(table.pre[c])], table.sets[int(table.post[c])]
        if table.op[c] == Op.COPY:
            need[np.setdiff1d(post, pre)] += 1
        else:
            need[post[(len(pre) > 1) | (post != pre[0])]] += 1
    occupancy = network.occupancy(np.array([low], np.int64))[:, 0]
    total = occupancy + network.latencies
    busy = total if model is LinkModel.STORE else occupancy
    offsets, links = network.in_links
    for v in np.flatnonzero(need).tolist():
        kinds = network.kind[links[offsets[v] : offsets[v + 1]]]
        if not len(kinds):
            continue
        b, t = busy[kinds], total[kinds]
        lo, hi = 0, int((t + b * need[v]).max())
        while lo < hi:
            mid = (lo + hi) // 2
            if int(np.maximum(0, (mid - t + b) // b).sum()) >= need[v]:
                hi = mid
            else:
                lo = mid + 1
        if lo > best.time:
            best = Bound(lo, f"in-degree of {network.device_name(v)}")
    return best
