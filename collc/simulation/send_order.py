"""Which of the steps that could start at one moment starts first: files for runtimes do not say it."""

from __future__ import annotations

import numpy as np

from collc.ten.arrays import Int32Array, Int64Array


def send_order(
    rank: Int32Array | Int64Array, receiver: Int32Array | Int64Array, ranks: int, position: Int64Array | None = None
) -> Int64Array:
    """int64[tasks]: `order` of a TaskGraph whose `hop_order` is the number of each task: messages arrive first.

    Threadblocks run side by side. If all began with the same receiver, messages would queue there; so each rank serves
    the next one first. rank: int32[tasks]. receiver: int32[tasks], -1 or the rank itself where nothing is sent.
    position: int64[tasks], in the threadblock; of equals the first step goes first, then the first task.
    """
    count = len(rank)
    ahead = (receiver - rank) % max(1, ranks)
    order = np.empty(count, np.int64)
    where = np.zeros(count, np.int64) if position is None else position
    order[np.lexsort((where, ahead))] = count + np.arange(count)
    return order
