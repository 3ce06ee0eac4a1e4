"""The traffic of a schedule in each dimension of its network, as the time of a design sees it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from collc.design.problem import GIGA, DesignProblem, ExactRow, Objective, dimensions_of, rows_of
from collc.design.time_expression import collective_time
from collc.ten.arrays import Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import Schedule
from collc.ten.training import PartCosts


def link_bytes(network: Network, demand: Demand, schedule: Schedule) -> Int64Array:
    """int64[links]: the bytes that each link carries."""
    total = np.zeros(network.link_count, np.int64)
    size = demand.chunks.size
    for block in schedule.blocks():
        np.add.at(total, block.link, size[block.chunk])
    return total


def schedule_traffic(network: Network, demand: Demand, schedule: Schedule) -> tuple[Fraction, ...]:
    """The bytes of a schedule in each dimension of a product, as if all links of the dimension carried the most.

    That is the links of an NPU in the dimension (ring 2, fully connected p - 1, switched 1) times the most bytes on
    any one link, so that a schedule which does not use the links of a dimension alike is charged for it.
    """
    carried = link_bytes(network, demand, schedule)
    found: list[Fraction] = []
    for axis, links in enumerate(links_per_npu(network)):
        own = carried[network.link_axis == axis]
        found.append(Fraction(links * int(own.max(initial=0))))
    return tuple(found)


def links_per_npu(network: Network) -> tuple[int, ...]:
    """The most links that any NPU has in each dimension of a product."""
    found: list[int] = []
    for axis in range(len(network.axes)):
        source = network.source[(network.link_axis == axis) & (network.source < network.npu_count)]
        found.append(int(np.bincount(source, minlength=1).max()))
    return tuple(found)


def bandwidths(network: Network) -> tuple[Fraction, ...]:
    """The bandwidth of an NPU in each dimension of a product, in bytes per second: its links times the slowest of them.

    Raises ValueError if a link has none.
    """
    found: list[Fraction] = []
    for axis, links in enumerate(links_per_npu(network)):
        kinds = {int(kind) for kind in network.kind[network.link_axis == axis]}
        rates = [network.kinds[kind].bandwidth for kind in kinds]
        if not rates or None in rates:
            raise ValueError(f"links of {network.name} have no bandwidth")
        found.append(links * min(rate for rate in rates if rate is not None))
    return tuple(found)


def schedule_problem(
    network: Network,
    demand: Demand,
    schedule: Schedule,
    prices: Mapping[str, PartCosts],
    objective: Objective = Objective.TIME,
) -> tuple[DesignProblem, ExactRow]:
    """The design that asks for the best network for a schedule, and its only constraint.

    The total bandwidth of an NPU is what it is in `network`. prices: of the parts of each tier.
    Raises ValueError as `bandwidths` does.
    """
    dimensions = dimensions_of(network, "", (), prices)
    time = collective_time(schedule_traffic(network, demand, schedule))
    row = ExactRow((Fraction(1),) * len(dimensions), "==", sum(bandwidths(network), Fraction(0)) / GIGA)
    unit_cost = np.array([float(d.unit_cost) for d in dimensions])
    return DesignProblem(dimensions, time, unit_cost, rows_of([row]), None, objective), row
