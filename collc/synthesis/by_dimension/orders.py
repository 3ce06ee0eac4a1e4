"""Synthesis dimension by dimension: the order of the dimensions, one for all chunks or one for each.

`hierarchical` (Cho et al., "BlueConnect", MLSys 2019): chunks spread along the slowest dimension first, so that most
copies are sent in the fastest one. A reduction, which is the inverse, goes along the fastest dimension first and along
the slowest one last.

`themis` (Rashidi et al., "Themis", ISCA 2022, section 4): each chunk has an order of its own. The dimension that comes
last in it carries most copies of the chunk. The rule of the paper is greedy: the least loaded dimension comes last.
(The paper states it for Reduce-Scatter, which is the inverse of All-Gather: there the least loaded dimension comes
first.) If there are few orders, each chunk gets the order after which the load of the most loaded dimension is least.
That balances better: on products of three unequal dimensions schedules are up to a quarter shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from collc.graph.coordinates import Dimensions
from collc.graph.cycles import MOST_DIMENSIONS
from collc.synthesis.by_dimension.spread import Order, dimension_times, dimensions_of, slowest_first, spread
from collc.synthesis.conditions import Conditions, conditions_of
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import Schedule


def hierarchical(task: Task, effort: Effort) -> Schedule:
    """A schedule of copies along the lines of a network of several dimensions; switches stay switches.

    Raises SourceError if the network has fewer than two dimensions or lines do not lead to an NPU that wants a
    chunk, NoSchedule if `effort.stop` returns True before there is a schedule.
    """
    conditions = conditions_of(task)
    dimensions = dimensions_of(conditions, "hierarchical")
    order = slowest_first(conditions, dimensions)
    return spread(conditions, dimensions, [order] * len(conditions), effort)


def themis(task: Task, effort: Effort) -> Schedule:
    """A schedule of copies along the lines of a network of several dimensions, with balanced loads.

    Raises as `hierarchical`.
    """
    conditions = conditions_of(task)
    dimensions = dimensions_of(conditions, "themis")
    return spread(conditions, dimensions, choose_orders(conditions, dimensions), effort)


def choose_orders(conditions: Conditions, dimensions: Dimensions) -> list[Order]:
    """The order of each row of the conditions; among equals the order of `hierarchical`."""
    base = slowest_first(conditions, dimensions)
    rows = _interleave_rows(conditions, dimensions)
    # All orders are tried, or the rule of the paper applies.
    choose = balanced_orders if len(base) <= MOST_DIMENSIONS else greedy_orders
    orders = choose(base, dimensions.sizes, dimension_times(conditions, dimensions), len(rows))
    chosen = [base] * len(conditions)
    for row, order in zip(rows, orders, strict=True):
        chosen[row] = order
    return chosen


def greedy_orders(base: Order, sizes: Sequence[int], times: Sequence[float], chunks: int) -> list[Order]:
    """For one chunk after another, the dimensions by load, the least loaded last; among equals as in `base`.

    sizes: NPUs along each dimension. times: for each dimension, how long one copy of a chunk keeps all its links
    together busy.
    """
    total = [0.0] * len(base)
    orders: list[Order] = []
    for _ in range(chunks):
        order = sorted(base, key=total.__getitem__, reverse=True)
        total = [before + more for before, more in zip(total, order_load(order, sizes, times), strict=True)]
        orders.append(order)
    return orders


def balanced_orders(base: Order, sizes: Sequence[int], times: Sequence[float], chunks: int) -> list[Order]:
    """As `greedy_orders`, but each chunk gets, of all orders, one after which the largest load is least."""
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
    """The load of each dimension, in the unit of `times`, by one chunk that spreads to all NPUs."""
    load, copies = [0.0] * len(order), 1
    for axis in order:
        load[axis] = copies * (sizes[axis] - 1) * times[axis]
        copies *= sizes[axis]
    return load


def _interleave_rows(conditions: Conditions, dimensions: Dimensions) -> list[int]:
    """The rows in a sequence of which each part is spread over all lines: one chunk of each NPU at a time, and the NPUs
    by diagonals.
    """
    turns: dict[int, int] = {}
    keys: list[tuple[int, int, int, int]] = []
    for k in range(len(conditions)):
        npu = int(conditions.row(k)[0][0])
        turn = turns[npu] = turns.get(npu, -1) + 1
        keys.append((turn, int(dimensions.index[:, npu].sum()) % max(dimensions.sizes), npu, k))
    return [key[3] for key in sorted(keys)]
