"""Lower bounds of the least time that each cost buys, from the multipliers of solutions at some costs."""

from __future__ import annotations

import numpy as np

from collc.design.convex import DualBound
from collc.design.problem import FloatArray


class TimeByCost:
    """The largest of several lower bounds of the least time, each a function of the cost c.

    With the price p of cost, the bound of a solution at another cost c is constant + 2 sqrt(t) roots - t (rest + p c)
    for any t > 0 (`DualBound`). The best t makes it constant + roots^2 / (rest + p c).
    """

    def __init__(self) -> None:
        self.tried: list[float] = []
        self.bounds: list[tuple[float, float, float, float]] = []
        """(constant, roots squared, rest, price) of each."""

    def add_time(self, cost: float, time: float) -> None:
        """Add that no cost buys a shorter time. cost: one at which that was found."""
        self.tried.append(cost)
        self.bounds.append((time, 0.0, 1.0, 0.0))

    def add_dual(self, cost: float, dual: DualBound, price: float) -> None:
        """Add the bound of the least time at a cost; price: how much it falls there for each dollar."""
        self.tried.append(cost)
        if price > 0:
            self.bounds.append((dual.constant, dual.roots**2, dual.charge - price * cost, price))

    def least_product(self, low: float, high: float) -> tuple[float, float]:
        """The least of c times the bound for c between low and high, and that c.

        It is where c times one of the bounds is least, where two are equal, or at an end.
        """
        table = np.array(self.bounds).T
        costs = np.concatenate([[low, high], _minima(table), _meetings(table)])
        costs = np.unique(costs[np.isfinite(costs) & (costs >= low) & (costs <= high)])
        constants, squares, rests, prices = (row[:, None] for row in table)
        charge = rests + prices * costs
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.where(charge > 0, constants + squares / charge, np.inf)
        products = costs * times.max(axis=0)
        best = int(np.argmin(products))
        return float(products[best]), float(costs[best])

    def untried(self, cost: float, low: float, high: float) -> float:
        """The cost; where it was tried already, or is an end, one between it and the next."""
        tried = np.unique([low, high, *self.tried])
        k = int(np.argmin(np.abs(tried - cost)))
        near = float(tried[k])
        if abs(cost - near) > 1e-10 * high:
            return cost
        if near <= low:
            return low + (float(tried[1]) - low) / 16
        other = float(tried[k - 1] if cost <= near or k + 1 == len(tried) else tried[k + 1])
        return (near + other) / 2


def _minima(table: FloatArray) -> FloatArray:
    """Where c times each bound is least: constant * c + squares * c / (rest + price c) for rests below 0."""
    constants, squares, rests, prices = table
    with np.errstate(divide="ignore", invalid="ignore"):
        return (np.sqrt(-rests * squares / constants) - rests) / prices


def _meetings(table: FloatArray) -> FloatArray:
    """The costs at which two of the bounds are equal: the roots of a quadratic for each pair."""
    first, second = np.triu_indices(table.shape[1], 1)
    (k1, s1, r1, p1), (k2, s2, r2, p2) = table[:, first], table[:, second]
    d = k1 - k2
    a = d * p1 * p2
    b = d * (r1 * p2 + r2 * p1) + s1 * p2 - s2 * p1
    c = d * r1 * r2 + s1 * r2 - s2 * r1
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(b * b - 4 * a * c)
        q: FloatArray = -(b + np.copysign(root, b)) / 2
        return np.concatenate([q / a, c / q])
