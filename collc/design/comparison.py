"""A design beside those of formulas (the closed forms): time, cost, and how well each dimension is used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.design.problem import DesignProblem, TimeExpression

ALTERNATIVES: Final = ("equal", "message", "smart")
"""The closed forms, by their names in a comparison."""


@dataclass(frozen=True, slots=True)
class Communication:
    """All communication of a training iteration.

    tensor, data: bytes in each dimension of the two groups. time: of all collectives one after another.
    """

    tensor: tuple[float, ...]
    data: tuple[float, ...]
    time: TimeExpression

    @property
    def bytes(self) -> tuple[float, ...]:
        """Bytes in each dimension."""
        return tuple(a + b for a, b in zip(self.tensor, self.data, strict=True))


@dataclass(frozen=True, slots=True)
class Alternative:
    """One choice of bandwidths.

    name: "optimum" or one of ALTERNATIVES. bandwidth: GB/s. time: ns. cost: dollars. speedup: time of `equal` / time.
    performance_per_cost: time * cost of `equal` / time * cost. utilisation: for each dimension the share of the
    communication time in which it sends. allowed: whether it satisfies the constraints of the design.
    """

    name: str
    bandwidth: tuple[float, ...]
    time: float
    cost: float
    speedup: float
    performance_per_cost: float
    utilisation: tuple[float, ...]
    allowed: bool = True


def compare_designs(
    problem: DesignProblem, communication: Communication, bandwidth: tuple[float, ...]
) -> tuple[Alternative, ...]:
    """The optimum, at these bandwidths, and the closed forms that apply.

    They have the total bandwidth of the optimum if a constraint limits the sum of the bandwidths, else its cost.
    """
    shapes = {"equal": equal(1.0, len(bandwidth))}
    if any(communication.bytes):
        shapes["message"] = by_message(1.0, communication.bytes)
    if (in_turn := smart(1.0, communication.tensor, communication.data)) is not None:
        shapes["smart"] = in_turn
    rates = {"optimum": bandwidth}
    limits_sum = any(bool((row.coefficients == row.coefficients[0]).all() and row.limit > 0) for row in problem.rows)
    for name, shape in shapes.items():
        size = sum(bandwidth) if limits_sum else problem.cost(bandwidth) / problem.cost(shape)
        rates[name] = tuple(size * share for share in shape)
    base_time = problem.time.value(rates["equal"])
    base_cost = problem.cost(rates["equal"])
    alternatives: list[Alternative] = []
    for name, own in rates.items():
        time, cost = problem.time.value(own), problem.cost(own)
        speedup = base_time / time if time else 1.0
        per_cost = speedup * base_cost / cost if cost else 1.0
        in_time = problem.deadline is None or time <= problem.deadline * (1 + 1e-9)
        keeps = all(row.violation(np.array(own)) <= 1e-9 for row in problem.rows)
        allowed = name == "optimum" or (keeps and in_time)
        alternatives.append(
            Alternative(name, own, time, cost, speedup, per_cost, utilisation(communication, own), allowed)
        )
    return tuple(alternatives)


def left_out(communication: Communication) -> dict[str, str]:
    """The closed forms that do not apply, with the reason."""
    if not any(communication.bytes):
        return dict.fromkeys(("message", "smart"), "no traffic")
    if smart(1.0, communication.tensor, communication.data) is not None:
        return {}
    return {"smart": "several dimensions have tensor and data traffic"}


def utilisation(communication: Communication, bandwidth: Sequence[float]) -> tuple[float, ...]:
    """For each dimension the share of the communication time in which it sends."""
    total = communication.time.value(bandwidth)
    return tuple(
        size / rate / total if size and rate and total < float("inf") else 0.0
        for size, rate in zip(communication.bytes, bandwidth, strict=True)
    )


def equal(total: float, dimensions: int) -> tuple[float, ...]:
    """EqualBW: every dimension has the same share of the total."""
    return (total / dimensions,) * dimensions


def by_message(total: float, traffic: Sequence[float]) -> tuple[float, ...]:
    """MessageBW: every dimension has a share in proportion to its traffic; optimal for one kind of communication."""
    return tuple(total * size / sum(traffic) for size in traffic)


def smart(total: float, tensor: Sequence[float], data: Sequence[float]) -> tuple[float, ...] | None:
    """SmartBW: the optimum if tensor- and data-parallel communication take turns; None if it says nothing.

    tensor, data: bytes in each dimension. At most one dimension may have both kinds. X and Y are the bandwidths that
    the two kinds use: each collective is as fast as its traffic over them, M1 / X + M2 / Y is least, and the shared
    dimension has the larger of the two parts r1 X and r2 Y.
    """
    m1, m2 = sum(tensor), sum(data)
    if not m1 or not m2:
        return by_message(total, [a + b for a, b in zip(tensor, data, strict=True)]) if m1 or m2 else None
    shared = [k for k, (a, b) in enumerate(zip(tensor, data, strict=True)) if a and b]
    if len(shared) > 1:
        return None
    r1, r2 = (tensor[shared[0]] / m1, data[shared[0]] / m2) if shared else (0.0, 0.0)
    x, y = _directions(total, m1, m2, r1, r2)
    return tuple(max(x * a / m1, y * b / m2) for a, b in zip(tensor, data, strict=True))


def _directions(total: float, m1: float, m2: float, r1: float, r2: float) -> tuple[float, float]:
    """The bandwidths of the two kinds, of which parts r1 and r2 are in a shared dimension."""
    if not r1:
        weights = math.sqrt(m1), math.sqrt(m2)
        return total * weights[0] / sum(weights), total * weights[1] / sum(weights)
    x, y = _first_sizes_shared(total, m1, m2, r2)
    if r1 * x >= r2 * y:
        return x, y
    y, x = _first_sizes_shared(total, m2, m1, r1)
    if r2 * y >= r1 * x:
        return x, y
    both = total / (1 / r1 + 1 / r2 - 1)
    return both / r1, both / r2


def _first_sizes_shared(total: float, m1: float, m2: float, r2: float) -> tuple[float, float]:
    """X and Y if r1 X is the bandwidth of the shared dimension: X + (1 - r2) Y is the total."""
    if r2 >= 1:
        return total, math.inf
    sum_of_roots = math.sqrt(m1) + math.sqrt(m2 * (1 - r2))
    return total * math.sqrt(m1) / sum_of_roots, total * math.sqrt(m2 / (1 - r2)) / sum_of_roots
