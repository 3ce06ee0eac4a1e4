"""What a set of files says: a design problem in exact numbers, and its solution."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from collc.design.problem import ExactRow, NetworkDimension
from collc.design.time_expression import TimeExpression
from collc.ten.training import PartCosts, Workload


@dataclass(frozen=True, slots=True)
class TrainedTime:
    """A workload, its weight in the time of the design, and its own time in ns."""

    workload: Workload
    weight: Fraction
    time: TimeExpression


@dataclass(frozen=True, slots=True)
class LibraModel:
    """A design problem with its solution.

    time: in ns. rows: constraints on the bandwidths in GB/s. deadline: ns, or None. objective: "time", "cost" or
    "time * cost". bandwidth, best_time, best_cost: the solution in GB/s, ns and dollars. prices: of the parts of each
    tier. trained: the workloads, each with its weight and its own time; () for a schedule, whose traffic was measured.
    """

    name: str
    dimensions: tuple[NetworkDimension, ...]
    time: TimeExpression
    rows: tuple[ExactRow, ...]
    deadline: Fraction | None
    objective: str
    bandwidth: tuple[float, ...]
    best_time: float
    best_cost: float
    prices: Mapping[str, PartCosts]
    trained: tuple[TrainedTime, ...] = ()

    @property
    def best_value(self) -> float:
        """The objective of the solution."""
        values = {"time": self.best_time, "cost": self.best_cost}
        return values.get(self.objective, self.best_time * self.best_cost)


def number(value: Fraction | float) -> int | str | float:
    """A number as JSON: an exact fraction as an integer or as "p/q", a float with nine digits."""
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else str(value)
    return float(f"{value:.9g}")


def time_tree(time: TimeExpression, factor: Fraction = Fraction(1)) -> dict[str, object]:
    """A multiple of a time as a tree of {"sum": [..]}, {"max": [..]}, {"const": ns} and {"bytes", "dimension"}."""
    parts: list[dict[str, object]] = []
    if time.constant:
        parts.append({"const": number(factor * time.constant)})
    for k, size in enumerate(time.bytes):
        if size:
            parts.append({"bytes": number(factor * size), "dimension": k})
    for weight, maximum in time.maxima:
        inner: dict[str, object] = {"max": [time_tree(option, factor * weight) for option in maximum.options]}
        parts.append(inner)
    if not parts:
        return {"const": 0}
    return parts[0] if len(parts) == 1 else {"sum": parts}


def _whole_tree(model: LibraModel) -> dict[str, object]:
    """The time of all workloads, each with its weight."""
    if len(model.trained) < 2:
        return time_tree(model.time)
    return {
        "sum": [
            {"workload": one.workload.name, "weight": number(one.weight), "of": time_tree(one.time)}
            for one in model.trained
        ]
    }


def json_text(model: LibraModel) -> str:
    """NAME.libra.json: everything that the other files say."""
    found = {
        "format": "collc libra 1",
        "name": model.name,
        "units": {"bandwidth": "GB/s of one NPU", "time": "ns", "cost": "USD", "bytes / bandwidth": "ns"},
        "dimensions": [
            {"kind": d.kind, "npus": d.size, "tier": d.tier, "cost_per_GBps": number(d.unit_cost)}
            for d in model.dimensions
        ],
        "time": _whole_tree(model),
        "objective": model.objective,
        "constraints": [
            {"coefficients": _numbers(row.coefficients), "operator": row.operator, "limit": number(row.limit)}
            for row in model.rows
        ],
        "deadline": None if model.deadline is None else number(model.deadline),
        "optimum": {
            "bandwidth_GBps": _numbers(model.bandwidth),
            "time_ns": number(model.best_time),
            "cost": number(model.best_cost),
        },
    }
    return json.dumps(found, indent=2) + "\n"


def _numbers(values: Sequence[Fraction | float]) -> list[int | str | float]:
    return [number(value) for value in values]
