"""Chunks take the dimensions in orders of their own (Rashidi et al., "Themis", ISCA 2022, section 4).

The dimension that a chunk takes last carries most of its copies. Each chunk takes the order after which the most
loaded dimension is least loaded, so that all dimensions are busy to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from collc.synthesis.conditions import Conditions, conditions_of
from collc.synthesis.dimensions import Dimensions
from collc.synthesis.dimensions_spread import Order, dimension_times, dimensions_of, slowest_first, spread
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import Schedule

MOST = 4
"""Dimensions up to which all orders are looked at; of more, all rotations of one."""


def themis(task: Task, effort: Effort) -> Schedule:
    """A schedule of copies along the lines of a network of several dimensions, with balanced dimensions.

    Raises as `hierarchical`.
    """
    conditions = conditions_of(task)
    dimensions = dimensions_of(conditions, "themis")
    return spread(conditions, dimensions, choose_orders(conditions, dimensions), effort.stop)


def choose_orders(conditions: Conditions, dimensions: Dimensions) -> list[Order]:
    """The order of each row of the conditions."""
    base = slowest_first(conditions, dimensions)
    turned = [(*base[k:], *base[:k]) for k in range(len(base))]
    orders = list(permutations(base)) if len(base) <= MOST else turned
    times = dimension_times(conditions, dimensions)
    loads = [(order, _load(order, dimensions.sizes, times)) for order in orders]
    total = np.zeros(len(base))
    chosen: list[Order] = [base] * len(conditions)
    for k in _by_turns(conditions, dimensions):
        order, load = min(loads, key=lambda item: (float((total + item[1]).max()), float((total + item[1]).sum())))
        chosen[k], total = order, total + load
    return chosen


def _load(order: Order, sizes: Sequence[int], times: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """What one chunk that spreads to all NPUs costs each dimension."""
    load, copies = np.zeros(len(order)), 1
    for axis in order:
        load[axis] = copies * (sizes[axis] - 1) * times[axis]
        copies *= sizes[axis]
    return load


def _by_turns(conditions: Conditions, dimensions: Dimensions) -> list[int]:
    """Rows such that neighbours of one order are spread over all lines: by diagonals, one chunk of each NPU a turn."""
    turns: dict[int, int] = {}
    keys: list[tuple[int, int, int, int]] = []
    for k in range(len(conditions)):
        npu = int(conditions.row(k)[0][0])
        turn = turns[npu] = turns.get(npu, -1) + 1
        keys.append((turn, int(dimensions.index[:, npu].sum()) % max(dimensions.sizes), npu, k))
    return [key[3] for key in sorted(keys)]
