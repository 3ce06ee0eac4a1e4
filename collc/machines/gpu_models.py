"""GPU models: what the files name by a compute capability or not at all.

Rates of one NVLink in one direction are those with which NCCL counts (graph/topo.h, 2026): they are below the vendor's
by the overhead of the protocol. NCCL tells models apart by their compute capability ("sm").
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple

GIGA: Final = 10**9


class GpuModel(NamedTuple):
    """A GPU. sm: compute capability. links: NVLinks that it has."""

    sm: int
    links: int


MODELS: Final[dict[str, GpuModel]] = {
    "p100": GpuModel(60, 4),
    "v100": GpuModel(70, 6),
    "a100": GpuModel(80, 12),
    "a40": GpuModel(86, 4),
    "h100": GpuModel(90, 18),
    "h200": GpuModel(90, 18),
    "b200": GpuModel(100, 18),
    "b300": GpuModel(103, 18),
}


def nvlink_rate(sm: int) -> Fraction:
    """Bytes per second of one NVLink in one direction, as NCCL counts."""
    if sm >= 100:
        return Fraction(401, 10) * GIGA
    if sm >= 90:
        return Fraction(206, 10) * GIGA
    if sm >= 70:
        return Fraction(12 if sm == 86 else 20) * GIGA
    return Fraction(18 if sm >= 60 else 20) * GIGA


def links_of(sm: int) -> int:
    """The most NVLinks of a GPU."""
    return next((limit for least, limit in ((90, 18), (80, 12), (70, 6)) if sm >= least), 4)


CUBE_MESH: Final = (
    (0, 2, 1, 1, 2, 0, 0, 0),
    (2, 0, 1, 2, 0, 1, 0, 0),
    (1, 1, 0, 2, 0, 0, 2, 0),
    (1, 2, 2, 0, 0, 0, 0, 1),
    (2, 0, 0, 0, 0, 2, 1, 1),
    (0, 1, 0, 0, 2, 0, 1, 2),
    (0, 0, 2, 0, 1, 1, 0, 2),
    (0, 0, 0, 1, 1, 2, 2, 0),
)
"""NVLinks between the eight V100 of a DGX-1, by their numbers."""
