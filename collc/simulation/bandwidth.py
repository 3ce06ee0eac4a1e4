"""Algorithm and bus bandwidth as nccl-tests define them."""

from __future__ import annotations

from fractions import Fraction

from collc.base.units import PICOSECONDS
from collc.ten.standard_collectives import shapes


def algorithm_bandwidth(size: int, time_ps: int) -> Fraction | None:
    """Bytes per second: the size of one rank's buffer by the time. None if nothing takes time."""
    return Fraction(size * PICOSECONDS, time_ps) if time_ps else None


def bus_factor(collective: str, ranks: int) -> Fraction | None:
    """Bus bandwidth by algorithm bandwidth; None for a collective that nccl-tests do not know."""
    shape = shapes().get(collective)
    if shape is None or not shape.equal or shape.end == "some":
        return None
    return Fraction(max(1, shape.phases) * (ranks - 1), ranks) if shape.divides_size else Fraction(1)


def collectives_of_nccl_tests() -> list[str]:
    """The collectives that nccl-tests know."""
    return [name for name in shapes() if bus_factor(name, 1) is not None]


def bandwidths(
    collective: str, size: int | None, ranks: int, time_ps: int | None
) -> tuple[Fraction | None, Fraction | None]:
    """Algorithm and bus bandwidth in bytes per second; None if size, time or collective are not known."""
    algorithm = algorithm_bandwidth(size, time_ps) if size and time_ps else None
    factor = bus_factor(collective, ranks)
    return algorithm, None if algorithm is None or factor is None else algorithm * factor
