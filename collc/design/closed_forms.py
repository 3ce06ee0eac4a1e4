"""Bandwidths by formulas: designs to compare with the optimum."""

from __future__ import annotations

import math
from collections.abc import Sequence


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
