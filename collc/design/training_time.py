"""The time of one training iteration of a workload, and the traffic of collectives and schedules in each dimension.

LIBRA (ISPASS 2024), section IV: the multi-rail algorithms, which work through the dimensions one after another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod

import numpy as np

from collc.design.problem import (
    GIGA,
    DesignProblem,
    ExactRow,
    NetworkDimension,
    Objective,
    TimeExpression,
    collective_time,
    constant,
    dimensions_of,
    largest,
    rows_of,
    weighted_sum,
)
from collc.ten.arrays import Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import Schedule
from collc.ten.training import GROUPS, PHASES, LoopNode, PartCosts, TrainingLayer, Workload, group_parts


def traffic(kind: str, size: int, parts: Sequence[int], in_network: Sequence[bool]) -> tuple[Fraction, ...]:
    """The bytes in each dimension of a collective over a group.

    kind: one of `training.KINDS`. size: bytes of the buffer of one NPU; of all_gather and reduce_scatter see
    `training.LayerTraffic`. parts: NPUs of the group along each dimension, 1 if it is one wide. in_network: whether
    the switches of the dimension reduce.
    """
    match kind:
        case "all_reduce":
            # 2 s (p - 1) / p in the first dimension, then as much with s / p in the next; s if switches reduce.
            shards = [Fraction(size, prod(parts[:k])) for k in range(len(parts))]
            return tuple(
                Fraction(0) if part == 1 else shard if reduces else 2 * shard * (part - 1) / part
                for part, shard, reduces in zip(parts, shards, in_network, strict=True)
            )
        case "reduce_scatter":
            return tuple(total / 2 for total in traffic("all_reduce", size, parts, (False,) * len(parts)))
        case "all_gather":
            # (p - 1) m in the last dimension for a shard of m bytes, then (p - 1) p m in the one before.
            return tuple(Fraction(size * (part - 1) * prod(parts[k + 1 :])) for k, part in enumerate(parts))
        case "all_to_all":
            return tuple(Fraction(size * (part - 1), part) for part in parts)
        case "send_recv":
            last = max((k for k, part in enumerate(parts) if part > 1), default=-1)
            return tuple(Fraction(size if k == last else 0) for k in range(len(parts)))
        case _:
            raise ValueError(f"no traffic is known for {kind}")


def training_time(workload: Workload, dimensions: Sequence[NetworkDimension]) -> TimeExpression:
    """The time of one iteration as a function of the bandwidths.

    Raises ValueError if the groups of the workload do not fit the dimensions.
    """
    return _loop_time(workload.loop, workload, _LayerTimes(dimensions, _parts_of(workload, dimensions)))


def communication_time(workload: Workload, dimensions: Sequence[NetworkDimension]) -> TimeExpression:
    """The time of all collectives of one iteration, one after another. Raises ValueError as `training_time` does."""
    loop = LoopNode("add", tuple(LoopNode("time", name=f"{phase}_communication") for phase in PHASES))
    return _loop_time(loop, workload, _LayerTimes(dimensions, _parts_of(workload, dimensions)))


def group_traffic(
    workload: Workload, dimensions: Sequence[NetworkDimension]
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """The bytes in each dimension of all collectives of the tensor group, and of the data group."""
    parts = _parts_of(workload, dimensions)
    reduces = [dimension.reduces for dimension in dimensions]
    totals = {group: [Fraction(0)] * len(dimensions) for group in GROUPS}
    for layer, count in Counter(workload.layers).items():
        for item in layer.traffic:
            for k, size in enumerate(traffic(item.kind, item.size, parts[item.group], reduces)):
                totals[item.group][k] += count * size
    return tuple(totals["tensor"]), tuple(totals["data"])


def _parts_of(workload: Workload, dimensions: Sequence[NetworkDimension]) -> dict[str, tuple[int, ...]]:
    parts = group_parts([d.size for d in dimensions], workload.tensor)
    if parts is None:
        raise ValueError(f"the groups of {workload.name} do not fit the dimensions")
    return dict(zip(GROUPS, parts, strict=True))


class _LayerTimes:
    """The compute and communication times of layers, each computed once."""

    def __init__(self, dimensions: Sequence[NetworkDimension], parts: dict[str, tuple[int, ...]]) -> None:
        self.count = len(dimensions)
        self.reduces = [dimension.reduces for dimension in dimensions]
        self.parts = parts
        self.known: dict[tuple[TrainingLayer, str], TimeExpression] = {}

    def time(self, layer: TrainingLayer, name: str) -> TimeExpression:
        """The time of a layer with a name of `training.LOOP_TIMES`, as in "forward_compute"."""
        known = self.known.get((layer, name))
        if known is None:
            phase, _, what = name.rpartition("_")
            if what == "compute":
                known = constant(layer.times[PHASES.index(phase)] / 1000, self.count)
            else:
                own = [item for item in layer.traffic if item.phase == phase]
                sizes = [traffic(item.kind, item.size, self.parts[item.group], self.reduces) for item in own]
                known = weighted_sum([(1, collective_time(bytes_)) for bytes_ in sizes], self.count)
            self.known[layer, name] = known
        return known


def _loop_time(node: LoopNode, workload: Workload, times: _LayerTimes) -> TimeExpression:
    """The value of a loop over the whole workload: times of layers are added up, also outside of `sum`."""
    if not has_sum(node):
        layers = Counter(workload.layers)
        return weighted_sum([(n, _layer_time(node, layer, times)) for layer, n in layers.items()], times.count)
    inner = [_loop_time(child, workload, times) for child in node.parts]
    return _combine(node, inner, times.count)


def _layer_time(node: LoopNode, layer: TrainingLayer, times: _LayerTimes) -> TimeExpression:
    if node.operation == "time":
        return times.time(layer, node.name)
    return _combine(node, [_layer_time(child, layer, times) for child in node.parts], times.count)


def _combine(node: LoopNode, parts: list[TimeExpression], dimensions: int) -> TimeExpression:
    if node.operation == "max":
        return largest(parts)
    factor = node.factor if node.operation == "scale" else Fraction(1)
    return weighted_sum([(factor, part) for part in parts], dimensions)


def has_sum(node: LoopNode) -> bool:
    """Whether a part of a loop is a sum over all layers."""
    return node.operation == "sum" or any(has_sum(child) for child in node.parts)


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
    bytes_of: list[Fraction] = []
    for axis, links in enumerate(links_per_npu(network)):
        own = carried[network.link_axis == axis]
        bytes_of.append(Fraction(links * int(own.max(initial=0))))
    return tuple(bytes_of)


def links_per_npu(network: Network) -> tuple[int, ...]:
    """The most links that any NPU has in each dimension of a product."""
    links: list[int] = []
    for axis in range(len(network.axes)):
        source = network.source[(network.link_axis == axis) & (network.source < network.npu_count)]
        links.append(int(np.bincount(source, minlength=1).max()))
    return tuple(links)


def bandwidths(network: Network) -> tuple[Fraction, ...]:
    """The bandwidth of an NPU in each dimension of a product, in bytes per second: its links times the slowest of them.

    Raises ValueError if a link has none.
    """
    widths: list[Fraction] = []
    for axis, links in enumerate(links_per_npu(network)):
        kinds = {int(kind) for kind in network.kind[network.link_axis == axis]}
        rates = [network.kinds[kind].bandwidth for kind in kinds]
        if not rates or None in rates:
            raise ValueError(f"links of {network.name} have no bandwidth")
        widths.append(links * min(rate for rate in rates if rate is not None))
    return tuple(widths)


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
