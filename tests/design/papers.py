"""The workloads and networks of the LIBRA paper, with the numbers that it ships."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from collc.design.problem import (
    DesignProblem,
    NetworkDimension,
    Objective,
    Row,
    TimeExpression,
    collective_time,
    constant,
    default_tiers,
    weighted_sum,
)
from collc.source.elaboration.designs import default_prices

NETWORKS = {
    "3D": (("ring", 16), ("fully_connected", 8), ("switched", 32)),
    "4D": (("ring", 4), ("fully_connected", 8), ("ring", 4), ("switched", 32)),
}

GROUPS = {"GPT-3": (16, 256), "MSFT-1T": (128, 32), "Turing-NLG": (1, 4096), "ResNet-50": (1, 4096)}
"""Sizes of the tensor and the data group."""

TRAFFIC = {
    ("GPT-3", "3D"): (684448242, [[13589544960, 0, 0], [0, 792723456, 109707264]]),
    ("GPT-3", "4D"): (684448242, [[10871635968, 2717908992, 0, 0], [0, 452984832, 339738624, 109707264]]),
    ("MSFT-1T", "3D"): (169995114, [[13589544960, 792723456, 0], [0, 0, 438829056]]),
    ("MSFT-1T", "4D"): (169995114, [[10871635968, 3170893824, 339738624, 0], [0, 0, 0, 438829056]]),
    ("Turing-NLG", "3D"): (327148662, [[1630218240, 95096064, 13160616]]),
    ("Turing-NLG", "4D"): (327148662, [[1304174592, 380384256, 40755456, 13160616]]),
    ("ResNet-50", "3D"): (1095314, [[95635920, 5578762, Fraction(7720608125, 10000)]]),
    ("ResNet-50", "4D"): (1095314, [[76508736, 22315048, 2390898, Fraction(7720608125, 10000)]]),
}
"""Compute time in ns, and the bytes of each kind of communication in each dimension."""


def dimensions(name: str, *, offsets: bool = True) -> tuple[NetworkDimension, ...]:
    """The dimensions of 3D-4K or 4D-4K. offsets: with those of the shipped cost models, which break ties."""
    factors = NETWORKS[name]
    found = []
    for k, ((kind, size), tier) in enumerate(zip(factors, default_tiers(len(factors)), strict=True), 1):
        parts, switched = default_prices()[tier], kind == "switched"
        prices = [parts.link, *((parts.switch, parts.nic) if switched else ())]
        price = sum(prices) + (Fraction(k, 100_000) * len(prices) if offsets else 0)
        found.append(NetworkDimension(kind, size, tier, switched, False, 4096 * Fraction(price)))
    return tuple(found)


def time_of(workload: str, network: str) -> TimeExpression:
    """The training time, from the table of traffic."""
    compute, rows = TRAFFIC[workload, network]
    count = len(rows[0])
    times = [collective_time([Fraction(size) for size in row]) for row in rows]
    return weighted_sum([(1, constant(compute, count)), *((1, time) for time in times)], count)


def problem(
    dims: tuple[NetworkDimension, ...],
    time: TimeExpression,
    total: float | None = 1000.0,
    *,
    objective: Objective = Objective.TIME,
) -> DesignProblem:
    """A design with a total bandwidth."""
    unit_cost = np.array([float(d.unit_cost) for d in dims])
    rows = () if total is None else (Row(np.ones(len(dims)), total, True, 0),)
    return DesignProblem(dims, time, unit_cost, rows, None, objective)
