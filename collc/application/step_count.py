"""The number of steps of a schedule, if it has steps."""

from __future__ import annotations

import numpy as np

from collc.ten.module import Module
from collc.ten.schedule import LinkModel


def step_time(module: Module) -> int | None:
    """Duration of one step in picoseconds: latency + size / bandwidth.

    None if links or chunks differ, if there are no links or chunks, or if the link model is not `store`.
    """
    network = module.network
    used = np.unique(network.kind)
    same_links = len({network.kinds[int(kind)] for kind in used}) == 1
    if module.model is not LinkModel.STORE or not same_links:
        return None  # before the chunks of a large demand are listed
    sizes = module.demand.chunks.size
    if not len(sizes) or sizes.min() != sizes.max():
        return None
    kind = int(used[0])
    return int(network.latencies[kind] + network.occupancy(sizes[:1])[kind, 0])


def step_count(module: Module, time: int) -> int | None:
    """Number of steps in `time` picoseconds; None if there are no steps or `time` is not a multiple of one."""
    step = step_time(module)
    return time // step if step and time % step == 0 else None
