"""Algorithm and bus bandwidth as nccl-tests define them."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from collc.base.units import PICOSECONDS

_PER_BLOCK: Final = ("all_gather", "reduce_scatter", "all_to_all", "scatter", "gather")
_WHOLE_BUFFER: Final = ("broadcast", "reduce", "send_recv")

COLLECTIVES: Final = ("all_reduce", *_PER_BLOCK, *_WHOLE_BUFFER)
"""The collectives that nccl-tests know."""


def algorithm_bandwidth(size: int, time_ps: int) -> Fraction | None:
    """Bytes per second: the size of one rank's buffer by the time. None if nothing takes time."""
    return Fraction(size * PICOSECONDS, time_ps) if time_ps else None


def bus_factor(collective: str, ranks: int) -> Fraction | None:
    """Bus bandwidth by algorithm bandwidth; None for a collective that nccl-tests do not know."""
    if collective == "all_reduce":
        return Fraction(2 * (ranks - 1), ranks)
    if collective in _PER_BLOCK:
        return Fraction(ranks - 1, ranks)
    return Fraction(1) if collective in _WHOLE_BUFFER else None


def bandwidths(
    collective: str, size: int | None, ranks: int, time_ps: int | None
) -> tuple[Fraction | None, Fraction | None]:
    """Algorithm and bus bandwidth in bytes per second; None if size, time or collective are not known."""
    algorithm = algorithm_bandwidth(size, time_ps) if size and time_ps else None
    factor = bus_factor(collective, ranks)
    return algorithm, None if algorithm is None or factor is None else algorithm * factor
