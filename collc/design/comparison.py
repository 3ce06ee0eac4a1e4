"""A design beside those of the closed forms: time, cost, and how well each dimension is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.design import closed_forms
from collc.design.problem import DesignProblem
from collc.design.time_expression import TimeExpression

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


def compared(
    problem: DesignProblem, communication: Communication, bandwidth: tuple[float, ...]
) -> tuple[Alternative, ...]:
    """The optimum, at these bandwidths, and the closed forms that apply.

    They have the total bandwidth of the optimum if a constraint limits the sum of the bandwidths, else its cost.
    """
    shapes = {"equal": closed_forms.equal(1.0, len(bandwidth))}
    if any(communication.bytes):
        shapes["message"] = closed_forms.by_message(1.0, communication.bytes)
    smart = closed_forms.smart(1.0, communication.tensor, communication.data)
    if smart is not None:
        shapes["smart"] = smart
    rates = {"optimum": bandwidth}
    for name, shape in shapes.items():
        size = sum(bandwidth) if _limits_sum(problem) else problem.cost(bandwidth) / problem.cost(shape)
        rates[name] = tuple(size * share for share in shape)
    base_time = problem.time.value(rates["equal"])
    base_cost = problem.cost(rates["equal"])
    found: list[Alternative] = []
    for name, own in rates.items():
        time, cost = problem.time.value(own), problem.cost(own)
        speedup = base_time / time if time else 1.0
        per_cost = speedup * base_cost / cost if cost else 1.0
        allowed = name == "optimum" or _satisfies(problem, own, time)
        found.append(Alternative(name, own, time, cost, speedup, per_cost, utilisation(communication, own), allowed))
    return tuple(found)


def left_out(communication: Communication) -> dict[str, str]:
    """The closed forms that do not apply, with the reason."""
    if not any(communication.bytes):
        return dict.fromkeys(("message", "smart"), "no traffic")
    if closed_forms.smart(1.0, communication.tensor, communication.data) is not None:
        return {}
    return {"smart": "several dimensions have tensor and data traffic"}


def utilisation(communication: Communication, bandwidth: Sequence[float]) -> tuple[float, ...]:
    """For each dimension the share of the communication time in which it sends."""
    total = communication.time.value(bandwidth)
    return tuple(
        size / rate / total if size and rate and total < float("inf") else 0.0
        for size, rate in zip(communication.bytes, bandwidth, strict=True)
    )


def _limits_sum(problem: DesignProblem) -> bool:
    """Whether a constraint limits the sum of all bandwidths."""
    return any(bool((row.coefficients == row.coefficients[0]).all() and row.limit > 0) for row in problem.rows)


def _satisfies(problem: DesignProblem, bandwidth: tuple[float, ...], time: float) -> bool:
    for row in problem.rows:
        excess = float(row.coefficients @ np.array(bandwidth)) - row.limit
        tolerance = 1e-9 * max(abs(row.limit), 1.0)
        if excess > tolerance or (row.equal and excess < -tolerance):
            return False
    return problem.deadline is None or time <= problem.deadline * (1 + 1e-9)
