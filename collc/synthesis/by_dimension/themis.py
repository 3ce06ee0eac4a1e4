"""Chunks take the dimensions in orders of their own (Rashidi et al., "Themis", ISCA 2022, section 4).

The dimension that a chunk takes last carries most of its copies. The paper's rule is greedy: the least loaded dimension
last. (It tells it of Reduce-Scatter, which is this run backwards: there the least loaded one comes first, with the
whole chunk.) Where there are few orders, each chunk takes the one after which the most loaded dimension is least
loaded, which balances better: on products of three unlike dimensions schedules get up to a quarter shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from collc.synthesis.by_dimension.dimensions import Dimensions
from collc.synthesis.by_dimension.spread import Order, dimension_times, dimensions_of, slowest_first, spread
from collc.synthesis.conditions import Conditions, conditions_of
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import Schedule

MOST = 4
"""Dimensions up to which all orders are looked at; where there are more, the rule of the paper."""


def themis(task: Task, effort: Effort) -> Schedule:
    """A schedule of copies along the lines of a network of several dimensions, with balanced dimensions.

    Raises as `hierarchical`.
    """
    conditions = conditions_of(task)
    dimensions = dimensions_of(conditions, "themis")
    return spread(conditions, dimensions, choose_orders(conditions, dimensions), effort.stop)


def choose_orders(conditions: Conditions, dimensions: Dimensions) -> list[Order]:
    """The order of each row of the conditions; where loads are equal, that of `hierarchical`."""
    base = slowest_first(conditions, dimensions)
    rows = _by_turns(conditions, dimensions)
    choose = balanced_orders if len(base) <= MOST else greedy_orders
    orders = choose(base, dimensions.sizes, dimension_times(conditions, dimensions), len(rows))
    chosen = [base] * len(conditions)
    for row, order in zip(rows, orders, strict=True):
        chosen[row] = order
    return chosen


def greedy_orders(base: Order, sizes: Sequence[int], times: Sequence[float], chunks: int) -> list[Order]:
    """For one chunk after another the dimensions by load, the least loaded last; `base` among equals.

    sizes: NPUs along each dimension. times: of one copy of a chunk on all links of a dimension together.
    """
    total = [0.0] * len(base)
    orders: list[Order] = []
    for _ in range(chunks):
        order = sorted(base, key=total.__getitem__, reverse=True)
        total = [before + more for before, more in zip(total, order_load(order, sizes, times), strict=True)]
        orders.append(order)
    return orders


def balanced_orders(base: Order, sizes: Sequence[int], times: Sequence[float], chunks: int) -> list[Order]:
    """As `greedy_orders`, but of all orders that which leaves the most loaded dimension least loaded."""
    loads = [(order, order_load(order, sizes, times)) for order in permutations(base)]
    total = [0.0] * len(base)
    orders: list[Order] = []
    for _ in range(chunks):
        after = [[before + more for before, more in zip(total, load, strict=True)] for _, load in loads]
        best = min(range(len(loads)), key=lambda k: (max(after[k]), sum(after[k])))
        total = after[best]
        orders.append(loads[best][0])
    return orders


def order_load(order: Order, sizes: Sequence[int], times: Sequence[float]) -> list[float]:
    """What one chunk that spreads to all NPUs costs each dimension, in the unit of `times`."""
    load, copies = [0.0] * len(order), 1
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
